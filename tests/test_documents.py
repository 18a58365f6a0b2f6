"""The documents say what is so: outputs are what commands print, links lead somewhere."""

import re
from pathlib import Path

import pytest

from scripts import import_document, run_python

ROOT = Path(__file__).parent.parent
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.md")]


@pytest.mark.slow
def test_every_quoted_output_is_what_the_command_prints():
    done = run_python("docs/generate.py", "--check", status=None, cwd=ROOT)
    assert done.returncode == 0, f"run `make docs`:\n{done.stdout}\n{done.stderr}"


def test_the_readme_opens_with_the_two_commands_that_do_everything():
    commands = re.findall(r"^make \w+", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert commands[:2] == ["make demo", "make test"]


def test_the_badges_are_the_packages_facts():
    badges = import_document("badges")
    shown = {path.stem: path.read_text(encoding="utf-8") for path in badges.FOLDER.glob("*.svg")}
    assert shown == {name: badges.draw_badge(name, value) for name, value in badges.list_badges().items()}
    assert set(re.findall(r"docs/badges/(\w+)\.svg", (ROOT / "README.md").read_text(encoding="utf-8"))) == set(shown)


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 100


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_lines_that_people_write_fit_120_columns(document):
    prose = re.sub(r"<!-- (run|table): .*?<!-- end -->", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert [line for line in prose.splitlines() if len(line) > 120 and not line.startswith("|")] == []


def test_no_line_installs_from_an_index_that_does_not_have_the_package():
    examples = [path for path in ROOT.glob("examples/**/*") if path.suffix in {".md", ".py", ".ipynb", ".yml"}]
    wrong = re.compile(r"""install\s+([^`\n]*\s)?"?tellapart(\[\w+\])?("|`|\s*$)""", re.MULTILINE)
    assert [path for path in (*DOCUMENTS, *examples) if wrong.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(document):
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://")):
            assert (document.parent / target).exists(), f"{document}: {target}"


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
