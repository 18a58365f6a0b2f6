"""Files that are sent get the numbers of `tellapart score`, rounded and shown as limits and leaks allow."""

import csv
import io
import json
import math
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, islice
from typing import Any

import numpy as np
import pytest
from bench.label_attack import RECORDS, HiddenLabels, attack, search
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy.stats import beta, binomtest

from boards import open_board
from facts import raises
from tellapart.board.records import BoardSettings
from tellapart.board.submissions.hidden import (
    allowed_submissions,
    first_step,
    in_points,
    label_bits,
    leaked_bits,
    rise_chances,
    submissions_for_all_labels,
    submissions_for_one_label,
)
from tellapart.board.submissions.prepared import read_truth, worth_of
from tellapart.board.submissions.service import MeasuredSubmission, as_result, standings, values_of
from tellapart.board.submissions.worker import Split, round_to
from tellapart.data.folder import read_pair_set
from tellapart.data.scores import Scores
from tellapart.errors import MetricError
from tellapart.evaluation.run import run_scores
from tellapart.metrics.pairs import group_score
from tellapart.models.memory.external import write_scores
from tellapart.records.samples import read_samples


def pixels(data: bytes) -> bytes:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).tobytes()


def own_scores(board, values: np.ndarray[Any, Any]) -> Scores:
    """Scores of published items as scores of the set's own, found by looking at texts and pixels alone."""
    pairs = read_pair_set(board.pairs)
    by_texts, restored = {frozenset(item.texts): item for item in pairs.items}, {}
    with zipfile.ZipFile(board.service.prepared["clocks"].task_file) as archive:
        for item, scores in zip(board.task(), values, strict=True):
            own = by_texts[frozenset(item["texts"])]
            seen = [pixels(archive.read(name)) for name in item["images"]]
            rows = [seen.index(pixels(pairs.read_bytes(name))) for name in own.images]
            restored[own.id] = scores[np.ix_(rows, [item["texts"].index(text) for text in own.texts])]
    return Scores(list(restored), np.array(list(restored.values())), "similarity")


def test_the_tasks_readme_has_the_lines_that_score_and_send_it(board, tmp_path, monkeypatch):
    made = board(8)
    told = made.client.get("/hidden/clocks").json()["benchmark"]
    archive = made.client.get(told["task_file"], headers=made.of("rita")).content
    with zipfile.ZipFile(io.BytesIO(archive)) as task:
        task.extractall(tmp_path / "task")
    (tmp_path / "task" / "items.jsonl").rename(tmp_path / "task" / "pairs.jsonl")
    lines = [line.strip() for line in (tmp_path / "task" / "README.txt").read_text().splitlines() if line[:4] == "    "]
    monkeypatch.chdir(tmp_path)
    exec("\n".join(lines[:3]).replace("MODEL", "random").replace("FOLDER", "task"), {})  # noqa: S102
    sent, own = lines[3:]
    assert "Bearer" in sent and "--data-binary @scores.npz" in sent and own.endswith('BOARD/submissions"')
    address = sent.split('"')[-2].removeprefix("BOARD")
    answer = made.client.post(address, content=(tmp_path / "scores.npz").read_bytes(), headers=made.of("ann"))
    assert answer.status_code == 202 and answer.json()["model"] == "MINE"
    made.work()
    assert made.see(answer)["state"] == "done"


@pytest.mark.few(1)
@pytest.mark.parametrize(("shape", "clusters"), [((2, 2), 8), ((1, 3), None), ((3, 1), None)])
def test_a_file_gets_the_numbers_that_tellapart_score_gives_it(board, tmp_path, shape, clusters):
    metric = "group_score" if shape == (2, 2) else "choice_score"
    made = board(shape=shape, clusters=clusters, limits={"metrics": (metric,), "step": 0.001})
    values = np.random.default_rng(1).normal(size=(24, *shape)).astype(np.float32)
    write_scores(own_scores(made, values), tmp_path / "own.npz")
    run_scores({f"folder:{made.pairs}": tmp_path / "own.npz"}, tmp_path / "run")
    own = {sample.id: sample for sample in read_samples(tmp_path / "run", f"folder:{made.pairs.name}")}
    seen = made.measured(made.npz(values))
    assert seen["state"] == "done", seen["error"]
    assert seen["private"] is None
    made.service.close("clocks", by="root")
    submission = made.client.get(f"/submissions/{seen['id']}", headers=made.of("ann")).json()["submission"]
    texts = {frozenset(item.texts): item.id for item in read_pair_set(made.pairs).items}
    truth = read_truth(made.service.prepared["clocks"].truth)
    for split, mine in (("public", True), ("private", False)):
        sides = zip(truth.records, truth.public, strict=True)
        ids = [texts[frozenset(item.texts)] for item, public in sides if public is mine]
        expected = round_to(float(np.mean([own[id_].outcomes[metric] for id_ in ids])), 0.001)
        assert submission[split]["values"] == {metric: expected}
        assert submission[split]["items"] == len(ids)
    if clusters:  # siblings stay together, so that nothing public tells of a private item
        sides = {(item.cluster, public) for item, public in zip(truth.records, truth.public, strict=True)}
        assert len(sides) == clusters


