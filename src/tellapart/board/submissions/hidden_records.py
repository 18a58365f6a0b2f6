"""A task's records without their labels: new ids and image names, and a new order, all from a secret key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter

from tellapart.board.submissions.shuffled import image_name, keyed_hash, new_id, public_ids
from tellapart.tasks.hiding import Hiding
from tellapart.tasks.registry import HIDEABLE, TASKS
from tellapart.tasks.task import Task

__all__ = ["HiddenRecords", "hide_records"]


@dataclass(frozen=True, slots=True)
class HiddenRecords:
    """Records in their published order, with their labels.

    Attributes:
        task: its name.
        records: with their labels; ids and images are the published ones.
        public: record -> whether it is in the public split.
        sources: published image name -> the benchmark's own reference.

    >>> from tellapart.data.task_records import Statement, StatementSet
    >>> one = Statement("0", "Both show a dog.", "a.png", "b.png", True)
    >>> list(HiddenRecords("nlvr2", StatementSet("n", (one,)), (True,), {}).template_rows())
    [{'id': '0', 'prediction': None, 'sentence': 'Both show a dog.', 'left': 'a.png', 'right': 'b.png'}]
    """

    task: str
    records: Any
    public: tuple[bool, ...]
    sources: Mapping[str, str]

    @property
    def shape(self) -> None:
        """Images and texts of an item: records have none."""
        return None

    @property
    def how(self) -> Hiding:
        """How records of this task are hidden."""
        return HIDEABLE[self.task]

    @property
    def rows(self) -> Sequence[Any]:
        """The records one by one."""
        rows: Sequence[Any] = getattr(self.records, self.how.rows)
        return rows

    def bare(self) -> Any:
        """Return the records with their gold fields blank."""
        return replace(self.records, **{self.how.rows: tuple(map(self.how.bare, self.rows))})

    def template_rows(self) -> Iterator[Mapping[str, Any]]:
        """Yield the published rows, to be filled in: made of bare records, so that no label can be in them."""
        return TASKS[self.task].template(self.bare())

    def restore(self, sent: Any) -> Any:
        """Return predictions of the records, given those of the published rows in their order."""
        return self.how.restore(sent, getattr(self.bare(), self.how.rows), self.rows)

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Return width and height of the images that boxes were drawn in, by published name; empty without boxes."""
        size = self.how.size
        return {} if size is None else {row.image: size(row) for row in self.rows}

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        return {
            "task": self.task,
            "records": self._plain(self.records),
            "public": self.public,
            "sources": dict(self.sources),
        }

    def bare_to_json(self) -> dict[str, Any]:
        """Return what `read_published` reads: the bare records, and nothing else."""
        return {"records": self._plain(self.bare())}

    def _plain(self, records: Any) -> Any:
        return TypeAdapter(self.how.records).dump_python(records, mode="json")

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> HiddenRecords:
        """Make it of what `to_json` returned; other content is a KeyError, TypeError or ValueError."""
        task = content["task"]
        records = TypeAdapter(HIDEABLE[task].records).validate_python(content["records"])
        return cls(task, records, tuple(content["public"]), content["sources"])


def hide_records(task: Task, records: Any, key: bytes, public_share: float, suffix: str) -> HiddenRecords:
    """Shuffle records, and split their clusters into public and private ones, as `hide` does with pairs."""
    how = HIDEABLE[task.name]
    rows = sorted(getattr(records, how.rows), key=lambda row: keyed_hash(key, "order", row.id))
    clusters = how.clusters([how.bare(row) for row in rows])
    public = public_ids({row.id: cluster for row, cluster in zip(rows, clusters, strict=True)}, key, public_share)
    names = {reference: image_name(key, reference, suffix) for reference in task.images_of(records)}
    renamed = tuple(
        replace(row, id=new_id(key, row.id), **{field: names[getattr(row, field)] for field in how.images})
        for row in rows
    )
    return HiddenRecords(
        task=task.name,
        records=replace(records, **{how.rows: renamed}),
        public=tuple(row.id in public for row in rows),
        sources={name: reference for reference, name in names.items()},
    )
