"""Too little memory (`ulimit -v`) is one line that says what to do, whichever library runs out of it."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from facts import check_facts
from tellapart.cli import main as main_module
from tellapart.errors import DataError

resource = pytest.importorskip("resource", reason="this system has no limits of a process")


def limited(mebibytes: int, *words: object, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command with so much address space."""
    shell = f'ulimit -v {mebibytes << 10}; exec "$@"'
    return subprocess.run(
        ["sh", "-c", shell, "sh", sys.executable, "-m", "tellapart", *map(str, words)],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "TELLAPART_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


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


def test_an_error_of_a_file_keeps_its_words_and_tells_of_memory(command, monkeypatch):
    def fail(**_: object) -> None:
        raise DataError("a.npz: is damaged") from MemoryError("Unable to allocate 9 EiB")

    monkeypatch.setattr(main_module, "app", fail)
    check_facts(command("run").err, "error: a.npz: is damaged", "memory")


def test_other_errors_are_not_taken_for_it(command, monkeypatch):
    def fail(**_: object) -> None:
        raise ValueError("cannot allocate memory of a name that is out of memory")

    monkeypatch.setattr(main_module, "app", fail)
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
