"""The reference of commands, the table of docs/which_command.md, and its picture, from the command line itself."""

import re
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import typer
from jinja2 import Template
from speed_tables import fill_table

from tellapart.cli.main import app

DOCS = Path(__file__).resolve().parent

FLOW: list[list[dict[str, Any]]] = tomllib.loads((DOCS / "flow.toml").read_text(encoding="utf-8"))["rows"]


def group_by_panel() -> dict[str, list[tuple[str, Any]]]:
    """Return words and commands by panel, in the order of the help; a group's commands have the panel of the group."""
    panels: dict[str, list[tuple[str, Any]]] = {}
    for name, command in typer.main.get_group(app).commands.items():
        below = getattr(command, "commands", {})
        rows = [(f"{name} {each}", one) for each, one in below.items()] or [(name, command)]
        panels.setdefault(command.rich_help_panel, []).extend(rows)
    return panels


def split_help(command: Any) -> tuple[str, str]:
    """Return a command's example, without its backticks, and its text."""
    found = re.match(r"Example: `(.+?)`\s+(.*)", command.help or "", re.DOTALL)
    example, text = (found[1], found[2]) if found else ("", command.help or "")
    paragraphs = text.strip().split("\n\n")
    return example, "\n\n".join(each if "\n- " in each else " ".join(each.split()) for each in paragraphs)


def first_line(command: Any) -> str:
    """Return the first paragraph of a command's text in one line."""
    return split_help(command)[1].partition("\n\n")[0]


def which_table() -> str:
    """Return a row for each command: the purpose, and the command."""
    return fill_table("which_command", panels=group_by_panel(), first_line=first_line)


def commands_reference() -> str:
    """Return a table of contents, the options of every command, and a section for each command."""
    tools = {"split_help": split_help, "write_value": write_value, "callable": callable}
    return fill_table("commands", panels=group_by_panel(), shared=typer.main.get_group(app), **tools)


def write_value(parameter: Any) -> str:
    """Return the kind of a parameter's value; empty for a flag."""
    if getattr(parameter, "is_flag", False):
        return ""
    kind = str(parameter.display_type(typer.Context(typer.main.get_group(app)))).strip("<>")
    kind = re.sub(r"^list\[(.*)\]$|^(\w+) range.*$", r"\1\2", kind).lower().replace("|", "\\|")
    bounds = [f"at least {parameter.min:g}"] if parameter.min is not None else []
    bounds += [f"at most {parameter.max:g}"] if parameter.max is not None else []
    return ", ".join([kind, *bounds])


def flow_picture() -> str:
    """Return the picture of the flow as SVG: boxes are rooms of the house, with the commands of their panels."""
    panels, parts = group_by_panel(), list[dict[str, Any]]()
    width, margin, gap, y = 460, 10, 28, 10
    above: list[tuple[float, float]] = []
    for row in FLOW:
        columns = (width - margin * (len(row) + 1)) / len(row)
        wrapped = [_wrap_names(panels.get(box.get("panel", ""), []), columns - 24) for box in row]
        height = 44 + 20 * max(map(len, wrapped))
        middles = []
        for k, (box, lines) in enumerate(zip(row, wrapped, strict=True)):
            place = (margin + k * (columns + margin), y, columns, height)
            parts.append({**box, "place": place, "lines": lines})
            middles += [place[0] + columns / 2] if box["rooms"] else []
        for x, bottom in above:
            below = middles if len(middles) == 1 else [m for m in middles if abs(m - x) < 1]
            parts += [{"arrow": (x, bottom, (x + middle) / 2, y)} for middle in below]
        above = [(middle, y + height) for middle in middles]
        y += height + gap
    template = Template((DOCS / "templates" / "flow.svg.j2").read_text(encoding="utf-8"), trim_blocks=True)
    return template.render(width=width, height=y - gap + margin, parts=parts) + "\n"


def _wrap_names(commands: list[tuple[str, Any]], room: float) -> list[str]:
    """Break commands into lines of letters about 8 wide; a group of commands is one."""
    names = dict.fromkeys(words.split()[0] for words, _ in commands)
    return textwrap.wrap("  ".join(names), int(room / 8), break_long_words=False, break_on_hyphens=False)
