"""The documents: quoted output, links, kinds of pages, one next step, and a site that loads nothing from elsewhere."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from commands import COMMANDS
from facts import check_facts
from scripts import import_document, run_python
from tellapart.benchmarks.find import find_benchmark
from tellapart.catalog import BENCHMARKS
from tellapart.cli.main import app

ROOT = Path(__file__).parent.parent
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.md")]


@pytest.mark.slow
def test_every_quoted_output_is_what_the_command_prints():
    done = run_python("docs/generate.py", "--check", status=None, cwd=ROOT)
    assert done.returncode == 0, f"run `make docs`:\n{done.stdout}\n{done.stderr}"


def test_the_readme_is_short_and_opens_with_the_two_commands_that_do_everything():
    commands = re.findall(r"^make \w+", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert commands[:2] == ["make demo", "make test"]
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 100


def test_the_badges_are_the_packages_facts():
    generate = import_document("generate")
    shown = {path.stem: path.read_text(encoding="utf-8") for path in (DOCS / "badges").glob("*.svg")}
    assert shown == {name: generate.draw_badge(name) for name in generate.BADGES}
    assert set(re.findall(r"docs/badges/(\w+)\.svg", (ROOT / "README.md").read_text(encoding="utf-8"))) == set(shown)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_lines_that_people_write_fit_and_every_relative_link_leads_somewhere(document):
    prose = re.sub(r"<!-- (run|table): .*?<!-- end -->", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert [line for line in prose.splitlines() if len(line) > 120 and not line.startswith("|")] == []
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://")):
            assert (document.parent / target).exists(), f"{document}: {target}"


def test_no_line_installs_from_an_index_that_does_not_have_the_package():
    examples = [path for path in ROOT.glob("examples/**/*") if path.suffix in {".md", ".py", ".ipynb", ".yml"}]
    wrong = re.compile(r"""install\s+([^`\n]*\s)?"?tellapart(\[\w+\])?("|`|\s*$)""", re.MULTILINE)
    assert [path for path in (*DOCUMENTS, *examples) if wrong.search(path.read_text(encoding="utf-8"))] == []


def test_every_decision_is_numbered_once_and_says_what_was_chosen():
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    for page in pages:
        assert "**Choice.**" in page.read_text(encoding="utf-8"), page


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/notebooks/*.py")), ids=lambda path: path.stem)
def test_a_notebook_leaves_the_verdicts_to_its_run(path):
    """What a run may contradict is printed by a cell: no sentence says which model is better, or what is told apart."""
    prose = " ".join(re.findall(r"^# (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE))
    assert not re.findall(r"\b(?:is|are) (?:better|worse)\b|\b(?:do|does) not tell\b(?! apart)|\bno longer\b", prose)


def test_the_promises_name_tests_that_exist():
    named = re.findall(r"`(tests/[\w/.]+)` \|$", (ROOT / "docs/promises.md").read_text(), re.MULTILINE)
    assert len(named) >= 15
    assert [path for path in named if not (ROOT / path).is_file()] == []


DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("findings/*.md")])
KINDS = ("Tutorials", "How-to guides", "Reference", "Explanation")


def list_pages(entry) -> Iterator[str]:
    """Yield the pages of a part of the navigation."""
    if isinstance(entry, str):
        yield entry
    for one in entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ():
        yield from list_pages(one)


@pytest.fixture(scope="module")
def kinds() -> dict[str, list[str]]:
    """The pages of each kind, as the site's navigation has them."""
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    return {title: list(list_pages(below)) for entry in navigation for title, below in entry.items()}


def test_the_navigation_has_the_four_kinds(kinds):
    assert tuple(kinds) == ("Home", *KINDS)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_page_is_of_one_kind_and_has_one_next_step(kinds, page):
    name, text = page.relative_to(DOCS).as_posix(), page.read_text(encoding="utf-8")
    (kind,) = [kind for kind in KINDS for each in kinds[kind] if each == name]
    title, last = text.splitlines()[0], text.rstrip().splitlines()[-1]
    assert title.startswith("# ")
    if kind == "How-to guides":
        assert re.fullmatch(r"# (How do I|Which) .+\?", title), f"{name}: one question"
    if kind != "Reference":
        assert len(text.splitlines()) <= 200, name
    assert re.fullmatch(r"\*\*Next:\*\* \[[^\]]+\]\([\w/.#-]+\)", last), f"{name}: {last}"
    assert text.count("**Next:**") == 1


def test_pages_that_the_site_makes_have_one_next_step_too(kinds):
    for needed in ("mkdocs", "latex2mathml"):
        pytest.importorskip(needed, reason="the site needs the docs extra")
    site, written = import_document("site_pages"), {page.relative_to(DOCS).as_posix() for page in PAGES}
    folders = site.list_folders()
    assert written.isdisjoint(site.OWN_PAGES.values())
    for pages in folders.values():
        assert [site.next_step(page) for page in pages[:-1]] == pages[1:]
    made = {*site.OWN_PAGES.values(), "benchmarks/sugarcrepe.md"}.union(*folders.values())
    without = {page for page in made if site.next_step(page) is None}
    assert without == {"index.md"}, "the front page alone: it is the choice of a first step"
    assert {site.next_step(page) for page in made - without} <= written | made
    assert not any(map(site.next_step, sorted(written))), "they name theirs in their last line"


def test_the_picture_of_the_flow_is_drawn_from_the_code():
    pages = import_document("command_pages")
    assert (DOCS / "flow.svg").read_text(encoding="utf-8") == pages.flow_picture(), "run `make docs`"
    boxes, rooms = [box for row in pages.FLOW for box in row], {path.name for path in ROOT.glob("src/tellapart/*")}
    assert {room for box in boxes for room in box["rooms"]} <= rooms
    assert {box["panel"] for box in boxes if "panel" in box} == pages.group_by_panel().keys()


def test_the_reference_has_a_section_for_each_command_with_its_options_and_an_example():
    text = (DOCS / "commands.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |^<!-- end)", text, re.DOTALL | re.MULTILINE))
    for words, command in COMMANDS.items():
        assert f"](#{words.replace(' ', '-')})" in text
        section = sections[words]
        assert re.search(rf"^\$ tellapart {words}\b.*for example$", section, re.MULTILINE), words
        for parameter in command.params:
            if parameter.param_type_name == "option" and not parameter.hidden:
                assert f"`{max(parameter.opts, key=len)}`" in section, (words, parameter.name)


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
    assert not one.hub or (one.hub.page in page and one.hub.revision[:12] in page)


