"""Too little memory, a disk that may only be read, and Ctrl-C: a command says in one line what is so and what to do."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from facts import check_facts
from scripts import run_python
from tellapart.cli import main as main_module
from tellapart.errors import DataError

resource = pytest.importorskip("resource", reason="this system has no limits of a process")


def limited(mebibytes: int, *words: object, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command with so much address space."""
    line = ["sh", "-c", f'ulimit -v {mebibytes << 10}; exec "$@"', "sh", sys.executable, "-m", "tellapart"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TELLAPART_CACHE": str(folder / "cache")}
    how = {"cwd": folder, "env": environment, "capture_output": True, "text": True, "timeout": 120}
    return subprocess.run([*line, *map(str, words)], check=False, **how)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you"),
        RuntimeError("can't start new thread"),
        RuntimeError("std::bad_alloc"),
        ImportError("libx.so: failed to map segment from shared object"),
        Exception("[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Failed to allocate memory for requested buffer"),
    ],
)
def test_each_librarys_words_become_one_line(error, command, monkeypatch):
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(main_module, "app", fail)
    told = command("run", code=2)
    assert told.err.startswith("error: too little memory (") and told.err.count("\n") == 1
    assert "--batch-size" in told.err and "--workers" in told.err


def test_an_error_of_a_file_tells_of_memory_and_others_are_not_taken_for_it(command, monkeypatch):
    def fail(**_: object) -> None:
        raise error

    error = DataError("a.npz: is damaged")
    error.__cause__ = MemoryError("Unable to allocate 9 EiB")
    monkeypatch.setattr(main_module, "app", fail)
    check_facts(command("run").err, "error: a.npz: is damaged", "memory")
    error = ValueError("cannot allocate memory of a name that is out of memory")
    with pytest.raises(ValueError, match="of a name"):
        main_module.main()


def test_where_no_command_can_run_none_begins(tmp_path):
    """Below this OpenBLAS tries for ever."""
    told = limited(200, "run", "-m", "random", "-b", "demo", "--out", tmp_path / "run", folder=tmp_path)
    assert told.returncode == 2, told.stderr
    check_facts(told.stderr, "error", "200 MiB", "1,024", "ulimit -v")
    assert told.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("command", "mebibytes"), [("run", 1024), ("build", 1400), ("build", 3000)])
def test_a_command_ends_well_or_with_one_line(command, mebibytes, tmp_path):
    """A run of four items needs no more than the least; what a build's renderer and workers take differs."""
    words = {
        "run": ("run", "--limit", 4, "--out", tmp_path / "run"),
        "build": ("build", tmp_path / "few.toml", "--out", tmp_path / "set", "--workers", 2),
    }[command]
    (tmp_path / "few.toml").write_text('name = "few"\nbuilder = "scenes"\nseed = 3\n[options.items]\nattribute = 1\n')
    told = limited(mebibytes, *words, folder=tmp_path)
    assert told.returncode in (0, 2), told.stderr[-2000:]
    if told.returncode:
        last = told.stderr.splitlines()[-1]
        assert last.startswith("error: ") and "Traceback" not in told.stderr, told.stderr[-2000:]


# What cannot be written is one line: every command's `--out` on a disk that may only be read.

#: Runs each command of a list in one process, and prints how it ended and what it said.
COMMANDS = """
import json, subprocess, sys
subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", "locked"], check=True)
from tellapart.cli.main import main
said = []
for command in json.loads(sys.argv[1]):
    sys.argv = ["tellapart", *command]
    sys.stderr, kept = open("said", "w"), sys.stderr
    try:
        code = main()
    except SystemExit as ended:
        code = ended.code
    except BaseException as raised:
        code = repr(raised)
    sys.stderr.close()
    sys.stderr = kept
    said.append((code, open("said").read()))
open("all", "w").write(json.dumps(said))
"""


