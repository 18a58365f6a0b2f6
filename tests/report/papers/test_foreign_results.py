"""Other tools' results as records: read, renamed, marked, shown, and never compared."""

import json
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from foreign_results import WINOGROUND, clip_file, crepe_file, imported, mteb_file, winoground_file
from typer.testing import CliRunner

import tellapart as ta
from facts import raises
from sets import write_file
from tellapart.benchmarks.find import find_benchmark
from tellapart.cli.main import app
from tellapart.errors import RunError, UnknownNameError
from tellapart.evaluation.verified import read_result
from tellapart.records.result import Result, is_imported
from tellapart.report.interchange.foreign import import_results, read_foreign
from tellapart.report.interchange.formats import format_result
from tellapart.report.interchange.push import eval_results
from tellapart.report.measured import gather, mark_imported, outcomes_of, samples_of
from tellapart.report.paper_tables.layouts import lay_out
from tellapart.report.paper_tables.table import write_csv, write_json, write_latex, write_markdown
from tellapart.report.plots.prepare import prepare_plot
from tellapart.report.show import group_systems, result_tables


def test_clip_benchmarks_words_become_ours(tmp_path):
    sides = {"image": 0.0, "text": 0.5}
    recalls = {f"{side}_retrieval_recall@{k}": k / 100 + more for k in (10, 1, 5) for side, more in sides.items()}
    probe = {"acc1": 1.0000001, "lr": 0.01, "epochs": 10, "seed": 0, "fewshot_k": -1}  # one, rounded
    files = [
        winoground_file(tmp_path),
        clip_file(tmp_path, "wds/mscoco_captions", "zeroshot_retrieval", recalls),
        clip_file(tmp_path, "wds_imagenet1k", "zeroshot_classification", {"acc1": 0.6, "acc5": 0.9}),
        clip_file(tmp_path, "voc2007_multilabel", "zeroshot_classification", {"mean_average_precision": 0.7}),
        clip_file(tmp_path, "imagenet1k", "zeroshot_classification", {"acc1": 0.26514}, language="ar"),
        clip_file(tmp_path, "cifar10", "linear_probe", probe),
    ]
    found = imported(files, tmp_path / "run")
    expected = {f"{side}_recall@{k}": k / 100 + more for side, more in (("i2t", 0.5), ("t2i", 0.0)) for k in (1, 5, 10)}
    assert found == {
        "winoground": {"text_score": 0.0625, "image_score": 0.125, "group_score": 0.03125},
        "coco-retrieval": expected,
        "imagenet": {"top1_accuracy": 0.6, "top5_accuracy": 0.9},
        "CLIP_benchmark:voc2007_multilabel": {"mean_average_precision": 0.7},
        "CLIP_benchmark:imagenet1k:ar": {"top1_accuracy": 0.26514},
        "CLIP_benchmark:cifar10:linear_probe": {"acc1": 1.0000001},
    }
    assert [*found["coco-retrieval"]] == [*expected]
    assert read_result(tmp_path / "run").model.name == "ViT-B-32/laion2b_s34b_b79k"


#: SugarCrepe's parts: published number of items, and of them right.
CREPE = {
    "add_att": (692, 300), "add_obj": (2062, 1700), "replace_att": (788, 600), "replace_obj": (1652, 1500),
    "replace_rel": (1406, 900), "swap_att": (666, 400), "swap_obj": (245, 140)
}  # fmt: skip


def crepe_files(folder: Path, parts: Iterable[str]) -> list[Path]:
    shares = {part: CREPE[part][1] / CREPE[part][0] for part in parts}
    return [crepe_file(folder, part, image_acc=1.0, text_acc=right, acc=right) for part, right in shares.items()]


