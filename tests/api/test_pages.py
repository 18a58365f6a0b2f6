"""The pages on Python and on plugins say what is so: their examples run, their files are those of the examples."""

import doctest
import re
import runpy
import shutil
from pathlib import Path

import pytest
from PIL import Image

import tellapart as ta
from published import NEEDS_NLTK_DATA, NLTK_DATA
from tellapart.data.folder import read_pair_set

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "least"),
    [
        pytest.param("python.md", 26, marks=pytest.mark.slow), pytest.param("choice.md", 9, marks=pytest.mark.slow),
        ("compare.md", 2), ("curve.md", 2), ("risk.md", 9), pytest.param("study.md", 12, marks=pytest.mark.slow),
        pytest.param("audit.md", 10, marks=[pytest.mark.slow, NEEDS_NLTK_DATA]),
    ],
)  # fmt: skip
def test_the_examples_of_a_page_run(name, least, tmp_path, monkeypatch):
    shutil.copytree(ROOT / "examples/eqsim_ablation/smoke_scenes", tmp_path / "whole")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TELLAPART_CACHE", str(tmp_path / "cache"))
    if NLTK_DATA.is_dir():
        Path("nltk-data").symlink_to(NLTK_DATA.resolve())
    pairs = ta.load_pairs("whole").select(range(6))
    images = {name: pairs.read_bytes(name) for item in pairs.items for name in item.images}
    ta.write_pair_set("my_pairs", pairs.items, images, {"licence": "Apache-2.0"})
    page = ROOT / "docs" / name
    blocks = re.findall(r"```pycon\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page.name, str(page), 0)
    said: list[str] = []
    result = doctest.DocTestRunner().run(test, out=said.append)
    assert result.attempted >= least and result.failed == 0, "".join(said)


def test_the_lines_that_make_a_folder_of_a_table_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for side, colour in (("left", "red"), ("right", "blue")):
        Image.new("RGB", (8, 8), colour).save(f"{side}.png")
    header, row = "picture_left,picture_right,text_left,text_right", "left.png,right.png,a red square,a blue square"
    Path("pairs.csv").write_text(f"{header}\n{row}\n")
    page = (ROOT / "docs" / "my_pairs.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    Path("lines.py").write_text(lines)
    runpy.run_path("lines.py")
    (item,) = read_pair_set(Path("table_pairs")).items
    assert item.texts == ("a red square", "a blue square") and len(item.images) == 2


@pytest.mark.parametrize("page", ["python.md", "plugins.md"])
def test_other_blocks_of_python_are_python(page):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 2
    for block in blocks:
        compile(block, page, "exec")


@pytest.mark.parametrize("name", ["my_model.py", "my_set.py"])
def test_the_page_on_plugins_shows_the_files_of_the_examples(name):
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    shown = re.search(rf"```python\n# {re.escape(name)}\n(.*?)```", page, re.DOTALL)
    assert shown[1] == (ROOT / "examples" / "plugins" / name).read_text(encoding="utf-8")
