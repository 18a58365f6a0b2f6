"""Costs of models as tables on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tellapart.errors import plain
from tellapart.records.timing_record import PARTS, Duration, Timing, Timings
from tellapart.report.terminal import console, print_lines, table

if TYPE_CHECKING:
    from rich.table import Table


def print_timings(timings: Timings) -> None:
    """Print latency by part, then throughput and size, then how they were measured."""
    for rows in (_latency_table(timings.models), _size_table(timings.models)):
        console().print(rows)
        print_lines("")
    print_lines(*_describe_models(timings.models))


def _latency_table(models: Sequence[Timing]) -> Table:
    parts = [part for part in PARTS if any(part in timing.parts for timing in models)]
    rows = _make_table("latency of one pair, milliseconds", "median [5%, 95%]", *parts)
    for timing in models:
        cells = (_write_median(timing.parts.get(part)) for part in parts)
        spread = f"[{_write_milliseconds(timing.latency.low)}, {_write_milliseconds(timing.latency.high)}]"
        rows.add_row(plain(timing.model.name), f"{_write_milliseconds(timing.latency.median)} {spread}", *cells)
    return rows


def _size_table(models: Sequence[Timing]) -> Table:
    device = any(timing.peak_device_memory is not None for timing in models)
    columns = ("batch", "images/s", "texts/s", "pairs/s", "parameters", "FLOPs a pair", "memory")
    rows = _make_table("throughput and size", *columns, *(["on the device"] if device else []))
    for timing in models:
        rates = timing.throughput
        rows.add_row(
            plain(timing.model.name),
            str(rates.batch_size),
            *map(_write_rate, (rates.images, rates.texts, rates.pairs)),
            _write_amount(timing.parameters),
            "not counted" if timing.flops is None else _write_amount(timing.flops),
            _write_amount(timing.peak_memory, "B"),
            *([_write_amount(timing.peak_device_memory, "B")] if device else []),
        )
    return rows


def _describe_models(models: Sequence[Timing]) -> list[str]:
    """Describe how it was measured, once if it is the same for all, and the parts that each model leaves out."""
    methods = (
        f"{timing.repeats} pairs of {plain(timing.benchmark)} one by one, after {timing.warm_up} to warm up; "
        f"throughput: median of {timing.batches} batches, images decoded and prepared before; "
        f"{_describe_machine(timing)}; {timing.dtype}"
        for timing in models
    )
    flops = (
        "FLOPs: matrix products and convolutions only; memory: the process's peak above what it held before the model"
    )
    notes = (f"{plain(timing.model.name)}: {plain(note)}" for timing in models for note in timing.notes)
    return list(dict.fromkeys([*methods, flops, *notes]))


def _describe_machine(timing: Timing) -> str:
    machine = timing.machine
    threads = f", {machine.torch_threads} threads" if machine.torch_threads is not None else ""
    accelerator = f", {machine.accelerator}" if machine.accelerator else ""
    return plain(f"{timing.device}: {machine.processor}, {machine.cores} cores{threads}{accelerator}")


def _write_milliseconds(seconds: float) -> str:
    """Write three significant digits, and nothing below a hundredth."""
    value = 1000 * seconds
    if value < 0.01:
        return "<0.01"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _write_median(part: Duration | None) -> str:
    return "" if part is None else _write_milliseconds(part.median)


def _write_rate(number: float | None) -> str:
    return "" if number is None else f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _write_amount(number: int | None, unit: str = "") -> str:
    """Write three significant digits with a prefix of the SI."""
    if number is None:
        return ""
    value, prefixes = float(number), ["", "k", "M", "G", "T"]
    while value >= 999.5 and len(prefixes) > 1:
        value /= 1000
        prefixes.pop(0)
    return f"{value:.3g} {prefixes[0]}{unit}".rstrip()


def _make_table(title: str, *headings: str) -> Table:
    rows = table("model", *headings, numbers_from=1, title=title)
    rows.min_width = len(title)
    rows.columns[0].no_wrap = False  # long names of models make room for the numbers
    return rows