def test_all_parts_of_sugarcrepe_give_the_share_of_all_items_without_the_image_accuracy(tmp_path):
    share = sum(right for _, right in CREPE.values()) / sum(items for items, _ in CREPE.values())
    found = imported(crepe_files(tmp_path, CREPE), tmp_path / "run")
    assert found == {"sugarcrepe": {"choice_score": pytest.approx(share)}}
    record = read_result(tmp_path / "run").benchmarks["sugarcrepe"]
    assert record.by["subset"]["swap_obj"].metrics["choice_score"].value == 140 / 245
    assert record.metrics["choice_score"].average == "micro: all items" and "7,511" in record.notes[-1]
    assert all(f"{part} {items:,}" in record.notes[-1] for part, (items, _) in CREPE.items())
    assert not any("number of items" in note for note in record.notes[:-1])
    # The average that papers name is the same number.
    (row, _) = lay_out([tmp_path / "run"], average_as=("sugarcrepe-micro",)).rows
    assert [cell.value for cell in row.cells] == [pytest.approx(100 * share)] * 2


@pytest.mark.parametrize("parts", [("add_att",), ("add_att", "swap_obj"), tuple(CREPE)[1:]])
def test_some_parts_of_sugarcrepe_stand_alone_by_their_names_in_every_table(tmp_path, save, parts):
    found = imported(crepe_files(tmp_path, parts), tmp_path / "run", model="theirs")
    assert found == {f"sugarcrepe/{part}": {"choice_score": CREPE[part][1] / CREPE[part][0]} for part in parts}
    records = read_result(tmp_path / "run").benchmarks
    for one in records.values():
        assert f"{len(parts)} of 7" in one.notes[-1] and one.metrics["choice_score"].chance == 0.5
    runs = [tmp_path / "run", save("ours", benchmark="sugarcrepe", n=40)]
    assert [column.group for column in lay_out(runs).columns] == [*records, "sugarcrepe"]
    with raises(RunError, "average_as=sugarcrepe-micro", "sugarcrepe"):
        lay_out(runs[:1], average_as=("sugarcrepe-micro",))
    for written in (CliRunner().invoke(app, ["show", str(runs[0])]).output, write_latex(lay_out(runs[:1]))):
        assert all(f"sugarcrepe/{part}" in written.replace(r"\_", "_") for part in parts)


def test_sugarcrepes_first_form_is_read(tmp_path):
    """CLIP_benchmark of 2023 wrote the accuracy of texts alone."""
    first = [crepe_file(tmp_path, part, acc=0.75) for part in CREPE]
    assert imported(first, tmp_path / "run") == {"sugarcrepe": {"choice_score": pytest.approx(0.75)}}
    both = crepe_file(tmp_path, "add_obj", acc=1.0, text_acc=0.5)
    assert imported([both], tmp_path / "both") == {"sugarcrepe/add_obj": {"choice_score": 0.5}}


@pytest.mark.parametrize(("metric", "value"), [("text_acc", 30.0), ("text_acc", 1.01), ("acc", -0.1), ("other", -1.5)])
def test_percent_is_refused(tmp_path, metric, value):
    metrics = {**WINOGROUND, metric: value}
    name, task = ("another", "STS") if metric == "other" else ("winoground", "Winoground")
    row = {"dataset": name, "model": "m", "pretrained": "", "task": "image_caption_selection", **metrics}
    for path in (
        mteb_file(tmp_path / "a__b" / "1", task, metrics),
        clip_file(tmp_path, name, "image_caption_selection", metrics),
        write_file(tmp_path / "benchmark.csv", [row]),
    ):
        with raises(RunError, path.name, metric, f"{value:g}", "percent", field=metric):
            import_results([path], tmp_path / "run", command="tellapart import")
        assert not (tmp_path / "run").exists()


def test_a_number_that_is_null_is_named_among_what_is_left_out(tmp_path):
    metrics = {**WINOGROUND, "image_acc": None, "acc": "0.5", "right": True, **{f"k{k}": 0.5 for k in range(9)}}
    path = winoground_file(tmp_path, metrics)
    assert imported([path], tmp_path / "run") == {"winoground": {"text_score": 0.0625}}
    note = read_result(tmp_path / "run").benchmarks["winoground"].notes[-1]
    assert note.split("left out: ")[1].startswith("image_acc (null), right (true), acc (a text), k0"), note


