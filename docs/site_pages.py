"""What mkdocs does beside `mkdocs.yml`: pages that are generated at each build, and links that lead out of `docs/`.

A link to another file of the repository leads to a copy of it in the site. Formulas become MathML: no script, no
network.
"""

import importlib
import inspect
import os
import posixpath
import re
import shutil
import tempfile
import tomllib
from html import unescape
from pathlib import Path
from typing import Any

from benchmark_pages import benchmark_pages
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from notebook_pages import NOTEBOOKS, notebook_pages
from speed_tables import build, make_table, read_fields

from tellapart.board.serve import board_export
from tellapart.catalog import BENCHMARKS

ROOT = Path(__file__).resolve().parent.parent
DECISIONS = ROOT / "docs" / "decisions"

SITE: dict[str, Any] = tomllib.loads((ROOT / "docs" / "site.toml").read_text(encoding="utf-8"))
OWN_PAGES, ROOMS = SITE["pages"], SITE["rooms"] + SITE["named_rooms"]

#: The first page's way on.
BUTTON = "[Measure a model in five minutes](docs/start.md){ .md-button .md-button--primary }"

LINK = re.compile(r"(!?\[[^\]]*\]\()([^)#\s]+)")
#: A row of a table that begins with a benchmark's name.
NAMED = re.compile(rf"^\| `({'|'.join(map(re.escape, BENCHMARKS))})` \|", re.MULTILINE)
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def list_folders() -> dict[str, list[str]]:
    """Return the pages of the generated folders, in the navigation's order."""
    return {
        "api": ["api/index.md", *(f"api/{room}.md" for room in ROOMS)],
        "decisions": ["decisions/index.md", *(f"decisions/{path.name}" for path in sorted(DECISIONS.glob("*.md")))],
        "notebooks": [f"notebooks/{path.stem}.md" for path in sorted(NOTEBOOKS.glob("*.py"))],
    }


