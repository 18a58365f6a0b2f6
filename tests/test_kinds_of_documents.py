"""Each page of the documents is of one of four kinds, short unless it is reference, and has one next step."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from commands import COMMANDS
from scripts import import_document

ROOT = Path(__file__).parents[1]
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
    site = import_document("site_pages")
    written = {page.relative_to(DOCS).as_posix() for page in PAGES}
    folders = site.list_folders()
    assert written.isdisjoint(site.OWN_PAGES.values())
    for pages in folders.values():
        assert [site.next_step(page) for page in pages[:-1]] == pages[1:]
    made = {
        *site.OWN_PAGES.values(),
        *(page for pages in folders.values() for page in pages),
        "benchmarks/sugarcrepe.md",
    }
    without = {page for page in made if site.next_step(page) is None}
    assert without == {"index.md"}, "the front page alone: it is the choice of a first step"
    assert {site.next_step(page) for page in made - without} <= written | made
    assert not any(map(site.next_step, sorted(written))), "they name theirs in their last line"


def test_the_picture_of_the_flow_is_drawn_from_the_code():
    pages = import_document("command_pages")
    assert pages.PICTURE.read_text(encoding="utf-8") == pages.flow_picture(), "run `python docs/command_pages.py`"
    boxes = [box for row in pages.FLOW for box in row]
    assert {room for _, rooms, *_ in boxes for room in rooms} <= {
        path.name for path in (ROOT / "src" / "tellapart").iterdir()
    }
    shown = {panel for *_, panel in boxes if panel} | {pages.TOOLS}
    assert shown == {panel for panel, *_ in pages.list_commands()}


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
