"""Doors of files that the program makes itself: models' weights and configurations, training, the board, studies."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from doors import Door, door_of, read_tensors
from reshape import FIELDS, ROWS

from sets import write_set
from tellapart.annotate import study as files
from tellapart.annotate.findings import findings, human_scores
from tellapart.annotate.surveys import Study, deal, find_survey
from tellapart.board.records import read_settings
from tellapart.board.submissions.hidden import read_hidden
from tellapart.board.submissions.prepared import HiddenRows, hide, measure_sent, read_truth
from tellapart.board.submissions.worker import read_published, read_sent
from tellapart.data.folder import read_pair_set
from tellapart.data.pairset import PairSet
from tellapart.data.scores import Scores
from tellapart.data.task_records import Record, StatementSet
from tellapart.models.find import find_model
from tellapart.models.memory.external import write_scores
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import import_torch
from tellapart.tasks.pairs import PAIRS
from tellapart.tasks.registry import TASKS
from tellapart.training.config import read_config
from tellapart.training.encoders import write_new_model
from tellapart.training.record import log_charts
from tellapart.training.run_files import RunFiles, TrainingState, read_checkpoint, write_checkpoint


def open_made_doors(folder: Path) -> Iterator[Door]:
    """Write a valid file of each format below a folder, and yield its door."""
    write_set(folder / "few", n=3)
    yield from (*_sets(folder), *_weights(folder), *_training(folder), *_board(folder), *_studies(folder))


def _sets(folder: Path) -> Iterator[Door]:
    few = folder / "few"

    def read_all(_path: Path) -> Any:
        pairs = read_pair_set(few)
        return pairs.items, sorted(pairs.card.items()), [pairs.pixels(name).tolist() for name in pairs.items[0].images]

    yield door_of(few / "pairs.jsonl", read_all, whole=False)
    yield door_of(few / "card.json", read_all, whole=False)
    yield door_of(few / "images" / "0_0.png", read_all, name="picture.png", whole=False)


def _weights(folder: Path) -> Iterator[Door]:
    torch = import_torch()
    path, model = folder / "weights.pt", folder / "open_clip"
    torch.save({"epoch": 1, "state_dict": {"w": torch.arange(6.0).reshape(2, 3), "b": torch.zeros(4)}}, path)
    write_new_model(folder / "arch", model, seed=0)

    def encode(_path: Path) -> Any:
        encoder: Any = find_model(f"local-dir:{model}", ModelOptions(device="cpu"))
        encoder = encoder.load() if hasattr(encoder, "load") else encoder
        return encoder.fingerprint, encoder.encode_texts(["a cat"]).tolist()

    # A member with another content and its right checksum is another file of weights.
    yield door_of(path, read_tensors, whole=False)
    yield door_of(model / "open_clip_config.json", encode, whole=False, slow=True)
    yield door_of(next(model.glob("*.safetensors")), encode, name="open_clip weights", slow=True)


def _training(folder: Path) -> Iterator[Door]:
    torch, run = import_torch(), RunFiles(folder / "run-of-training")
    torch.manual_seed(0)
    checkpoint, module = run.checkpoints / "step-00000002", torch.nn.Linear(2, 2)
    optimiser = torch.optim.AdamW(module.parameters())
    module(torch.ones(1, 2)).sum().backward()
    optimiser.step()
    write_checkpoint(run.checkpoints, module, optimiser, TrainingState(2, 0.5, 2, [(2, 0.5)]), keep=1)

    def read_settings_of(path: Path) -> Any:
        config = read_config(path)
        return config.model_dump(mode="json"), config.loss_terms()

    def resume(_path: Path) -> Any:
        module = torch.nn.Linear(2, 2)
        optimiser = torch.optim.AdamW(module.parameters())
        state = read_checkpoint(checkpoint, module, optimiser)
        return asdict(state), str(module.state_dict()), str(optimiser.state_dict()["state"])

    for name in ("train", "updates"):
        free = ("groups", "dropout")
        yield door_of(folder / f"{name}.toml", read_settings_of, whole=False, knows=FIELDS, free=free)
    yield door_of(run.folder / "run.json", lambda _: run.claim("f", resume=True))
    yield door_of(run.log_path, log_charts, whole=False)
    yield door_of(checkpoint / "state.json", resume, knows=FIELDS | {"key dropped"})
    yield door_of(checkpoint / "weights.safetensors", resume, name="checkpoint weights")
    yield door_of(checkpoint / "optimiser.safetensors", resume, name="checkpoint moments")


def _board(folder: Path) -> Iterator[Door]:
    state = folder / "hidden"
    pairs: Any = hide(PAIRS, read_pair_set(folder / "few"), b"k" * 32, 0.5)

    def undo(path: Path) -> Any:
        hidden: Any = read_truth(path)
        ids, values = tuple(item.id for item in hidden.records), np.zeros((len(hidden.records), *hidden.shape))
        return hidden.bare(), hidden.restore(Scores(ids, values, "similarity")).values.tolist(), hidden.public

    def read_board(path: Path) -> Any:
        return read_settings(path), read_hidden(path)

    about = {"knows": FIELDS | {"key dropped"}, "free": ("tags", "sources", "pixels")}
    published = json.dumps(pairs.bare_to_json())
    yield from _submissions(state, pairs)
    yield door_of(folder / "board.toml", read_board, whole=False, knows=FIELDS)
    yield door_of(state / "truth.json", undo, json.dumps(pairs.to_json()), **about)
    yield door_of(state / "published.json", lambda path: read_published(path, "pairs").items, published, whole=False)


def _submissions(state: Path, pairs: HiddenRows) -> Iterator[Door]:
    """Yield the doors of files that are sent to a board: of scores, and of labels."""
    state.mkdir(exist_ok=True)
    ids, shown = [item.id for item in pairs.records], PairSet("hidden", pairs.bare(), Path())
    scores = Scores(tuple(ids), np.arange(12).reshape(3, 2, 2) * 5 % 12 / 8, "similarity")
    stated = tuple(Record(str(k), ("a.png", "b.png"), (f"Both show a dog {k}.",), k < 2) for k in range(4))
    labels = hide(TASKS["nlvr2"], StatementSet("nlvr2", stated), b"k" * 32, 0.5, ".png")
    metrics = ("text_score", "image_score", "group_score")

    def measure_pairs(path: Path) -> Any:
        return measure_sent(read_sent(path, shown, "pairs"), pairs, metrics, 0.01)

    def measure_labels(path: Path) -> Any:
        return measure_sent(read_sent(path, labels.bare(), "nlvr2"), labels, ("accuracy",), 0.01)

    for suffix in ("npz", "csv", "jsonl"):
        path, knows = state / f"sent.{suffix}", FIELDS | ROWS if suffix != "npz" else frozenset()
        write_scores(scores, path)
        yield door_of(path, measure_pairs, name=f"sent scores.{suffix}", knows=knows)
    rows = [{"id": row.id, "prediction": k % 3 == 0} for k, row in enumerate(labels.records.rows)]
    content = "".join(json.dumps(row) + "\n" for row in rows)
    yield door_of(state / "labels.jsonl", measure_labels, content, name="sent labels.jsonl", knows=FIELDS | ROWS)


#: Survey -> what each annotator says of the first unit, the second, and so on, in turn.
_SAID: dict[str, list[dict[str, Any]]] = json.loads(Path(__file__).with_name("studies.json").read_text("utf-8"))

#: The surveys that people can agree on.
_CHOICES = ("i2t", "coco-cf", "match")


def _studies(folder: Path) -> Iterator[Door]:
    """Yield the doors of human studies: keys, answers as they are imported, what people agree on."""
    for survey in _SAID:
        yield from _open_survey(folder / "studies" / survey, survey, folder / "few")
    for kind in ("json", "txt"):
        yield door_of(folder / f"allowed.{kind}", lambda path: sorted(files.read_allowed(path)), whole=False)


def _open_survey(home: Path, name: str, few: Path) -> Iterator[Door]:
    survey, pairs = find_survey(name), read_pair_set(few)
    study = deal(survey, pairs, ("ann", "bob"))
    files.write_study(home, survey, study, pairs)
    said = dict(zip((task.id for task in study.tasks), cycle(_SAID[name]), strict=False))
    sheet = home / "sheets" / "all.csv"

    def imported(path: Path) -> Any:
        replies = files.decode_replies(survey, study, files.read_replies(path, survey, study))
        return [answer.model_dump(mode="json") for answer in replies]

    def recorded(_path: Path) -> Any:
        answers = files.read_answers(home, files.read_study(home))
        rows = survey.records(files.read_study(home), answers) if survey.records else []
        files.write_rows(home / "records.jsonl", rows)
        return [answer.model_dump(mode="json") for answer in answers], rows

    def agreed(_path: Path) -> Any:
        answered = [(earlier.study, earlier.answers) for earlier in [files.read_earlier(home)]]
        scores = human_scores(answered).values.tolist() if name == "match" else []
        return findings(answered).model_dump(mode="json"), scores

    knows = FIELDS | ROWS
    if not all(ask.required for ask in survey.asks):  # what was left empty is no answer
        knows -= {"null", "key dropped", "row dropped"}
    cells = knows - ({"type"} if any(ask.control == "text" for ask in survey.asks) else set())
    door_of_answers = partial(door_of, read=imported, knows=knows, rows=("ann-0", "bob-0"))
    filled = _fill_sheet(home, files.field_names(survey, study), said)
    yield door_of_answers(sheet, content=filled, name=f"{name} sheet", knows=cells, free=_SHOWN)
    if name in ("i2t", "box"):
        exported = json.dumps(_export(study, said))
        yield door_of_answers(home / "export.json", content=exported, name=f"{name} Label Studio")
    if name == "i2t":
        minimal = [{"study": study.token, "task": task, "annotation_id": 1, **values} for task, values in said.items()]
        yield door_of_answers(home / "plain.json", content=json.dumps(minimal), name="i2t Label Studio's minimal")
    sheet.write_text(filled, "utf-8", newline="")
    files.write_answers(home, files.decode_replies(survey, study, files.read_replies(sheet, survey, study)))
    judged = agreed if name in _CHOICES else recorded
    about = {"whole": False, "knows": FIELDS | {"row repeated"}, "free": ("tags", "earlier")}
    yield door_of(home / "answers.jsonl", judged, name=f"{name} answers", **about)
    yield door_of(home / "study.json", judged, name=f"{name} key", **about)


#: Columns of a sheet that are there to be seen, and not read back.
_SHOWN = tuple(f"{kind}_{mark}" for kind in ("image", "text", "option") for mark in "012abc")


def _fill_sheet(home: Path, fields: tuple[str, ...], said: dict[str, dict[str, Any]]) -> str:
    """Return the sheets of all annotators in one, filled in."""
    sheets = [path.read_text("utf-8") for path in sorted((home / "sheets").glob("*.csv"))]
    rows = [row for sheet in sheets for row in csv.DictReader(io.StringIO(sheet))]
    stream = io.StringIO()
    table = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    table.writeheader()
    for row in rows:
        cells = {field: said[row["task"]][field] for field in fields}
        table.writerow(row | {field: v if isinstance(v, str) else json.dumps(v) for field, v in cells.items()})
    return stream.getvalue()


def _export(study: Study, said: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return Label Studio's export of the same answers."""
    rows = []
    for number, (task, values) in enumerate(said.items()):
        size = {"original_width": 8, "original_height": 8}
        result = [{"from_name": name, "value": _control(name, value), **size} for name, value in values.items()]
        data = {"study": study.token, "task": task}
        rows.append({"id": number, "data": data, "annotations": [{"id": number, "result": result}]})
    return rows


def _control(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"text" if name == "object" else "choices": [value]}
    x, y, width, height = (100 * side / 8 for side in value)
    return {"rectanglelabels": ["box"], "x": x, "y": y, "width": width, "height": height, "rotation": 0}
