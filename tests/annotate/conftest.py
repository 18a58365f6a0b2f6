"""People who answer a study: they look at what they are shown, and know nothing of the key."""

import csv
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from sets import write_file
from tellapart import PairSet, read_pair_set
from tellapart.annotate.study import decode_replies, read_replies, write_study
from tellapart.annotate.surveys import Earlier, Study, SurveyAnswer, deal, find_survey

#: Takes the annotator's name and what is shown (field -> text, or hash of the image's file) to what they put down.
Person = Callable[[str, Mapping[str, str]], dict[str, Any] | None]


@dataclass(frozen=True)
class Desk:
    """A study on disk, before the people who answer it."""

    folder: Path
    study: Study
    pairs: PairSet

    def content(self, reference: str) -> str:
        """What an image of the pair set looks like."""
        return hashlib.sha256(self.pairs.read_bytes(reference)).hexdigest()

    def seen(self, annotator: str) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
        """Each task's data, and the same as it is seen: images by their content."""
        for task in json.loads((self.folder / "label_studio" / f"tasks_{annotator}.json").read_text()):
            view = dict(task["data"])
            for name, value in view.items():
                if str(value).startswith("/data/local-files/?d="):
                    file = self.folder.parent / unquote(value.partition("?d=")[2])
                    view[name] = hashlib.sha256(file.read_bytes()).hexdigest()
            yield task["data"], view

    def export(self, person: Person) -> Path:
        """Label Studio's JSON export of all projects together."""
        rows = []
        for user, annotator in enumerate(self.study.annotators, start=1):
            for data, view in self.seen(annotator):
                reply = person(annotator, view)
                annotation = {"id": len(rows) + 100, "completed_by": user, "was_cancelled": reply is None}
                annotation |= {"result": [self._result(field, value) for field, value in (reply or {}).items()]}
                rows.append({"id": len(rows) + 1, "data": data, "annotations": [annotation], "predictions": []})
        return write_file(self.folder.parent / "export.json", rows)

    def export_minimal(self, person: Person) -> Path:
        """Its JSON_MIN export, as Label Studio's converter makes it of the JSON one: skipped tasks are left out."""
        rows = []
        for task in json.loads(self.export(person).read_text()):
            (annotation,) = task["annotations"]
            if annotation["was_cancelled"]:
                continue
            row = {**task["data"], "id": task["id"]}
            for part in annotation["result"]:
                value = part["value"]
                if part["type"] == "rectanglelabels":
                    sizes = {key: part[key] for key in ("original_width", "original_height")}
                    row.setdefault(part["from_name"], []).append({**value, **sizes})
                else:
                    (row[part["from_name"]],) = value["choices" if part["type"] == "choices" else "text"]
            row |= {"annotator": annotation["completed_by"], "annotation_id": annotation["id"], "lead_time": 1.5}
            rows.append(row)
        return write_file(self.folder.parent / "minimal.json", rows)

    def sheets(self, person: Person) -> list[Path]:
        """The sheets, filled in."""
        paths = []
        for annotator in self.study.annotators:
            with (self.folder / "sheets" / f"{annotator}.csv").open(newline="") as stream:
                rows = list(csv.DictReader(stream))
            for row, (_, view) in zip(rows, self.seen(annotator), strict=True):
                reply = person(annotator, view)
                cells = {key: json.dumps(of) if isinstance(of, list) else of for key, of in (reply or {}).items()}
                row.update({"skip": "x"} if reply is None else cells)
            paths.append(write_file(self.folder.parent / f"filled_{annotator}.csv", rows))
        return paths

    def imported(self, *paths: Path, columns: Mapping[str, str] | None = None, **how) -> list[SurveyAnswer]:
        """Read answers as `annotate import` does."""
        survey = find_survey(self.study.survey)
        replies = [reply for path in paths for reply in read_replies(path, survey, self.study, columns)]
        return decode_replies(survey, self.study, replies, **how)

    def _result(self, field: str, value) -> dict[str, Any]:
        if isinstance(value, list):  # a box in pixels, of an image of 8 x 8
            sides = {side: 100 * pixels / 8 for side, pixels in zip(("x", "y", "width", "height"), value, strict=True)}
            box = {**sides, "rotation": 0, "rectanglelabels": ["one of them"]}
            part: dict[str, Any] = {"type": "rectanglelabels", "value": box, "original_width": 8, "original_height": 8}
        elif any(ask.name == field and ask.control == "choice" for ask in find_survey(self.study.survey).asks):
            part = {"type": "choices", "value": {"choices": [value]}}
        else:
            part = {"type": "textarea", "value": {"text": [value]}}
        config = (self.folder / "label_studio" / "config.xml").read_text()
        control = re.search(f'name="{field}" toName="([a-z_0-9]+)"', config)
        to_name = control[1] if control else "image_0"
        return {"id": "Dx_aB91ISN", "from_name": field, "to_name": to_name, **part}


@pytest.fixture
def desk(made_set, tmp_path) -> Callable[..., Desk]:
    """Write a study of a made set to disk."""

    def make(survey: str, *, shape=(2, 2), n=6, annotators=("ann", "bob"), earlier: Earlier | None = None) -> Desk:
        source = tmp_path / f"{shape[0]}x{shape[1]}-{n}"
        pairs = read_pair_set(source if source.exists() else made_set(source.name, n=n, shape=shape), "made")
        study = deal(find_survey(survey), pairs, annotators, earlier=earlier)
        folder = tmp_path / f"study {survey} & co"
        write_study(folder, find_survey(survey), study, pairs)
        return Desk(folder, study, pairs)

    return make


@pytest.fixture
def knows(desk) -> Callable[[Desk], Person]:
    """A person who is always right: finds the unit by what is shown, and the option by what it looks like."""

    def make(at: Desk) -> Person:
        # The images and texts of an item belong together in their order; of a single one, the first does.
        both = ((item, slice(None) if 1 not in at.pairs.shape else slice(1)) for item in at.pairs.items)
        captions = {(at.content(i), t) for of, k in both for i, t in zip(of.images[k], of.texts[k], strict=True)}

        def say(_annotator: str, view: Mapping[str, str]) -> dict[str, Any]:
            options = {name[-1].upper(): value for name, value in view.items() if name.startswith("option_")}
            if "text_0" in view and not options:
                return {"match": "Yes" if (view["image_0"], view["text_0"]) in captions else "No"}
            if "text_0" in view:
                (letter,) = (letter for letter, image in options.items() if (image, view["text_0"]) in captions)
                return {"image": letter}
            (letter,) = (letter for letter, text in options.items() if (view["image_0"], text) in captions)
            return {"caption": letter}

        return say

    return make
