"""Winoground's 55 published systems and BiVLC's four CLIPs: no match, or a prior that outweighs it?"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from examples.findings.counts import PEOPLE, SCORES, read_systems
from examples.findings.frame import PHONE, Page, percent, read_fields
from examples.findings.gains import BIVLC, CLIPS
from tellapart.diagnosis.item_analysis import name_family
from tellapart.metrics.matching import Reason, contrasts, match_bounds, match_score, reasons, sums_of_squares
from tellapart.metrics.pairs import group_score
from tellapart.report.plots.style import GREY, look, new_figure
from tellapart.stats.intervals import share_in_clusters, wilson

#: Systems of the table and the picture: file -> words.
_SHOWN = {
    "clip_b32": "CLIP ViT-B/32",
    "blip_itm_l16_coco": "BLIP's matching head",
    "ofa_large": "OFA-large",
    PEOPLE: "people",
}
_PARTS = ("the match", "the caption", "the picture")
_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Systems:
    """What scores show, by `(system, item)`: group, match, reasons in `Reason`'s order, squares of the three parts."""

    names: tuple[str, ...]
    group: NDArray[np.float64]
    match: NDArray[np.float64]
    reason: NDArray[np.float64]
    squares: NDArray[np.float64]

    @classmethod
    def of(cls, scores: Mapping[str, NDArray[np.float64]]) -> Self:
        """Measure the scores of systems: name -> float64 `(item, image, text)`."""
        group, match, squares = (
            np.stack([measure(each) for each in scores.values()])
            for measure in (group_score, match_score, sums_of_squares)
        )
        outcome = [reasons(each) for each in scores.values()]
        reason = np.array([[[one is kind for one in own] for own in outcome] for kind in Reason], np.float64)
        return cls(tuple(scores), group, match, reason, squares)

    def medians(self, weights: NDArray[np.float64] | None = None, drawn: NDArray[np.intp] | None = None) -> list[float]:
        """Return medians over systems: group, match, the reasons, the shares."""
        at = np.arange(len(self.names)) if drawn is None else drawn
        items = self.group.shape[1]
        mass = np.full(items, 1 / items) if weights is None else weights
        rows = [self.group @ mass, self.match @ mass, *(self.reason @ mass)]
        squares = np.einsum("sik,i->sk", self.squares, mass)
        shares = squares / squares.sum(axis=-1, keepdims=True)
        return [float(np.median(row[at])) for row in (*rows, *shares.T)]


def _intervals(found: Systems) -> NDArray[np.float64]:
    """Return 95% intervals of `medians`, float64 `(number, 2)`: items and families of systems are drawn together."""
    families = [name_family(name) for name in found.names]
    of = {family: [k for k, own in enumerate(families) if own == family] for family in dict.fromkeys(families)}
    rng = np.random.default_rng(0)
    members, items = [*of.values()], found.group.shape[1]
    draws = []
    for _ in range(_RESAMPLES):
        chosen = np.concatenate([members[k] for k in rng.integers(len(members), size=len(members))])
        weights = np.bincount(rng.integers(items, size=items), minlength=items) / items
        draws.append(found.medians(weights, chosen))
    return np.quantile(draws, (0.025, 0.975), axis=0).T


def read_sides(data: Path) -> dict[str, SimpleNamespace]:
    """Return the items whose images, and whose captions, both prefer their own, of BiVLC's CLIPs, and their shares."""
    sides = {}
    for name in CLIPS:
        rows = read_fields(data / "bivlc" / f"BiVLC_{name}.csv")
        keys = ("text_score_i0", "text_score_i1", "image_score_c0", "image_score_c1")
        right = np.array([[row[key] == "True" for key in keys] for row in rows])
        text, image = right[:, :2].all(axis=1), right[:, 2:].all(axis=1)
        sides[name] = SimpleNamespace(
            text=text,
            image=image,
            group=text & image,
            interval=share_in_clusters((text & image).astype(float), [row["caption"] for row in rows]),
            lost=((text & ~image).mean(), (image & ~text).mean()),  # to the picture's prior alone, to the caption's
            bounds=match_bounds(right).mean(axis=0),  # that surely match, and that may match
        )
    return sides


def priors(data: Path) -> Page:
    """Make the page."""
    scores = read_systems(data)
    of_people = Systems.of({PEOPLE: scores[PEOPLE]}).medians()
    found = Systems.of({name: each for name, each in scores.items() if name != PEOPLE})
    middle, spans = found.medians(), _intervals(found)
    items = found.group.shape[1]
    parts = [f"squares: {part}" for part in _PARTS]
    heads = ["group", "match", *(reason.label for reason in Reason), *parts]
    rho = spearmanr(found.group.mean(axis=1), found.match.mean(axis=1)).statistic
    values: dict[str, Any] = {"middle": middle, "spans": spans, "rho": rho, "systems": len(found.names)}
    values |= {"rows": list(zip(heads, middle, spans, of_people, strict=True)), "parts": parts, "Reason": Reason}
    values |= {"shown": {words: Systems.of({name: scores[name]}).medians() for name, words in _SHOWN.items()}}
    values |= {"above": [_count_above(found.group, 1 / 6), _count_above(found.match, 1 / 2)]}
    values |= {"below": sum((wilson(int(row.sum()), items).high or 0) < 1 / 2 for row in found.match)}
    values |= {"sides": read_sides(data), "resamples": _RESAMPLES}
    drawn = {words: scores[name] for name, words in _SHOWN.items()}
    return Page("priors", partial(_draw, drawn), (SCORES, *BIVLC[:2]), values, data)


def _count_above(outcomes: NDArray[np.float64], chance: float) -> int:
    return sum((wilson(int(row.sum()), len(row)).low or 0) > chance for row in outcomes)


def _draw(shown: Mapping[str, NDArray[np.float64]]) -> Any:
    figure = new_figure(PHONE, 4.4)
    for number, (words, scores) in enumerate(shown.items()):
        axes = figure.add_subplot(2, 2, number + 1)
        found = contrasts(scores)
        match, prior = found[:, 0], np.abs(found[:, 1:]).max(axis=1)
        unit = np.median(np.linalg.norm(found, axis=1))  # of a median item: a few are far out
        axes.plot(prior / unit, match / unit, "o", markersize=1.3, color=look(0).colour, markeredgewidth=0)
        axes.plot([0, 4], [0, 4], color=GREY, linewidth=0.8)
        axes.axhline(0, color=GREY, linewidth=0.8, linestyle="--")
        axes.set_xlim(0, 4)
        axes.set_ylim(-2, 4)
        axes.set_title(f"{words}, {percent(float(group_score(scores).mean()))}", fontsize=7)
        axes.tick_params(labelsize=6)
    figure.supxlabel("larger prior, max(|T|, |M|)", fontsize=7)
    figure.supylabel("match, D; above the line, right (percent in the titles)", fontsize=7)
    return figure
