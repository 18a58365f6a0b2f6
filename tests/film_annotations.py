"""Annotations of films, in the forms of GEB+ and YouCook2."""

from collections.abc import Iterable, Sequence
from typing import Any


def boundary(
    name: str, time: float = 3.5, around: Sequence[float] = (0, 9.5), states: tuple[str, str] = ("stands", "sits"),
    subject: str = "a man",
) -> dict[str, Any]:  # fmt: skip
    """Return a boundary of GEB+: what a subject does before it and after, and the boundaries around it."""
    before, after = states
    row = {"boundary_id": name, "timestamp": time, "prev_timestamp": around[0], "next_timestamp": around[1]}
    row |= {"label": "Change of Action", "subject": subject, "status_before": before, "status_after": after}
    caption = f"Subject: {subject} //Status_Before: {before} //Status_After: {after}"
    return row | {"action_of_cause": None, "caption": caption}


def films(**times: Sequence[float]) -> dict[str, Any]:
    """Return GEB+'s file of films of four seconds, with a boundary at each time."""
    return {
        film: [boundary(f"{film}_{k}A", time, (0, 4.0), (f"stands {k}", f"sits {k}")) for k, time in enumerate(moments)]
        for film, moments in times.items()
    }


def cooking(steps: Iterable[tuple[Sequence[float], str]], subset: str = "training") -> dict[str, Any]:
    """Return a film of YouCook2 with its steps, from their segments and sentences."""
    rows = [{"id": k, "segment": list(segment), "sentence": text} for k, (segment, text) in enumerate(steps)]
    return {"duration": 9.5, "subset": subset, "recipe_type": "113", "video_url": "a", "annotations": rows}
