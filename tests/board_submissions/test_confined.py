"""Limits of the processes that read and measure, whatever code a file makes them run, also when they lie."""

import base64
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boards import until
from scripts import run_python

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="these guards, and /proc, are Linux's own")
#: Confines itself as the process that reads a file does, and then tries; says what came of each.
TRIES = """
import ctypes, json, os, signal, socket, sys, threading
from pathlib import Path
from tellapart.board.submissions.worker import confine

own, state, parent = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
inherited = os.open(state / "secret", os.O_RDONLY)
hidden = state / "hidden" / "clocks"
os.chdir(own)
lacking = confine([Path.cwd() / "sent.csv", hidden / "published.json"])

def by_number(number, *values):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, *values) < 0:
        raise OSError(ctypes.get_errno(), "by number")

tries = {
    "landlock": {
        "read the labels": lambda: (hidden / "truth.json").read_bytes(),
        "read the labels beside what is published": lambda: (
            hidden / "published.json" / ".." / "truth.json"
        ).read_bytes(),
        "read the labels by a path alone": lambda: Path(
            f"/proc/self/fd/{os.open(hidden / 'truth.json', os.O_PATH)}"
        ).read_bytes(),
        "list what is beside the labels": lambda: os.listdir(hidden),
        "list what is beside its file": lambda: os.listdir(own),
        "read the task file": lambda: (hidden / "task.zip").read_bytes(),
        "read the secret": lambda: (state / "secret").read_bytes(),
        "read the database": lambda: (state / "submissions.sqlite").read_bytes(),
        "read another's file": lambda: next((state / "uploads").iterdir()),
        "read the system's users": lambda: Path("/etc/passwd").read_text(),
        "list the root": lambda: os.listdir("/"),
        "read the server's environment": lambda: Path(f"/proc/{parent}/environ").read_bytes(),
        "write beside its file": lambda: (own / "new").write_text("x"),
        "write into its file": lambda: (own / "sent.csv").open("r+b"),
        "write to the system's scratch": lambda: Path("/tmp/tellapart-confined").write_text("x"),
        "go through its file's folder": lambda: (own / ".." / "state" / "secret").read_bytes(),
        "read the inherited": lambda: os.pread(inherited, 4, 0),
    },
    "seccomp": {
        "tcp": lambda: socket.socket(),
        "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "unix": lambda: socket.socket(socket.AF_UNIX),
        "pair": lambda: socket.socketpair(),
        "fork": lambda: os.fork(),
        "a program": lambda: os.execv("/bin/true", ["true"]),
        "a thread": lambda: threading.Thread(target=print).start(),
        "signal the server": lambda: os.kill(parent, 0),
        "signal itself": lambda: os.kill(os.getpid(), 0),
        "limit the server": lambda: by_number(302 if os.uname().machine == "x86_64" else 261, parent, 7, None, None),
        "change a mode": lambda: os.chmod(own / "sent.csv", 0o777),
        "change a time": lambda: os.utime(own / "sent.csv"),
        "delete its file": lambda: os.unlink(own / "sent.csv"),
        "rename its file": lambda: os.rename(own / "sent.csv", own / "b"),
        "a namespace": lambda: by_number(272 if os.uname().machine == "x86_64" else 97, 0x10000000),
        "io_uring": lambda: by_number(425, 1, ctypes.create_string_buffer(256)),
    },
}
said = {"lacking": lacking, "own": (own / "sent.csv").read_text(), "did": [], "tried": 0}
said["published"] = sorted(json.loads((hidden / "published.json").read_bytes()))
for guard, of in tries.items():
    for name, attempt in of.items():
        if guard in lacking:
            continue
        said["tried"] += 1
        try:
            attempt()
            said["did"].append(name)
        except (OSError, RuntimeError):
            pass
import decimal, fractions, numpy  # modules load still
said["sum"] = float(numpy.ones((64, 64)).sum())
print(json.dumps(said))
"""


@pytest.fixture
def job(board) -> tuple[Any, dict[str, Any], Path]:
    """A board, the job of reading a file that was sent to it, and the file's folder."""
    made = board(8)
    id_ = made.send(made.npz(made.right())).json()["id"]
    own = {"file": "sent.npz", "name": "s.npz", "published": str(made.service.prepared["clocks"].published)}
    limits = {"form_bytes": 1000, "task": "pairs", "seconds": 30, "memory_bytes": 2 << 30}
    return made, own | limits, made.queue.folder / id_