def test_mtebs_words_become_ours_and_the_model_is_found_beside_the_file(tmp_path):
    # Some numbers as its repository of results has them for openai/clip-vit-base-patch32, measured by mteb 1.14.15.
    folder = tmp_path / "openai__clip-vit-base-patch32" / "3d74acf9a28c67741b2f4f2ea7635f0aaf6f0268"
    held = {
        "Winoground": {"accuracy": 0.09000000357627869, "image_acc": 0.11249999701976776, "text_acc": 0.3125},
        "SugarCrepe": {"image_acc": 0.0, "text_acc": 0.465, "accuracy": 0.0},
        "AROVisualRelation": {"accuracy": 0.0, "image_acc": 0.0, "text_acc": 0.5176087021827698},
        "CIFAR10ZeroShot": {"accuracy": 0.8831},
        "STSBenchmark": {"pearson": 0.6, "spearman": -0.1},
        "Flickr30kT2IRetrieval": {
            "cv_recall_at_1": 0.5822, "nauc_recall_at_1000_diff1": math.nan, "nauc_recall_at_1_std": 0.0846,
            "recall_at_1": 0.5822
        },
    }  # fmt: skip
    files = [mteb_file(folder, task, {**own, "main_score": 0.5}, mteb_version="1.14.15") for task, own in held.items()]
    assert imported(files, tmp_path / "run") == {
        "winoground": {"text_score": 0.3125, "image_score": 0.11249999701976776, "group_score": 0.09000000357627869},
        "sugarcrepe": {"choice_score": 0.465},
        "aro-relation": {"choice_score": 0.5176087021827698},
        "cifar10": {"top1_accuracy": 0.8831},
        "mteb:STSBenchmark": {"pearson": 0.6, "spearman": -0.1},
        # An area under an abstention curve is no score, and is not a number where nothing was wrong.
        "mteb:Flickr30kT2IRetrieval": {"cv_recall_at_1": 0.5822, "recall_at_1": 0.5822},
    }
    result = read_result(tmp_path / "run")
    assert all("main_score" in record.notes[-1].split("left out")[1] for record in result.benchmarks.values())
    assert (result.model.name, result.run.versions) == ("openai/clip-vit-base-patch32", {"mteb": "1.14.15"})
    assert result.benchmarks["cifar10"].task == "classification"
    (folder / "model_meta.json").write_text('{"name": "laion/said"}')
    assert [read_foreign(files[0], *name)[0].model for name in ((), ("mine",))] == ["laion/said", "mine"]
    (folder / "model_meta.json").write_text("{")
    with raises(RunError, "model_meta.json", "JSON", "model=", "NAME"):
        read_foreign(files[0])
    untold = mteb_file(folder, "Winoground", {"text_acc": 0.5}, mteb_version=None)
    assert import_results([untold], tmp_path / "untold", model="m").run.versions == {"mteb": "not said"}


def test_mtebs_subsets_whose_sizes_are_not_known_stand_alone(tmp_path):
    entries = [{"text_acc": right, "hf_subset": name, "languages": []} for name, right in (("en", 0.5), ("de", 0.25))]
    path = mteb_file(tmp_path, "SugarCrepe", {}, scores={"test": entries})
    both = {"sugarcrepe/test en": {"choice_score": 0.5}, "sugarcrepe/test de": {"choice_score": 0.25}}
    assert imported([path], tmp_path / "run", model="m") == both
    notes = [record.notes[-1] for record in read_result(tmp_path / "run").benchmarks.values()]
    assert all("part of sugarcrepe" in note and "how many items" in note for note in notes)
    # One subset that has a name is not all of the set.
    path = mteb_file(tmp_path, "SugarCrepe", {}, scores={"test": entries[:1]})
    assert imported([path], tmp_path / "one", model="m") == {"sugarcrepe/test en": {"choice_score": 0.5}}
    # Of two entries of one subset neither is the right one.
    path = mteb_file(tmp_path, "SugarCrepe", {}, scores={"test": [*entries, entries[0] | {"text_acc": 0.75}]})
    with raises(RunError, path.name, "'test en'", "twice", field="scores"):
        imported([path], tmp_path / "twice", model="m")


#: Rows that CLIP_benchmark publishes (benchmark/benchmark.csv), and columns as its `build` writes them.
CLIP_CSV = """acc1,acc5,mean_per_class_recall,dataset,model,pretrained,task,image_retrieval_recall@5,model_fullname
0.66,0.93,0.65,imagenet1k,ViT-B-32,openai,zeroshot_classification,,ViT-B-32 openai
,,,mscoco_captions,ViT-B-32,openai,zeroshot_retrieval,0.5582,ViT-B-32 openai
0.77952,0.95216,0.77952,imagenet1k,ViT-H-14,/fsx/h_256.pt,zeroshot_classification,,ViT-H-14 /fsx/h_256.pt
"""