def next_step(page: str) -> str | None:
    """Return the page that follows a page which is made here; None of one that names its next step, or has none."""
    folder = posixpath.dirname(page)
    pages = list_folders().get(folder, [page])
    following = [*pages, None][pages.index(page) + 1] if page in pages else None
    return following or SITE["next"].get(folder or page)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the generated pages into the navigation; pages that `mike` builds have a list of versions, and an address."""
    if "mike" in config.plugins:
        config.extra["version"] = {"provider": "mike"}
        config.site_url = os.environ.get("SITE_URL", "")
    pages: dict[str, list[Any]] = dict(list_folders())
    first, *rooms = pages["api"]
    pages["api"] = [first, *({f"tellapart.{Path(room).stem}": room} for room in rooms)]
    config.nav = [_with_pages(entry, pages) for entry in config.nav or []]
    reference = next(entry["Reference"] for entry in config.nav if "Reference" in entry)
    benchmarks = next(entry["Benchmarks"] for entry in reference if "Benchmarks" in entry)
    benchmarks += [{name: f"benchmarks/{name}.md"} for name in benchmark_pages()]
    return config


def _with_pages(entry: Any, pages: dict[str, list[Any]]) -> Any:
    if isinstance(entry, dict):
        return {title: _with_pages(below, pages) for title, below in entry.items()}
    if isinstance(entry, list):
        return [_with_pages(one, pages) for one in entry]
    return pages.get(entry, entry)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for source, target in OWN_PAGES.items():
        files.append(File.generated(config, target, abs_src_path=str(ROOT / source)))
    pages = {f"benchmarks/{name}.md": content for name, content in benchmark_pages().items()}
    for name, content in (pages | _api() | notebook_pages() | {"decisions/index.md": _decisions()}).items():
        files.append(File.generated(config, name, content=content))
    return files


def _decisions() -> str:
    """Return the list of decisions, by their titles."""
    lines = ["# Decisions", "", "Choices that somebody will question, each with its reasons.", ""]
    for path in list_folders()["decisions"][1:]:
        number, _, name = _title_of(path).partition(". ")
        lines.append(f"{number}. [{name}]({posixpath.basename(path)})")
    return "\n".join(lines) + "\n"


def _api() -> dict[str, str]:
    """Return the pages of the API reference: a list of what `import tellapart` has, then a page for each room."""
    package, rows = importlib.import_module("tellapart"), []
    for name, where in sorted(package._WHERE.items()):
        found = getattr(package, name)
        about = (inspect.getdoc(found) or "").partition("\n")[0] if callable(found) else ""
        rows.append((f"[`{name}`][{where}.{getattr(found, '__name__', name)}]", about))
    names = make_table(["name", "what it is"], "l|l", rows)
    about = (package.__doc__ or "").split(">>>")[0].strip()
    pages = {"api/index.md": f"# `import tellapart`\n\n{about}\n\n{names}\n"}
    for room in ROOMS:
        about = (importlib.import_module(f"tellapart.{room}").__doc__ or "").strip()
        reference = "\n".join(f"::: {module}\n" for module in _modules(room))
        pages[f"api/{room}.md"] = f"# tellapart.{room}\n\n{about}\n\n{reference}"
    return pages


def _modules(room: str) -> list[str]:
    """Return the modules of a room's page; a room of one file is that module."""
    folder = ROOT / "src" / "tellapart" / room
    files = folder.glob("[!_]*.py") if room in SITE["rooms"] else ()
    modules = {f"tellapart.{room}.{path.stem}" for path in files}
    packages = (f"tellapart.{room}.", "tellapart_native.") if room == "models" else (f"tellapart.{room}.",)
    modules |= {where for where in importlib.import_module("tellapart")._WHERE.values() if where.startswith(packages)}
    return sorted(modules) or [f"tellapart.{room}"]


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to files of the repository into links of the site, with a copy of the file where it is no page."""
    here = page.file.src_uri
    folder = posixpath.dirname(here) or "."
    source = {target: own for own, target in OWN_PAGES.items()}.get(here, f"docs/{here}")

    def moved(match: re.Match[str]) -> str:
        target = match[2]
        if re.match(r"[a-z]+:|/", target):
            return match[0]
        inside = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if inside in OWN_PAGES:
            inside = OWN_PAGES[inside]
        elif inside.startswith("examples/notebooks/") and not source.startswith("docs/notebooks/"):
            inside = f"notebooks/{Path(inside).stem}.md"  # what it shows; its page links to the file
        elif inside.startswith("docs/"):
            inside = inside.removeprefix("docs/")
            inside = f"{inside}/index.md" if (ROOT / "docs" / inside).is_dir() else inside
        elif (ROOT / inside).is_file():
            path, inside = ROOT / inside, f"repository/{inside}"
            if files.get_file_from_path(inside) is None:
                files.append(File.generated(config, inside, abs_src_path=str(path)))
        return match[1] + posixpath.relpath(inside, folder)

    if here == "index.md":  # GitHub, which shows the same file, has no buttons
        markdown = markdown.replace("\n```bash\n", f"\n{BUTTON}\n\n```bash\n", 1)
    if here in SITE["wide"]:
        page.meta["hide"] = ["navigation"]
    if here == "benchmarks.md":
        markdown = NAMED.sub(r"| [`\1`](benchmarks/\1.md) |", markdown)
    prose_and_code = re.split(r"(^```.*?^```$)", markdown, flags=re.DOTALL | re.MULTILINE)
    markdown = "".join(part if part.startswith("```") else LINK.sub(moved, part) for part in prose_and_code)
    if following := next_step(here):
        markdown += f"\n\n**Next:** [{_title_of(following)}]({posixpath.relpath(following, folder)})\n"
    return markdown


def _title_of(page: str) -> str:
    """Return the first line of a page that lies in `docs/`, else its room's or its folder's name."""
    path = ROOT / "docs" / page
    if path.is_file():
        return path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
    name = Path(page).parent.name if Path(page).stem == "index" else Path(page).stem.replace("_", " ")
    return f"tellapart.{Path(page).stem}" if page.startswith("api/") else name.capitalize()


def on_post_build(config: MkDocsConfig) -> None:
    """Write the board of the twelve checkpoints that ship, or of all of VL_COMPO_RESULTS, into the site."""
    board = ROOT / "examples" / "clip_zoo_board" / "board.toml"
    with tempfile.TemporaryDirectory() as scratch:
        if results := os.environ.get("VL_COMPO_RESULTS"):
            shutil.copy(board, scratch)
            board = Path(scratch) / "board.toml"
            records = build(read_fields(Path(results)), without="elevater-")
            board.with_name("records.toml").write_text(records, encoding="utf-8")
        board_export(Path(config.site_dir) / "zoo", board=board, small=True)


def on_page_content(html: str, page: Page | None = None, **_: Any) -> str:
    """Write formulas as MathML, which browsers draw themselves; link to the board of checkpoints."""

    def drawn(match: re.Match[str]) -> str:
        return convert(unescape(match[3]), display="block" if match[2] == "[" else "inline")

    if page is not None and page.file.src_uri in SITE["zoo"]:
        address = posixpath.relpath("zoo/index.html", posixpath.dirname(page.file.src_uri) or ".")
        html += f'<p><a href="{address}">The board of these checkpoints, page by page</a></p>'
    return FORMULA.sub(drawn, html)