def test_confined_code_opens_no_socket_no_other_file_and_no_other_process(made, tmp_path):
    made.send(b"another's")
    own = tmp_path / "own"
    own.mkdir()
    (own / "sent.csv").write_text("mine")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    said = json.loads(run_python("-c", TRIES, own, made.folder / "state", os.getpid(), env=environment).stdout)
    if len(said["lacking"]) == 2:
        pytest.skip("this kernel has neither Landlock nor a filter of system calls")
    assert said["did"] == [] and said["tried"] > 10
    assert (said["own"], said["published"], said["sum"]) == ("mine", ["items"], 4096.0)
    assert (own / "sent.csv").read_text() == "mine"


def zeros(items: int) -> bytes:
    """What a file of scores that are all tied says."""
    return json.dumps({"kind": "logit", "scores": base64.b64encode(bytes(16 * items)).decode()}).encode()


@pytest.mark.slow
@linux
def test_the_process_that_measures_is_confined_before_it_gets_what_it_measures(job):
    made, asked, _ = job
    truth = {"truth": str(made.service.prepared["clocks"].truth), "metrics": ["group_score"], "step": 0.01}
    limits = {name: asked[name] for name in ("task", "seconds", "memory_bytes")}
    code = "from tellapart.board.submissions import prepared as p, worker; worker.main(p.measure)"
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # each of its threads takes address space
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    worker = subprocess.Popen([sys.executable, "-c", code], env=environment, **streams)
    worker.stdin.write(json.dumps({**truth, **limits}).encode() + b"\n")
    worker.stdin.flush()
    status = Path(f"/proc/{worker.pid}/status")
    until(lambda: "NoNewPrivs:\t1" in status.read_text())
    until(lambda: "Seccomp:\t2" in status.read_text())
    *lacking, said = map(json.loads, worker.communicate(zeros(8))[0].splitlines())
    assert lacking in ([], [{"unconfined": ["landlock"]}])
    assert said["public"]["values"] == said["private"]["values"] == {"group_score": 0.0}


#: Replaces the interpreter: a file has taken over the process that reads it, which prints all that it can open.
HOSTILE = """#!/bin/sh
exec "{python}" -c '
import sys
from tellapart.board.submissions import worker
from tellapart.errors import ScoreError
def open_and_refuse(*_):
    try:
        raise ScoreError(open("{path}").read()[:300])
    except OSError as error:
        raise ScoreError("no: " + str(error.strerror))
worker.read_sent = open_and_refuse
worker.main(worker.read)
'
"""


@pytest.mark.slow
@linux
def test_a_reader_that_was_taken_over_finds_no_label_to_tell(made, monkeypatch, tmp_path, caplog):
    ready, errors = made.service.prepared["clocks"], {}
    for path in (ready.truth, ready.published):
        program = script(tmp_path, HOSTILE.format(python=sys.executable, path=path))
        with monkeypatch.context() as patched:
            patched.setattr(sys, "executable", program)
            errors[path] = made.measured(path.name.encode())["error"]
    if caplog.records:
        pytest.skip(caplog.records[0].getMessage())
    assert errors[ready.truth] == "no: Permission denied"
    assert errors[ready.published].startswith('{"items": [{"id": "')


def test_a_guard_that_the_system_lacks_is_logged_once(made, caplog):
    for _ in range(3):
        made.queue._log_lacking(["landlock"])
    logged = [entry["about"] for entry in made.service.log() if "unconfined" in entry["what"]]
    assert logged == [{"lacking": ["landlock"]}]
    (record,) = caplog.records
    assert record.getMessage() == "files are measured without landlock: this system lacks it"


@pytest.mark.slow
@linux
def test_a_reading_process_ends_with_its_server(job):
    made, asked, folder = job
    ids = [item["id"] for item in made.task()]
    row = json.dumps({"label": f"{ids[0]}_c0_i0", "score": 0.5})
    (folder / "sent.jsonl").write_text(f"{row}\n" * 400_000)  # seconds to read
    server = (
        "import json, sys; from pathlib import Path; from tellapart.board.submissions.worker import Process\n"
        "process = Process(json.loads(sys.argv[1]), Path(sys.argv[2]), 60)\n"
        "from tellapart.board.submissions.worker import ReadResult\n"
        "print(process._process.pid, flush=True)\nprocess.run(ReadResult)"
    )
    command = [sys.executable, "-c", server, json.dumps({**asked, "file": "sent.jsonl"}), str(folder)]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    status = Path(f"/proc/{int(started.stdout.readline())}/status")
    until(lambda: "NoNewPrivs:\t1" in status.read_text())
    limits = [line.split() for line in status.with_name("limits").read_text().splitlines()]
    none = [line[-3:-1] for line in limits if " ".join(line[1:-3]) in {"processes", "file size", "core file size"}]
    assert none == [["0", "0"]] * 3  # it starts no process, and writes no file
    started.send_signal(signal.SIGKILL)
    started.wait()
    started.stdout.close()
    until(lambda: not status.exists() or "State:\tZ" in status.read_text())


