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
        own = ((item.id, item.cluster) if ids else () for item in items)
        return Counter(
            (*of, one.images, one.texts, *sorted(one.tags.items())) for of, one in zip(own, items, strict=True)
        )

    return load


#: Sets as a TOML file declares them; `items` says how many there are.
#: Sets as a TOML file declares them; `items` says how many there are.
HEAD = 'name = "o"\ntitle = "o"\nsource = "o"\nfiles = ["rows.json"]\nitems = 3\n'
ITEM = '[[item]]\nid = "{id}"\nimages = "{image}"\n'
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
        records = find_benchmark(str(write_file(path.parent / "own.toml", text))).records()
        if text is GALLERY:
            return _captioned(records)
        found = [asdict(one) for one in records.rows] if "[[question]]" in text else [*map(dict, records.items)]
        return Counter(tuple(sorted((key, str(value)) for key, value in one.items())) for one in found)

    return load


def _captioned(found: RetrievalSet) -> Content:
    captions: dict[int, list[str]] = {}
    for image, caption in found.pairs:
        captions.setdefault(image, []).append(found.captions[caption])
    return Counter((found.images[image], *own) for image, own in captions.items())


def rows_of(read: Callable[[Path], Any], **changed: Any) -> Load:
    """Count the rows that a function reads, with these fields in place of theirs."""
    return lambda path: Counter(replace(one, **changed) for one in read(path).rows)


def vqa2(path: Path) -> Any:
    return published_tasks.read_vqa2(path.with_name("q.json"), path.with_name("a.json"))


def answers(path: Path) -> Content:
    given = read_given_choices(path)
    return Counter((key, row.filename, row.caption, row.negative_caption, row.choice) for key, row in given.items())


def quadruple(dataset: str, k: int) -> dict[str, str]:
    """Two pictures and captions of EqBen; the frames of one video are of two quadruples, and of YouCook2 arrays."""
    folder = f"{dataset}/video{k // 2}" if dataset in ("eqbenyoucook2", "eqbengebc", "eqbenag") else dataset
    suffix = ".npy" if dataset == "eqbenyoucook2" else ".png"
    images = {f"image{n}": f"{folder}/{k}{'ab'[n]}{suffix}" for n in (0, 1)}
    return images | {f"caption{n}": f"{dataset} {k} {('before', 'after')[n]}" for n in (0, 1)}


def flat(size: int) -> list[dict[str, Any]]:
    """Every text with every picture of so many quadruples of each dataset, a row each."""
    quadruples = [(dataset, quadruple(dataset, k)) for dataset in minimal_pairs.EQBEN for k in range(size)]
    return [
        {"image": quad[f"image{name[3]}"], "caption": quad[f"caption{name[1]}"]}
        | {"private_info": {"dataset": dataset, "name": name, "sample_cnt": count}}
        for count, (dataset, quad) in enumerate(quadruples)
        for name in ("c0i0", "c0i1", "c1i0", "c1i1")
    ]


NESTED = {"v0": {"person": [quadruple("eqbenag", 0)], "cup": [quadruple("eqbenag", 1)]}, "v1": {"cup": []}}


def boxed(k: int, **change: Any) -> dict[str, Any]:
    """A row of ARO: a box of a picture, and a relation or two attributes."""
    captions = {"true_caption": f"the cup {k} is on the table", "false_caption": f"the table is on the cup {k}"}
    tags = {"relation_name": ("on", "in")[k % 2], "attributes": ["red", "big"]}
    box = {"bbox_x": 2, "bbox_y": 1, "bbox_w": 3, "bbox_h": 4}
    return {"image_id": 5, "image_path": "5.png", **captions, **tags, **box, **change}


BOXED = [boxed(k) for k in range(3)]
ORDERED = [{"image": f"{k}.jpg", "caption_options": [f"a cup {k} {n}" for n in range(5)]} for k in range(3)]
VALSE_ROWS = {
    f"row{k}": {"dataset": "coco", "image_file": f"{k}.jpg", "caption": f"a dog {k}"}
    | ({"foil": f"a cat {k}"} if k % 2 else {"foils": [f"a cat {k}", "a cow"]})
    | {"linguistic_phenomena": "existence", "mturk": {"foil": 0, "caption": 3 if k else 1, "other": 0}}
    for k in range(3)
}
CREPE = {str(2 * k): {"filename": f"{k}.jpg", "caption": f"a {k} b", "negative_caption": f"b {k}"} for k in range(3)}
ANSWERED = {
    key: {**row, "correct": True, "answer": {"free_form_answer": "(1)", "multiple_choice_answer": row["caption"]}}
    for key, row in CREPE.items()
}


