"""The page's HTML: what it says, what it asks for, and what untrusted text can do to it."""

import json
import re
from dataclasses import replace
from functools import reduce
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from unittest.mock import Mock
from urllib.parse import parse_qs

import numpy as np
import pytest

import tellapart as ta
from facts import raises
from sets import write_file
from tellapart.diagnosis.why import Reasons
from tellapart.errors import DataError, RunError
from tellapart.evaluation.compare import judge_pair
from tellapart.metrics.matching import Reason, reasons
from tellapart.records.result import BenchmarkResult, ModelRecord, Result, RunRecord, Sample
from tellapart.report import diagnoses
from tellapart.report import page as report_page
from tellapart.report.benchmark_runs import ReportRun, arrange_runs
from tellapart.report.conclusions import rivals_of
from tellapart.report.diagnoses import explain_section, place_items, reason_rows
from tellapart.report.numbers import percent, points
from tellapart.report.page import MOST_EXAMPLES, examples, make_page

HOSTILE = """</script><script>window.hacked=1</script><img src=x onerror="window.hacked=1">'"&<!--"""


class Page(HTMLParser):
    """Elements with attributes, the text outside scripts, and the embedded JSON."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.json: dict[str, object] = {}
        self._in: tuple[str, dict[str, str | None]] = ("", {})
        self.feed(html)

    def handle_starttag(self, tag, attrs) -> None:
        self.elements.append((tag, dict(attrs)))
        self._in = (tag, dict(attrs)) if tag in {"script", "style"} else self._in

    def handle_endtag(self, tag) -> None:
        self._in = ("", {}) if tag in {"script", "style"} else self._in

    def handle_data(self, data) -> None:
        tag, attributes = self._in
        if tag == "":
            self.words.append(data)
        elif attributes.get("type") == "application/json":
            self.json[attributes["id"]] = json.loads(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def merged(first: ReportRun, second: ReportRun) -> ReportRun:
    benchmarks = {**first.result.benchmarks, **second.result.benchmarks}
    result = first.result.model_copy(update={"benchmarks": benchmarks})
    return ReportRun(result, {**first.samples, **second.samples}, first.read_image)


def test_tables_say_every_headline_number_with_interval_chance_and_a_bar(make_run):
    runs = [make_run(model="a", seed=1), make_run(model="b", seed=2)]
    page = Page(make_page(runs).html)
    for run in runs:
        metrics = run.result.benchmarks["shapes"].metrics
        for name in ("text_score", "image_score", "group_score"):
            value = metrics[name]
            assert f"{percent(value.value)} [{percent(value.low, 1)}, {percent(value.high, 1)}]" in page.text
    chance = {attributes["x1"] for tag, attributes in page.elements if attributes.get("class") == "chance"}
    assert chance == {"25", "16.67", "50"}
    assert "macro: mean of the 2 values" in page.text and "micro: all items" in page.text
    even = ({"type": "colour"}, {"type": "place"})
    alone = Page(make_page([make_run(model="a", tags=even)]).html).text
    assert "micro: all items (= macro of type)" in alone and "a , measured on Shapes (30 items)" in alone
    for fact in ("2026-11-21 07:00", "tellapart 0.1.0", runs[0].result.benchmarks["shapes"].fingerprint[:12]):
        assert fact in alone


def test_the_page_begins_with_what_its_numbers_say(make_run):
    runs = [make_run(model="a", skill=0.0, n=90), make_run(model="b", skill=2.0, seed=1, n=90)]
    page = make_page(runs)
    sentences = page.conclusions[0].sentences
    text = Page(page.html).text
    places = [text.index(words) for words in (sentences[0], sentences[1], "2 models, measured on", "Percent of items")]
    assert sentences[0].startswith("b is first of 2 models") and places == sorted(places)
    assert "Can it tell two almost identical pairs apart?" in text


@pytest.mark.parametrize(("names", "counted"), [("pqr", False), ("pqrs", True)])
def test_few_benchmarks_are_told_at_the_head_and_many_counted_up(make_run, names, counted):
    run = reduce(merged, [make_run(model="m", skill=3.0, benchmark=name, n=8) for name in names])
    page = make_page([run])
    head, *parts = Page(page.html).text.split("Fingerprint")
    assert ("m is above chance on 4 of 4 benchmarks." in head) == counted
    assert ("measured on 4 benchmarks. Brackets" in head) == ("benchmark m chance n metric" in head) == counted
    for record in run.result.benchmarks.values():
        assert (f"{record.title} {percent(record.metrics['group_score'].value)} [" in head) == counted
    for conclusion, section in zip(page.conclusions, parts, strict=True):
        assert (conclusion.sentences[0] in head, conclusion.sentences[0] in section) == (not counted, counted)


def test_models_are_set_against_each_other_and_by_subset(make_run):
    runs = [make_run(model=name, skill=skill, seed=skill, n=90) for skill, name in enumerate(("a", "b", "random"))]
    page = Page(make_page(runs).html)
    (duel,) = rivals_of(arrange_runs(runs)[0]).duels
    assert "b less a" in page.text and "less random" not in page.text
    for row in duel.rows:
        assert f"{points(row.difference, row.low, row.high)} p {row.p_holm_text}" in page.text
    assert "corrected for all 4 tests (Holm)" in page.text
    (verdict,) = judge_pair("a", "b", [*duel.rows], 4)
    assert f"{verdict.sentence}." in page.text
    by_side = page.text[page.text.index("Models by side") :]
    assert by_side.index(" b a left ") < by_side.index("a by tag")  # the best first, no reference model
    alone = Page(make_page(runs[:1]).html).text
    assert "Models against each other" not in alone and "Models by side" not in alone
    # More than ten pairs are folded.
    many = [make_run(model=f"m{k}", seed=k, tags=(), with_images=False) for k in range(6)]
    assert "<summary>Models against each other: 15 pairs</summary>" in make_page(many).html
    assert "<h3>Models against each other</h3>" in make_page(many[:5]).html


@pytest.mark.slow
@pytest.mark.parametrize(("benchmark", "tag"), [("mine", "bag_of_words"), ("sugarcrepe", "subset")])
def test_the_map_of_models_is_by_the_papers_tag_or_the_first_of_several(make_run, benchmark, tag):
    tags = [{"bag_of_words": "same" if k % 3 else "differs", "subset": "add" if k % 2 else "swap"} for k in range(30)]
    runs = [make_run(model=name, seed=k, benchmark=benchmark, shape=(1, 2), tags=tags) for k, name in enumerate("ab")]
    assert f"Models by {tag}" in Page(make_page(runs).html).text
    one = [make_run(model=name, seed=k, tags=[{"type": "only"}]) for k, name in enumerate("ab")]
    assert "Models by" not in Page(make_page(one).html).text


def test_two_names_of_one_number_share_a_row_and_a_filter(make_run):
    page = Page(make_page([make_run()]).html)
    assert "text_score = i2t " in page.text and "image_score = t2i " in page.text
    outcomes = page.json["report-data"]["sections"][0]["models"][0]["outcomes"]
    assert "text_score" in outcomes and not {"i2t", "t2i"} & outcomes.keys()
    assert "pairwise = choice_score" in Page(make_page([make_run(shape=(1, 2), kind="probability")]).html).text
    assert "choice_score = pairwise" in Page(make_page([make_run(shape=(1, 2))]).html).text


def with_record(run: ReportRun, **changes) -> ReportRun:
    record = run.result.benchmarks["shapes"].model_copy(update=changes)
    return ReportRun(run.result.model_copy(update={"benchmarks": {"shapes": record}}), run.samples)


def test_a_note_that_all_models_share_is_said_once(make_run):
    notes = {"a": ("slow", "odd"), "b": ("slow",)}
    runs = [with_record(make_run(model=name, seed=k), notes=notes[name]) for k, name in enumerate(notes)]
    text = Page(make_page(runs).html).text
    assert text.count("slow") == 1 and "all models: slow" in text and "a: odd" in text


def test_nothing_is_asked_of_the_network(make_run):
    html = make_page([make_run(), make_run(model="b", benchmark="foils", shape=(1, 3))]).html
    page = Page(html)
    for tag, attributes in page.elements:
        for name in ("src", "href", "action", "data", "poster", "srcset", "xlink:href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:image/")), (tag, attributes)
    assert not {"link", "iframe", "object", "embed", "base"} & {tag for tag, _ in page.elements}
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|WebSocket|https?://", html)
    policy = [attributes["content"] for _, attributes in page.elements if "http-equiv" in attributes]
    assert len(policy) == 1 and policy[0].startswith("default-src 'none'; img-src data:;")


def hostile_run(make_run) -> ReportRun:
    run = make_run(model=HOSTILE, n=3)
    samples = [
        replace(sample, id=f"{k}{HOSTILE}", texts=(HOSTILE, HOSTILE + "x"), tags={HOSTILE: HOSTILE}, images=())
        for k, sample in enumerate(run.samples["shapes"])
    ]
    record = run.result.benchmarks["shapes"]
    by = {HOSTILE: {HOSTILE: next(iter(record.by["type"].values()))}}
    named = dict.fromkeys(("title", "origin", "fingerprint"), HOSTILE)
    about = dict.fromkeys(("command", "device", "started"), HOSTILE) | {"versions": {HOSTILE: HOSTILE}}
    benchmarks = {HOSTILE: record.model_copy(update=named | {"by": by})}
    result = run.result.model_copy(update={"benchmarks": benchmarks, "run": run.result.run.model_copy(update=about)})
    return ReportRun(result, {HOSTILE: samples})


def test_untrusted_text_adds_no_element_and_no_attribute(make_run):
    html = make_page([hostile_run(make_run), make_run()]).html
    plain = Page(make_page([make_run(n=3), make_run()]).html)
    page = Page(html)
    assert "<script>window" not in html and "<img src=x" not in html.split("<script>")[0]
    assert len({sum(tag == "script" for tag, _ in of.elements) for of in (page, plain)}) == 1
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert page.json["report-data"]["models"][0] == HOSTILE
    assert page.json["report-data"]["sections"][0]["items"]["texts"][0][0] == HOSTILE


def test_models_measured_on_the_same_items_share_a_section_whatever_their_order(make_run):
    first, second = make_run(model="a", seed=1), make_run(model="b", seed=2)
    turned = ReportRun(second.result, {"shapes": second.samples["shapes"][::-1]}, second.read_image)
    data = Page(make_page([first, turned]).html).json["report-data"]
    assert (len(data["sections"]), data) == (1, Page(make_page([first, second]).html).json["report-data"])
    # The same name with another fingerprint is another section.
    data = Page(make_page([make_run(n=30), make_run(n=20)]).html).json["report-data"]
    assert [len(section["items"]["ids"]) for section in data["sections"]] == [30, 20]
    assert data["models"] == ["plain (run 1)", "plain (run 2)"]


def test_images_that_are_not_at_hand_do_not_stop_the_report(make_run):
    run = make_run()
    for read in (Mock(side_effect=DataError("no image")), None):
        assert "images were not at hand" in Page(make_page([ReportRun(run.result, run.samples, read)]).html).text
    page = Page(make_page([make_run(with_images=False)]).html)
    assert "These scores came without images." in page.text and page.json["benchmark-1-pictures"] == []


def test_over_the_budget_the_worst_items_keep_their_pictures_and_the_page_says_how_many_do_not(make_run):
    run = make_run()
    budget = sum(map(len, Page(make_page([run]).html).json["benchmark-1-pictures"])) // 3
    page = Page(make_page([run], image_budget_bytes=budget).html)
    section = page.json["report-data"]["sections"][0]
    shown = {item for item, places in enumerate(section["items"]["pictures"]) if min(places) >= 0}
    worst = sorted(range(30), key=lambda item: section["models"][0]["margins"][item])
    assert shown == set(worst[: len(shown)]) and 5 <= len(shown) <= 15
    assert f"{30 - len(shown)} items of 30 show no picture" in page.text
    assert sum(map(len, page.json["benchmark-1-pictures"])) <= budget


def test_of_a_large_benchmark_the_page_holds_the_worst_items_and_some_of_the_best(make_run, monkeypatch):
    run = make_run()
    whole = Page(make_page([run]).html).json["report-data"]["sections"][0]
    monkeypatch.setattr(report_page, "MOST_ITEMS", 10)
    cut = Page(make_page([run]).html)
    section = cut.json["report-data"]["sections"][0]
    order = sorted(range(30), key=lambda item: whole["models"][0]["margins"][item])
    kept = sorted([*order[:9], order[-1]])  # in file order, as all are
    assert section["items"]["ids"] == [whole["items"]["ids"][item] for item in kept]
    assert section["models"][0]["scores"] == [whole["models"][0]["scores"][item] for item in kept]
    assert len(cut.json["benchmark-1-pictures"]) == 20
    assert "Shown are 10 of the 30 items" in cut.text and "samples/shapes.jsonl in the run folder holds all" in cut.text
    assert "Shown are" not in Page(make_page([make_run(n=10)]).html).text
    # The filters count what can be browsed, and number a tag's values as the items do.
    types = section["items"]["tags"]["type"]
    for code, value in enumerate(types["values"]):
        assert f"{value} ({types['of'].count(code)})" in cut.text


def test_budget_that_one_benchmark_leaves_goes_to_the_next(make_run):
    first, second = make_run(n=3), make_run(benchmark="foils", shape=(1, 4), n=30)
    sizes = [sum(map(len, Page(make_page([run]).html).json["benchmark-1-pictures"])) for run in (first, second)]
    page = Page(make_page([merged(first, second)], image_budget_bytes=sum(sizes)).html)
    assert [section["shape"] for section in page.json["report-data"]["sections"]] == [[2, 2], [1, 4]]
    assert [len(page.json[f"benchmark-{number}-pictures"]) for number in (1, 2)] == [6, 30]


def test_a_tie_is_shown_with_its_tie_neutral_value(make_run):
    run = make_run(scores=np.full((30, 2, 2), 0.5, np.float32))
    text = Page(make_page([with_record(run, tied_items=30, tied_comparisons=120)]).html).text
    assert "0.00 [0.0, 11.6] 16.67 tie-neutral, 30 tied" in text
    assert "30 items of 30 with a tie" in text and "(120 tied comparisons)" in text
    assert "tie-neutral" not in Page(make_page([make_run(skill=1.0)]).html).text


def test_texts_of_items_run_in_their_own_direction(make_run):
    for shape, element in (((2, 2), "figcaption"), ((1, 2), "p")):
        html = make_page([make_run(shape=shape)]).html
        shown = [attributes for tag, attributes in Page(html).elements if tag == element and "dir" in attributes]
        assert shown and all(attributes["dir"] == "auto" for attributes in shown), shape


def test_every_control_has_a_label_and_every_plot_a_name(make_run):
    html = make_page([make_run(model="a"), make_run(model="b", seed=3)]).html
    for control in re.finditer(r"<(?:select|input)\b", html):
        before = html[: control.start()]
        assert before.rfind("<label") > before.rfind("</label>")
    for tag, attributes in Page(html).elements:
        if tag == "svg":
            assert attributes.get("aria-label") or attributes.get("aria-hidden") == "true"


def test_a_tag_that_is_an_identifier_gets_no_list_of_values(make_run):
    tags = [{"scene": f"s{k}", "type": "few" if k % 2 else "other"} for k in range(501)]
    page = Page(make_page([make_run(n=501, tags=tags, with_images=False)]).html)
    assert [attributes["data-tag"] for _, attributes in page.elements if "data-tag" in attributes] == ["type"]


def test_samples_that_are_missing_or_do_not_match_are_refused(make_run):
    run, other = make_run(model="a"), make_run(model="b")
    bent = [replace(run.samples["shapes"][0], scores=((0.5, 0.1),))]
    for runs, *facts in (
        ([ReportRun(run.result, {})], "read_samples", "shapes"),
        ([run, ReportRun(other.result, {"shapes": other.samples["shapes"][:-1]})], "b", "29", "30"),
        ([ReportRun(run.result, {"shapes": bent})], "shapes-0000", "1x2", "2x2"),
        ([], "benchmark", "0", "run"),
    ):
        with raises(RunError, *facts):
            make_page(runs)


def report_run(name: str, samples: list[Sample], **about: str) -> ReportRun:
    record = BenchmarkResult(title="t", fingerprint="0", metrics={}, origin="", **about)
    run = RunRecord(started="2026-01-01T00:00:00+00:00", seed=0, command="", versions={})
    result = Result(run=run, model=ModelRecord(name=name, fingerprint=name), benchmarks={"set": record})
    return ReportRun(result, {"set": samples})


def answers_of(name: str, values: list[float | None]) -> ReportRun:
    """A model's outcomes of questions; the answer to question 20 is long, and one that is None has no outcome."""
    samples = []
    for k, value in enumerate(values):
        about = {"unit": "question", "output": "x" * 500 if k == 20 else f"answer {k}"}
        outcomes = {} if value is None else {"exact_match": value}
        samples.append(Sample(id=str(k), cluster=str(k), outcomes=outcomes, **about))
    return report_run(name, samples, task="vqa", output="text")


