"""The tutorial on training: its commands run in the page's order, and its configuration is the file that they name."""

import re
import runpy
import shlex
import shutil
from pathlib import Path

import pytest
from examples.tutorial.draw_pairs import draw_pairs

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "my_training.md"
FILE = Path("examples/tutorial/my_training.toml")


def list_commands(page: Path) -> list[list[str]]:
    """Return the words of a page's commands, without comments and what they are piped into."""
    lines = re.findall(r"^\$ (?!pip )([^|#\n]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [shlex.split(line) for line in lines]


def test_the_page_shows_the_configuration_that_it_names():
    (shown,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    comment, _, values = (ROOT / FILE).read_text(encoding="utf-8").partition("\n")
    assert comment.startswith("#") and values == shown


def test_pairs_are_drawn_once_and_a_second_try_is_refused_in_one_line(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples/tutorial/draw_pairs.py"), run_name="__main__")
    with pytest.raises(SystemExit, match=r"my_pairs is there already.*delete it") as refused:
        runpy.run_path(str(ROOT / "examples/tutorial/draw_pairs.py"), run_name="__main__")
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_the_commands_of_the_page_run_in_its_order(command):
    shutil.copytree(ROOT / FILE.parent, FILE.parent)
    shutil.copytree(ROOT / "examples" / "demo_encoder" / "architecture", "examples/demo_encoder/architecture")
    values = FILE.read_text(encoding="utf-8")
    for long, short in (("steps = 40", "steps = 2"), ("warm_up = 5", "warm_up = 1"), ("every = 20", "every = 2")):
        assert long in values
        values = values.replace(long, short)
    FILE.write_text(values, encoding="utf-8")
    first, *others = list_commands(PAGE)
    assert first == ["python", "-m", "examples.tutorial.draw_pairs"]
    draw_pairs(Path("my_pairs"))
    (before,) = [words for words in list_commands(ROOT / "docs" / "my_pairs.md") if words[-1] == "runs/pairs"]
    for program, *words in (before, *others):
        assert program == "tellapart"
        ran = command(*words)
        assert ran.code == 0, (words, ran.err)
        if words[0] in ("train", "show"):
            assert "demo" in ran.out and "group_score" in ran.out
    assert words[0] == "compare" and "my_pairs (24 items)" in ran.out
