"""Our records in other tools' formats."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from foreign_results import WINOGROUND, clip_file, imported
from typer.testing import CliRunner

from facts import raises
from tellapart.cli.main import app
from tellapart.errors import RunError, UnknownNameError
from tellapart.evaluation.verified import read_result
from tellapart.records.result import Result
from tellapart.report.interchange.formats import format_result

SCORES = ("text_score", "image_score", "group_score", "match_score")


@pytest.fixture
def measured(save: Callable[..., Path]) -> Result:
    """A run of a set on the hub and of one that is not."""
    result, other = read_result(save("org/model", benchmark="winoground")), read_result(save("org/model", shape=(1, 2)))
    return result.model_copy(update={"benchmarks": {**result.benchmarks, **other.benchmarks}})


def test_a_model_index_reads_back_as_huggingface_hub_reads_it(measured) -> None:
    hub = pytest.importorskip("huggingface_hub")
    from tellapart.report.interchange.push import eval_results

    card = hub.ModelCard(format_result(measured, "model-index"))
    assert card.data.model_name == "org/model"
    assert card.data.eval_results == eval_results(measured)
    said = {(one.dataset_type, one.metric_type): one for one in card.data.eval_results}
    assert list(said) == [*(("facebook/winoground", name) for name in SCORES), ("shapes", "choice_score")]
    value = measured.benchmarks["winoground"].metrics["group_score"]
    group = said["facebook/winoground", "group_score"]
    assert group.metric_value == value.value
    assert group.metric_args["interval"] == [value.low, value.high] and group.metric_args["items"] == 30
    assert group.dataset_revision is None  # made here: nothing says that these are the hub's files


def test_a_revision_is_claimed_only_where_the_hubs_files_were_read(measured) -> None:
    pytest.importorskip("huggingface_hub")
    from tellapart.benchmarks.find import find_benchmark
    from tellapart.report.interchange.push import eval_results

    revision = find_benchmark("winoground").hub.revision
    record = measured.benchmarks["winoground"].model_copy(update={"origin": f"/cache/snapshots/{revision}/data"})
    result = measured.model_copy(update={"benchmarks": {"winoground": record}})
    assert {one.dataset_revision for one in eval_results(result)} == {revision}


def test_a_card_keeps_its_text_and_the_results_of_others(measured, tmp_path) -> None:
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
    with raises(RunError, "org/model", "run", "results"):
        format_result(measured, "model-index", path)
    with raises(RunError, "gone.md", "model", "card"):
        format_result(measured, "model-index", tmp_path / "gone.md")
    with raises(RunError, "card", "model-index"):
        format_result(measured, "lm-eval", path)


def test_eval_results_read_back_as_huggingface_hub_reads_them(measured) -> None:
    hub = pytest.importorskip("huggingface_hub")
    yaml = pytest.importorskip("yaml")
    entries = hub.parse_eval_result_entries(yaml.safe_load(format_result(measured, "eval-results")))
    metrics = measured.benchmarks["winoground"].metrics
    assert [(one.dataset_id, one.task_id, one.value) for one in entries] == [
        ("facebook/winoground", name, metrics[name].value) for name in SCORES
    ]
    assert entries[0].notes.startswith("30 items, a tie is never right; 95% interval")
    assert entries[0].date == measured.run.started
    only = measured.model_copy(update={"benchmarks": {"shapes": measured.benchmarks["shapes"]}})
    with raises(RunError, "shapes", "dataset"):
        format_result(only, "eval-results")


def test_a_card_says_that_a_number_was_imported(tmp_path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    imported([clip_file(tmp_path, "winoground", "image_caption_selection", WINOGROUND)], tmp_path / "run")
    result = read_result(tmp_path / "run")
    (first, *_) = hub.ModelCard(format_result(result, "model-index")).data.eval_results
    assert "imported from CLIP_benchmark" in first.metric_args["imported"][0] and "items" not in first.metric_args
    assert "imported from CLIP_benchmark" in format_result(result, "eval-results")
    assert "date" not in format_result(result, "eval-results")  # the import's is not the measurement's


def test_lm_evals_layout_holds_every_score_with_its_error_and_parts(save) -> None:
    result = read_result(save("org/model"))
    held = json.loads(format_result(result, "lm-eval"))
    value = result.benchmarks["shapes"].metrics["group_score"]
    entry = held["results"]["shapes"]
    assert entry["group_score,none"] == value.value
    assert entry["group_score_stderr,none"] == pytest.approx((value.high - value.low) / (2 * 1.959964), rel=1e-6)
    assert not any(name.startswith("v1") for name in entry)  # a deviation is no score
    assert (entry["name"], entry["alias"], entry["sample_len"]) == ("shapes", "shapes", 30)
    assert held["groups"] == {"shapes": entry}
    assert held["group_subtasks"]["shapes"] == [
        "shapes_side_left", "shapes_side_right", "shapes_type_colour", "shapes_type_place"
    ]  # fmt: skip
    tasks = {"shapes", *held["group_subtasks"]["shapes"]}
    for part in ("results", "configs", "versions", "n-shot", "higher_is_better", "n-samples"):
        assert set(held[part]) == tasks
    assert held["n-samples"]["shapes"] == {"original": 30, "effective": 30}
    assert held["config"]["model_args"] == "model=org/model"


def test_lm_evals_error_is_not_available_where_there_is_no_interval(tmp_path) -> None:
    imported([clip_file(tmp_path, "winoground", "image_caption_selection", WINOGROUND)], tmp_path / "run")
    held = json.loads(format_result(read_result(tmp_path / "run"), "lm-eval"))
    assert held["results"]["winoground"]["text_score_stderr,none"] == "N/A"
    assert held["configs"]["winoground"]["metadata"]["ties"] == "the other tool's rule"


def test_a_run_without_numbers_and_an_unknown_format_are_refused(measured) -> None:
    with raises(UnknownNameError, "format", "'modelindex'", "'model-index'"):
        format_result(measured, "modelindex")
    pytest.importorskip("huggingface_hub")
    with raises(RunError, "org/model", "run", "card"):
        format_result(measured.model_copy(update={"benchmarks": {}}), "model-index")


def test_the_commands_say_what_they_wrote(tmp_path) -> None:
    path = clip_file(tmp_path, "winoground", "image_caption_selection", WINOGROUND)
    run, out = tmp_path / "run", tmp_path / "lm.json"
    done = CliRunner().invoke(app, ["import", str(path), "--out", str(run), "--model", "m"])
    taken, wrote = done.output.splitlines()
    assert wrote == f"m: winoground; run: {run}" and "acc as group_score" in taken
    done = CliRunner().invoke(app, ["convert", str(run), "--to", "lm-eval", "--out", str(out)])
    assert done.output == f"written: {out}\n" and json.loads(out.read_text())["model_name"] == "m"
    assert CliRunner().invoke(app, ["convert", str(run), "--to", "lm-eval"]).output == out.read_text()