def test_clip_benchmarks_csv_is_read_a_model_at_a_time(tmp_path):
    path = tmp_path / "clip.csv"
    path.write_text(CLIP_CSV)
    assert imported([path], tmp_path / "run", model="ViT-B-32/openai") == {
        "imagenet": {"top1_accuracy": 0.66, "top5_accuracy": 0.93, "mean_per_class_recall": 0.65},
        "coco-retrieval": {"t2i_recall@5": 0.5582},
    }
    assert read_result(tmp_path / "run").benchmarks["imagenet"].origin == "clip.csv"
    with raises(RunError, "2 models", "ViT-B-32/openai", "ViT-H-14@h_256.pt", "model="):
        imported([path], tmp_path / "other")
    with raises(RunError, str(path), "ViT-B-23/openai", "ViT-B-32/openai"):
        read_foreign(path, "ViT-B-23/openai")
    path.write_text("".join(line for line in CLIP_CSV.splitlines(keepends=True) if "ViT-H" not in line))
    assert {one.model for one in read_foreign(path)} == {"ViT-B-32/openai"}
    assert {one.model for one in read_foreign(path, "mine")} == {"mine"}
    path.write_text("a,b\n1,2\n")
    with raises(RunError, str(path), "dataset", "model", "task", "clip_benchmark build"):
        read_foreign(path)


def test_an_imported_number_is_marked_and_claims_nothing(tmp_path):
    weights = "/home/someone/secret/open_clip_model.safetensors"
    imported([winoground_file(tmp_path, pretrained=weights)], tmp_path / "run")
    result = read_result(tmp_path / "run")
    record = result.benchmarks["winoground"]
    value = record.metrics["text_score"]
    assert is_imported(record) and "gives a tie to whichever comes first (argmax)" in record.notes[0]
    assert (value.low, value.high, value.n, value.chance, value.method) == (None, None, 0, 0.25, "imported")
    assert result.model.name == "ViT-B-32@open_clip_model.safetensors"
    assert "secret" not in (tmp_path / "run" / "results.json").read_text()


def test_what_is_imported_can_be_shown_drawn_and_tabulated_but_not_tested(tmp_path, save):
    pytest.importorskip("matplotlib")
    theirs, label = tmp_path / "theirs", "ViT-B-32/laion2b_s34b_b79k (imported)"
    imported([winoground_file(tmp_path)], theirs)
    both = [theirs, save("ours", benchmark="winoground", n=40)]
    (alone,) = group_systems(gather(both[:1]))
    assert len(result_tables(alone)[0].rows) == 2
    for benchmarks in ((), ("winoground",)):
        table = lay_out(both, benchmarks=benchmarks)
        assert [row.label for row in table.rows] == [label, "ours", "chance"]
        assert table.rows[-1].cells[-1].value == pytest.approx(100 / 6)
    assert lay_out(both).notes[-1].startswith("imported:")
    assert not any(cell.near for cell in lay_out(both).rows[1].cells)
    drawn = prepare_plot("bars", both, benchmarks=("winoground",))().axes
    assert [tick.get_text().replace("\n", "") for tick in drawn[0].get_yticklabels()] == [label, "ours"]
    assert all(any(line.get_linestyle() == "--" for line in axes.get_lines()) for axes in drawn)  # chance
    with raises(RunError, "winoground", "theirs"):
        outcomes_of(gather(both), "winoground", ["text_score"])
    with raises(RunError, "model", "run"):
        samples_of(gather(both)[0], "winoground")


