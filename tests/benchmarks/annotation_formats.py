"""A small file of each annotation format, made by hand in the form of the real one, and how its benchmark loads it."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from film_annotations import boundary
from sets import write_file
from tellapart.benchmarks import minimal_pairs, published_tasks
from tellapart.benchmarks.find import find_benchmark, load_pairs
from tellapart.benchmarks.locations import Locations
from tellapart.benchmarks.published_tasks import read_moments
from tellapart.data.task_records import RetrievalSet
from tellapart.tasks.choice import read_given_choices

Content = Counter[Any]
Load = Callable[[Path], Content]


@dataclass(frozen=True, repr=False, eq=False)
class Format:
    """A kind of annotation file.

    `load` reads the file with what lies beside it, and counts its items: without ids where a row's number is its id.
    `rows` says where rows lie: how many keys and indexes lead to one. `counted`: the published number of rows is known,
    so that a row which is left out shows. `optional` fields may be empty, which is another item and no mistake.
    """

    file: str
    content: Any
    load: Load
    rows: int = 1
    counted: bool = True
    optional: tuple[str, ...] = ()
    beside: Mapping[str, Any] | None = None

    @property
    def is_table(self) -> bool:
        return self.file.endswith(".csv")

    def may_differ(self, place: tuple[Any, ...]) -> bool:
        """Whether a value there that means nothing may make another item: every cell of a table is a text."""
        return self.is_table or place[-1] in self.optional

    def write(self, folder: Path) -> Path:
        for name, content in (self.beside or {}).items():
            write_file(folder / name, content)
        return write_file(folder / self.file, self.content)


def pairs(name: str, *, ids: bool) -> Load:
    def load(path: Path) -> Content:
        items = load_pairs(name, Locations(path.parent)).items
        named = ((item.id, item.cluster) if ids else () for item in items)
        return Counter(
            (*own, item.images, item.texts, *sorted(item.tags.items())) for own, item in zip(named, items, strict=True)
        )

    return load


#: Sets as a TOML file declares them; `items` says how many there are.
HEAD = """name = "o"
title = "o"
source = "o"
files = ["rows.json"]
items = 3
"""
ITEM = """[[item]]
id = "{id}"
images = "{image}"
"""
TEXTS = 'texts = ["{keys.0}", "{keys.1}", "{keys.2}"]\ntags = { kind = "{kind}" }\n'
ITEMS, TWO_TRUE = f'{HEAD}{ITEM}true = "{{label}}"\n{TEXTS}', f"{HEAD}{ITEM}true = [0, 2]\n{TEXTS}"
ASK = ITEM.replace("item", "question") + 'question = "{text}?"\nanswer = "{answer}"\n'
QUESTIONS = f'{HEAD}{ASK}group = "{{group}}"\n'
#: Of a table, whose lists are texts: the right one of two options; false texts; captions of an image.
OF_TABLE = HEAD.replace("rows.json", "rows.csv")
OPTIONS = f'{OF_TABLE}lists = ["both"]\n{ASK}options = "{{both}}"\n'
LISTED = f'{OF_TABLE}{ITEM}texts = ["{{text}}", "{{false|list}}"]\n'
GALLERY = OF_TABLE + '[gallery]\nimage = "{image}"\ncaptions = "{captions|list}"\n'


def declared(text: str) -> Load:
    def load(path: Path) -> Content:
        (path.parent / "own.toml").write_text(text)
        records = find_benchmark(str(path.parent / "own.toml")).records()
        if text is GALLERY:
            return _captioned(records)
        rows = records.rows if "[[question]]" in text else records.items
        return Counter(tuple(sorted((key, str(value)) for key, value in fields(one).items())) for one in rows)

    return load


def fields(one) -> dict[str, Any]:
    return one.model_dump() if hasattr(one, "model_dump") else asdict(one)


def retrieval(path: Path) -> Content:
    return _captioned(published_tasks.read_retrieval(path))


def _captioned(found: RetrievalSet) -> Content:
    captions: dict[int, list[str]] = {}
    for image, caption in found.pairs:
        captions.setdefault(image, []).append(found.captions[caption])
    return Counter((found.images[image], *own) for image, own in captions.items())


def captions(path: Path) -> Content:
    return Counter(published_tasks.read_captions(path).rows)


def vqa2(path: Path) -> Content:
    return Counter(published_tasks.read_vqa2(path.with_name("q.json"), path.with_name("a.json")).rows)


def answers(path: Path) -> Content:
    given = read_given_choices(path)
    return Counter((key, row.filename, row.caption, row.negative_caption, row.choice) for key, row in given.items())


def quadruple(dataset: str, k: int) -> dict[str, Any]:
    folder = f"{dataset}/video" if dataset in ("eqbenyoucook2", "eqbengebc", "eqbenag") else dataset
    images, captions = (
        {f"{what}{side}": text.format(side) for side in (0, 1)}
        for what, text in (("image", f"{folder}/{k}{{}}.png"), ("caption", f"{dataset} {k} {{}}"))
    )
    return images | captions


FLAT = [
    {
        "image": quadruple(dataset, 0)[f"image{name[3]}"],
        "caption": quadruple(dataset, 0)[f"caption{name[1]}"],
        "private_info": {"dataset": dataset, "name": name, "sample_cnt": count},
    }
    for count, dataset in enumerate(minimal_pairs.EQBEN)
    for name in ("c0i0", "c0i1", "c1i0", "c1i1")
]
NESTED = {"v0": {"person": [quadruple("eqbenag", 0)], "cup": [quadruple("eqbenag", 1)]}, "v1": {"cup": []}}
BOXED = [
    {"image_path": f"{k}.png", "true_caption": f"the cup {k} is on it", "false_caption": f"it is on the cup {k}"}
    | {"relation_name": "on", "attributes": ["red", "big"], "bbox_x": k, "bbox_y": 1, "bbox_w": 3, "bbox_h": 4}
    for k in range(3)
]
ORDERED = [{"image": f"{k}.jpg", "caption_options": [f"a cup {k} {n}" for n in range(5)]} for k in range(3)]
VALSE_ROWS = {
    f"row{k}": {
        "dataset": "coco",
        "image_file": f"{k}.jpg",
        "caption": f"a dog {k}",
        **({"foil": f"a cat {k}"} if k % 2 else {"foils": [f"a cat {k}", "a cow"]}),
        "linguistic_phenomena": "existence",
        "mturk": {"foil": 0, "caption": 3 if k else 1, "other": 0},
    }
    for k in range(3)
}
CREPE = {str(2 * k): {"filename": f"{k}.jpg", "caption": f"a {k} b", "negative_caption": f"b {k}"} for k in range(3)}
ANSWERED = {
    key: {**row, "correct": True, "answer": {"free_form_answer": "(1)", "multiple_choice_answer": row["caption"]}}
    for key, row in CREPE.items()
}
GROOVES = [
    {"id": k, **{f"image_{side}": f"ex_{k}_img_{side}" for side in (0, 1)}}
    | {"caption_0": f"dog {k} bites man", "caption_1": f"man bites dog {k}", "tag": "Noun"}
    | {"secondary_tag": "" if k else "Pragmatics", "num_main_preds": 1, "collapsed_tag": "Object"}
    for k in range(4)
]
COUNTERFACTUALS = [
    {
        "id": f"{k // 2}_{k % 2}",
        **{f"image_{side}": f"{k}_img_{side}" for side in (0, 1)},
        **{f"caption_{side}": f"a {side} {k}" for side in (0, 1)},
    }
    for k in range(4)
]
TABLE = [
    {"image": "<PIL>", "caption": f"one, {k}", "negative_caption": f'"two" {k}', "type": kind, "subtype": subtype}
    for k, (kind, subtype, _) in enumerate(minimal_pairs.BLOCKS)
]
ASKED = [{"question_id": k, "image_id": 40 + k, "question": f"How many {k}?"} for k in range(3)]
GIVEN = [{"question_id": k, "image_id": 40 + k, "answers": [{"answer": "yes", "answer_id": 1}] * 2} for k in range(3)]
MOMENTS = {video: [boundary(f"{video}_{k}A", k + 0.5) for k in range(2)] for video in ("Vt7W3DoohcA", "abcdefghijk")}
LOOKING = [{"ref_id": k, "text": f"man {k}", "image": "a.jpg", "bbox": [k, 2.5, 9, 8]} for k in range(3)]

FORMATS = {
    "declared, two true texts": Format(
        "rows.json",
        [{"id": f"i{k}", "image": f"{k}.png", "keys": [f"{n} {k}" for n in "abc"], "kind": "x"} for k in range(3)],
        declared(TWO_TRUE),
    ),
    "declared, options": Format(
        "rows.csv", [{"id": f"i{k}", "image": f"{k}.png", "text": f"Is it {k}", "both": f"['up {k}', 'down {k}']",
                      "answer": f"up {k}"} for k in range(3)],
        declared(OPTIONS),
    ),
    "declared, items": Format(
        "rows.json",
        [{"id": f"i{k}", "image": f"{k}.png", "keys": [f"{n} {k}" for n in "abc"], "label": k, "kind": "x"}
         for k in range(3)],
        declared(ITEMS),
    ),
    "declared, questions": Format(
        "rows.json",
        [{"id": f"i{k}", "image": f"{k}.png", "text": f"Is it {k}", "answer": "yes", "group": "g"} for k in range(3)],
        declared(QUESTIONS),
    ),
    "a declared set, false texts as a list": Format(
        "rows.csv", [{"id": f"i{k}", "image": f"{k}.png", "text": f"a {k}", "false": f"['b {k}', 'c {k}']"}
                     for k in range(3)],
        declared(LISTED),
    ),
    "a declared set, a gallery": Format(
        "rows.csv", [{"image": f"{k}.png", "captions": f"['a {k}', \"b's {k}\"]"} for k in range(3)], declared(GALLERY),
    ),
    "eqben, flat": Format("ann_json_finegrained_random.json", FLAT, pairs("eqben", ids=True)),
    "eqben, a subset's own": Format("eqbenag.json", NESTED, pairs("eqben", ids=False), rows=3),
    "eqben, one list": Format(
        "all_select.json",
        [quadruple(name, 0) for name in minimal_pairs.EQBEN],
        pairs("eqben", ids=False),
        counted=False,
    ),
    "winoground": Format(
        "examples.jsonl", GROOVES, pairs("winoground", ids=True),
        optional=("tag", "secondary_tag", "num_main_preds", "collapsed_tag"),
    ),
    "valse": Format(
        "existence.json", VALSE_ROWS, pairs("valse", ids=True),
        beside={f"{name}.json": VALSE_ROWS for name in minimal_pairs.INSTRUMENTS},
    ),
    "sugarcrepe": Format(
        "swap_obj.json", {**CREPE, "accuracy": 0.5}, pairs("sugarcrepe", ids=True),
        beside={f"{name}.json": CREPE for name in minimal_pairs.SUBSETS},
    ),
    "bivlc": Format("BiVLC_x.csv", TABLE, pairs("bivlc", ids=False)),
    "coco-counterfactuals": Format("metadata.jsonl", COUNTERFACTUALS, pairs("coco-counterfactuals", ids=True)),
    "aro-relation": Format("visual_genome_relation.json", BOXED, pairs("aro-relation", ids=False)),
    "aro-attribution": Format("visual_genome_attribution.json", BOXED, pairs("aro-attribution", ids=False)),
    "aro-coco-order": Format("coco_order.json", ORDERED, pairs("aro-coco-order", ids=False)),
    "aro-flickr-order": Format("flickr30k_order.json", ORDERED, pairs("aro-flickr-order", ids=False)),
    "gpt-4v": Format("gpt4v-add_att.json", {**ANSWERED, "accuracy": 1.0}, answers, counted=False,
                     optional=("accuracy",)),
    "gebplus": Format("val.json", MOMENTS, lambda path: Counter(read_moments(path).rows), rows=2, counted=False),
    "vlue, retrieval": Format(
        "itr.json", [{"image": f"{k}.jpg", "caption": [f"a {k}", f"b {k}"]} for k in range(3)], retrieval, counted=False
    ),
    "vlue, captions": Format(
        "caption.json", [{"image": f"{k}.jpg", "caption": [f"a {k}"], "image_id": k + 7} for k in range(3)],
        captions, counted=False, optional=("image_id",),
    ),
    "vlue, statements": Format(
        "nlvr2.json", [{"sentence": f"It is {k}.", "images": [f"{k}a", f"{k}b"], "label": "False"} for k in range(3)],
        lambda path: Counter(replace(one, id="") for one in published_tasks.read_statements(path).rows),
        counted=False,
    ),
    "vlue, questions": Format(
        "vqa.json", [{"question_id": k, "question": "What?", "image": "a", "answer": "yes"} for k in range(3)],
        lambda path: Counter(published_tasks.read_questions(path).rows), counted=False,
    ),
    "vlue, boxes": Format(
        "boxes.json", [{**row, "height": 480, "width": 640, "dets": [[0, 0, 5, 5]]} for row in LOOKING],
        lambda path: Counter(replace(one, id="") for one in published_tasks.read_boxes(path).rows),
        counted=False, optional=("dets",),
    ),
    "vqa 2.0, questions": Format(
        "q.json", {"questions": ASKED, "license": {}}, vqa2, rows=2, beside={"a.json": {"annotations": GIVEN}}
    ),
    "vqa 2.0, answers": Format(
        "a.json", {"annotations": GIVEN, "info": None}, vqa2, rows=2, beside={"q.json": {"questions": ASKED}},
        optional=("answer",),
    ),
}  # fmt: skip