@pytest.mark.slow
def test_every_command_says_in_one_line_that_it_cannot_write(made_set, command, tmp_path):
    own_mounts = ("unshare", "--user", "--map-root-user", "--mount")
    (tmp_path / "locked").mkdir()
    if shutil.which("unshare") is None:
        pytest.skip("util-linux's unshare is not here")
    tried = subprocess.run([*own_mounts, "mount", "-t", "tmpfs", "none", "locked"], capture_output=True, check=False)
    if tried.returncode:
        pytest.skip(f"a namespace of its own cannot be had or mounted in here: {tried.stderr!r:.200}")
    made_set("few", n=12)
    assert command("run", "-m", "random", "-b", "folder:few", "--out", "run").code == 0
    (tmp_path / "c.csv").write_text("id,image,caption\na,0_0.png,a red cup on a blue table\n")
    options = 'captions = "c.csv"\nimages = "few/images"\nkinds = ["swap_att"]\n'
    (tmp_path / "recipe.toml").write_text(f'name = "x"\nbuilder = "negatives"\nseed = 1\n[options]\n{options}')
    commands = [
        ["run", "-m", "random", "-b", "folder:few", "--out", "locked/run"],
        ["run", "-m", "random", "-b", "folder:few", "--out", "locked"], ["build", "recipe.toml", "--out", "locked/set"],
        ["audit", "few", "--to", "locked/audit"], ["export", "folder:few", "--to", "locked/few.csv"],
        ["annotate", "export", "match", "folder:few", "--to", "locked/study"],
        ["table", "run", "--out", "locked/table.md"], ["plot", "bars", "run", "--out", "locked/bars.svg"],
        ["convert", "run", "--to", "model-index", "--out", "locked/card.md"],
        ["board", "export", "--runs", "run", "--out", "locked/site"],
        ["mine", "few", "-m", "demo-encoder", "--out", "locked/mined.jsonl"],
        ["time", "-m", "random", "-b", "folder:few", "--batch-size", "4", "--out", "locked/timing.json"],
    ]  # fmt: skip
    subprocess.run([*own_mounts, sys.executable, "-c", COMMANDS, json.dumps(commands)], check=True, cwd=tmp_path)
    for arguments, (code, said) in zip(commands, json.loads((tmp_path / "all").read_text()), strict=True):
        last = said.splitlines()[-1]
        assert code in {1, 2} and last.startswith("error: ") and "locked" in last, (arguments, said)
        assert "Traceback" not in said


# Ctrl-C: a command says what it has left behind, and only that.

ITEMS, BATCH, SLOWLY = 8, 4, {"TEST_SECONDS_PER_BATCH": "0.4"}


def interrupt(process: subprocess.Popen[str], batches: int) -> str:
    """Wait until so many batches of images were begun, interrupt, and return what is said."""
    for _ in range(batches):
        assert process.stderr.readline() == "encoding\n"
    process.send_signal(signal.SIGINT)
    printed, said = process.communicate(timeout=30)
    assert (printed, process.returncode) == ("", 130), said
    return said.removeprefix("encoding\n").rstrip()  # a batch that was begun meanwhile


@pytest.mark.slow
def test_a_run_without_a_cache_keeps_nothing_but_finished_results(made_set, start, tmp_path):
    names = [f"folder:{made_set(name, n=ITEMS, seed=seed)}" for seed, name in enumerate(("first", "second"))]
    line = ["run", "-m", "slow", "-b", names[0], "-b", names[1], "--no-cache", "--batch-size", BATCH, "--out"]
    said = interrupt(start(*line, tmp_path / "a", **SLOWLY), batches=1)
    check_facts(said, "interrupted", "nothing", f"tellapart {' '.join(map(str, line))} {tmp_path}/a")
    assert not (tmp_path / "a").exists()
    said = interrupt(start(*line, tmp_path / "b", **SLOWLY), batches=2 * ITEMS // BATCH + 1)  # in the second set
    check_facts(said, "interrupted", "1", f"{tmp_path}/b", "--no-cache", "tellapart run -m slow")
    assert (tmp_path / "b" / "results.json").is_file()


@pytest.mark.slow
def test_a_run_without_a_finished_result_keeps_its_embeddings(made_set, start, tmp_path):
    line = ["run", "-m", "slow", "-b", f"folder:{made_set(n=ITEMS)}", "--batch-size", BATCH, "--out", tmp_path / "a"]
    said = interrupt(start(*line, **SLOWLY), batches=3)
    check_facts(said, "interrupted", f"{tmp_path}/cache/", "tellapart run")


@pytest.mark.slow
def test_an_audit_keeps_nothing(made_set, start, tmp_path):
    pairs = made_set(n=24)  # fewer clusters are not judged
    said = interrupt(start("audit", pairs, "--detector-model", "slow", "--to", tmp_path / "card", **SLOWLY), batches=1)
    assert said.startswith(f"interrupted; nothing is kept. Begin again with: tellapart audit {pairs}")
    assert not (tmp_path / "card").exists()


def test_an_interrupt_in_the_first_import_is_no_traceback():
    code = (
        "import builtins\nfrom tellapart.__main__ import main\nown = builtins.__import__\n"
        "def interrupted(name, *rest):\n    if name == 'typer': raise KeyboardInterrupt\n    return own(name, *rest)\n"
        "builtins.__import__ = interrupted\nmain()\n"
    )
    done = run_python("-c", code, status=130)
    assert (done.stdout, done.stderr) == ("", "")