def test_imported_numbers_are_marked_among_several_benchmarks_in_every_format(tmp_path, save):
    files = [winoground_file(tmp_path), crepe_file(tmp_path, "add_att", text_acc=0.6)]
    imported(files, tmp_path / "theirs", model="theirs")
    runs = [tmp_path / "theirs", save("ours", benchmark="winoground", n=40), save("ours", benchmark="demo", n=40)]
    table = lay_out(runs)
    assert [row.label for row in table.rows] == ["theirs (imported)", "ours", "chance"]
    assert not any(note.startswith((",", ".")) or not note for note in table.notes)
    for write in (write_csv, write_markdown, write_latex, write_json):
        assert "theirs (imported)" in write(table)
    marks = [[cell["imported"] for cell in row["cells"]] for row in json.loads(write_json(table))["rows"]]
    assert marks == [[True, True, False], [False] * 3, [False] * 3]
    lone = lay_out([tmp_path / "theirs"])  # no number of items is known
    assert all(lone.notes) and "theirs (imported)" in write_csv(lone)
    pytest.importorskip("matplotlib")
    figure = prepare_plot("bars", runs, benchmarks=("winoground", "demo"))()
    names = [label.get_text().replace("\n", " ") for label in figure.axes[0].get_yticklabels()]
    assert names == ["theirs (imported)", "ours"]
    with raises(RunError, "bars", "winoground", "benchmarks="):
        prepare_plot("bars", runs)()


def test_a_system_that_is_imported_on_one_benchmark_is_marked_with_its_name(tmp_path, save):
    (own,) = gather([save("ours", benchmark="winoground", n=40)])
    imported([crepe_file(tmp_path, "add_att", text_acc=0.6)], tmp_path / "c")
    theirs = read_result(tmp_path / "c").benchmarks
    both = replace(own, result=own.result.model_copy(update={"benchmarks": own.result.benchmarks | theirs}))
    for chosen, label in (
        ((), "ours (imported: sugarcrepe/add_att)"),
        ((["winoground"],), "ours"),
        ((["sugarcrepe/add_att"],), "ours (imported)"),
    ):
        assert mark_imported([both], *chosen)[0].label == label


def test_the_best_imported_number_is_bold_only_above_a_known_chance(tmp_path):
    runs = [tmp_path / model / "run" for model in "ab"]
    for run, text, group, right in zip(runs, (0.3, 0.2), (0.085, 0.05), (0.5, 0.4), strict=True):
        files = [
            winoground_file(run.parent, {"text_acc": text, "image_acc": 0.1, "acc": group}),
            clip_file(run.parent, "cifar10", "zeroshot_classification", {"acc1": right}),
        ]
        imported(files, run, model=run.parent.name)
    table = lay_out(runs, benchmarks=("winoground",))
    best = {column.name: row.cells[n].best for row in table.rows[:1] for n, column in enumerate(table.columns)}
    assert best == {"text score": True, "image score": False, "group score": False}
    assert [cell.value for cell in table.rows[-1].cells] == pytest.approx([25, 25, 100 / 6])
    # How many classes the other tool took is unknown, and chance with it.
    several = lay_out(runs, benchmarks=("winoground", "cifar10"))
    assert several.rows[-1].cells[1].value is None
    assert not any(cell.best for row in several.rows for cell in row.cells)
    mean = lay_out(runs, benchmarks=("winoground", "cifar10"), average=True)
    assert [row.cells[-1].imported for row in mean.rows] == [True, True, False]
    assert not any(row.cells[-1].best for row in mean.rows)


def test_a_number_under_our_name_is_not_shadowed_and_the_rest_is_named(tmp_path):
    metrics = {"text_score": 0.31, "image_score": 0.11, "group_score": 0.0825, "accuracy": 0.305, "nauc_x": 0.1}
    path = mteb_file(tmp_path / "laion__m" / "1", "Winoground", metrics)
    done = CliRunner().invoke(app, ["import", str(path), "--out", str(tmp_path / "run")])
    values = read_result(tmp_path / "run").benchmarks["winoground"].metrics
    assert {name: value.value for name, value in values.items()} == dict(list(metrics.items())[:3])
    taken, left = next(line for line in done.output.splitlines() if "of winoground: " in line).split("; ")
    assert "taken" in taken and " as " not in taken and "accuracy" not in taken
    assert "accuracy" in left and "nauc_x" in left
    path = mteb_file(tmp_path / "laion__m" / "2", "Winoground", {"accuracy": 0.09, "text_acc": 0.3125})
    done = CliRunner().invoke(app, ["import", str(path), "--out", str(tmp_path / "other"), "--json"])
    (note,) = json.loads(done.output)["notes"]["winoground"][1:]
    assert "text_acc as text_score" in note and "accuracy as group_score" in note and "left" not in note