def script(folder: Path, text: str) -> str:
    program = folder / "program"
    program.write_text(text)
    program.chmod(0o755)
    return str(program)


#: Replaces the interpreter: prints one message where a file is to be read, and another where a form is to be measured.
STUB = """#!/bin/sh
read -r job
case "$job" in
*truth*) cat > /dev/null
{measure}
;;
*) {read}
;;
esac
"""


def form(values=None, **changes) -> bytes:
    """A form of four items, or what is none."""
    scores = base64.b64encode(np.array([0.0] * 16 if values is None else values, "<f4").tobytes()).decode()
    return json.dumps({"kind": "logit", "scores": scores, **changes}).encode()


def worked(made, monkeypatch: pytest.MonkeyPatch, program: str) -> dict[str, Any]:
    """What becomes of a file while the interpreter is another program."""
    answer = made.send(Path(program).read_bytes())  # of its own: the same bytes again would not be measured
    with monkeypatch.context() as patched, made.queue.lock():
        patched.setattr(sys, "executable", program)
        started = time.monotonic()
        assert made.queue.work_one()
        assert time.monotonic() - started < 20
    with made.queue.lock():
        assert not made.queue.work_one()  # it is at an end, and the queue goes on
    return dict(made.see(answer))


def echo(**said: Any) -> str:
    return f"echo '{json.dumps(said)}'"


ROUND = {"items": 4, "clusters": 4, "ties": 0, "values": {"group_score": 0.5}}
MEASURED = echo(public=ROUND, private=ROUND)
DIGITS = {**ROUND, "values": {"group_score": 0.123456789}}
ABOVE_ONE = {**ROUND, "values": {"group_score": 7.0}}
#: Output of a reader that a file has taken over.
LIES = {
    "no JSON": "echo hello", "a list": "echo []", "an unknown key": echo(labels="0110"), "numbers": MEASURED,
    "a number for a text": echo(refused=5), "a text for a guard": echo(unconfined=["0110"]),
    "a reason for a failure": echo(failed="0110"), "no text": r"printf '\377\376\n'",
    "a refusal without end": """printf '{"refused": "'; head -c 10000000 /dev/zero | tr '\\0' a; echo '"}'""",
    "a line without end": "yes | tr -d '\\n'", "lines without end": """yes '{"read": 0}'""",
    "a form of no length": """echo '{"read": true}'""", "a form of less than nothing": """echo '{"read": -1}'""",
    "a form of any length": """echo '{"read": 100000000000}'; yes""",
    "half a form": """echo '{"read": 100}'; echo '{"kind": "logit"'""",
    "a child that keeps the door open": "sleep 300 & echo hello; exit", "a signal": "kill -9 $$",
}  # fmt: skip


@pytest.mark.few(2)
@pytest.mark.parametrize("name", list(LIES))
def test_a_reader_that_lies_has_its_own_file_refused_and_no_other(board, monkeypatch, tmp_path, name):
    made = board(4)  # which must never come to measure it
    seen = worked(made, monkeypatch, script(tmp_path, STUB.format(read=LIES[name], measure=MEASURED)))
    assert (seen["state"], seen["public"]) == ("refused", None)
    assert seen["error"] == "reading the file did not end within 120 s and 2,048 MiB"
    assert made.service.standings("clocks") == []


def test_a_guard_that_lacks_is_logged_though_the_process_dies_of_its_file(board, monkeypatch, tmp_path, caplog):
    dies = """echo '{"unconfined": ["landlock"]}'; kill -9 $$"""
    seen = worked(board(4), monkeypatch, script(tmp_path, STUB.format(read=dies, measure="")))
    assert seen["state"] == "refused" and "landlock" in caplog.text


FORMS = {
    "nothing": b"", "no JSON": b"hello", "bytes": b"\xff\xfe\x00", "a number": b"5", "rows": b"[0.5, 0.5, 0.5, 0.5]",
    "no kind": b'{"scores": ""}', "another kind": form(kind="rank"), "a further key": form(labels="0110"),
    "nested scores": form(scores=[[0.5]]), "nested without end": b"[" * 200, "too few": form(np.zeros(15)),
    "too many": form(np.zeros(17)), "not a number": form([np.nan] * 16), "infinite": form([-np.inf] * 16),
    "no probability": form([2.0] * 16, kind="probability"),
    "half a number": form(scores=base64.b64encode(bytes(63)).decode()), "no base64": form(scores="*" * 88),
    "ten million bytes": b"a" * 10_000_000,
}  # fmt: skip


