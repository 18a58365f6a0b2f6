"""The pages by name, and the index of their answers."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from examples.findings.checkpoints import checkpoints
from examples.findings.counts import SCORES, count_pairs, count_two, read_systems
from examples.findings.differing_words import differing_words
from examples.findings.frame import FOLDER, TEMPLATES, Page, render_page, write_pages_text
from examples.findings.gains import BIVLC, gains, read_clips
from examples.findings.leaderboard import HEADS, leaderboard
from examples.findings.order_and_ties import ANSWERS, order_and_ties, read_orders
from examples.findings.priors import priors
from examples.findings.without_looking import without_looking
from tellapart.metrics.registry import METRICS
from tellapart.report.plots.style import write_picture

#: Name -> maker, in the order of the index.
PAGES: dict[str, Callable[[Path], Page]] = {
    "priors": priors,
    "leaderboard": leaderboard,
    "checkpoints": checkpoints,
    "order-and-ties": order_and_ties,
    "without-looking": without_looking,
    "gains": gains,
    "differing-words": differing_words,
}

#: The page that `python -m examples.eqsim_ablation.run --page` writes.
_ABLATION = "eqsim-ablation"


def write_page(page: Page) -> None:
    """Write a page and its picture."""
    write_picture(FOLDER / f"{page.name}.svg", page.picture)
    (FOLDER / f"{page.name}.md").write_text(page.markdown(), encoding="utf-8")


def count_published(data: Path) -> dict[str, Any]:
    """Count the published outcomes that `counts.json` keeps."""
    systems = read_systems(data)
    group = {name: METRICS["group_score"].per_item(scores) for name, scores in systems.items()}
    metrics = [METRICS[name] for name in ("text_score", "image_score", "group_score")]
    bivlc, sugarcrepe = read_clips(data)
    return {
        "sources": {one.pattern: one.digest(data) for one in (SCORES, ANSWERS, *BIVLC)},
        "winoground": {
            name: [int(metric.per_item(scores).sum()) for metric in metrics] for name, scores in systems.items()
        },
        "winoground_heads": {f"{a}, {b}": count_two(group[a], group[b]) for a, b in HEADS},
        "gpt4v_orders": {part: count_two(*orders) for part, orders in read_orders(data).items()},
        "bivlc": count_pairs(bivlc.systems),
        "sugarcrepe": count_pairs(sugarcrepe.systems),
    }


def index_text() -> str:
    """Return the index: each written page's answer, which links to the page."""
    pages = []
    for name in (*PAGES, _ABLATION):
        text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
        found = re.search(r"\A# (.+?)\n.*?\*\*Answer( so far, [^*]+)?\.\*\* (.+?)\n\n", text, re.DOTALL)
        assert found, name
        pages.append((name, *found.groups()))
    return write_pages_text([render_page(TEMPLATES, "index", {"pages": pages})])


def index_page() -> None:
    """Write docs/findings.md."""
    FOLDER.with_suffix(".md").write_text(index_text(), encoding="utf-8")
