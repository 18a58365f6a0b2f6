"""The plan of the ablation: its sets, its start, its rows, and the configuration of each run."""

import json
import tomllib
from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from tellapart.builders.recipe_file import read_recipe_file
from tellapart.data.rows import read_object
from tellapart.data.scores import join_names
from tellapart.errors import DataError
from tellapart.records.run_folder import write_text_file
from tellapart.training.config import TrainConfig, merge_preset, read_config

#: The folder of the plans, recipes and rows.
HERE = Path(__file__).resolve().parent

#: How the start is trained: the bundled encoder's run, with fewer steps.
_ENCODER = HERE.parent / "demo_encoder" / "encoder.toml"
RATE = "optimiser.learning_rate"


@dataclass(frozen=True, slots=True)
class Method:
    """A row: its loss, the number that is tuned (`table.key`) and its choices, other changes, the paper's scores."""

    name: str
    title: str
    about: str
    loss: dict[str, Any]
    tune: tuple[str, ...] = ()
    choices: tuple[float, ...] = ()
    changes: dict[str, Any] = field(default_factory=dict)
    paper: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Check:
    """Rows that are run again over the first seeds with a change of what all share: does the answer depend on it?

    The first row in the plan's order is what the others, and the unchanged rows `beside`, are compared with. A number
    that a row tunes keeps the tuned value, unless it is changed here.

    >>> check = Check("fast", "rate 0.001", "?", ("ft",), 4, {"optimiser": {"learning_rate": 1e-3}})
    >>> row = Method("ft", "FT", "", {"name": "itc"}, ("optimiser.learning_rate",), (3e-4,))
    >>> check.change(row).name, check.change(row).tune
    ('ft-fast', ())
    """

    name: str
    title: str
    question: str
    rows: tuple[str, ...]
    seeds: int
    changes: dict[str, Any]
    beside: tuple[str, ...] = ()
    about: str = ""

    def change(self, row: Method) -> Method:
        """Return a row as the check has it."""
        changed = {f"{table}.{key}" for table, values in self.changes.items() for key in values}
        fixed = {"tune": (), "choices": ()} if changed & {*row.tune} else {}
        name, title = f"{row.name}-{self.name}", f"{row.title} ({self.title})"
        changes = merge_preset(row.changes, self.changes)
        return replace(row, name=name, title=title, changes=changes, paper={}, **fixed)


