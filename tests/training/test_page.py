"""The page of a training run says what it gained and lost, and links what lies beside it; `show` makes it anew."""

import base64
import json
import re
from pathlib import Path

import pytest
from training_sets import compared, config, made_record, squares, table, toml

from facts import check_facts
from tellapart.diagnosis.why import MatchDifference, Reasons, Why, measure_reasons
from tellapart.evaluation.compare import Comparison, MetricComparison
from tellapart.records.result import BenchmarkResult, Sample
from tellapart.training.data.duplicates import Leak
from tellapart.training.record import (
    DataRecord,
    Sweep,
    difference_bar,
    model_card,
    read_record,
    write_record,
    write_training_report,
)
from tellapart.training.train import Trained

HOSTILE = "folder:<script>alert('x')</script>"


def measured(benchmark: str, metric: str, low: float, high: float, p_holm: float = 0.0213) -> MetricComparison:
    middle = (low + high) / 2
    numbers = {"n": 1200, "difference": middle, "low": low, "high": high, "p_holm": p_holm}
    return compared(benchmark, 0.5, 0.5 + middle, metric, **numbers)


@pytest.fixture
def trained(tmp_path):
    """A run's folder as `tellapart train` leaves it, without its models."""
    folder = tmp_path / "my run"
    (folder / "wise" / "alpha-0.50" / "report").mkdir(parents=True)
    rows = [{"step": step, "total": 1 / step, "gradient_norm": 1.0} for step in range(1, 5)]
    rows.append({"step": 4, "validation_group_score": 0.6875})
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = {"validation": {"every": 4}, "data": {"share": 0.7}, "report": {"benchmarks": ["demo"]}}
    counts = {"rows": 24, "images": 24, "items": 12}
    record = made_record(
        config=config(tmp_path, **values).model_dump(mode="json"),
        fingerprint="0123",
        start="tellapart:huggingface:itc:1:" + "ab" * 32,
        model=f"local-dir:{folder}/model",
        data=DataRecord(**counts, fingerprint="f" * 64, validation=4, validation_metric="group_score"),
        leaks=(Leak("demo", ("a.png",), (), 600),),
        steps=4,
        best_step=4,
        best=0.6875,
        history=((4, 0.6875),),
        comparison=Comparison(
            a="before",
            b="after",
            rows=(
                measured("demo", "text_score", 0.05, 0.25),
                measured("demo", "group_score", 0.01, 0.15, p_holm=0.196),
                measured("demo", "image_score", -0.15, -0.01, p_holm=0.05),
                measured(HOSTILE, "accuracy", -0.2, -0.1),
            ),
            unshared=("valse",),
        ),
        sweep=Sweep(("demo",), {0.0: (0.5,), 0.5: (0.7,), 1.0: (0.65,)}, 0.5, "local-dir:wise"),
    )
    write_record(folder, record)
    return folder, record


def words(page: Path) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", page.read_text(encoding="utf-8").partition("<main>")[2]).split())


def test_the_page_says_first_what_was_gained_and_lost(trained):
    page = write_training_report(*trained)
    assert page == trained[0] / "report.html"
    text, lost = words(page), "folder:&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; accuracy (-15.00)"
    assert f"better, p after Holm below .05 demo text_score (+15.00) worse, p after Holm below .05 {lost}" in text
    assert "after step 4: group_score 68.75 % on 4 items held out of the training data (data.share)" in text
    assert "text_score +15.00 [+5.0, +25.0] 50.00 65.00 1,200 0.0213" in text
    assert "not compared: valse" in text and "1 training image to the pixel among its 600 pictures" in text
    assert f"new:arch: {trained[1].start}" in text
    assert "<script" not in page.read_text(encoding="utf-8")


def reasons_of(label: str, square: tuple[tuple[float, ...], ...]) -> Reasons:
    facts = {"title": "demo", "fingerprint": "0", "shape": (2, 2), "kind": "similarity", "origin": "demo"}
    benchmark = BenchmarkResult(**facts, metrics={})
    samples = [Sample(id=f"{k}", cluster=f"{k}", scores=square, outcomes={}) for k in range(20)]
    return measure_reasons(label, "demo", benchmark, samples)[0]


def test_the_page_the_card_and_the_terminal_have_the_match_and_the_priors_before_and_after(trained, capsys):
    folder, record = trained
    lost, right = reasons_of("before", ((0.9, 0.8), (0.3, 0.4))), reasons_of("after", ((0.9, 0.8), (0.3, 0.95)))
    numbers = {"what": "match", "difference": 0.25, "low": 0.1, "high": 0.4, "p": 0.02}
    why = Why(rows=(lost, right), differences=(MatchDifference(benchmark="demo", a="before", b="after", **numbers),))
    record = record.model_copy(update={"why": why})
    write_record(folder, record)
    assert read_record(folder) == record
    Trained(folder, (record,)).show()
    card, page, terminal = model_card(record), words(write_training_report(folder, record)), capsys.readouterr().out
    assert re.search(r"\| lost to the picture's prior \| 100\.00 [^|]*\| 0\.00 [^|]*\|", card)
    assert "Items of demo that match: +25.00 [+10.0, +40.0] points" in card
    assert "demo, items that match: +25.00 [+10.0, +40.0] points" in page
    assert re.search(r"^before +after +match +\+25\.00", terminal, re.MULTILINE)


