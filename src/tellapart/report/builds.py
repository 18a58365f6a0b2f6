"""Builds on the terminal and as JSON: how many candidates each step rejected, and the files written."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tellapart.errors import plain
from tellapart.report.numbers import thousands
from tellapart.report.terminal import console, print_lines, table

if TYPE_CHECKING:
    from tellapart.builders.captions.pairs_file import PairsWritten
    from tellapart.builders.pipeline import BuildResult


def build_json(built: BuildResult, page: Path | None, verdict: str | None = None) -> dict[str, Any]:
    """Return a build as one object: its folder, its cards and its funnel."""
    return {
        "out": str(built.folder),
        "card": str(built.folder / "card.json"),
        "page": str(page) if page is not None else None,
        "verdict": verdict,
        "resumed": built.resumed,
        "funnel": built.funnel.to_record(),
    }


def print_build(built: BuildResult, page: Path | None = None, verdict: str | None = None) -> None:
    """Print a build's funnel, the path of its card (the page if there is one), and its audit's verdict."""
    _print_funnel(built.funnel.rows())
    resumed = [f"{thousands(built.resumed)} were decided by an earlier build"] if built.resumed else []
    measure = f"measure with: tellapart run -b {shlex.quote(f'folder:{built.folder}')}"
    audited = [plain(verdict)] if verdict is not None else []
    print_lines("", *resumed, measure, f"card: {page or built.folder / 'card.json'}", *audited)


def caption_pairs_json(written: PairsWritten) -> dict[str, Any]:
    """Return the fate of a recipe's captions as one object."""
    return {
        "pairs": written.pairs,
        "rejected": _list_rejections(written),
        "resumed": written.resumed,
        "out": str(written.path),
    }


def print_caption_pairs(written: PairsWritten) -> None:
    """Print how many caption pairs were written, and how many each step rejected."""
    _print_funnel([*_list_rejections(written), ("pairs", "", written.pairs)])
    print_lines("", f"caption pairs: {written.path}")


def _list_rejections(written: PairsWritten) -> list[tuple[str, str, int]]:
    return [(step, reason, count) for (step, reason), count in sorted(written.rejected.items())]


def _print_funnel(rows: Iterable[tuple[str, str, int]]) -> None:
    funnel = table("step", "reason", "number", numbers_from=2)
    for step, reason, count in rows:
        funnel.add_row(plain(step), plain(reason), thousands(count))
    console().print(funnel)