@pytest.mark.slow
def test_npz_csv_and_jsonl_of_the_same_scores_get_the_same_numbers(board, tmp_path):
    made, values = board(), np.random.default_rng(2).normal(size=(24, 2, 2)).astype(np.float32)
    scores, outcomes = Scores([item["id"] for item in made.task()], values, "similarity"), []
    for suffix in (".npz", ".csv", ".jsonl"):
        write_scores(scores, tmp_path / f"s{suffix}")
        seen = made.measured((tmp_path / f"s{suffix}").read_bytes(), file=f"s{suffix}", user="ann" if suffix else "bob")
        outcomes.append((seen["state"], seen["public"]))
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert outcomes[0][0] == "done"


@pytest.mark.slow
def test_answers_in_words_are_measured_whichever_order_the_texts_were_given_in(board):
    made = board(limits={"protocol": "answers", "metrics": ()})
    right, rows = made.right(), []
    for item, matrix in zip(made.task(), right, strict=True):
        first = int(matrix[0].argmax()) + 1  # the number of the first image's text, in the published order
        rows += [(f"{item['id']}/1", f"{first};{3 - first}"), (f"{item['id']}/2", f"{3 - first};{first}")]
    stream = io.StringIO()
    csv.writer(stream).writerows([("id", "prediction"), *rows])
    seen = made.measured(stream.getvalue().encode(), file="answers.csv")
    assert (seen["state"], seen["public"]["values"]) == ("done", {"group_score_both_orders": 1.0})
    repeating = "\n".join(json.dumps({"id": id_, "prediction": "1;2"}) for id_, _ in rows)
    seen = made.measured(repeating.encode(), file="answers.jsonl")
    assert seen["public"]["values"] == {"group_score_both_orders": 0.0}


def test_the_task_file_tells_nothing_of_the_labels(board):
    made = board(n=120)
    pairs = read_pair_set(made.pairs)
    data = made.client.get("/hidden/clocks/task.zip", headers=made.of("rita")).content
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        listing = archive.read("items.jsonl").decode()
        times = {entry.date_time for entry in archive.infolist()}
        info = [Image.open(io.BytesIO(archive.read(name))).info for name in archive.namelist() if name.endswith(".png")]
    items = [json.loads(row) for row in listing.splitlines()]
    assert all(set(item) == {"id", "images", "texts"} for item in items)
    told = ("item-", "scene-", "swap", "_0.png", 'left":', "cluster", "tags")
    assert [word for word in told if word in listing] == []
    assert (times, info) == ({(1980, 1, 1, 0, 0, 0)}, [{}] * 240)
    # Neither the items' order nor the places of images and texts go with the file's own.
    texts = {frozenset(item.texts): k for k, item in enumerate(pairs.items)}
    order = [texts[frozenset(item["texts"])] for item in items]
    assert abs(np.corrcoef(order, range(120))[0, 1]) < 0.4
    swapped = sum(bool(matrix[0, 0] < matrix[0, 1]) for matrix in made.right())
    assert 35 < swapped < 85  # fair coins: 60 +- 4.6 standard deviations
    first = sum(item["texts"][0] == pairs.items[k].texts[0] for item, k in zip(items, order, strict=True))
    assert 35 < first < 85


def test_the_shuffle_is_the_servers_alone_and_outlives_it(board, tmp_path):
    made = board()
    before = made.task()
    made.open()
    assert made.task() == before
    (made.folder / "state").rename(tmp_path / "old")
    other = type(made)(tmp_path, made.pairs, limits={}, settings={})
    assert {item["id"] for item in other.task()}.isdisjoint(item["id"] for item in before)
    assert oct((tmp_path / "state" / "secret").stat().st_mode)[-3:] == "600"