def test_the_worst_over_all_models_come_first_and_no_more_than_fit():
    good, bad = [1.0] * 100, [1.0] * 100
    good[70], bad[70], bad[20] = 0.0, 0.0, 0.0
    good[0] = bad[1] = None  # left without an answer
    (section,) = arrange_runs([answers_of("a", good), answers_of("b", bad)])
    (shown,) = examples(section)
    assert (shown.noun, shown.metric, shown.total, len(shown.rows)) == ("question", "exact_match", 98, MOST_EXAMPLES)
    assert [sample.id for sample, _ in shown.rows[:3]] == ["70", "20", "2"]
    assert [*shown.rows[1][1]] == [("x" * 159 + "…", 1.0), ("x" * 159 + "…", 0.0)]


@pytest.mark.parametrize("hostile", ["<script>alert(1)</script>", "</td><img src=x onerror=alert(1)>"])
def test_answers_and_captions_are_escaped(command, hostile):
    query = {"id": "q", "query": hostile, "candidates": ["a.png", "b.png"], "people": [1, 2]}
    write_file(Path("q.jsonl"), [query])
    write_file(Path("s.jsonl"), [{"id": "q", "scores": [1, 2]}])
    command("score", "ranking:q.jsonl", "--scores", "s.jsonl", "--name", hostile, "--out", "run", code=0)
    page = Path("run/report.html").read_text(encoding="utf-8")
    assert hostile not in page and "&lt;" in page
    assert page.count('class="said" dir="auto"') == page.count('class="said"') > 0  # from right to left, if it is so