@pytest.mark.few(3)
@pytest.mark.parametrize("name", list(FORMS))
def test_what_was_read_goes_on_to_the_truth_in_its_form_and_in_no_other(board, monkeypatch, tmp_path, name):
    (tmp_path / "form").write_bytes(FORMS[name])
    read = f"{echo(read=len(FORMS[name]))}; cat {tmp_path / 'form'}"
    seen = worked(board(4), monkeypatch, script(tmp_path, STUB.format(read=read, measure=MEASURED)))
    assert (seen["state"], seen["public"]) == ("refused", None)


def test_a_form_that_is_one_goes_on_and_what_a_refusal_says_can_be_read(made, monkeypatch, tmp_path):
    (tmp_path / "form").write_bytes(form())
    read = f"{echo(read=len(form()))}; cat {tmp_path / 'form'}; yes"
    stub = script(tmp_path, STUB.format(read=read, measure=MEASURED))
    assert worked(made, monkeypatch, stub)["public"]["values"] == {"group_score": 0.5}
    (tmp_path / "said").write_text(json.dumps({"refused": "\u202e<b>\x1b[2J\n" + "a" * 3000}) + "\n")
    seen = worked(made, monkeypatch, script(tmp_path, f"#!/bin/sh\ncat {tmp_path / 'said'}\n"))
    assert (seen["state"], len(seen["error"])) == ("refused", 500)
    assert seen["error"].startswith("\\u202e<b>\\x1b[2J\\naaa")


#: What a process prints that holds the truth and was taken over, instead of numbers; and one that only dies.
SLIPS = {
    "no JSON": "echo hello", "a refusal": echo(refused="labels: 0110"), "a form": """echo '{"read": 4}'; echo 0110""",
    "a failure in its own words": echo(failed="got 0.123456789"), "memory": echo(failed="memory"),
    "more digits than the step has": echo(public=DIGITS, private=ROUND),
    "private digits": echo(public=ROUND, private=DIGITS),
    "another metric": echo(public={**ROUND, "values": {"labels": 0.5}}, private=ROUND),
    "a number beyond one": echo(public=ABOVE_ONE, private=ROUND), "half of the numbers": echo(public=ROUND),
    "lines without end": "yes '{}'", "a signal": "kill -9 $$",
}  # fmt: skip


@pytest.mark.few(2)
@pytest.mark.parametrize("name", list(SLIPS))
def test_a_file_that_was_read_counts_even_if_measuring_it_does_not_end(board, monkeypatch, tmp_path, name):
    made = board(4, limits={"daily": 1})
    (tmp_path / "form").write_bytes(form())
    read = f"{echo(read=len(form()))}; cat {tmp_path / 'form'}"
    seen = worked(made, monkeypatch, script(tmp_path, STUB.format(read=read, measure=SLIPS[name])))
    assert (seen["state"], seen["public"]) == ("stopped", None)  # and nothing that depends on labels
    assert seen["error"] == "the file could not be measured within 120 s and 2,048 MiB; it counts as measured"
    assert made.send(b"x").status_code == 429  # or whether it ends could be asked as often as one likes
    assert made.service.standings("clocks") == []


@pytest.mark.slow
def test_what_a_reader_says_changes_no_other_file_and_a_lost_truth_is_no_refusal(board, caplog, monkeypatch, forker):
    monkeypatch.setattr("tellapart.board.submissions.worker.subprocess", forker)
    made = board(8, limits={"daily": 9, "total": 9})
    ready, good = made.service.prepared["clocks"], made.npz(made.right())
    assert made.measured(good, user="bob")["public"]["values"] == {"group_score": 1.0}
    truth = ready.truth.rename(ready.folder / "gone")
    assert made.measured(good)["state"] == "stopped"
    assert any("could not be measured: truth" in record.getMessage() for record in caplog.records)
    truth.rename(ready.truth)
    ready.published.write_text("{}")
    seen = made.measured(good)
    assert (seen["state"], seen["error"]) == ("failed", "the server cannot read files of this benchmark now")
    made.open()  # what is published is made of the truth again
    assert made.measured(good)["public"]["values"] == {"group_score": 1.0}
    assert [(row.user, row.rank) for row in made.service.standings("clocks")] == [("bob", 1), ("ann", 1)]