@pytest.mark.slow
def test_private_numbers_and_their_rank_change_are_shown_only_after_closing(board):
    made = board()
    public = np.array(read_truth(made.service.prepared["clocks"].truth).public)
    overfit, honest = made.right(), made.right()
    overfit[~public] *= -1  # right on public items alone
    honest[np.flatnonzero(public)[:2]] *= -1
    seen = [made.measured(made.npz(v), user=u, model=u) for v, u in ((overfit, "ann"), (honest, "bob"))]
    pages = [f"/submissions/{seen[0]['id']}", "/hidden/clocks", "/hidden", "/submissions"]
    for user in ("ann", "root"):
        for page in pages:
            for accept in ("application/json", "text/html"):
                answer = made.client.get(page, headers={**made.of(user), "Accept": accept})
                assert answer.status_code == 200 and "private %" not in answer.text
                assert not (accept == "application/json" and '"private":{' in answer.text.replace(" ", ""))
    rows = made.client.get("/hidden/clocks").json()["models"]
    assert [(one["model"], one["rank"], one["private_rank"]) for one in rows] == [("ann", 1, None), ("bob", 2, None)]
    assert made.client.post("/admin/hidden/clocks/close", headers=made.of("root")).status_code == 200
    rows = made.client.get("/hidden/clocks").json()["models"]
    ranks = [(one["model"], one["rank"], one["private_rank"], one["change"]) for one in rows]
    assert (ranks, rows[1]["private"]["group_score"]["value"]) == ([("bob", 2, 1, 1), ("ann", 1, 2, -1)], 0.0)
    assert "Places gained" in made.client.get("/hidden/clocks", headers={"Accept": "text/html"}).text
    answer = made.send(made.npz(honest))
    assert (answer.status_code, "closed" in answer.json()["detail"]) == (409, True)


@pytest.mark.slow
def test_records_of_the_leaderboard_carry_what_the_pages_say(board):
    made = board()
    made.measured(made.npz(made.right(0.5)))
    (standing,) = made.service.standings("clocks")
    result = as_result(standing, made.service.prepared["clocks"])
    found = result.benchmarks["clocks"]
    assert found.fingerprint.startswith("hidden-")
    assert set(found.by["split"]) == {"public"}
    value = found.metrics["group_score"]
    assert (value.n, value.chance) == (12, pytest.approx(1 / 6)) and value.low < value.value < value.high
    assert made.service.results() == [result]
    made.clock.now += 1
    made.measured(made.npz(made.right()))  # a better file of the same model takes its place
    (better,) = made.service.results()
    assert better.benchmarks["clocks"].metrics["group_score"].value == 1.0


@pytest.mark.slow
def test_ties_are_counted_over_the_whole_file_so_that_they_do_not_tell_which_items_are_public(board):
    made = board()
    values = made.right()
    values[0] = 0.5
    made.measured(made.npz(values))
    made.service.close("clocks", by="root")
    (row,) = made.service.standings("clocks")
    assert (row.public.ties, row.private.ties) == (1, 1)


@pytest.mark.slow
def test_the_pages_say_what_the_json_says(board):
    made = board()
    seen = made.measured(made.npz(made.right(0.5)), model="half right")
    page = {**made.of("ann"), "Accept": "text/html"}
    text = made.client.get("/hidden/clocks", headers=page).text
    assert "24 items of 2 images and 2 texts" in text
    value = made.client.get("/hidden/clocks").json()["models"][0]["public"]["group_score"]["value"]
    assert f'<span class="value">{100 * value:.4g}</span>' in text
    assert ">24</td><td>3</td><td>5</td><td>open<" in made.client.get("/hidden", headers=page).text
    assert "half right" in made.client.get("/submissions", headers=page).text
    assert f"group score: {100 * value:.4g} %" in made.client.get(f"/submissions/{seen['id']}", headers=page).text
    assert "That was refused" in made.client.get("/hidden/none", headers=page).text
    for where in ("/hidden", "/hidden/clocks", "/sign-in", f"/submissions/{seen['id']}"):
        assert "built-in" not in made.client.get(where, headers=page).text


@pytest.fixture
def made(board):
    return board()


