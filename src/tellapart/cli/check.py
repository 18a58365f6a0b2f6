"""The command `tellapart check`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from tellapart.cli.invocation import interruptible
from tellapart.cli.options import Device, Json, Quiet, Seed, print_json

__all__ = ["check_command"]


def check_command(
    model: Annotated[str | None, typer.Argument(help="Also test a model of your own.")] = None,
    device: Device = "cpu",
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Show that models whose results are known beforehand get them, on every shape."""
    from tellapart.benchmarks.find import load_pairs
    from tellapart.evaluation.check import check_model, check_references
    from tellapart.evaluation.evaluate import chosen
    from tellapart.models.find import find_model
    from tellapart.models.options import ModelOptions
    from tellapart.report.show import print_gates

    subject = find_model(model, ModelOptions(device=device, seed=seed)) if model is not None else None
    with interruptible(quiet=quiet) as progress:
        gates = check_references(progress.callback("reference models"))
        if subject is not None:
            pairs = load_pairs("demo")
            gates += check_model(subject, pairs.select(chosen(len(pairs), "30")), progress.callback(subject.name))
    passed = all(gate.passed for gate in gates)
    if as_json:
        print_json({"passed": passed, "gates": [asdict(gate) for gate in gates]})
    else:
        print_gates(gates)
    if not passed:
        raise typer.Exit(1)
