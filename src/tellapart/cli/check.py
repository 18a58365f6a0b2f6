"""The command `tellapart check`: tests of reference models with known results, and of a model of the user."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from tellapart.cli.invocation import interruptible
from tellapart.cli.options import Device, Json, Quiet, Seed, print_json


def check_command(
    model: Annotated[str | None, typer.Argument(help="Also test a model of your own.")] = None,
    device: Device = "cpu",
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Check that the reference models get their known results on items of every shape, and test a model.

    Example: `tellapart check demo-encoder`
    """
    from tellapart.api.costs import check
    from tellapart.report.show import print_gates

    with interruptible(quiet=quiet) as progress:
        gates = check(model, device=device, seed=seed, progress=progress.callback)
    passed = all(gate.passed for gate in gates)
    if as_json:
        print_json({"passed": passed, "gates": [asdict(gate) for gate in gates]})
    else:
        print_gates(gates)
    if not passed:
        raise typer.Exit(1)