@pytest.mark.parametrize("file", ["scores.pkl", "scores.py", "../../etc/passwd", "s.npz.exe", "npz", "a\0.npy"])
def test_only_the_endings_of_score_files_are_taken(made, file):
    answer = made.send(b"x", file=file)
    assert (answer.status_code, "send a file that ends in .npz, .csv, .jsonl" in answer.json()["detail"]) == (422, True)


@pytest.mark.slow
def test_a_path_in_the_files_name_goes_nowhere(made):
    seen = made.measured(made.npz(made.right()), file="../../../../tmp/evil.npz")
    assert seen["state"] == "done"
    assert {path.name for path in (made.queue.folder / seen["id"]).iterdir()} == {"sent.npz"}


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("mine.NPZ", "mine.npz"), ("C:\\Users\\ann\\my scores.npz", "my scores.npz"), ("../../etc/a.b.npz", "a.b.npz"),
        ("\u202eturned\x1b[2J\n.npz", "turned[2J.npz"), ("a" * 500 + ".npz", "a" * 76 + ".npz"),
        ("\x00.npz", "file.npz"), ("sent.csv.npz", "sent.csv.npz"),
    ],
)  # fmt: skip
def test_the_sender_sees_a_files_name_and_nothing_that_a_name_could_hide(made, file, shown):
    seen = made.measured(b"no archive", file=file)
    assert (seen["state"], seen["error"].split(" is not")[0]) == ("refused", shown)


NASTY = """<script>alert(1)</script>'; DROP TABLE submission; -- " onmouseover="x {{ 7*7 }} a&b"""


@pytest.mark.slow
def test_a_models_name_is_never_markup_nor_a_query(made):
    seen = made.measured(made.npz(made.right()), model=NASTY)
    assert seen["model"] == NASTY
    cookie = made.service.accounts.sign_in(made.tokens["ann"], hours=1)
    for where in ("/hidden/clocks", "/submissions", f"/submissions/{seen['id']}"):
        text = made.client.get(where, headers={"Accept": "text/html", "Cookie": f"tellapart_session={cookie}"}).text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
        assert not [part for part in ("<script", 'onmouseover="', " 49 ") if part in text]
    assert [row["model"] for row in made.client.get("/hidden/clocks").json()["models"]] == [NASTY]
    assert made.client.get("/hidden/clocks' OR 1=1 --").status_code == 404


