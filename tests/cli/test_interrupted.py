"""Ctrl-C: a command says what it has left behind, and only that."""

import signal
import subprocess
import sys

import pytest

from facts import check_facts

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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
