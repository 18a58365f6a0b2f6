"""A test that leaves something behind fails itself; the one after it is not touched."""

import os
import re
from pathlib import Path
from xml.etree import ElementTree

from scripts import run_python

CI = Path(__file__).parents[1] / "ci"
#: By the name of a test that leaks: its body, and a part of the message.
LEAKS = {
    "socket": ("kept.append(socket.socket())", r"open: socket:\[\d+\]"),
    "unreachable_socket": ("one = socket.socket(); circle = [one]; circle.append(circle)", r"unclosed <socket"),
    "pipe": ("kept.append(os.pipe())", r"open: pipe:\[\d+\]"),
    "thread": ("threading.Thread(target=time.sleep, args=(60,), daemon=True, name='late').start()", r"threads: late"),
    "process": ("kept.append(subprocess.Popen(['sleep', '60']))", r"processes: \d+: sleep 60"),
    "temporary_folder": ("tempfile.mkdtemp(prefix='left-')", r"temporary files: left-"),
    "variable": ("os.environ['LEFT'] = 'x'", r"\$LEFT: None -> 'x'"),
    "folder": ("os.chdir('/')", r"current folder: .* -> '/'"),
    "path": ("sys.path.append('/left')", r"sys\.path: /left: None -> 'there'"),
    "signal": ("signal.signal(signal.SIGTERM, signal.SIG_IGN)", r"handler of SIGTERM"),
}
PROGRAM = """
import os, random, signal, socket, subprocess, sys, tempfile, threading, time
kept = []
def test_clean(tmp_path):
    with socket.socket(), open(__file__), tempfile.TemporaryDirectory():
        closing = threading.Thread(target=time.sleep, args=(0.1,))
    closing.start()
def test_draws():
    kept.append(random.random())
def test_draws_the_same():
    assert random.random() in kept
def keep():
    folder = os.environ["TELLAPART_CACHE"]
    os.mkdir(folder)
    open(folder + "/store.sqlite", "w").close()
def test_keeps():
    keep()
def test_keeps_again():
    keep()
"""


def results(folder: Path, *options: str) -> dict[str, str]:
    """Run the tests of a folder; return the message of each that failed, by name, and "" of those that passed."""
    command = [
        "-m", "pytest", "-q", "-W", "error", f"--junitxml={folder / 'results.xml'}", "-p", "leaks", "-p", "shuffle",
    ]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": str(CI), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    run_python(*command, *options, status=None, cwd=folder, env=environment)
    cases = ElementTree.parse(folder / "results.xml").getroot().iter("testcase")  # noqa: S314
    said = ((case, "".join(f"{bad.get('message')}{bad.text}" for bad in case)) for case in cases)
    return {f"{case.get('classname')}.{case.get('name')}": text for case, text in said}


def test_each_kind_of_leak_fails_the_test_that_leaks(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    tests = "".join(f"def test_{name}():\n    {body}\n" for name, (body, _) in LEAKS.items())
    (tmp_path / "test_leaking.py").write_text(PROGRAM + tests)
    (tmp_path / "conftest.py").write_text("import leaks\nleaks.SECONDS = 0.5\n")
    messages = results(tmp_path)
    clean = ("clean", "draws", "draws_the_same", "keeps", "keeps_again")
    assert len(messages) == len(clean) + len(LEAKS)
    for name, (_, expected) in LEAKS.items():
        assert re.search(expected, messages[f"test_leaking.test_{name}"]), (name, messages)
    assert [name for name in clean if messages[f"test_leaking.test_{name}"]] == []


def test_a_seed_orders_the_files_and_keeps_the_order_within_each(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for number in range(6):
        (tmp_path / f"test_{number}.py").write_text("def test_b(): pass\ndef test_a(): pass\n")
    orders = {seed: list(results(tmp_path, "--file-order", str(seed))) for seed in (1, 2)}
    assert orders[1] == list(results(tmp_path, "--file-order", "1")) != orders[2]
    assert sorted(orders[1]) == sorted(orders[2])
    for order in orders.values():
        assert [name.split(".")[1] for name in order] == ["test_b", "test_a"] * 6