@dataclass(frozen=True)
class Plan:
    """What is made, trained and measured, and where it is kept.

    Rows (`methods`) are compared with the first. Of each, `seeds_first` runs come before any row has more; `gpu_seeds`
    are run on a GPU. `contrasts` name two rows each, of which the first is compared with the second.
    """

    work: Path
    record: Path
    sets: dict[str, Path]
    train: tuple[str, ...]
    tests: tuple[str, ...]
    start: dict[str, Any]
    fine_tune: dict[str, Any]
    methods: tuple[Method, ...]
    seeds: int
    tuning_steps: int = 0
    seeds_first: int = 0
    gpu_seeds: tuple[int, ...] = ()
    first: tuple[str, ...] = ()
    contrasts: tuple[tuple[str, str], ...] = ()
    checks: tuple[Check, ...] = ()

    @property
    def steps(self) -> int:
        """Steps of a fine-tuning run."""
        return int(self.fine_tune["optimiser"]["steps"])

    def row(self, name: str) -> Method:
        """Return the row of a name."""
        return next(method for method in self.methods if method.name == name)

    @property
    def in_order(self) -> tuple[Method, ...]:
        """The rows in the order in which they are run; the first one's learning rate is the others'."""
        base, *others = self.methods
        places = {name: place for place, name in enumerate(self.first)}
        return base, *sorted(others, key=lambda row: places.get(row.name, len(places)))

    def checked_rows(self, check: Check) -> list[tuple[Method, Method]]:
        """Return the rows of a check, each with the same row as the check has it."""
        return [(row, check.change(row)) for row in self.methods if row.name in check.rows]

    def device(self, seed: int) -> str:
        """Return the device that a seed of every row is run on."""
        return "cuda" if seed in self.gpu_seeds else "cpu"

    @property
    def start_folder(self) -> Path:
        """Folder of the start that the record keeps."""
        return self.record / "start"

    @property
    def model(self) -> str:
        """Name of the start."""
        return str(self.start.get("model") or f"compact:{self.start_folder}")

    def items(self, name: str) -> int:
        """Return how many items a set's recipe asks for."""
        return len(self.aspects(name))

    @property
    def training_items(self) -> int:
        """Items of all sets that are trained on."""
        return sum(map(self.items, self.train))

    def aspects(self, name: str) -> NDArray[np.str_]:
        """Return the aspect of each item of a set, `(item,)`: they lie in the order of its recipe."""
        counts = read_recipe_file(self.sets[name]).options["items"]
        return np.repeat([*counts], [*counts.values()])

    def piece(self, name: str) -> Path:
        """Return the file of a piece of the record."""
        return self.record / f"{name}.json"

    def read(self, name: str) -> dict[str, Any]:
        """Return a piece of the record."""
        return read_object(self.piece(name))

    def write(self, name: str, piece: dict[str, Any]) -> None:
        """Write a piece of the record, whole or not at all."""
        self.record.mkdir(exist_ok=True)
        write_text_file(self.piece(name), json.dumps(piece, indent=1) + "\n")

    def starting(self) -> TrainConfig:
        """Return the run that makes the start: the bundled encoder's, shorter."""
        values = read_config(_ENCODER).model_dump(exclude_none=True)
        steps = int(self.start["steps"])
        changes = {
            "name": "start",
            "model": f"new:{_ENCODER.parent / 'architecture'}",
            "data": {"negative_captions": None},
            "loss": self.start["loss"],
            "report": {},
            "optimiser": {"steps": steps, "warm_up": min(values["optimiser"]["warm_up"], steps // 9)},
            "validation": {"every": max(1, steps // 9)},
        }
        return self._configure(merge_preset(values, changes))

    def fine_tuning(self, method: Method, seed: int, value: float | None = None, rate: float | None = None) -> Any:
        """Return the configuration of one run of a row, with the tuned value and the rate of rows that tune none."""
        run = {"name": f"{method.name}-{seed}", "model": self.model, "seed": seed, "device": self.device(seed)}
        values = merge_preset(self.fine_tune, merge_preset(method.changes, {**run, "loss": method.loss}))
        numbers = {} if "learning_rate" in method.changes.get("optimiser", {}) else {RATE: rate}
        for place, number in [*numbers.items(), *((place, value) for place in method.tune)]:
            table, key = place.split(".")
            if number is not None:
                values[table] = {**values[table], key: number}
        return self._configure(values)

    def _configure(self, values: dict[str, Any]) -> TrainConfig:
        """Take the sets from the work folder."""
        train = [str(self.work / "sets" / name / "ablation_rows.jsonl") for name in self.train]
        data = {**values["data"], "train": train, "validation": f"folder:{self.work / 'sets' / 'tuning'}"}
        return TrainConfig(**{**values, "data": data})


def read_plan(path: Path, rows: Sequence[str] | None = None) -> Plan:
    """Read a plan; recipes, rows and the record are relative to its folder, the work folder to where one is."""
    home, table = path.parent, tomllib.loads(path.read_text(encoding="utf-8"))
    methods = tomllib.loads((home / table["methods"]).read_text(encoding="utf-8"))["methods"]
    names = [row["name"] for row in methods]
    wanted = {*(table.get("rows", names) if rows is None else rows), names[0]}
    table.pop("rows", None)
    if odd := sorted(wanted - {*names}):
        raise DataError(f"{path}: no row {odd[0]!r}; its rows are {join_names(names, 99)}")
    table["record"] = home / table["record"]
    table["sets"] = {name: home / recipe for name, recipe in table["sets"].items()}
    return Plan(**table | {"methods": [row for row in methods if row["name"] in wanted]})