POINT = re.compile(r'<a href="#([^"]*)"( class="wrong")?><circle cx="([\d.]+)" cy="([\d.]+)" r="4"><title>([^<]*)')


def test_every_item_is_a_point_that_links_to_it(made_set, tmp_path):
    folder = made_set("a & b")
    (folder / "pairs.jsonl").write_text((folder / "pairs.jsonl").read_text().replace("item-", "items=+&"))
    scores = np.random.default_rng(0).normal(size=(12, 2, 2)) + np.eye(2)
    page = ta.score(f"folder:{folder}", scores, out=tmp_path / "run").write_report().path
    points = POINT.findall(page.read_text())
    outcome = reasons(scores)
    assert len(points) == 12 and {Reason.RIGHT, Reason.NO_MATCH} < {*outcome}
    for number, (link, wrong, x, y, title) in enumerate(points):
        assert parse_qs(unescape(link)) == {"benchmark": ["folder:a & b"], "item": [f"items=+&{number}"]}
        assert unescape(title) == f"items=+&{number}: {outcome[number].label}"
        assert bool(wrong) == (outcome[number] != Reason.RIGHT)
        across, up = (float(x) - 46) / 366, (195 - float(y)) / 187
        if max(across, up) < 1 and up > -0.5:  # on no edge
            assert (up > across) == (not wrong) and (up > 0) == (outcome[number] != Reason.NO_MATCH)


