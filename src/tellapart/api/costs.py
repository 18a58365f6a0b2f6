"""Check a model's sanity, and measure what models cost: what `tellapart check` and `time` call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tellapart.api.arguments import as_path, as_tuple, choose, field_names, locations
from tellapart.api.evaluate import load_pairs
from tellapart.api.plugins import load_again, loaded, open_benchmark, open_model
from tellapart.api.progress import reporting
from tellapart.evaluation.check import Gate, check_model, check_references
from tellapart.evaluation.evaluate import chosen
from tellapart.evaluation.timing import TimingSettings, time_models
from tellapart.models.find import find_model
from tellapart.models.memory.function import as_model
from tellapart.models.options import ModelOptions
from tellapart.records.timing_record import Timings, write_timings

__all__ = ["check", "measure_costs"]

_OPTIONS = field_names(TimingSettings, "benchmark", "place")

#: Items on which a model of the user's own is checked.
_CHECKED = "30"


def check(
    model: Any = None,
    *,
    device: str = "cpu",
    seed: int = 0,
    progress: bool | Callable[[str], Any] | None = None,
) -> list[Gate]:
    """Show that models whose results are known beforehand get them, on every shape; and test a model of one's own.

    Args:
        model: a name, an object or a function, as `evaluate` takes it.
        device, seed: of a model that is named.
        progress: as of `evaluate`.

    Raises:
        TellapartError: the model cannot be found.
    """
    subject = None
    if isinstance(model, str):
        subject = find_model(open_model(model), ModelOptions(device=device, seed=seed))
    elif model is not None:
        subject = as_model(model)
    with reporting(progress) as report:
        gates = check_references(None if report is None else report("reference models"))
        if subject is not None:
            pairs = load_pairs("demo")
            update = None if report is None else report(subject.name)
            gates += check_model(subject, pairs.select(chosen(len(pairs), _CHECKED)), update)
    return gates


def measure_costs(
    models: Any,
    benchmark: str = "demo",
    *,
    out: str | Path | None = None,
    data: Any = None,
    images: Any = None,
    outside_images: bool = False,
    progress: bool | Callable[[str], Any] | None = None,
    command: str = "",
    **options: Any,
) -> Timings:
    """Measure what models cost: latency of one pair by part, throughput, parameters, FLOPs, memory.

    Args:
        models: names.
        benchmark: whose images and texts to use.
        out: the file to write.
        data, images, outside_images, progress, command: as of `evaluate`.
        options: further settings of `tellapart.evaluation.timing.TimingSettings`: repeats, warm_up, batch_size, device,
            dtype, reading.

    Raises:
        TellapartError: a name is unknown, or a model cannot be timed.
    """
    settings = TimingSettings(
        benchmark=open_benchmark(benchmark),
        place=locations(data, images, outside_images),
        **choose("measure_costs", options, _OPTIONS),
    )
    names = [open_model(name) for name in as_tuple(models, "models")]
    with reporting(progress) as report:
        update = None if report is None else report("timing")
        again = partial(load_again, loaded())
        timings = time_models(names, settings, command=command, progress=update, prepare=again)
    if out is not None:
        write_timings(as_path(out, "out"), timings)
    return timings