def test_a_folder_samples_of_another_tool_and_an_unnamed_column_are_answered(tmp_path):
    with raises(RunError, str(tmp_path), "folder", "*.json"):
        read_foreign(tmp_path)
    (tmp_path / "samples.jsonl").write_text('{"doc_id": 0}\n{"doc_id": 1}\n')
    with raises(RunError, "samples.jsonl", "examples.elsewhere.lmms_eval", "tellapart score"):
        read_foreign(tmp_path / "samples.jsonl")
    path = tmp_path / "clip.csv"
    path.write_text(",txt,dataset,model,pretrained,task\n0,0.3,winoground,m,p,image_caption_selection\n")
    with raises(RunError, "text_acc", "txt") as refused:
        read_foreign(path)
    assert " ," not in str(refused.value)
    path.write_text(",acc1,dataset,model,pretrained,task\n0,0.3,cifar10,m,p,zeroshot_classification\n")
    (result,) = read_foreign(path)
    assert (result.part, result.metrics) == (None, {"top1_accuracy": 0.3})


def test_a_file_of_neither_tool_is_refused_with_the_reason(tmp_path):
    clip, mteb = {"dataset": "winoground", "model": "m", "task": "t"}, {"task_name": "Winoground", "mteb_version": "2"}
    for content, *facts in (
        ("no", "JSON", "valid"),
        ({"results": {"mmvp": {}}}, "examples.elsewhere.lmms_eval"),
        ([], "CLIP_benchmark", "result"),
        ({"mteb_dataset_name": "x"}, "1.11", "mteb"),
        ({**clip, "metrics": 3}, "object", "int", "metrics"),
        ({**clip, "metrics": {"a": math.nan}}, "finite"),
        ({**clip, "metrics": {"a": True}}, "number"),
        ({**clip, "dataset": "sugar_crepe/x", "metrics": {"a": 1}}, "text_acc", "metrics"),
        ({**mteb, "scores": {}}, "scores"),
        ({**mteb, "scores": {"test": [{"text_acc": 1}]}}, "model"),
    ):
        path = write_file(tmp_path / "deep" / "er" / "a.json", content)
        with raises(RunError, *facts) as refused:
            read_foreign(path)
        assert str(refused.value).startswith(str(path))


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    first, taken = winoground_file(tmp_path), tmp_path / "taken"
    other = clip_file(tmp_path, "cifar10", "zeroshot_classification", {"acc1": 0.5}, model="RN50")
    import_results([first], taken, command="")
    for files, out, *facts in (
        ([first, other], "run", "ViT-B-32/laion2b_s34b_b79k", "RN50/laion2b_s34b_b79k"),
        ([first, first], "run", "winoground", "two"),
        ([], "run", "files=[]", "at least one"),
        ([first], "taken", "taken", "folder"),
    ):
        with raises(RunError, *facts):
            import_results(files, tmp_path / out, command="")


SCORES = ("text_score", "image_score", "group_score", "match_score")


@pytest.fixture
def measured(save) -> Result:
    """A run of a set on the hub and of one that is not."""
    result, other = read_result(save("org/model", benchmark="winoground")), read_result(save("org/model", shape=(1, 2)))
    return result.model_copy(update={"benchmarks": {**result.benchmarks, **other.benchmarks}})


def test_a_model_index_reads_back_as_huggingface_hub_reads_it(measured):
    card = pytest.importorskip("huggingface_hub").ModelCard(format_result(measured, "model-index"))
    assert (card.data.model_name, card.data.eval_results) == ("org/model", eval_results(measured))
    said = {(one.dataset_type, one.metric_type): one for one in card.data.eval_results}
    assert list(said) == [*(("facebook/winoground", name) for name in SCORES), ("shapes", "choice_score")]
    value = measured.benchmarks["winoground"].metrics["group_score"]
    group = said["facebook/winoground", "group_score"]
    assert group.metric_value == value.value
    assert group.metric_args["interval"] == [value.low, value.high] and group.metric_args["items"] == 30
    assert group.dataset_revision is None  # made here: nothing says that these are the hub's files
    revision = find_benchmark("winoground").hub.revision
    record = measured.benchmarks["winoground"].model_copy(update={"origin": f"/cache/snapshots/{revision}/data"})
    of_the_hub = measured.model_copy(update={"benchmarks": {"winoground": record}})
    assert {one.dataset_revision for one in eval_results(of_the_hub)} == {revision}


