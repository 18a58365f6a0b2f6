"""Listings of `tellapart ls` as tables: benchmarks and which of their files are there, models, losses, builders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tellapart.errors import plain
from tellapart.metrics.registry import defined_for
from tellapart.models.find import name_forms
from tellapart.report.numbers import thousands
from tellapart.report.terminal import console, print_lines, table
from tellapart.tasks.registry import headline


def print_listing(what: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print the rows that `tellapart.ls` returns.

    >>> print_listing("losses", [{"name": "itc", "about": "Image-text contrast."}])  # doctest: +ELLIPSIS
    name   about...
    itc    Image-text contrast.
    """
    columns = _COLUMNS[what]
    lines = table(*columns)
    for row in rows:
        cells = {**row, "shape": _shape_of(row), "metrics": _join_few(_first_metrics(row))}
        if what == "benchmarks" and row["media"]:
            languages = ", ".join(row["languages"] or ()) or "unknown"
            year = row["year"] or "year unknown"
            cells["about"] = f"{row['media']}, {year}; language {languages}; a tie: {row['tie_rule']}"
        cells["items"] = thousands(row["items"]) if row.get("items") else ""
        if what == "benchmarks" and row["files"] is None:
            cells["licence"] = row["title"]
        lines.add_row(*(plain(str(cells.get(column) or "")) for column in columns))
    console().print(lines)
    if notes := _write_notes(what, rows):
        print_lines("", *notes)


_COLUMNS = {
    "benchmarks": ("name", "shape", "items", "metrics", "about", "licence", "files"),
    "models": ("name", "role", "kind", "about"),
    "losses": ("name", "about"),
    "builders": ("name", "about"),
}


def _write_notes(what: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if what == "models":
        return ["also, by what it is made of:", *(f"  {form}: {meaning}" for form, meaning in name_forms().items())]
    if what != "benchmarks":
        return []
    notes = [
        "also: folder:PATH, a pair set of your own; FILE.toml, a set that it declares; pairing:NAME, a set of 2x2",
        "pairs asked in words, and choice:NAME, one of 1x2 pairs; texts:NAME, the texts alone of a set with two true",
        "ones; ranking:FILE, rankings by people; classes:DIR, a folder of pictures for each class",
    ]
    for row in rows:
        if row["files"] and row["missing"]:
            place = f"; {row['files']}" if row["hub"] else ""
            notes.append(
                f"{row['name']} needs {_join_few(row['needs'])} (images: {row['images']}){place}: {row['source']}"
            )
    return notes


def _shape_of(row: Mapping[str, Any]) -> str:
    """Return images by texts of an item; for a task, the kind of its output."""
    return "x".join(map(str, row["shape"])) if row.get("shape") else str(row.get("output") or "")


def _first_metrics(row: Mapping[str, Any]) -> tuple[str, ...]:
    if row.get("official"):
        return tuple(row["official"])
    if row.get("shape"):
        return headline({metric.name for metric in defined_for(row["shape"], "similarity", row["true"])})
    return headline(row.get("metrics") or ())


def _join_few(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"
