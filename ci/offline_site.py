"""Check that a built site needs no other host: no page of FOLDER loads a script, a style, a font or a picture."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path


def check_site(find: Callable[[Path], Iterable[str]]) -> int:
    """Print what is found in the site of the first argument; return 1 if anything is, or if there is no site."""
    folder = Path(sys.argv[1])
    if not (folder / "index.html").is_file():
        sys.stderr.write(f"{folder} holds no site: build it with `make site`\n")
        return 1
    lines = list(find(folder))
    sys.stderr.writelines(f"{line}\n" for line in lines)
    return 1 if lines else 0


#: Tag -> the attributes by which a page loads something.
_LOADS = {"script": ("src",), "img": ("src", "srcset"), "source": ("src", "srcset"), "iframe": ("src",)}
_LOADED_LINKS = {"stylesheet", "icon", "preload", "preconnect", "dns-prefetch", "modulepreload", "prefetch"}
_ELSEWHERE = re.compile(r"^(https?:)?//")
_IN_STYLE = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)""")


class _Loads(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        names = _LOADS.get(tag, ())
        if tag == "link" and _LOADED_LINKS & set(values.get("rel", "").split()):
            names = ("href",)
        self.found += [values[name] for name in names if _ELSEWHERE.match(values.get(name, ""))]


def loads_from_elsewhere(folder: Path) -> Iterator[str]:
    """Yield a line for everything that a page or a style of a site loads from another host."""
    for path in sorted(folder.rglob("*.html")):
        parser = _Loads()
        parser.feed(path.read_text(encoding="utf-8"))
        yield from (f"{path.relative_to(folder)}: {address}" for address in parser.found)
    for path in sorted(folder.rglob("*.css")):
        found = _IN_STYLE.findall(path.read_text(encoding="utf-8"))
        yield from (f"{path.relative_to(folder)}: {address}" for address in found)


if __name__ == "__main__":
    sys.exit(check_site(loads_from_elsewhere))
