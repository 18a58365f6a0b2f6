"""The README's badges, from the package's own facts: no service is asked, now or by a reader.

python docs/badges.py          writes docs/badges/*.svg again
"""

import tomllib
from pathlib import Path

from jinja2 import Template

from tellapart import __version__

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "badges"
TEMPLATE = Template((ROOT / "docs" / "templates" / "badge.svg.j2").read_text(encoding="utf-8"))


def list_badges() -> dict[str, str]:
    """Return each badge's value by its name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {
        "version": __version__,
        "python": project["requires-python"].replace(">=", "≥ "),
        "licence": project["license"],
    }


def draw_badge(name: str, value: str) -> str:
    """Return a badge as SVG: the name on grey, the value on blue."""
    left, right = 12 + 7 * len(name), 12 + 7 * len(value)
    return TEMPLATE.render(name=name, value=value, left=left, right=right, width=left + right) + "\n"


def main() -> None:
    """Write every badge."""
    FOLDER.mkdir(exist_ok=True)
    for name, value in list_badges().items():
        (FOLDER / f"{name}.svg").write_text(draw_badge(name, value), encoding="utf-8")


if __name__ == "__main__":
    main()
