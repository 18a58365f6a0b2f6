"""`tellapart annotate`: from a benchmark to the human row, and one helpful line for every wrong use."""

import csv
import json
from pathlib import Path

import pytest

from facts import check_facts
from sets import write_file
from tellapart.annotate.study import read_study
from tellapart.annotate.surveys import SURVEYS


def fill(sheet: Path, choose) -> Path:
    with sheet.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    key = {task.id: task for task in read_study(sheet.parents[1]).tasks}
    for row in rows:
        row.update(choose(key[row["task"]]))
    return write_file(sheet.parents[2] / f"{sheet.parents[1].name}-{sheet.name}", rows)


def true_option(field: str):
    return lambda task: {field: "AB"[task.order.index(int(task.unit[-1]))]}


def test_the_sheet_names_the_answers_that_it_takes(command, made_set, tmp_path):
    expected = {
        "i2t": "caption: Which description matches the image best? A or B",
        "coco-cf": "caption: Which caption describes the image best? A or B or Both or Neither",
        "match": "match: Is the caption true of the image? Yes or No",
        "question": "answer_b: The answer for image B (a text)",
        "box": "box: one of them ([x, y, width, height] in pixels)",
    }
    made_set("set", n=2)
    for survey, way in expected.items():
        command("annotate", "export", survey, "folder:set", "--to", survey, "--annotators", "ann")
        with (tmp_path / survey / "sheets" / "ann.csv").open(newline="") as stream:
            assert all(way in row["how_to_answer"] for row in csv.DictReader(stream))


def test_the_people_s_row_has_each_annotator_beside_and_a_sentence_on_ties(command, made_set, tmp_path):
    made_set("set", n=6)
    command("annotate", "export", "i2t", "folder:set", "--to", "i2t", "--annotators", "ann,bob", "--sample", 4)
    right, first = true_option("caption"), min(unit.id for unit in read_study(tmp_path / "i2t").units)

    def one_wrong(task):
        return {"caption": {"A": "B", "B": "A"}[right(task)["caption"]]} if task.unit == first else right(task)

    files = [fill(tmp_path / "i2t" / "sheets" / f"{who}.csv", how) for who, how in (("ann", right), ("bob", one_wrong))]
    command("annotate", "import", "i2t", *files)
    (row,) = command("annotate", "agree", "i2t", "--json").json["human"]
    assert (row["strict"]["value"], row["neutral"], row["ties"]) == (0.75, 0.875, 1)
    assert row["alone"] == {"ann": 1.0, "bob": 0.75}
    shown = command("annotate", "agree", "i2t").out
    check_facts(" ".join(shown.split()), "each alone", "ann 100.0, bob 75.0", "tie: as many people", "third annotator")
    command("annotate", "export", "i2t", "folder:set", "--to", "alone", "--annotators", "ann", "--sample", 4)
    command("annotate", "import", "alone", fill(tmp_path / "alone" / "sheets" / "ann.csv", right))
    assert "tie:" not in command("annotate", "agree", "alone").out


@pytest.mark.slow
def test_from_the_demo_to_a_human_row_beside_the_models(command, tmp_path):
    for survey in ("i2t", "t2i"):
        made = command("annotate", "export", survey, "demo", "--to", survey, "--annotators", "ann,bob", "--json")
        counts = {"units": 800, "tasks": 1600, "annotators": ["ann", "bob"]}
        assert made.json == {"to": survey, "survey": survey, **counts}
        field = "caption" if survey == "i2t" else "image"
        sheets = [fill(tmp_path / survey / "sheets" / f"{who}.csv", true_option(field)) for who in ("ann", "bob")]
        read = command("annotate", "import", survey, *sheets, "--json")
        assert read.json == {"to": f"{survey}/answers.jsonl", "answers": 1600, "skipped": 0, "of": 1600, "broken": []}
    record = command("annotate", "agree", "i2t", "t2i", "--scores", "human.npz", "--json").json
    values = {row["metric"]: row["strict"]["value"] for row in record["human"]}
    assert values == dict.fromkeys(("text_score", "image_score", "group_score"), 1.0)
    assert record["studies"][0]["agreement"][0]["alpha"]["value"] == 1.0
    scored = command("score", "demo", "--scores", "human.npz", "--name", "human", "--out", "run", "--json")
    (result,) = scored.json["runs"][0]["benchmarks"].values()
    assert result["metrics"]["group_score"]["value"] == 1
    ran = command("annotate", "agree", "i2t", "t2i", "--scores", "human.npz")
    assert "people's scores are in human.npz; tellapart score BENCHMARK --scores human.npz --name human" in ran.out
    assert "aspect: counting" in ran.out


