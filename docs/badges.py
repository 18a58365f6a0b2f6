"""The README's badges, from the package's own facts: no service is asked, now or by a reader.

python docs/badges.py          writes docs/badges/*.svg again
"""

import tomllib
from pathlib import Path

from tellapart import __version__

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "badges"


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
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" font-size="11" '
        f'font-family="Verdana, sans-serif"><title>{name}: {value}</title><rect width="{left + right}" height="20" '
        f'rx="3" fill="#444"/><path d="M{left} 0h{right - 3}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-{right - 3}z" '
        f'fill="#3949ab"/><g fill="#fff" text-anchor="middle"><text x="{left / 2}" y="14">{name}</text>'
        f'<text x="{left + right / 2}" y="14">{value}</text></g></svg>\n'
    )


def main() -> None:
    """Write every badge."""
    FOLDER.mkdir(exist_ok=True)
    for name, value in list_badges().items():
        (FOLDER / f"{name}.svg").write_text(draw_badge(name, value), encoding="utf-8")


if __name__ == "__main__":
    main()
