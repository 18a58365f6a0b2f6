"""A small file in the form of the real one, for each declared set whose annotations are not at hand."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pictures import plain
from sets import file_bytes, write_file


def picture(k: int) -> bytes:
    return plain(k % 256, (2, 2))


def image(k: int) -> dict[str, Any]:
    return {"bytes": picture(k), "path": f"{k}.png"}


LOCATED = {"coco-one": 2247, "coco-two": 440, "vg-one": 1160, "vg-two": 291}
SPEC = {
    "absolute-size": 3,
    "relative-size": 3,
    "absolute-spatial": 9,
    "relative-spatial": 4,
    "existence": 2,
    "count": 9,
}


def made(name: str, folder: Path) -> tuple[int, str]:
    """Write a benchmark's files as published, with made content; return how many records it has, and one's images."""
    if name.startswith("whatsup-"):
        n, file = LOCATED[name.removeprefix("whatsup-")], name.removeprefix("whatsup-").replace("-", "_qa_")
        rows: Any = [[k + 7, f"a cup {k} on the left", f"a cup {k} on the right"] for k in range(n)]
        write_file(folder / f"{file}_obj.json", rows)
        return n, "000000000007.jpg" if "coco" in name else "7.jpg"
    if name.startswith("spec-"):
        subset, _, way = name.removeprefix("spec-").rpartition("-")
        size, inside = SPEC[subset], folder / subset.replace("-", "_")
        texts = [[f"{n} of {k}" for n in range(size)] for k in range(500 * size)]
        images = [[f"o{k}/{n}.jpg" for n in range(size)] for k in range(500 * size)]
        if way == "t2i":
            rows = [{"query": f"a {k}", "keys": keys, "label": k % size} for k, keys in enumerate(images)]
        else:
            rows = [{"query": f"o{k}/{k}.jpg", "keys": keys, "label": k % size} for k, keys in enumerate(texts)]
        write_file(inside / ("text2image.json" if way == "t2i" else "image2text.json"), rows)
        return len(rows), f"{inside.name}/o0/0.jpg"
    return MADE[name](folder)


Row = Callable[[int], Any]
Made = Callable[[Path], tuple[int, str]]


def _rows(
    files: str | Sequence[str], row: Row, n: int, shown: str, first: int = 0, times: int = 1, form: str = ""
) -> Made:
    """Write the same rows into each file, as its name or the form ends; a row stands for so many records."""
    names = [files] if isinstance(files, str) else files

    def write(folder: Path) -> tuple[int, str]:
        for name in names:
            write_file(folder / name, file_bytes(form or name, [row(k) for k in range(first, n + first)]))
        return n * times * len(names), shown

    return write


def vismin_row(k: int) -> dict[str, Any]:
    names = ("object",) * 579 + ("attribute",) * 294 + ("counting",) * 589 + ("relation",) * 622
    images, texts = (
        {f"{what}_{n}": of(n) for n in (0, 1)} for what, of in (("image", image), ("text", f"text {{}} of {k}".format))
    )
    return {**images, **texts, "category": names[k]}


def naturalbench_row(k: int) -> dict[str, Any]:
    kind, yes, no = ("yes_no", "Yes", "No") if k % 2 else ("multiple_choice", "A", "B")
    answers = {f"Image_{i}_Question_{q}": yes if i == q else no for i in (0, 1) for q in (0, 1)}
    asked = {"Index": k, "Question_0": "q0?", "Question_1": "q1?", "Question_Type": kind}
    return asked | answers | {f"Image_{n}": image(n) for n in (0, 1)}


def negbench_row(k: int) -> dict[str, Any]:
    captions = {f"caption_{n}": f"caption {n} of {k}" for n in range(4)}
    answer = {"correct_answer": k % 4, "correct_answer_template": ("positive", "negative", "hybrid")[k % 3]}
    return {"image_path": f"data/{k}.jpg", **captions, **answer}


def retrieved(k: int) -> dict[str, Any]:
    images = {f"image_{n}": f"images/{k}_{n}.jpg" for n in (0, 1)}
    return {"index": k, **images, "caption_0": f"{k} 0", "caption_1": f"{k} 1"}


def probe(k: int) -> dict[str, Any]:
    wrong = {f"{part}_neg": str(part == "verb") for part in ("subj", "verb", "obj")}
    return {"sentence": f"A man sits {k}", "pos_image_id": k, "neg_image_id": k + 1} | wrong


def crop(k: int) -> dict[str, Any]:
    box = {"image_id": 7 + k % 3, "x": k, "y": 2, "width": 30, "height": 40}
    return {"": k, **box, "caption": f"a cup {k}", "hard_negs": [f"a cat's {n}" for n in range(5)]}


def half_truth(k: int) -> dict[str, Any]:
    captions = {"anchor": f"a cup {k}", "half_truth": f"a cup {k} and a cat", "full_truth": f"a cup {k} and a dish"}
    return {"id": f"h{k}", "image": image(k), **captions, "triplet_type": ("entity", "relation")[k % 2]}


def pictured(k: int) -> dict[str, Any]:
    return {"image_id": k, "filepath": f"data/coco/val2017/{k:012}.jpg", "captions": [f"a cup {k}", f"no 'cat' {k}"]}


def hallusion(k: int) -> dict[str, Any]:
    """Two figures a set with two questions each, the first set's also without a figure; the last figure has one."""
    figure = str(k // 2 % 3)
    named = {"category": "VS", "subcategory": "map", "set_id": str(k // 6), "figure_id": figure, "visual_input": figure}
    # No id of a question is an answer, so that neither can stand for the other.
    asked = {"question_id": str(2 + k % 2), "question": f"Is it {k % 2} in {figure}?"}
    file = f"./hallusion_bench/VS/map/{k // 6}_{figure}.png" if figure != "0" else None
    return {**named, **asked, "gt_answer": str((k + k // 2) % 2), "filename": file}


def asked_in_fours(k: int) -> list[str]:
    side, question = k % 2, k // 2 % 2
    return [f"Is {question} in {k // 4}?", f"{k // 4}_{side}.jpg", "Yes" if side == question else "No", f"kind {k}"]


def asked_of_films(k: int) -> dict[str, Any]:
    film = f"{k // 2}_{('pos', 'neg')[k % 2]}"
    words = f"Which caption best describes this video? A. {k // 2} before b B. b before {k // 2}"
    named = {"idx": film, "video_name": f"vinoground_videos/{film}.mp4"}
    return {**named, "question": words, "GT": "AB"[(k // 2 + k) % 2]}


def paired_film(k: int) -> dict[str, Any]:
    """Write the place of the answer into every second pair the other way round."""
    film = {"video_id": f"clip_{k // 2}_{k % 2}", "video_path": f"star/{k}.mp4", "source": "star"}
    asked = {"question": "Which way does it fall?", "answer": ("left", "right")[k % 2]}
    return film | asked | {"candidates": "['left', 'right']" if k % 4 < 2 else "['right', 'left']"}


def strictly(k: int) -> dict[str, Any]:
    named = {"video_id": f"v{k // 3}", "test_name": ("control", "chrono")[k % 2], "event": f"Ev{k % 5}"}
    return {**named, "pos": f"A man {k} opens a door", "neg": f"A man {k} closes a door", "in_subset": k % 2}


def in_time(k: int) -> dict[str, Any]:
    named = {"index": k, "video_path": f"videos/{k // 4}_{k % 2}.mp4", "type": f"kind {k // 4 % 3}"}
    return named | {"question": f"Does it fall {k // 2 % 2} in {k // 4}?", "answer": "never read"}


def matching(k: int) -> dict[str, str]:
    lines = [f"Option 1: It is: up {k}", f"Option 2: It is: down {k}"]
    return {"question": "\n".join(("Which fits better?", *lines)), "answer": lines[k % 2]}


MVP = ("human_object_interactions", "robot_object_interactions", "intuitive_physics", "temporal_reasoning")


def _mvp(split: str) -> Made:
    return _rows([f"{subset}/{split}-00000-of-00001.parquet" for subset in MVP], paired_film, 4, "star/0.mp4")


def _vinoground(*asked: str) -> Made:
    return _rows([f"vinoground_{kind}.json" for kind in asked], asked_of_films, 1000, "vinoground_videos/0_pos.mp4")


def _checklist(*files: str) -> Made:
    def checked(k: int) -> list[Any]:
        return [f"VG_100K/{k}.jpg", {"POS": [f"tall cup {k}"], "NEG": [f"short cup {k}"]}]

    return _rows([f"data/{file}" for file in files], checked, 3, "VG_100K/0.jpg")


def _crepe(kind: str, n: int) -> Made:
    def write(folder: Path) -> tuple[int, str]:
        for complexity, share in ((4, n - 9), (12, 9)):
            file = f"prod_hard_negatives/{kind}/prod_vg_hard_negs_{kind}_complexity_{complexity}.csv"
            write_file(folder / file, [crop(k) for k in range(share)])
        return n, "7.jpg#0,2,30,40"

    return write


def _generated(folder: Path) -> tuple[int, str]:
    names = ("DALLE_3", "SDXL_Turbo", "DeepFloyd_I_XL_v1", "Midjourney_6", "SDXL_2_1", "SDXL_Base")
    rated = [{name: [k % 5 + 1, 3, 4] for name in names} for k in range(1600)]
    rows = {f"{k:05}": {"id": f"{k:05}", "prompt": f"prompt {k}", "models": models} for k, models in enumerate(rated)}
    write_file(folder / "genai_image.json", rows)
    return 9600, "DALLE_3/00000.jpeg"


def _reworded(folder: Path) -> tuple[int, str]:
    for below, true in (("data", "a red cup"), ("swapped_data", "a cup that is red")):
        for file, n in (("vg_attribution", 10_575), ("vg_relation", 16_868)):
            captions = ({"true_caption": f"{true} {k}", "false_caption": f"a blue cup {k}"} for k in range(n))
            rows = [{"image_id": k, **both, "image_path": f"{k}.jpg"} for k, both in enumerate(captions)]
            write_file(folder / below / f"{file}.json", rows)
    return 27_443, "0.jpg"


def _in_films(file: str, row: Row, n: int) -> Made:
    """Films in twos, one in the other order, with an aspect of two rows and one of the others."""

    def write(folder: Path) -> tuple[int, str]:
        films: dict[str, dict[str, list[dict[str, str]]]] = {}
        for k in range(n):
            name = f"{k // 6}_reverse" if k % 6 > 2 else str(k // 6)
            films.setdefault(name, {}).setdefault("order" if k % 3 else "action", []).append(row(k))
        write_file(folder / "questions" / file, films)
        return n, "0.mp4"

    return write


PLUS = [f"{subset}.json" for subset in ("replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")]
NEGATED = "COCO_val_negated_retrieval_llama3.1_rephrased_affneg_true.csv"

MADE: dict[str, Made] = {
    "sugarcrepe-pp": _rows(
        PLUS,
        lambda k: {"id": k, "filename": f"{k // 2:012}.jpg", "caption": f"a cup {k}", "caption2": f"one cup {k}",
                   "negative_caption": f"a cat {k}"},
        2, "000000000000.jpg",
    ),
    "mmvp-vlm": _rows(
        "Questions.csv",
        lambda k: {"Question ID": k + 1, "Type": f"Pattern {k // 30}", "Statement": f"a cup {k}"},
        270, "Pattern 0/1.jpg",
    ),
    "cola": _rows(
        "COLA_multiobjects_matching_benchmark.json",
        lambda k: [word for n, size in enumerate(("tall", "short"))
                   for word in (f"https://host/vg_gqa_images/{k + n}.jpg", f"{size} cup {k}")],
        4, "0.jpg",
    ),
    "vsr-random": _rows(
        "random_test.jsonl",
        lambda k: {"image": f"{k}.jpg", "caption": f"The cup is left of {k}", "label": k % 2,
                   "relation": f"left of {k}"},
        14, "0.jpg",
    ),
    "naturalbench-test": _rows("test_set.json", asked_in_fours, 16, "0_0.jpg"),
    "colorswap": _rows(
        "test-0.parquet",
        lambda k: {"id": k, "image_1": image(1), "image_2": image(2), "caption_1": f"{k} 1", "caption_2": f"{k} 2"},
        300, "0/image_1",
    ),
    "vismin": _rows("test-0.parquet", vismin_row, 2084, "0/image_0"),
    "vismin-vqa": _rows("test-0.parquet", vismin_row, 2084, "0/image_0", times=4),
    "naturalbench": _rows("train-0.parquet", naturalbench_row, 1900, "0/Image_0", times=4),
    "naturalbench-retrieval": _rows("metadata.json", retrieved, 1227, "images/0_0.jpg"),
    **{
        f"negbench-{name}": _rows(f"{split}_mcq_llama3.1_rephrased.csv", negbench_row, n, "0.jpg")
        for name, split, n in (("coco", "COCO_val", 5914), ("voc", "VOC2007", 5031))
    },
    **{
        f"bla-{name}": _rows(
            f"{name.replace('-', '_')}_captions.json",
            lambda k: {"image_id": k, "caption_group": [
                {f"{truth}{n}": f"{truth} {n} of {k}" for truth in ("True", "False") for n in (1, 2)}] * 2},
            3, "0.jpg", times=4,
        )
        for name in ("active-passive", "coordination", "relative-clause")
    },
    **{
        f"pope-{name}": _rows(
            f"coco_pope_{name}.json",
            lambda k: {"question_id": k, "image": f"{k // 6}.jpg", "text": "Is there a cup?",
                       "label": "yes" if k % 2 else "no"},
            3000, "0.jpg", form=".jsonl",
        )
        for name in ("random", "popular", "adversarial")
    },
    **{
        f"half-truths-{order}{name}": _rows(f"{name.replace('-', '_')}.parquet", half_truth, n, "0/image")
        for order in ("", "order-")
        for name, n in (("coco-qwen", 509), ("coco-mistral", 454), ("cc3m-qwen", 474))
    },
    "mmvp": _rows(
        "Questions.csv",
        lambda k: {"Index": k, "Question": f"Where is {k // 2}?", "Options": "(a) Left (b) Right",
                   "Correct Answer": "(a)" if k % 2 else "(b)"},
        300, "1.jpg", 1,
    ),
    "eqben-mini": _rows(
        "all_select.json",
        lambda k: {f"image{n}": f"eqbenag/{k}{n}.png" for n in (0, 1)} | {f"caption{n}": f"{k} {n}" for n in (0, 1)},
        5, "eqbenag/00.png",
    ),
    "vinoground": _rows(
        "vinoground.csv",
        lambda k: {"index": k, "major": "object", "minor": "", "pos_cap": f"a {k} before b",
                   "neg_cap": f"b {k} before a"},
        500, "vinoground_videos/0_pos.mp4",
    ),
    "vinoground-text": _vinoground("textscore"),
    "vinoground-video": _vinoground("videoscore"),
    "vinoground-group": _vinoground("textscore", "videoscore"),
    "mvp": _mvp("full"),
    "mvp-mini": _mvp("mini"),
    "svo-probes": _rows("svo_probes.csv", probe, 5, "0.jpg"),
    "crepe-atom": _crepe("atom", 17_698),
    "crepe-swap": _crepe("swap", 7_405),
    "crepe-negate": _crepe("negate", 17_303),
    "negbench-retrieval": _rows("COCO_val_retrieval.csv", pictured, 4, "000000000000.jpg"),
    "negbench-negated-retrieval": _rows(NEGATED, pictured, 4, "000000000000.jpg"),
    "hallusionbench": _rows("HallusionBench.json", hallusion, 1427, "hallusion_bench/VS/map/0_1.png"),
    "velociti": _rows("velociti.csv", strictly, 8792, "v0.mp4"),
    "timeblind": _rows("data.jsonl", in_time, 2400, "videos/0_0.mp4"),
    "hard-positives": _reworded,
    "tempcompass": _in_films(
        "yes_no.json", lambda k: {"question": f"Does {k} fall?", "answer": ("yes", "no")[k % 2]}, 2453
    ),
    "tempcompass-captions": _in_films("caption_matching.json", matching, 1503),
    "genai-bench": _generated,
    "vl-checklist-attribute": _checklist("Attribute/vaw/size.json", "Attribute/vg/size.json"),
    "vl-checklist-relation": _checklist("Relation/vg/spatial.json", "Relation/vg/action.json"),
    "vl-checklist-relation-swig": _checklist("Relation/swig_action.json"),
    "vl-checklist-relation-hake": _checklist("Relation/hake_action.json"),
    "vl-checklist-object": _checklist("Object/Location/vg_location/vg_obj_mid.json", "Object/Size/vg_size/a.json"),
    "vl-checklist-object-swig": _checklist("Object/Size/swig_size/swig_item/swig_item_large.json"),
    "vl-checklist-object-hake": _checklist("Object/Location/hake_location/hake_obj_margin.json"),
}  # fmt: skip