def test_many_items_are_spread_and_those_that_the_page_lacks_have_no_link(monkeypatch):
    monkeypatch.setattr(diagnoses, "MOST_POINTS", 4)
    items = tuple((str(k), 0.0, 0.0, "no_match") for k in range(12))
    reach, points = place_items(Reasons.model_construct(items=items), range(6))
    assert reach == "1"  # of equal scores
    assert [(id_, here) for *_, id_, _, here in points] == [("0", True), ("3", True), ("6", False), ("9", False)]


def test_outcomes_alone_are_bounded_on_the_page():
    sides = [(1.0, 1.0), (1.0, 0.0), (0.0, 0.0)]  # right, lost to the picture's prior, no match or both priors
    outcomes = [{"text_score": text, "image_score": image} for text, image in sides]
    samples = [Sample(id=str(k), cluster=str(k), outcomes=values) for k, values in enumerate(outcomes)]
    (section,) = arrange_runs([report_run("m", samples, task="pairs", output="scores")])
    (row,) = explain_section(section)
    cells = {head: cell for head, (cell,) in reason_rows([row])}
    assert row.at_most is not None
    assert cells[Reason.RIGHT.label].startswith("33.33 [")  # of the first item
    assert " to " in cells["match score"]


def test_what_clustered_items_are_worth_is_shown_beside_their_number(made_set, command):
    """60 items in 20 clusters, of which half are all right and half are all wrong."""
    folder = made_set(n=60, clusters=20)
    scores = np.array([np.eye(2) if k % 2 else 1 - np.eye(2) for k in range(60)])
    run = ta.score(f"folder:{folder}", scores, name="mine", out=Path("run")).write_report()
    worth = round(ta.read_result("run").benchmarks["folder:set"].metrics["group_score"].effective)
    assert f"percent of 60 items in 20 clusters, as good as {worth}, 95% intervals" in command("show", "run").out
    page = run.path.read_text()
    assert f"in 20 clusters, as good as {worth} independent ones" in page
    assert '<th scope="col">as good as</th>' in page
    value = command("show", "run", "--json").json["runs"][0]["benchmarks"]["folder:set"]["metrics"]["group_score"]
    assert round(value["effective"]) == worth
    made_set("plain", n=12)
    shown = command("run", "-m", "random", "-b", "folder:plain", "--out", "r", "--no-cache", code=0)
    assert "as good as" not in shown.out + Path("r/report.html").read_text()
    assert ta.read_result("r").benchmarks["folder:plain"].metrics["group_score"].effective is None
