"""The model card of a trained model, `model/README.md`, whose every sentence comes from the run's record."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from tellapart.errors import plain
from tellapart.report.numbers import percent, points, thousands
from tellapart.report.templates import make_environment
from tellapart.report.why import reason_rows
from tellapart.training.losses.loss import FusionLoss, find_loss
from tellapart.training.record import TrainRecord


def model_card(record: TrainRecord) -> str:
    """Return a card in Markdown, with the hub's front matter.

    The licence is `unknown` unless `report.licence` names one: it is not the start's alone to give.

    Source: Mitchell et al. (2019), Model cards for model reporting; the sections that a record can fill.
    """
    config: dict[str, Any] = record.config
    environment = make_environment().overlay(autoescape=False)  # Markdown: names go through `cell` and `code`
    environment.filters |= {"cell": _escape_cell, "code": _escape_code, "percent": percent}
    rows = record.why.rows if record.why else ()
    text = files("tellapart.training.report").joinpath("model_card.md.j2").read_text(encoding="utf-8")
    card = environment.from_string(text).render(
        record=record,
        config=config,
        data=config["data"],
        report=config["report"],
        hub=config["model"].removeprefix("hf-hub:") if _on_the_hub(config["model"]) else "",
        # The hub has no name for the task of a matching head.
        contrastive=not isinstance(find_loss(config["loss"]["name"]), FusionLoss),
        smoke=f" It is a smoke run, stopped by `--limit {record.limit}`." if record.limit else "",
        settings=list(settings_of(record)),
        reasons={row.benchmark: [other for other in rows if other.benchmark == row.benchmark] for row in rows},
        leaks=[leak for leak in record.leaks if leak.same or leak.alike],
        percent=percent,
        points=points,
        reason_rows=reason_rows,
        thousands=thousands,
    )
    return f"{card}\n"


def settings_of(record: TrainRecord) -> Iterator[tuple[str, Any]]:
    """Yield the settings that decide the weights, in the configuration's keys; empty values are left out."""
    for key, value in record.config.items():
        if key in {"loss", "matching", "optimiser", "batch", "lora", "data"} and isinstance(value, dict):
            for name, entry in value.items():
                if name not in {"train", "images"} and entry not in (None, [], False):
                    yield f"{key}.{name}", entry
            if key == "lora":
                yield "lora: updated", record.updated
        elif key in {"seed", "precision", "device", "reading"} and value is not None:
            yield key, value


def _on_the_hub(name: str) -> bool:
    """Whether a start's name is a repository's: `openai/clip-vit-base-patch32` or `hf-hub:org/repo`."""
    owner, slash, repository = name.removeprefix("hf-hub:").partition("/")
    return bool(owner and slash and repository) and not set(":/") & set(owner + repository)


def _escape_cell(text: str) -> str:
    """Keep a name from ending its cell or its line, and from being read as markup."""
    return "".join(f"\\{letter}" if letter in "\\|`*_[]<>" else letter for letter in plain(" ".join(text.split())))


def _escape_code(value: object) -> str:
    """Do the same inside backticks: there only these two and a line's end do harm."""
    return plain(" ".join(str(value).split())).replace("`", "'").replace("|", "\\|")