def test_broken_answers_are_shown_and_kept_and_records_written(command, made_set, tmp_path):
    made_set("set", n=2, shape=(1, 2))
    command("annotate", "export", "caption", "folder:set", "--to", "study")
    captions = iter(["too short", "A long and quite sufficient caption of this noise."])
    sheet = fill(tmp_path / "study" / "sheets" / "annotator-1.csv", lambda _task: {"caption": next(captions)})
    ran = command("annotate", "import", "study", sheet, "--records", "itr.json")
    assert "2 of 2 tasks answered, 0 of them skipped" in ran.out
    assert "not used: task annotator-1-00001: has 2 words, fewer than 8" in ran.out
    assert len((tmp_path / "study" / "answers.jsonl").read_text().splitlines()) == 2
    (row,) = json.loads((tmp_path / "itr.json").read_text())
    assert row["caption"] == ["A long and quite sufficient caption of this noise."]
    assert "agreement: none, no answer is a choice" in command("annotate", "agree", "study").out


def test_a_second_import_adds_to_the_first(command, made_set, tmp_path):
    made_set("set", n=4)
    command("annotate", "export", "i2t", "folder:set", "--to", "study", "--annotators", "ann,bob")
    answers = tmp_path / "study" / "answers.jsonl"
    ann, bob = (fill(tmp_path / "study" / "sheets" / f"{who}.csv", true_option("caption")) for who in ("ann", "bob"))
    check_facts(command("annotate", "import", "study", ann).err, "8", "16", "answer")
    assert "8 of 16 tasks answered" in command("annotate", "import", "study", ann, "--partial").out
    assert "agreement: none, no unit" in command("annotate", "agree", "study").out
    first = answers.read_text()
    assert "16 of 16 tasks answered" in command("annotate", "import", "study", bob).out
    both = answers.read_text()
    assert both.startswith(first) and len(both.splitlines()) == 16
    assert command("annotate", "import", "study", ann).code == 0 and answers.read_text() == both  # the same again


def exported(study: Path, task: int, *choices: str | None) -> Path:
    """Label Studio's export of a task of ann, with an annotation for each choice; one without a choice is cancelled."""
    data = json.loads((study / "label_studio" / "tasks_ann.json").read_text())[task]["data"]
    results = [[{"from_name": "caption", "value": {"choices": [choice]}}] if choice else [] for choice in choices]
    annotations = [{"result": result, "was_cancelled": not result} for result in results]
    return write_file(study.parent / "export.json", [{"data": data, "annotations": annotations}])


def test_another_answer_to_a_task_that_was_imported_is_refused(command, made_set, tmp_path):
    made_set("set", n=2)
    command("annotate", "export", "i2t", "folder:set", "--to", "study", "--annotators", "ann")
    study, answers = tmp_path / "study", tmp_path / "study" / "answers.jsonl"
    sheet = fill(study / "sheets" / "ann.csv", lambda _task: {"caption": "A"})
    assert command("annotate", "import", "study", sheet).code == 0
    before = answers.read_bytes()
    sheet.write_text(sheet.read_text().replace('"A"', '"B"'))
    for make, task in (
        (lambda: sheet, "ann-00001"),
        (lambda: exported(study, 2, "B"), "ann-00003"),
        (lambda: exported(study, 2, None), "ann-00003"),
    ):
        answers.write_bytes(before)
        given = make()
        failed = command("annotate", "import", "study", given, "--partial", code=2)
        check_facts(failed.err, task, "before", "answers.jsonl", "remove")
        assert failed.err.count("\n") == 1 and answers.read_bytes() == before
        answers.unlink()
        command("annotate", "import", "study", given, "--partial", code=0)


@pytest.mark.parametrize("second", ["A", None])
def test_an_equal_or_cancelled_second_annotation_is_no_conflict(command, made_set, tmp_path, second):
    made_set("set", n=2)
    command("annotate", "export", "i2t", "folder:set", "--to", "study", "--annotators", "ann")
    command("annotate", "import", "study", exported(tmp_path / "study", 0, second, "A"), "--partial", code=0)
    assert json.loads((tmp_path / "study" / "answers.jsonl").read_text().splitlines()[-1])["values"]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("export", "i2t", "vlue-nlvr2", "--to", "x"), ("task", "nlvr2", "pairs")),
        (("export", "i2t", "demo", "--to", "x", "--annotators", "0"), ("1", "999")),
        (("export", "expression", "demo", "--to", "x", "--after", "gone"), "study.json"),
        (("import", "gone", "a.csv"), ("study.json", "folder")),
        (("agree", "gone"), "study.json"),
        (("import", "study", "a.txt"), ("a.txt", "Label", "answers")),
        (("import", "study", "a.csv", "--records", "r.json"), ("--records", "i2t")),
        (("agree", "study"), ("answers.jsonl", "tellapart")),
    ],
)
def test_a_wrong_use_is_one_helpful_line(command, made_set, arguments, message):
    if "study" in arguments:
        made_set("set", n=2)
        command("annotate", "export", "i2t", "folder:set", "--to", "study")
    ran = command("annotate", *arguments, code=2)
    check_facts(ran.err, message)
    assert ran.err.count("\n") == 1


def test_the_surveys_are_listed(command):
    names = [row["name"] for row in command("annotate", "ls", "--json").json]
    assert names == [*SURVEYS]
    assert all(name in command("annotate", "ls").out for name in names)