def test_a_card_keeps_its_text_and_the_results_of_others(measured, tmp_path):
    hub = pytest.importorskip("huggingface_hub")
    path = tmp_path / "README.md"
    old = hub.EvalResult("image-classification", "beans", "Beans", "accuracy", 0.9)
    first = format_result(measured, "model-index")
    data = hub.ModelCardData(license="mit", model_name="org/model", eval_results=[old])
    path.write_text(f"---\n{data.to_yaml()}\n---\n# A model\n\nText.\n")
    once = format_result(measured, "model-index", path)
    path.write_text(once)
    assert format_result(measured, "model-index", path) == once  # put in twice, they stand there once
    card = hub.ModelCard(once)
    assert card.data.license == "mit" and card.text.strip() == "# A model\n\nText."
    assert card.data.eval_results == [old, *hub.ModelCard(first).data.eval_results]
    path.write_text(once.replace("org/model", "another"))
    empty = measured.model_copy(update={"benchmarks": {}})
    for result, form, at, error, *facts in (
        (measured, "model-index", path, RunError, "org/model", "run", "results"),
        (measured, "model-index", tmp_path / "gone.md", RunError, "gone.md", "model", "card"),
        (measured, "lm-eval", path, RunError, "card", "model-index"),
        (measured, "modelindex", None, UnknownNameError, "format", "'modelindex'", "'model-index'"),
        (empty, "model-index", None, RunError, "org/model", "run", "card"),
    ):
        with raises(error, *facts):
            format_result(result, form, at)


def test_results_of_the_same_set_in_a_card_keep_their_arguments_source_and_model(measured, tmp_path):
    yaml, path = pytest.importorskip("yaml"), tmp_path / "README.md"
    place, board = {"name": "W", "type": "facebook/winoground"}, {"name": "A board", "url": "https://board.example"}
    task, metric = {"type": "image-text-matching"}, {"type": "acc", "value": 0.1}
    others = [
        {"task": task, "dataset": {**place, "args": {"k": 0}}, "metrics": [metric], "source": board},
        {"task": task, "dataset": {**place, "args": {"k": 5}}, "metrics": [metric]},
    ]
    named = [{"name": "org/model", "results": others}, {"name": "b", "results": others[:1]}]
    path.write_text(f"---\n{yaml.safe_dump({'tags': ['a', 'a'], 'model-index': named})}---\nText.\n")
    read = yaml.safe_load(format_result(measured, "model-index", path).split("---")[1])
    (mine, another), alone = read["model-index"], yaml.safe_load(format_result(measured, "model-index").split("---")[1])
    assert read["tags"] == ["a", "a"] and another == named[1]
    assert mine == {"name": "org/model", "results": [*others, *alone["model-index"][0]["results"]]}
    for broken in ("a: [", "on: 1", "model-index: 3", "model-index: [{name: org/model, results: [3]}]"):
        path.write_text(f"---\n{broken}\n---\nText.\n")
        with raises(RunError, "README.md", "model", "card"):
            format_result(measured, "model-index", path)


def test_eval_results_read_back_as_huggingface_hub_reads_them(measured):
    hub = pytest.importorskip("huggingface_hub")
    yaml = pytest.importorskip("yaml")
    entries = hub.parse_eval_result_entries(yaml.safe_load(format_result(measured, "eval-results")))
    metrics = measured.benchmarks["winoground"].metrics
    assert [(one.task_id, one.value) for one in entries] == [(name, metrics[name].value) for name in SCORES]
    assert {one.dataset_id for one in entries} == {"facebook/winoground"}
    assert entries[0].notes.startswith("30 items, a tie is never right; 95% interval")
    assert entries[0].date == measured.run.started
    only = measured.model_copy(update={"benchmarks": {"shapes": measured.benchmarks["shapes"]}})
    with raises(RunError, "shapes", "dataset"):
        format_result(only, "eval-results")


