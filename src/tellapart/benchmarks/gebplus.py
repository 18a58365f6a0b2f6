"""GEB+'s annotation files: the moments of Kinetics videos at which something changes, captioned before and after."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from tellapart.data.annotations import AnnotationRow, check_row, read_mapping
from tellapart.data.fields import field_fault
from tellapart.data.task_records import Moment, MomentSet
from tellapart.errors import DataError, quote

Filled = Annotated[str, Field(min_length=1, pattern=r"\S")]  # a blank is not a text
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Boundary(AnnotationRow):
    boundary_id: Filled
    timestamp: Seconds
    prev_timestamp: Seconds
    next_timestamp: Seconds
    label: Filled
    subject: Filled
    status_before: Filled
    status_after: Filled
    caption: Filled
    action_of_cause: str | None


def read_moments(path: Path) -> MomentSet:
    """Read GEB+'s `val.json` or `test.json`: video -> its boundaries.

    A boundary's id is its video's, a number and the annotator's letter. Boundaries that two annotators marked at the
    same time stay two queries. `caption` must be made of the three parts in the same row.

    Source: GEB+ (Wang et al. 2022), `datasets/annotations`, filtered version.
    """
    moments: dict[str, Moment] = {}
    for video, rows in read_mapping(path).items():
        if not isinstance(rows, list) or not rows:
            raise DataError(f"{path}: video {video!r}: expected a list of boundaries")
        for number, content in enumerate(rows):
            moment = _make_moment(video, content, f"{path}: video {video!r}: row {number}")
            if moment.id in moments:
                raise DataError(f"{path}: video {video!r}: row {number}: field 'boundary_id': {moment.id} is repeated")
            moments[moment.id] = moment
    return MomentSet(path.stem, tuple(moments.values()))


def _make_moment(video: str, content: object, place: str) -> Moment:
    row = check_row(_Boundary, content, place)
    if not row.boundary_id.startswith(f"{video}_"):
        raise field_fault(place, "boundary_id", f"{row.boundary_id!r} is not of this video")
    if not row.prev_timestamp <= row.timestamp <= row.next_timestamp:
        between = f"{row.prev_timestamp} and {row.next_timestamp}"
        fault = f"{row.timestamp} does not lie between the boundaries before and after it, {between}"
        raise field_fault(place, "timestamp", fault)
    parts = f"Subject: {row.subject} //Status_Before: {row.status_before} //Status_After: {row.status_after}"
    if row.caption != parts:
        raise field_fault(place, "caption", f"{quote(row.caption)} is not made of subject, before and after")
    texts = (row.subject, row.status_before, row.status_after)
    return Moment(row.boundary_id, video, float(row.timestamp), *texts, row.label, float(row.next_timestamp))
