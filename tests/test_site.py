"""The documentation's site: a page for each benchmark, every page in the navigation, and nothing from another host."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from scripts import import_document, run_python
from tellapart.benchmarks.find import find_benchmark
from tellapart.catalog import BENCHMARKS
from tellapart.cli.main import app

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return dict(import_document("benchmark_pages").benchmark_pages())


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmarks_page_says_what_its_declaration_says(pages, name):
    one, page = find_benchmark(name), " ".join(pages[name].split())
    assert page.startswith(f"# {name} ")
    for said in (f"{one.items:,}", one.licence, one.citation[1:], one.images, one.cluster, one.ties):
        assert " ".join(said.split()) in page
    for file in one.files:
        assert all(f"`{alternative}`" in page for alternative in file.split("|"))
    if one.hub:
        assert one.hub.page in page
        assert one.hub.revision[:12] in page


def test_every_command_of_the_pages_has_options_that_exist(pages):
    commands: Any = typer.main.get_group(app).commands
    lines = {line for page in pages.values() for line in re.findall(r"^\$ tellapart (.+)$", page, re.MULTILINE)}
    assert len(lines) == 3 * len(BENCHMARKS)
    for line in lines:
        name, *arguments = shlex.split(line)
        context = typer.Context(commands[name], info_name=name)
        commands[name].make_parser(context).parse_args(args=list(arguments))


def test_pages_hold_the_numbers_that_the_repository_has(pages):
    assert "| ALBEF | 73.17 |" in pages["vlue-nlvr2"]  # examples/vlue_board/records.toml
    assert "| `chance` | 50.0 | 33.4 |" in pages["vlue-nlvr2"]  # docs/baselines.json
    assert "- `more-frequent-label` knows how the answers are distributed; it says: `False`." in pages["vlue-nlvr2"]
    assert "| `blind` | 64.8 (70.9) |" in pages["sugarcrepe"]
    assert "Numbers to expect" not in pages["winoground"]  # gated: nothing was measured, nothing is reported here


def test_lines_of_the_pages_fit(pages):
    for page in pages.values():
        assert [line for line in page.splitlines() if len(line) > 120 and not line.startswith(("|", "$"))] == []


def test_every_page_of_the_documents_is_in_the_navigation():
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = set(re.findall(r"[\w-]+\.md", settings))
    assert {path.name for path in (ROOT / "docs").glob("*.md")} <= named


def test_examples_in_docstrings_are_fenced_once():
    pytest.importorskip("griffe", reason="the API reference needs the docs extra")
    fence = import_document("docstring_examples").fence_examples
    assert fence("Add.\n\n>>> 1 + 1\n2\n\nMore.") == "Add.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nMore."
    assert fence("Add.\n\n    >>> x\n    >>> y") == "Add.\n\n    ```pycon\n    >>> x\n    >>> y\n```"
    assert fence("No example.") == "No example."


def test_formulas_are_drawn_without_a_script():
    for needed in ("mkdocs", "latex2mathml"):
        pytest.importorskip(needed, reason="the site needs the docs extra")
    drawn = import_document("site_pages").on_page_content(
        'a <span class="arithmatex">\\(s_{1} &gt; s_{2}\\)</span> b <div class="arithmatex">\\[x^2\\]</div>'
    )
    assert "arithmatex" not in drawn
    assert drawn.count("<math ") == 2
    assert "<mo>&gt;</mo>" in drawn or "<mo>&#x0003E;</mo>" in drawn
    assert 'display="block"' in drawn


@pytest.mark.parametrize("file", ["Makefile", "ci/extras.toml"])
def test_a_warning_stops_the_build_of_the_site(tmp_path, file):
    pytest.importorskip("mkdocs", reason="the site needs the docs extra")
    (words,) = re.findall(r"-m (mkdocs build(?: --[a-z]+)*)", (ROOT / file).read_text(encoding="utf-8"))
    (tmp_path / "docs").mkdir()
    (tmp_path / "mkdocs.yml").write_text("site_name: small\n")
    for text, code in (("# Home", 0), ("# Home\n\n[gone](gone.md)", 1)):
        (tmp_path / "docs" / "index.md").write_text(text)
        done = run_python("-m", *words.split(), status=code, cwd=tmp_path)
        assert ("gone.md" in done.stderr) == bool(code)


def check_site(folder: Path, status: int) -> str:
    return run_python("ci/offline_site.py", folder, status=status, cwd=ROOT).stderr


def test_a_site_that_loads_from_another_host_is_refused(tmp_path):
    (tmp_path / "index.html").write_text('<a href="https://a.example/">a</a><script src="site.js"></script>')
    check_site(tmp_path, 0)
    (tmp_path / "index.html").write_text(
        '<link rel="preconnect" href="https://fonts.example"><img src="//b.example/x">'
    )
    (tmp_path / "site.css").write_text("@font-face { src: url('https://c.example/f.woff2') }")
    refused = check_site(tmp_path, 1)
    for host in ("fonts.example", "b.example", "c.example"):
        assert host in refused


def test_a_folder_without_a_site_is_refused(tmp_path):
    assert "make site" in check_site(tmp_path, 1)
