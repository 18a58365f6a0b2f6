"""False answers of models and people, and false settings and checkpoints: rows of the table of `false_inputs.py`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

from attacks import Attack, write_file

import tellapart as ta
from tellapart.data.prediction_field import watch_field
from tellapart.data.task_records import ClassificationSet, ClassifiedImage, Statement, StatementSet
from tellapart.errors import require
from tellapart.evaluation.distributed import Rank
from tellapart.tasks.registry import TASKS
from tellapart.training.config import read_config
from tellapart.training.run_files import TrainingState, read_checkpoint, write_checkpoint

_STATED = StatementSet("asked", tuple(Statement(str(k), f"A dog {k}.", "a.png", "b.png", k == 0) for k in range(2)))

#: Two classes that differ in nothing but their case.
_LETTERS = ClassificationSet(
    "letters", ("A", "a"), ("the letter {}",), tuple(ClassifiedImage(str(k), f"{k}.png", k) for k in range(2))
)


def _predict(rows: list[dict[str, Any]], *facts: str) -> Attack:
    """A file of labels that is scored."""

    def read(folder: Path) -> object:
        path = write_file(folder / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        with watch_field():
            return TASKS["nlvr2"].read(path, _STATED)

    return Attack(read, ("a.jsonl", *facts))


def _name_letters(folder: Path) -> None:
    path = write_file(folder / "a.csv", "id,prediction\n0,A\n1,a\n")
    if (named := TASKS["classification"].read(path, _LETTERS).placed.first.tolist()) != [0, 1]:
        raise AssertionError(f"the classes that are named are read as {named}")


def _list_captions(folder: Path) -> object:
    path = write_file(folder / "a.csv", "image,caption,foil\na.png,\"['a cat', 'one cat']\",a dog\n")
    return ta.load_pairs(f"table:{path}").items


def _study(file: str, change: Callable[[str], str], *facts: str) -> Attack:
    """A study whose people all answered, of which a file was changed."""

    def read(folder: Path) -> object:
        study = ta.annotate_export("i2t", "demo", folder / "study", annotators="ann", sample=2).to
        sheet = study / "sheets" / "ann.csv"
        sheet.write_text(sheet.read_text("utf-8").replace(",,\n", ",a,\n"), "utf-8")
        ta.annotate_import(study, sheet)
        path = study / file
        path.write_text(change(path.read_text("utf-8")), "utf-8")
        return ta.annotate_agree(study)

    return Attack(read, (file, *facts))


def _repeat_first(text: str) -> str:
    return text.splitlines(keepends=True)[0] + text


_TRAINING = """name = "few"
model = "new:arch"
[data]
train = ["folder:few"]
[loss]
name = "eqsim"
[optimiser]
learning_rate = 1e-3
steps = 4
[batch]
size = 8
"""


def _train(old: str, new: str, *facts: str) -> Attack:
    def read(folder: Path) -> object:
        return read_config(write_file(folder / "train.toml", _TRAINING.replace(old, new)))

    return Attack(read, ("train.toml", *facts))


#: What torchrun tells each process.
_TORCHRUN = {
    **{"LOCAL_RANK": "0", "GROUP_RANK": "0", "LOCAL_WORLD_SIZE": "1"},
    **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"},
}


def _rank(environment: Mapping[str, str], *facts: str) -> Attack:
    def read(_folder: Path) -> object:
        with patch.dict("os.environ", environment):
            return Rank.here()

    return Attack(read, facts)


def _checkpoint(spoil: Callable[[Path], object], *facts: str) -> Attack:
    """A checkpoint to go on from, of which something is missing or changed."""

    def read(folder: Path) -> object:
        torch = require("torch", extra="train")
        module = torch.nn.Linear(2, 2)
        optimiser = torch.optim.AdamW(module.parameters())
        module(torch.ones(1, 2)).sum().backward()
        optimiser.step()
        write_checkpoint(folder, module, optimiser, TrainingState(2, 0.5, 2, [(2, 0.5)]), keep=1)
        checkpoint = folder / "step-00000002"
        spoil(checkpoint)
        return read_checkpoint(checkpoint, module, optimiser)

    return Attack(read, ("step-00000002", *facts))


def _swap_step(checkpoint: Path) -> None:
    path = checkpoint / "state.json"
    path.write_text(path.read_text().replace('"step": 2', '"step": 1'))


#: What, and at which door -> the attack.
FALSE_ANSWERS: dict[str, Attack] = {
    "predictions beside the gold labels: score": _predict(
        [{"id": str(k), "answer": False, "label": k == 0} for k in range(2)], "'answer'", "'label'"
    ),
    "gold labels alone: score": _predict([{"id": str(k), "label": k == 0} for k in range(2)], "'label'", "gold"),
    "predictions of which one is null: score": _predict(
        [{"id": "0", "prediction": True}, {"id": "1", "prediction": None}], "'prediction'", "null"
    ),
    "predictions of which one is given twice: score": _predict(
        [{"id": id_, "prediction": True} for id_ in ("0", "1", "1")], "a.jsonl:3", "1"
    ),
    "classes A and a: score": Attack(_name_letters),
    "list of captions saved as one text: pairs": Attack(_list_captions, ("a.csv", "'caption'", "list")),
    "answers with a row twice: annotate": _study("answers.jsonl", _repeat_first, "second"),
    "answers with a value that is no option: annotate": _study(
        "answers.jsonl", lambda text: text.replace('"caption": "0"', '"caption": "7"'), "'caption'", "7"
    ),
    "answers with another person's name: annotate": _study(
        "answers.jsonl", lambda text: text.replace('"annotator": "ann"', '"annotator": "bob"'), "bob"
    ),
    'key with the truth "-1": annotate': _study(
        "study.json", lambda text: text.replace('"truth": "0"', '"truth": "-1"'), "'truth'", "-1"
    ),
    "learning rate that is infinite: training": _train("1e-3", "inf", "learning_rate", "inf"),
    "weight of a loss that is no number: training": _train('"eqsim"', '"eqsim"\nweight = nan', "loss", "nan"),
    "negative weight decay: training": _train("steps = 4", "steps = 4\nweight_decay = -0.1", "weight_decay", "-0.1"),
    "rank without the number of ranks: run": _rank({"RANK": "1", "WORLD_SIZE": ""}, "RANK", "WORLD_SIZE", "torchrun"),
    "rank above the number of ranks: run": _rank({**_TORCHRUN, "RANK": "2", "WORLD_SIZE": "2"}, "RANK", "torchrun"),
    "checkpoint without the moments: training": _checkpoint(
        lambda checkpoint: (checkpoint / "optimiser.safetensors").unlink(), "optimiser.safetensors"
    ),
    "checkpoint of another step: training": _checkpoint(_swap_step, "state.json"),
}
