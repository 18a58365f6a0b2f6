"""`kill -9` in the middle of a build with a diffusion model: the same command goes on, to the same bytes."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("diffusers", reason="needs the extra 'diffusion'")

from tellapart.builders.journal import journal_of
from tellapart.builders.pipeline import build

PAIRS = 5
MODEL = '[options.model]\nname = "{name}"\ndevice = "cpu"\n'
RECIPES = {
    "prompt-to-prompt": (
        'scorer = "demo-encoder"\nsamples = 2\nsteps = 5\n[options.keep]\ncaption_image = -1.0\nimage_image = -1.0\n'
        "directional = -1.0\n" + MODEL.format(name="sd")
    ),
    "generated-images": "count = 2\nsteps = 10\n" + MODEL.format(name="xl"),
}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def decided(journal: Path, copy: Path) -> int:
    """Count the outcomes that are on the disk, in a copy: the journal itself is locked while its build is at work."""
    copy.mkdir(exist_ok=True)
    for suffix in ("", "-journal"):  # the second one undoes what is half written
        (copy / f"db{suffix}").unlink(missing_ok=True)
        if (part := journal.with_name(journal.name + suffix)).exists():
            shutil.copy(part, copy / f"db{suffix}")
    with closing(sqlite3.connect(copy / "db")) as file:
        if not file.execute("SELECT name FROM sqlite_master WHERE name = 'outcome'").fetchall():
            return 0
        (count,) = file.execute("SELECT count(*) FROM outcome").fetchone()
    return int(count)


@pytest.mark.slow
@pytest.mark.parametrize("builder", RECIPES)
def test_a_build_that_was_killed_goes_on_to_the_same_bytes(builder, folders, tmp_path):
    for name in ("sd", "xl"):
        (tmp_path / name).symlink_to(folders / name)
    rows = "".join(f"{k}_0,a cat {k},a dog {k}\n" for k in range(PAIRS))
    (tmp_path / "pairs.csv").write_text(f"id,caption_0,caption_1\n{rows}")
    path, cut = tmp_path / "recipe.toml", tmp_path / "cut"
    head = f'name = "few"\nbuilder = "{builder}"\nseed = 1\n[options]\ncaptions = "pairs.csv"\n'
    path.write_text(head + RECIPES[builder])
    process = subprocess.Popen(
        [sys.executable, "-m", "tellapart", "build", str(path), "--out", str(cut)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    kept = 0
    while not kept:
        assert process.poll() is None, process.communicate()[0].decode()
        time.sleep(0.05)
        process.send_signal(signal.SIGSTOP)
        kept = decided(journal_of(cut), tmp_path / "copy")
        process.send_signal(signal.SIGKILL if kept else signal.SIGCONT)
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL
    assert kept < PAIRS

    again = build(path, cut)
    assert again.resumed == kept
    whole = build(path, tmp_path / "whole")
    assert contents(cut) == contents(whole.folder)
    assert again.funnel == whole.funnel
    assert again.funnel.items == PAIRS
    assert not journal_of(cut).exists()
