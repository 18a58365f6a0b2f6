"""Item analysis on simulated systems: coverage, false alarms of suspects, and their power (two minutes)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from record import run_bench

from tellapart.stats.item_analysis import fit_rasch, item_statistics, reliability, shared_residuals

Floats = NDArray[np.float64]
ITEMS, NULLS = 60, 12
BINS = ((0.0, 0.1), (0.1, 0.2), (0.2, 0.35), (0.35, 0.5))


class Setting(NamedTuple):
    """How systems are drawn: families, systems of one at most, how much of an item's odds a family shares."""

    families: int
    largest: int
    shared: float


SETTINGS = (Setting(20, 1, 0.0), Setting(55, 1, 0.0), Setting(15, 6, 0.7), Setting(30, 3, 0.7))


def draw_outcomes(rng: np.random.Generator, setting: Setting, slopes: Floats, hard: Floats) -> tuple[Floats, Floats]:
    """Draw outcomes `(item, system)` and each system's family."""
    family = np.repeat(np.arange(setting.families), rng.integers(1, setting.largest + 1, setting.families))
    half = 0.5 if setting.largest > 1 else 0.0
    able = np.sqrt(half) * rng.standard_normal(setting.families)[family]
    able = able + np.sqrt(1 - half) * rng.standard_normal(len(family))
    quirks = setting.shared * rng.standard_normal((len(slopes), setting.families))[:, family]
    odds = slopes[:, None] * able - hard[:, None] + quirks
    return (rng.random(odds.shape) < 1 / (1 + np.exp(-odds))).astype(np.float64), family.astype(np.float64)


def measure_setting(setting: Setting, datasets: int) -> dict[str, object]:
    """Return coverage, errors and alarms of one setting."""
    drawn = np.random.default_rng(0)
    # The first twelve have no slope: they do not discriminate.
    slopes = np.concatenate([np.zeros(NULLS), drawn.uniform(0.2, 2, ITEMS - NULLS)])
    hard = drawn.normal(0.8, 1, ITEMS)
    many, _ = draw_outcomes(np.random.default_rng(1), Setting(30_000, setting.largest, setting.shared), slopes, hard)
    total = many.sum(axis=0)
    truth = np.array([np.corrcoef(row, total - row)[0, 1] for row in many])
    true_alpha = ITEMS / (ITEMS - 1) * (1 - many.var(axis=1).sum() / total.var())
    minority = np.minimum(many.mean(axis=1), 1 - many.mean(axis=1))
    rng = np.random.default_rng(2)
    cells, errors, nulls, shares = [], [], [], []
    for _ in range(datasets):
        values, codes = draw_outcomes(rng, setting, slopes, hard)
        family = codes.astype(np.int64)
        found, naive, whole = item_statistics(values, family), item_statistics(values), reliability(values, family)
        has = ~np.isnan(found.low)
        cells.append([has, *(has & (row.low <= truth) & (truth <= row.high) for row in (found, naive))])
        errors.append(found.discrimination - truth)
        nulls.append(found.p[:NULLS])
        by_holm, by_rate = (bool((p <= 0.05).any()) for p in (found.p_holm, found.p_fdr))
        grouped, best = bool(shared_residuals(values, family)), int(np.nanargmax(found.discrimination))
        values[best] = 1 - values[best]
        turned = item_statistics(values, family).p_fdr[best] <= 0.05
        shares.append((whole.low <= true_alpha <= whole.high, by_holm, by_rate, grouped, turned))
    known, hits, ignoring = np.sum(cells, axis=0)
    tests = np.concatenate(nulls)
    alarms = (tests <= 0.05).sum() / (~np.isnan(tests)).sum()
    alphas, any_holm, any_fdr, groups, found_reversed = np.mean(shares, axis=0).round(3).tolist()
    return {
        "coverage of discrimination": _share(hits, known),
        "the same, by the smaller of an item's shares of right and wrong": {
            f"{low:g} to {high:g}": _share(hits[chosen], known[chosen])
            for low, high in BINS
            if (chosen := (minority >= low) & (minority < high)).any()
        },
        "the same, families ignored": _share(ignoring, known),
        "intervals that could be given": round(float(known.sum()) / datasets / ITEMS, 3),
        "mean error of discrimination": round(float(np.nanmean(errors)), 4),
        "root mean square error of discrimination": round(float(np.sqrt(np.nanmean(np.square(errors)))), 3),
        "coverage of alpha": alphas,
        "items that do not discriminate with p <= 5%": round(float(alarms), 4),
        "data sets with a suspect by Holm": any_holm,
        "data sets with a suspect by the false discovery rate": any_fdr,
        "data sets with a group of items": groups,
        "the best item with its label turned round is a suspect": found_reversed,
    }


def measure_rasch(datasets: int) -> dict[str, object]:
    """Return how well difficulties of the Rasch model are recovered from 55 systems."""
    rng = np.random.default_rng(3)
    hard = np.linspace(-2, 2, ITEMS)
    errors, inside = [], []
    for _ in range(datasets):
        odds = rng.standard_normal(55) - hard[:, None]
        found = fit_rasch(rng.random(odds.shape) < 1 / (1 + np.exp(-odds)))
        errors.append(found.difficulty - hard)
        inside.append(np.abs(errors[-1]) <= 1.96 * found.difficulty_error)
    return {
        "coverage of difficulty": _share(np.array(inside), ~np.isnan(errors)),
        "root mean square error of difficulty, logits": round(float(np.sqrt(np.nanmean(np.square(errors)))), 3),
    }


def _share(hits: Floats, known: Floats) -> float:
    return round(float(hits.sum() / known.sum()), 3)


def measure(datasets: int = 200) -> dict[str, object]:
    """Measure every setting."""
    record: dict[str, object] = {"datasets": datasets, "items": ITEMS, "items that do not discriminate": NULLS}
    record |= {
        f"{setting.families} families of 1 to {setting.largest} systems": measure_setting(setting, datasets)
        for setting in SETTINGS
    }
    return record | {"Rasch, 55 systems": measure_rasch(datasets)}


if __name__ == "__main__":
    run_bench(measure, "items")