def groove(k: int) -> dict[str, Any]:
    """A row of Winoground as its older files have it."""
    images = {f"image_{side}": f"ex_{k}_img_{side}" for side in (0, 1)}
    tags = {"tag": "Noun", "secondary_tag": "" if k % 5 else "Pragmatics", "collapsed_tag": "Object"}
    captions = {"caption_0": f"dog {k} bites man", "caption_1": f"man bites dog {k}"}
    return {"id": k, **images, **captions, **tags, "num_main_preds": 1 + k % 2}


GROOVES = [groove(k) for k in range(4)]
COUNTERFACTUALS = [
    {"id": f"{k // 2}_{k % 2}", **{f"image_{side}": f"{k}_img_{side}" for side in (0, 1)}}
    | {f"caption_{side}": f"a {side} {k}" for side in (0, 1)}
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

MARKED = [{"id": f"i{k}", "image": f"{k}.png"} for k in range(3)]
KEYED = [row | {"keys": [f"{n} {k}" for n in "abc"], "kind": "x"} for k, row in enumerate(MARKED)]

FORMATS = {
    "declared, two true texts": Format("rows.json", KEYED, declared(TWO_TRUE)),
    "declared, options": Format(
        "rows.csv",
        [row | {"text": f"Is it {k}", "both": f"['up {k}', 'down {k}']", "answer": f"up {k}"}
         for k, row in enumerate(MARKED)],
        declared(OPTIONS),
    ),
    "declared, items": Format("rows.json", [row | {"label": k} for k, row in enumerate(KEYED)], declared(ITEMS)),
    "declared, questions": Format(
        "rows.json", [row | {"text": f"Is it {k}", "answer": "yes", "group": "g"} for k, row in enumerate(MARKED)],
        declared(QUESTIONS),
    ),
    "a declared set, false texts as a list": Format(
        "rows.csv", [row | {"text": f"a {k}", "false": f"['b {k}', 'c {k}']"} for k, row in enumerate(MARKED)],
        declared(LISTED),
    ),
    "a declared set, a gallery": Format(
        "rows.csv", [{"image": f"{k}.png", "captions": f"['a {k}', \"b's {k}\"]"} for k in range(3)], declared(GALLERY),
    ),
    "eqben, flat": Format("ann_json_finegrained_random.json", flat(1), pairs("eqben", ids=True)),
    "eqben, a subset's own": Format("eqbenag.json", NESTED, pairs("eqben", ids=False), rows=3),
    "eqben, one list": Format(
        "all_select.json", [quadruple(name, 0) for name in minimal_pairs.EQBEN], pairs("eqben", ids=False),
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
    "gebplus": Format("val.json", MOMENTS, rows_of(published_tasks.read_moments), rows=2, counted=False),
    "vlue, retrieval": Format(
        "itr.json", [{"image": f"{k}.jpg", "caption": [f"a {k}", f"b {k}"]} for k in range(3)],
        lambda path: _captioned(published_tasks.read_retrieval(path)), counted=False,
    ),
    "vlue, captions": Format(
        "caption.json", [{"image": f"{k}.jpg", "caption": [f"a {k}"], "image_id": k + 7} for k in range(3)],
        rows_of(published_tasks.read_captions), counted=False, optional=("image_id",),
    ),
    "vlue, statements": Format(
        "nlvr2.json", [{"sentence": f"It is {k}.", "images": [f"{k}a", f"{k}b"], "label": "False"} for k in range(3)],
        rows_of(published_tasks.read_statements, id=""), counted=False,
    ),
    "vlue, questions": Format(
        "vqa.json", [{"question_id": k, "question": "What?", "image": "a", "answer": "yes"} for k in range(3)],
        rows_of(published_tasks.read_questions), counted=False,
    ),
    "vlue, boxes": Format(
        "boxes.json", [{**row, "height": 480, "width": 640, "dets": [[0, 0, 5, 5]]} for row in LOOKING],
        rows_of(published_tasks.read_boxes, id=""), counted=False, optional=("dets",),
    ),
    "vqa 2.0, questions": Format(
        "q.json", {"questions": ASKED, "license": {}}, rows_of(vqa2), rows=2, beside={"a.json": {"annotations": GIVEN}}
    ),
    "vqa 2.0, answers": Format(
        "a.json", {"annotations": GIVEN, "info": None}, rows_of(vqa2), rows=2, beside={"q.json": {"questions": ASKED}},
        optional=("answer",),
    ),
}  # fmt: skip
