"""Numbers that another tool measured: shown without a page, and never compared."""

import time
from pathlib import Path

import pytest
from foreign_results import WINOGROUND, clip_file
from typer.testing import CliRunner

from facts import raises
from tellapart.benchmarks.minimal_pairs import SUBSETS
from tellapart.cli.main import app
from tellapart.errors import RunError
from tellapart.evaluation.compare import compare
from tellapart.evaluation.systems import gather
from tellapart.report.interchange.foreign import import_results
from tellapart.report.show import first_table, group_systems, write_run_report


@pytest.fixture
def imported(tmp_path) -> Path:
    file = clip_file(tmp_path, "winoground", "image_caption_selection", WINOGROUND)
    import_results([file], tmp_path / "theirs", command="")
    return tmp_path / "theirs"


def test_the_time_of_an_import_is_utc_as_that_of_a_run(tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    file = clip_file(tmp_path, "winoground", "image_caption_selection", WINOGROUND)
    started = import_results([file], tmp_path / "theirs", command="").run.started
    monkeypatch.undo()
    time.tzset()
    assert started.endswith("+00:00")


def test_models_whose_names_end_alike_are_two(tmp_path):
    theirs = (
        ("ViT-B-32", "winoground", "image_caption_selection"),
        ("ViT-L-14", "imagenet1k", "zeroshot_classification"),
    )
    for model, dataset, task in theirs:
        file = clip_file(tmp_path, dataset, task, {"acc": 0.5, "acc1": 0.5}, model=model, pretrained="openai")
        import_results([file], tmp_path / model, command="")
    systems = gather([tmp_path / model for model, *_ in theirs])
    assert {of.label: [*of.folders] for of in systems} == {
        "ViT-B-32/openai": ["winoground"],
        "ViT-L-14/openai": ["imagenet"],
    }


def test_a_comparison_with_an_imported_run_is_refused_with_the_reason(imported):
    with raises(RunError, "winoground", "ties"):
        compare(imported, imported)


def test_imported_runs_have_no_items_to_analyse_whether_their_benchmark_is_named_or_not(tmp_path, command):
    wino = clip_file(tmp_path, "winoground", "image_caption_selection", WINOGROUND)
    for name in "ab":
        import_results([*sugarcrepe_files(tmp_path), wino], tmp_path / name, command="")
    runs = [str(tmp_path / name) for name in "ab"]
    for arguments in (["items", *runs], ["items", *runs, "-b", "sugarcrepe"], ["compare", *runs]):
        done = command(*arguments)
        assert done.code and runs[0] in done.err and "sugarcrepe (7 files)" in done.err, done.err
        assert "None" not in done.err and "swap_obj" not in done.err
    assert "winoground (clip-winoground.json)" in command("items", *runs).err
    import_results([wino], tmp_path / "c", command="")
    import_results(sugarcrepe_files(tmp_path), tmp_path / "d", command="", model="other")
    none_shared = command("items", str(tmp_path / "c"), str(tmp_path / "d")).err
    assert f"{tmp_path / 'c'} " in none_shared and "--benchmark" not in none_shared
    done = command("verify", runs[0])
    head, *lines = done.out.splitlines()
    assert runs[0] in head and "1 equal (results.json)" in head
    assert [line.split(": ")[0].strip() for line in lines] == ["sugarcrepe", "winoground", "not known"]
    assert "subset = add_att: choice_score" in lines[0] and "7 files" in lines[0] and "clip-winoground.json" in lines[1]


def test_files_of_scores_without_a_benchmark_are_answered_without_none(tmp_path, command):
    (tmp_path / "a.csv").write_text("id\n")
    done = command("items", "--scores", str(tmp_path / "a.csv"))
    assert done.code and "--benchmark NAME" in done.err and "None" not in done.err


def test_an_imported_run_is_shown_without_a_page(imported, command):
    done = command("show", imported, code=0)
    assert "winoground: percent, measured by another tool" in done.out and "6.25" in done.out
    assert "imported from CLIP_benchmark" in done.out
    assert "report: none: a page has only what was measured here, and another tool" in done.out
    assert write_run_report(imported).path is None and not (imported / "report.html").exists()
    assert command("show", imported, "--json").json["report"] is None


def sugarcrepe_files(folder: Path) -> list[Path]:
    how, accuracies = "image_caption_selection", enumerate(SUBSETS)
    return [clip_file(folder, f"sugar_crepe/{part}", how, {"text_acc": k / 10}) for k, part in accuracies]


def test_a_tag_is_offered_where_it_has_several_values_and_their_unknown_items_are_no_zero(tmp_path):
    files = sugarcrepe_files(tmp_path)
    import_results(files[:1], tmp_path / "one", command="")
    import_results(files, tmp_path / "all", command="")
    assert "--by" not in CliRunner().invoke(app, ["show", str(tmp_path / "one")]).output
    assert "--by subset" in CliRunner().invoke(app, ["show", str(tmp_path / "all")]).output
    (same,) = group_systems(gather([tmp_path / "all"]))
    assert first_table(same, width=200).lines()[-1] == ["items", *["–"] * 8]
    printed = CliRunner().invoke(app, ["show", str(tmp_path / "all"), "--by", "subset"]).output
    rows = {line.split("  ")[0].strip(): line.split() for line in printed.splitlines()}
    assert rows["add_att"][1:] == ["–", "0.00"] and rows["swap_obj"][1:] == ["–", "60.00"]
    counts = [items[0] for items in SUBSETS.values()]
    share = sum(k / 10 * items for k, items in enumerate(counts)) / sum(counts)
    assert rows["all items"][2:] == ["–", f"{100 * share:.2f}"]


def test_many_imported_sets_are_called_so_and_a_note_that_they_share_stands_once(tmp_path):
    import_results(sugarcrepe_files(tmp_path)[:4], tmp_path / "some", command="")
    printed = CliRunner().invoke(app, ["show", str(tmp_path / "some")]).output
    title, *_ = printed.splitlines()
    assert "another tool" in title and "interval" not in title
    assert printed.count("imported from CLIP_benchmark") == 1
    assert all(f"taken of sugarcrepe/{part}" in " ".join(printed.split()) for part in tuple(SUBSETS)[:4])


def test_the_document_of_benchmarks_has_the_number_of_items_of_each_part():
    text = " ".join((Path(__file__).parents[1] / "docs" / "benchmarks.md").read_text().split())
    assert all(f"`{part}` {counts[0]:,}" in text for part, counts in SUBSETS.items())