def test_commands_of_the_pages_exist_and_numbers_are_those_of_the_repository(pages):
    commands: Any = typer.main.get_group(app).commands
    lines = {line for page in pages.values() for line in re.findall(r"^\$ tellapart (.+)$", page, re.MULTILINE)}
    assert len(lines) == 3 * len(BENCHMARKS)
    for line in lines:
        name, *arguments = shlex.split(line)
        context = typer.Context(commands[name], info_name=name)
        commands[name].make_parser(context).parse_args(args=list(arguments))
    assert "| ALBEF | 73.17 |" in pages["vlue-nlvr2"]  # examples/vlue_board/records.toml
    assert "| `chance` | 50.0 | 33.4 |" in pages["vlue-nlvr2"]  # docs/baselines.json
    assert "- `more-frequent-label` knows how the answers are distributed; it says: `False`." in pages["vlue-nlvr2"]
    assert "| `blind` | 64.8 (70.9) |" in pages["sugarcrepe"]
    assert "Numbers to expect" not in pages["winoground"]  # gated: nothing was measured, nothing is reported here


def test_every_page_is_in_the_navigation_and_lines_of_made_pages_fit(pages):
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert {path.name for path in (ROOT / "docs").glob("*.md")} <= set(re.findall(r"[\w-]+\.md", settings))
    for page in pages.values():
        assert [line for line in page.splitlines() if len(line) > 120 and not line.startswith(("|", "$"))] == []


def test_examples_in_docstrings_are_fenced_once():
    pytest.importorskip("griffe", reason="the API reference needs the docs extra")
    fence = import_document("docstring_examples").fence_examples
    assert fence("Add.\n\n>>> 1 + 1\n2\n\nMore.") == "Add.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nMore."
    assert fence("Add.\n\n    >>> x\n    >>> y") == "Add.\n\n    ```pycon\n    >>> x\n    >>> y\n```"
    assert fence("No example.") == "No example."


def test_formulas_are_drawn_without_a_script():
    for needed in ("mkdocs", "latex2mathml"):
        pytest.importorskip(needed, reason="the site needs the docs extra")
    written = 'a <span class="arithmatex">\\(s_{1} &gt; s_{2}\\)</span> b <div class="arithmatex">\\[x^2\\]</div>'
    drawn = import_document("site_pages").on_page_content(written)
    assert "arithmatex" not in drawn and drawn.count("<math ") == 2
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
        assert ("gone.md" in run_python("-m", *words.split(), status=code, cwd=tmp_path).stderr) == bool(code)


def check_site(folder: Path, status: int) -> str:
    return run_python("ci/check_site.py", folder, status=status, cwd=ROOT).stderr


def test_a_site_that_loads_from_another_host_and_a_folder_without_one_are_refused(tmp_path):
    assert "make site" in check_site(tmp_path, 1)
    (tmp_path / "index.html").write_text('<a href="https://a.example/">a</a><script src="site.js"></script>')
    check_site(tmp_path, 0)
    foreign = '<link rel="preconnect" href="https://fonts.example"><img src="//b.example/x">'
    (tmp_path / "index.html").write_text(foreign)
    (tmp_path / "site.css").write_text("@font-face { src: url('https://c.example/f.woff2') }")
    check_facts(check_site(tmp_path, 1), "fonts.example", "b.example", "c.example")