def test_a_card_and_lm_evals_layout_say_that_a_number_was_imported_and_has_no_interval(tmp_path):
    hub = pytest.importorskip("huggingface_hub")
    imported([winoground_file(tmp_path)], tmp_path / "run")
    result = read_result(tmp_path / "run")
    (first, *_) = hub.ModelCard(format_result(result, "model-index")).data.eval_results
    assert "imported from CLIP_benchmark" in first.metric_args["imported"][0] and "items" not in first.metric_args
    assert "imported from CLIP_benchmark" in format_result(result, "eval-results")
    assert "date" not in format_result(result, "eval-results")  # the import's is not the measurement's
    held = json.loads(format_result(result, "lm-eval"))
    assert held["results"]["winoground"]["text_score_stderr,none"] == "N/A"
    assert held["configs"]["winoground"]["metadata"]["ties"] == "the other tool's rule"


def test_lm_evals_layout_holds_every_score_with_its_error_and_parts(save):
    result = read_result(save("org/model"))
    held = json.loads(format_result(result, "lm-eval"))
    value = result.benchmarks["shapes"].metrics["group_score"]
    entry = held["results"]["shapes"]
    assert entry["group_score,none"] == value.value
    assert entry["group_score_stderr,none"] == pytest.approx((value.high - value.low) / (2 * 1.959964), rel=1e-6)
    assert not any(name.startswith("v1") for name in entry)  # a deviation is no score
    assert (entry["name"], entry["alias"], entry["sample_len"]) == ("shapes", "shapes", 30)
    assert held["groups"] == {"shapes": entry}
    parts = [f"shapes_{name}" for name in ("side_left", "side_right", "type_colour", "type_place")]
    assert held["group_subtasks"]["shapes"] == parts
    for part in ("results", "configs", "versions", "n-shot", "higher_is_better", "n-samples"):
        assert set(held[part]) == {"shapes", *parts}
    assert held["n-samples"]["shapes"] == {"original": 30, "effective": 30}
    assert held["config"]["model_args"] == "model=org/model"
    # The parts of tags whose names run together stay apart.
    record = result.benchmarks["shapes"]
    left, right = record.by["side"].values()
    record = record.model_copy(update={"by": {"a": {"b_c": left}, "a_b": {"c": right}}})
    held = json.loads(format_result(result.model_copy(update={"benchmarks": {"shapes": record}}), "lm-eval"))
    values = [held["results"][name]["group_score,none"] for name in held["group_subtasks"]["shapes"]]
    assert values == [part.metrics["group_score"].value for part in (left, right)]


def test_lm_evals_layout_says_of_which_numbers_more_is_better(made_set, tmp_path):
    rows = [{"id": f"item-{k}/{order}", "prediction": "1"} for k in range(12) for order in (1, 2)]
    run = ta.score(f"choice:folder:{made_set(shape=(1, 2))}", write_file(tmp_path / "asked.jsonl", rows), name="m")
    held = json.loads(ta.convert(run, to="lm-eval").text)
    stated = {"both_orders": True, "mean_of_orders": True, "true_first": True, "true_second": True}
    stated |= {"order_bias": None, "chose_first": None}  # lm-eval prints no arrow
    assert held["higher_is_better"]["choice:folder:set"] == stated
    listed = held["configs"]["choice:folder:set"]["metric_list"]
    assert {one["metric"]: one["higher_is_better"] for one in listed} == stated


def test_the_commands_say_what_they_wrote(tmp_path):
    path = winoground_file(tmp_path)
    run, out = tmp_path / "run", tmp_path / "lm.json"
    done = CliRunner().invoke(app, ["import", str(path), "--out", str(run), "--model", "m"])
    taken, wrote = done.output.splitlines()
    assert wrote == f"m: winoground; run: {run}" and "acc as group_score" in taken
    done = CliRunner().invoke(app, ["convert", str(run), "--to", "lm-eval", "--out", str(out)])
    assert done.output == f"written: {out}\n" and json.loads(out.read_text())["model_name"] == "m"
    assert CliRunner().invoke(app, ["convert", str(run), "--to", "lm-eval"]).output == out.read_text()