@pytest.mark.parametrize(
    ("right", "n", "method", "same"),
    [(19, 20, "clopper-pearson", "exact"), (28, 40, "clopper-pearson", "exact"), (50, 100, "wilson", "wilson")],
)
def test_the_interval_is_that_of_the_method_that_the_json_names(right, n, method, same):
    shown = values_of(Split(n, n, 0, {"group_score": right / n}), (2, 2))["group_score"]
    assert shown.method == f"{method} on clusters, around the rounded number"
    expected = binomtest(right, n).proportion_ci(method=same)
    assert (shown.low, shown.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_half_an_item_of_a_rounded_number_is_counted_and_rare_ones_are_widened():
    shown = values_of(Split(30, 30, 0, {"group_score": 0.95}), (2, 2))["group_score"]
    assert shown.method is not None and shown.method.startswith("clopper-pearson ")
    expected = beta.ppf(0.025, 28.5, 2.5), beta.ppf(0.975, 29.5, 1.5)
    assert (shown.low, shown.high) == pytest.approx(expected, abs=1e-9)
    rare = values_of(Split(100, 100, 0, {"group_score": 0.02}), (2, 2))["group_score"]
    plain = binomtest(2, 100).proportion_ci(method="wilson")
    assert rare.method is not None and rare.method.startswith("wilson, rare ")
    assert rare.low is not None and rare.low < plain.low and rare.high == pytest.approx(plain.high, abs=1e-9)


@pytest.fixture
def shown(board) -> Iterator[tuple[Any, TestClient]]:
    """A board of 60 pairs with one measured file, and a reader of its pages."""
    made, split = board(60, limits={"step": 0.05}), Split(30, 30, 0, {"group_score": 0.95})
    (row,) = standings([MeasuredSubmission("0", "ann", "mine", 0.0, split, None)], "group_score")
    made.service.results = lambda: [as_result(row, made.service.prepared["clocks"])]
    client, _ = open_board(BoardSettings(), submissions=made.service)
    client.follow_redirects = False
    yield made, client


def test_a_users_model_on_two_hidden_benchmarks_is_one_row_and_another_users_is_another(shown):
    made, _ = shown
    split, prepared = Split(30, 30, 0, {"group_score": 0.95}), made.service.prepared["clocks"]
    again = replace(prepared, benchmark=prepared.benchmark.model_copy(update={"name": "second"}), fingerprint="2")
    sent = [("ann", prepared), ("ann", again), ("bob", prepared)]
    rows = [(MeasuredSubmission(str(k), user, "mine", 0.0, split, None), of) for k, (user, of) in enumerate(sent)]
    made.service.results = lambda: [as_result(*row) for row in rows]
    rows = open_board(BoardSettings(), submissions=made.service)[0].get("/?format=json").json()["rows"]
    assert {row["title"]: sum(map(bool, row["cells"])) for row in rows} == {"mine": 3, "mine (2)": 1}


def test_no_page_shows_digits_that_rounding_took_and_a_heat_map_counts_published_items(shown):
    _, client = shown
    for path in ("/", "/benchmarks/clocks", "/benchmarks/clocks/by/split/group_score", "/models/mine"):
        text = client.get(path).text
        assert '<span class="value">95</span>' in text and "95.0" not in text, path
        assert "30 public of 60 items, rounded to 5 points" in text, path
    path, whole = "/benchmarks/clocks/map/split/group_score", "30 public of 60 items, rounded to 5 points"
    rows = client.get(path, params={"format": "json"}).json()["rows"]
    assert [(row["title"], row["n"]) for row in rows] == [("public", 30), (whole, 30)]
    assert [cell["text"] for row in rows for cell in row["cells"]] == ["95", "95"]
    text = client.get(path).text
    assert ">95<" in text and "95.0" not in text and "all items" not in text


def test_every_page_links_to_the_sign_in_and_the_form_names_the_page_of_the_user(shown):
    made, client = shown
    page = {"Accept": "text/html"}
    for path in ("/", "/benchmarks/clocks", "/models/mine", "/hidden"):
        assert client.get(path, headers=page).text.count('href="/sign-in"') == 1, path
    without, _ = open_board(BoardSettings())
    assert "/sign-in" not in without.get("/").text
    assert "Your token" in client.get("/sign-in", headers=page).text
    client.post("/sign-in", data={"token": made.tokens["ann"]}, headers=page)
    again = client.get("/sign-in", headers=page)
    assert (again.status_code, again.headers["Location"]) == (303, "/submissions")
    text = client.get("/hidden/clocks", headers=page).text
    (note,) = [line for line in text.splitlines() if 'id="public-name"' in line]
    assert "This page" in note and "user name" in note
    assert not [path for path in ("/", "/models/mine", "/benchmarks/clocks") if "ann" in client.get(path).text]


def test_the_documents_numbers_of_files_and_bits():
    assert (round(leaked_bits(20, 0.01), 1), submissions_for_all_labels(4000, (2, 2), 0.01)) == (133.2, 601)
    assert (allowed_submissions(150, (2, 2), 0.02, 0.5), round(label_bits(100, (1, 5)), 1)) == (13, 232.2)
    boards = ((4000, 0.01), (4000, 0.001), (150, 0.02))
    assert [round(submissions_for_one_label(*board), 2) for board in boards] == [4.71, 2.75, 2.75]
    assert (round_to(0.4361, 0.005), round_to(0.125, 0.01), worth_of(["a", "a", "a", "b"])) == (0.435, 0.13, 1.6)
    assert [in_points(step) for step in (0.05, 0.01, 0.001)] == ["5 points", "1 point", "0.1 points"]


STEPS = st.sampled_from([0.1, 0.05, 0.02, 0.01, 0.005, 0.001])


def test_a_file_is_measured_in_the_attack_as_a_board_measures_it():
    hidden = HiddenLabels(40, 0.05, np.random.default_rng(0))
    for guesses in np.random.default_rng(1).integers(-1, 2, (20, 40), np.int8):
        scores = guesses[:, None, None] * np.eye(2)
        restored = np.where((hidden.labels < 0)[:, None, None], scores[:, :, ::-1], scores)
        share = float(np.mean(group_score(restored.astype(np.float32))))
        assert hidden.measure(guesses) == round_to(share, hidden.step)


@pytest.mark.parametrize(("items", "step"), [(4000, 0.01), (4000, 0.001), (600, 0.05), (150, 0.02), (40, 0.01)])
def test_the_first_label_takes_as_many_files_on_average_as_is_said(items, step):
    told = submissions_for_one_label(items, step)
    assert attack(items, step, 30, 300)["first_label_after"] == pytest.approx(told, abs=0.3)


def test_no_search_among_places_takes_fewer_files():
    """The best of all trees, by dynamic programming over every first and last place."""
    totals = [0.0, *accumulate(rise_chances(4000, 0.01))]
    places = len(totals) - 1
    best = np.zeros((places + 1, places + 1))
    for width in range(2, places + 1):
        for start in range(places - width + 1):
            end = start + width
            parts = best[start, start + 1 : end] + best[start + 1 : end, end]
            best[start, end] = totals[end] - totals[start] + parts.min()
    assert best[0, places] <= submissions_for_one_label(4000, 0.01) < best[0, places] + 0.01


def test_after_the_first_label_each_file_tells_one_more_as_the_record_says():
    counts = list(islice(search(HiddenLabels(1000, 0.01, np.random.default_rng(3))), 30))
    first = counts.index(1)
    assert counts[first:] == [*range(1, 31 - first)]
    assert attack(150, 0.02, 10, 5, places=13)["labels"] > 10 > attack(150, 0.02, 10, 100)["labels"]
    record = json.loads((RECORDS / "label_attack.json").read_text())
    for (items, step), found in zip([(4000, 0.01), (150, 0.02)], record.values(), strict=True):
        assert found["search"]["first_label_after"] == pytest.approx(submissions_for_one_label(items, step), abs=0.1)
        for kind in found.values():
            assert kind["labels"] <= leaked_bits(kind["files"], step)


class Statements:
    """Measures statements that are true or false: no prediction is wrong for certain, and none can be left out."""

    def __init__(self, items: int, step: float, seed: int) -> None:
        self.labels = np.random.default_rng(seed).integers(0, 2, items).astype(bool)
        self.step, self.asked = step, 0

    def score(self, said: np.ndarray) -> float:
        self.asked += 1
        return round_to(float(np.mean(said == self.labels)), self.step)


@pytest.mark.parametrize(("items", "step"), [(4000, 0.01), (600, 0.05), (40, 0.01)])
def test_one_label_of_a_statement_takes_longer_on_average_than_is_said(items, step):
    """Find two files with different numbers, and search between them for the one statement that differs."""
    asked = []
    for seed in range(20):
        server, rng = Statements(items, step, seed), np.random.default_rng(seed)
        low = np.ones(items, dtype=bool)
        at_low = server.score(low)
        high, at_high = low, at_low
        while at_high == at_low:
            high = rng.integers(0, 2, items).astype(bool)
            at_high = server.score(high)
        while (differ := np.flatnonzero(low != high)).size > 1:
            middle = low.copy()
            middle[differ[: differ.size // 2]] = high[differ[: differ.size // 2]]
            at_middle = server.score(middle)
            if at_middle != at_low:
                high, at_high = middle, at_middle
            else:
                low, at_low = middle, at_middle
        (item,) = differ
        assert server.labels[item] == (high if at_high > at_low else low)[item]
        asked.append(server.asked)
    assert np.mean(asked) > submissions_for_one_label(items, step, None)


@given(st.floats(0, 1), STEPS)
def test_a_rounded_number_is_a_multiple_within_half_a_step(value, step):
    found = round_to(value, step)
    assert abs(found - value) <= step / 2 + 1e-12
    assert round_to(found, step) == found
    assert math.isclose(found / step, round(found / step), abs_tol=1e-9)


@given(st.integers(1, 5000), STEPS, st.integers(1, 3))
def test_so_many_files_are_needed_that_their_bits_reach_the_labels(items, step, numbers):
    fewest = submissions_for_all_labels(items, (2, 2), step, numbers)
    assert leaked_bits(fewest, step, numbers) >= label_bits(items, (2, 2)) - 1e-6
    assert leaked_bits(fewest - 1, step, numbers) < label_bits(items, (2, 2)) + 1e-6


@given(st.integers(1, 5000), STEPS)
def test_the_first_step_is_where_the_rounded_number_first_rises(items, step):
    needed = first_step(items, step)
    assert needed > items or round_to(needed / items, step) > 0
    assert round_to((needed - 1) / items, step) == 0


def test_a_step_that_does_not_divide_one_and_a_number_beyond_one_are_refused():
    for step in (0.03, 0.0, -0.1, 0.7, 1.0):
        with raises(MetricError, "1", "divide"):
            round_to(0.5, step)
    with raises(MetricError, "[0, 1]"):
        round_to(1.5, 0.01)