def test_the_page_holds_the_curves_and_they_lie_beside_it(trained):
    folder, record = trained
    page = write_training_report(folder, record).read_text(encoding="utf-8")
    drawn = [base64.b64decode(data).decode() for data in re.findall(r"data:image/svg\+xml;base64,([\w+/=]+)", page)]
    titles = ["Loss and its parts", "Validation set, %", "From the start (0) to the trained weights (1)"]
    assert [any(title in text for text in drawn) for title in titles] == [True] * 3
    assert 'alt="Loss and its parts, over step: total from 1 to 0.25"' in page
    assert (folder / "log.svg").is_file() and (folder / "wise" / "curve.svg").is_file()


def test_a_run_that_measured_nothing_has_a_page_too(trained):
    folder, record = trained
    bare = record.model_copy(update={"comparison": None, "sweep": None, "best": None, "leaks": (), "limit": 4})
    text = words(write_training_report(folder, bare))
    assert "what it lost elsewhere is not known" in text and "below .05" not in text
    assert "The weights are the last ones; there was no validation set. It is a smoke run" in text


def test_a_bar_without_an_interval_has_a_point_alone():
    assert difference_bar(-0.2, None, None, 0.2).count("<rect") == 0
    assert 'class="point" x1="0"' in difference_bar(-0.2, None, None, 0.2)
    assert 'class="range" x="0" y="3.5" width="100"' in difference_bar(0.0, -0.2, 0.2, 0.2)
    assert 'class="range worse"' in difference_bar(-0.2, -0.3, -0.1, 0.3)
    assert 'x1="50"' in difference_bar(0.0, 0.0, 0.0, 0.0)


def test_the_terminal_names_the_metric_and_what_was_gained_and_lost(trained, capsys):
    folder, record = trained
    Trained(folder, (record.model_copy(update={"limit": 4}),)).show()
    assert "--limit" in capsys.readouterr().out.splitlines()[0]
    Trained(folder, (record,)).show()
    out = capsys.readouterr().out
    assert out.startswith("kept the weights after step 4 of 4: group_score 68.75 % on 4 items held out of the training")
    better, worse = (f"{side}, p after Holm below .05:" for side in ("better", "worse"))
    assert f"\n{better} demo text_score\n{worse} {HOSTILE} accuracy\n" in out
    assert out.rstrip().endswith(f"report: {folder}/report.html")


def test_show_makes_the_page_anew_and_prints_what_train_printed(trained, command):
    folder, _ = trained
    shown = command("show", folder)
    assert (shown.code, shown.err) == (0, "")
    assert "group_score 68.75 % on 4 items" in shown.out and (folder / "report.html").is_file()
    as_json = command("show", folder, "--json").json
    assert (as_json["validation_metric"], as_json["report"]) == ("group_score", f"{folder}/report.html")
    # Two other intervals exclude 0, and their p after Holm does not: they are in neither list.
    assert as_json["better"] == [{"benchmark": "demo", "metric": "text_score"}]
    assert as_json["worse"] == [{"benchmark": HOSTILE, "metric": "accuracy"}]
    (folder / "record.json").write_text("{}")
    check_facts(command("show", folder).err, "record.json")


def test_show_of_a_folder_of_seeds_prints_their_means(trained, command, tmp_path):
    for seed in range(2):
        values = {**trained[1].config, "seed": seed}
        write_record(tmp_path / "seeds" / f"seed-{seed:03d}", trained[1].model_copy(update={"config": values}))
    assert "2 seeds, percent" in command("show", tmp_path / "seeds").out
    assert command("show", tmp_path / "seeds", "--json").json["seeds"] == [0, 1]


@pytest.mark.slow
def test_training_ends_with_the_page_and_the_report_of_its_run_folder(tmp_path, command):
    name, path = f"folder:{squares(tmp_path / 'test', seed=5)}", tmp_path / "train.toml"
    path.write_text(toml(table(tmp_path, data={"share": 0.7, "together": True}, report={"benchmarks": [name]})))
    ran = command("train", path, "--out", "run", "--allow-leak")
    assert ran.code == 0, ran.err
    assert ran.out.rstrip().endswith("report: run/report.html")
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    links = re.findall(r'<a href="([^"#]+)"', page)
    assert links == ["report/report.html", "report/", "model/README.md", "log.jsonl", "record.json"]
    assert all((tmp_path / "run" / link).exists() for link in links)
    assert command("show", "run").out == ran.out
    assert (tmp_path / "run" / "report.html").read_text(encoding="utf-8") == page
    assert command("show", "run/report").code == 0  # the run folder below is one like any other
