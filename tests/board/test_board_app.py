"""Every page in every form, errors that say what is wrong, headers, and names that are not trusted."""

import csv
import io
import re
import shutil
import subprocess
from collections.abc import Iterator

import numpy as np
import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from boards import HOSTILE, PAGES, open_board, write_run
from tellapart.api.analyses import items as analyse
from tellapart.board.app import HEADERS, create_app
from tellapart.board.records import BoardSettings
from tellapart.board.rendering import _environment, as_latex, signs_of
from tellapart.board.views.leaderboard import Cell
from tellapart.evaluation.compare import compare
from tellapart.evaluation.verified import read_result
from tellapart.records.samples import read_samples

NO_TABLE = {"/compare", "/benchmarks/shapes/items/0"}


@pytest.mark.parametrize("path", ["/", "/compare", "/static/board.css", "/openapi.json", "/models/nobody"])
def test_head_is_get_without_the_body(client, path):
    for more in ("", "?format=json"):
        found, whole = client.head(path + more), client.get(path + more)
        assert (found.status_code, found.content) == (whole.status_code, b"")
        assert found.headers == whole.headers


def test_the_form_of_pareto_and_of_several_models_leads_to_an_address(client):
    leads = {
        "/pareto/latency?over=shapes&over=other": "/pareto/latency/shapes+other",
        "/compare?a=good&b=poor": "/compare/good/poor",
        "/compare?model=good&model=poor": "/compare/good/poor",
        "/compare?model=good&model=near&model=poor": "/compare/good+near+poor",
    }
    for path, address in leads.items():
        answer = client.get(path, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, address)
    assert client.get("/compare?model=good").status_code == 200
    for path in ("/pareto/latency?over=<b>", "/compare?a=//evil.example&b=x"):
        assert client.get(path, follow_redirects=False).status_code == 422


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_html_json_csv_and_latex_at_one_address(client, path):
    page = client.get(path, headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    by_header = client.get(path, headers={"accept": "application/json"}).json()
    assert by_header == client.get(path, params={"format": "json"}).json() and by_header["title"]
    table = client.get(path, params={"format": "csv"})
    assert table.status_code == (404 if path in NO_TABLE else 200)
    if path not in NO_TABLE:
        rows = list(csv.reader(io.StringIO(table.text)))
        assert {len(row) for row in rows} == {len(rows[0])}
        assert client.get(path, params={"format": "latex"}).text.count("\\\\\n") == len(rows)


def test_pages_have_of_a_model_and_a_benchmark_their_name_and_address_alone(client):
    found = client.get("/models/good?format=json").json()
    assert list(found["model"]) == ["slug", "label", "kind"]
    address = ["slug", "name", "title", "task", "n", "metric", "has_items", "part"]
    assert list(found["on"][0]["benchmark"]) == address
    assert list(client.get("/benchmarks/shapes?format=json").json()["benchmark"]) == address


def test_the_leaderboard_has_the_records_numbers_and_columns_by_a_tag_their_mean_and_gap(client, runs):
    found = client.get("/benchmarks/shapes?format=json").json()
    metrics = ["text_score", "image_score", "group_score", "match_score"]
    assert [column["title"] for column in found["columns"]] == metrics
    assert [row["title"] for row in found["references"]] == ["random"]
    records = {name: read_result(runs / name).benchmarks["shapes"] for name in ("good", "near", "poor")}
    values = {name: record.metrics["group_score"] for name, record in records.items()}
    assert [row["title"] for row in found["rows"]] == sorted(values, key=lambda name: -values[name].value)
    for row in found["rows"]:
        cell, value = row["cells"][2], values[row["title"]]
        assert (cell["value"], cell["low"], cell["high"]) == (value.value, value.low, value.high)
    assert {row["title"]: row["cells"][2]["tier"] for row in found["rows"]} == {"good": 1, "near": 1, "poor": 3}
    assert found["chance"][2] == pytest.approx(1 / 6)
    found = client.get("/benchmarks/shapes/by/type/group_score?format=json").json()
    assert [c["title"] for c in found["columns"]] == ["type: colour", "type: place", "mean of the values", "gap"]
    record = read_result(runs / "good").benchmarks["shapes"]
    colour, place = (record.by["type"][name].metrics["group_score"].value for name in ("colour", "place"))
    row = next(row for row in found["rows"] if row["title"] == "good")
    mean = record.macro["type"].metrics["group_score"].value
    assert [cell["value"] for cell in row["cells"]] == pytest.approx([colour, place, mean, colour - place])


def test_items_begin_with_those_that_most_models_fail_and_show_each_models_matrix_and_who_fails(client, runs):
    samples = [read_samples(runs / name, "shapes") for name in ("good", "near", "poor")]
    failed = {one[0].id: sum(s.outcomes["group_score"] < 1 for s in one) for one in zip(*samples, strict=True)}
    shown = []
    for page in (1, 2):
        found = client.get(f"/benchmarks/shapes/items/pages/{page}?format=json").json()
        shown += [(item["title"], item["failed"]) for item in found["items"]]
    assert dict(shown) == failed
    counts = [count for _, count in shown]
    assert counts == sorted(counts, reverse=True)
    samples = {name: read_samples(runs / name, "shapes") for name in ("good", "near", "poor", "random")}
    for place in range(20):
        found = client.get(f"/benchmarks/shapes/items/{place}?format=json").json()
        assert found["title"] == samples["good"][place].id
        assert found["texts"] == list(samples["good"][place].texts)
        for made in found["made"]:
            sample = samples[made["title"]][place]
            shown = [[square["score"] for square in row] for row in made["matrix"]]
            assert np.float32(shown).tolist() == np.float32(sample.scores).tolist()
            right = made["verdicts"]["group_score"] == "won"
            assert right == (sample.outcomes["group_score"] == 1)
            assert (made["title"] in {one["label"] for one in found["won"]}) is right
            assert ([made["matrix"][k][k]["state"] for k in (0, 1)] == ["won", "won"]) is right
            squares = [square for row in made["matrix"] for square in row]
            assert len({s["text"] for s in squares}) == len({s["score"] for s in squares})
            assert all(abs(float(s["text"]) - s["score"]) <= 0.0005 for s in squares)


def test_items_of_five_models_have_the_discrimination_of_the_command(client, tmp_path):
    folders = [write_run(tmp_path / f"m{k}", f"m{k}", skill=0.5 * k, seed=k, n=40) for k in range(5)]
    write_run(tmp_path / "random", "random", skill=0.0, seed=9, n=40)  # a reference model does not count
    expected = analyse(*folders).record
    five, _ = open_board(tmp_path, lambda problem: None)
    found = five.get("/benchmarks/shapes/items/pages/1?format=json").json()
    assert found["reliability"] == pytest.approx(expected.alpha)
    values = {row.id: row.discrimination for row in expected.items}
    near = {name: None if value is None else pytest.approx(value, abs=6e-4) for name, value in values.items()}
    assert {item["title"]: item["discrimination"] for item in found["items"]} == near
    few = client.get("/benchmarks/shapes/items/pages/1?format=json").json()
    assert few["reliability"] is None and {item["discrimination"] for item in few["items"]} == {None}


def test_a_comparison_is_that_of_the_command_and_needs_a_common_benchmark(client, runs):
    found = client.get("/compare/good/poor?format=json").json()
    assert found["tests"] == [row.model_dump(mode="json") for row in compare(runs / "good", runs / "poor").rows]
    a, b = (read_samples(runs / name, "shapes") for name in ("good", "poor"))
    only = [x.id for x, y in zip(a, b, strict=True) if x.outcomes["group_score"] > y.outcomes["group_score"]]
    differs = found["differs"][0]
    assert [name for _, name in differs["only_a"]] == only[:25]
    assert differs["more_a"] == max(0, len(only) - 25)
    slug = next(m["slug"] for m in client.get("/compare?format=json").json()["models"] if m["label"] == HOSTILE)
    found = client.get(f"/compare/good/{slug}?format=json").json()
    assert found["tests"] == []
    assert "on no benchmark in common" in found["refused"][0]


def test_a_models_page_has_its_metrics_curves_and_worst_items(client, runs):
    found = client.get("/models/poor?format=json").json()["on"][0]
    record, samples = read_result(runs / "poor").benchmarks["shapes"], read_samples(runs / "poor", "shapes")
    shares = {name: value.value for name, value in record.metrics.items() if value.mean_absolute is None}
    assert {name: cell["value"] for name, cell in found["metrics"].items()} == shares
    assert {curve["metric"] for curve in found["curves"]} == set(record.metrics) - set(shares)
    scores = np.float32([sample.scores for sample in samples])
    margin = np.minimum(scores[:, 0, 0], scores[:, 1, 1]) - np.maximum(scores[:, 0, 1], scores[:, 1, 0])
    worst = [samples[k].id for k in np.argsort(margin, kind="stable")[:12]]
    assert [item["title"] for item in found["worst"]] == worst


def test_a_model_on_few_items_has_a_dot_for_each(tmp_path):
    write_run(tmp_path / "a", "few", skill=1.0, n=20)
    client, _ = open_board(tmp_path)
    page = client.get("/models/few").text
    assert page.count("<circle") == 3 * 20
    assert "<polyline" not in page


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/models/nobody", 404, "this board has no model 'nobody'"),
        ("/benchmarks/nothing", 404, "this board has no benchmark 'nothing'"),
        ("/benchmarks/shapes/items/60", 404, "no item 60; it has 60"),
        ("/benchmarks/shapes/items/pages/3", 404, "pages 1 to 2"),
        ("/benchmarks/shapes/items/pages/0", 404, "no page 0"),
        ("/benchmarks/shapes/by/size/group_score", 404, "has no tag 'size'"),
        ("/benchmarks/shapes/by/type/accuracy", 404, "has no metric 'accuracy'"),
        ("/benchmarks/shapes/by/domain-of-benchmarks/group_score", 404, "no benchmark of the other domain"),
        ("/compare/good/good", 404, "compared with itself"),
        ("/pareto/price", 404, "there are latency, parameters, training_images"),
        ("/benchmarks/shapes/items/0/pictures/2", 404, "no picture 2"),
        ("/benchmarks/shapes/items/0/pictures/0", 404, "not on this machine"),
        ("/static/..%2fapp.py", 404, "Not Found"), ("/static/app.py", 404, "no file"), ("/nowhere", 404, "Not Found"),
        ("/benchmarks/shapes/items/one", 422, "path.position"),
        ("/benchmarks/shapes/items/99999999999", 422, "path.position"),
        ("/models/a%27%3B%20drop%20table%20model", 422, "path.slug"), ("/?format=xml", 422, "query.format"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_said_in_words_and_in_json(client, path, status, says):
    page, told = (client.get(path, headers={"accept": accept}) for accept in ("text/html", "application/json"))
    assert page.status_code == told.status_code == status
    assert page.headers["content-type"].startswith("text/html") and says in told.json()["detail"]
    assert all(page.headers[name] == value for name, value in HEADERS.items())


@pytest.mark.parametrize("path", [*PAGES, "/static/board.css", "/static/htmx.min.js", "/openapi.json"])
def test_every_answer_allows_its_own_files_only_and_pages_need_no_others(client, path):
    found = client.get(path)
    assert found.status_code == 200
    assert all(found.headers[name] == value for name, value in HEADERS.items())
    assert "unsafe" not in found.headers["content-security-policy"]
    if path in PAGES:
        text = found.text.replace("http://www.w3.org", "")
        assert text.count("<script") == 1 and 'src="/static/htmx.min.js"' in text
        assert not [part for part in ("<style", " style=", "http://", "https://") if part in text]


def test_hostile_names_are_text_on_every_page(client):
    slug = next(m["slug"] for m in client.get("/compare?format=json").json()["models"] if m["label"] == HOSTILE)
    for path in ("/", "/ranks", "/benchmarks/other", f"/models/{slug}", "/benchmarks/other/items/0", "/compare"):
        text = client.get(path).text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text, path
        assert "<script>alert" not in text, path
        assert "{{7*7}}" in text, path  # and it is no template either


#: A formula, what LaTeX reads as its own, letters that pdflatex does not have, and marks that nobody sees.
NAMES = ("=HYPERLINK(1)", "[a] 50% & $x$ #1 {y} _z_ ~^\\ <|>", "*b* ą β 模型 🤖", "x\u200by\u202e", "@SUM(1);=2")


@pytest.fixture
def named(tmp_path) -> Iterator[TestClient]:
    """A board of models with such names."""
    for number, name in enumerate(NAMES):
        write_run(tmp_path / "runs" / str(number), name, skill=3.0 - number / 2, seed=number, n=20)
    client, _ = open_board(tmp_path / "runs")
    yield client


def pages_with_tables(client: TestClient) -> list[str]:
    first, second = (model["slug"] for model in client.get("/compare?format=json").json()["models"][:2])
    paths = [path.replace("near+", "").replace("+other", "") for path in PAGES if path != "/models/random"]
    return [path.replace("good", first).replace("poor", second) for path in paths if path not in NO_TABLE]


def test_a_formula_in_a_name_is_text_in_a_spreadsheet_and_numbers_stay_numbers(named):
    rows = list(csv.reader(io.StringIO(named.get("/benchmarks/shapes?format=csv").text)))
    assert {row[0] for row in rows[1:]} == {f"'{NAMES[0]}", *NAMES[1:4], "'@SUM(1);'=2"}
    assert all(0 <= float(cell) <= 1 for row in rows[1:] for cell in row[2:5])
    for path in pages_with_tables(named):
        for row in csv.reader(io.StringIO(named.get(f"{path}?format=csv").text)):
            assert not [cell for cell in row if cell[:1] in {*"=+@-"} and not re.fullmatch(r"-[\d.]+(e-?\d+)?", cell)]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on the PATH")
def test_every_table_compiles_and_fits_with_the_packages_that_it_names(named, tmp_path):
    tables = [named.get(f"{path}?format=latex").text for path in pages_with_tables(named)]
    preamble = sorted({line for table in tables for line in re.findall(r"^% (\\usepackage.*)$", table, re.MULTILINE)})
    lines = [r"\documentclass{article}", *preamble, r"\begin{document}", "\n\n".join(tables), r"\end{document}"]
    (tmp_path / "paper.tex").write_text("\n".join(lines), encoding="utf-8")
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "paper.tex"]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-3000:]
    log = (tmp_path / "paper.log").read_text(encoding="utf-8", errors="replace")
    assert "Missing character" not in log and "Overfull \\hbox" not in log


def test_latex_sets_an_interval_beside_its_number_a_count_whole_and_a_tiny_p_value_as_a_power():
    head, rows = ("a", "n", "difference", "low", "high", "p"), ("x" * 41, 60, 0.5, 0.4, 0.6, 1.24e-9)
    text = as_latex("t", (head, rows, ("b", 7, 0.5, None, None, 0.01)))
    assert "begin{tabular}{p{0.4\\linewidth}rrr}" in text and "a & n & difference & p \\\\" in text
    assert r" & 60 & 0.5000 {\scriptsize [0.4000, 0.6000]} & $1.2 \cdot 10^{-9}$ \\" in text
    assert r"b & 7 & 0.5000 & 0.0100 \\" in text


def test_a_p_at_the_floor_of_the_drawn_flips_is_written_as_a_bound(tmp_path):
    for seed, (name, skill) in enumerate({"good": 6.0, "poor": 0.0}.items()):
        write_run(tmp_path / name, name, skill=skill, seed=seed, clusters=30)
    client, _ = open_board(tmp_path, lambda _: None)
    page = client.get("/compare/good/poor").text
    rows = client.get("/compare/good/poor?format=json").json()["tests"]
    assert {row["test"] for row in rows} == {"cluster sign flips"} and {row["p"] for row in rows} == {1 / 10_001}
    assert page.count("<td><b>&lt;= 0.0004</b></td>") == len(rows) == 4


def test_a_page_that_did_not_change_is_not_sent_again_and_a_new_run_changes_it(tmp_path):
    write_run(tmp_path / "a", "first", skill=1.0)
    client, board = open_board(tmp_path)
    tag = client.get("/").headers["etag"]
    again = client.get("/", headers={"if-none-match": tag})
    assert (again.status_code, again.content) == (304, b"")
    write_run(tmp_path / "b", "second", skill=1.0, seed=1)
    board.read_in(pytest.fail)
    changed = client.get("/", headers={"if-none-match": tag})
    assert changed.status_code == 200
    assert "second" in changed.text


def test_a_large_page_is_packed_for_who_reads_it_so(client):
    packed, plain = (
        client.get("/benchmarks/shapes", headers={"accept-encoding": encoding}) for encoding in ("gzip", "identity")
    )
    assert [each.headers.get("content-encoding") for each in (packed, plain)] == ["gzip", None]
    assert packed.content == plain.content
    assert int(packed.headers["content-length"]) < len(plain.content) / 2
    assert "Accept-Encoding" in plain.headers["vary"]


def test_an_empty_board_says_how_to_fill_it_unless_its_file_names_no_runs(tmp_path):
    assert "tellapart run --out runs/mine" in open_board(BoardSettings())[0].get("/").text
    file = tmp_path / "board.toml"
    text, named = (open_board(BoardSettings(file=file, runs=runs))[0].get("/").text for runs in ((), (tmp_path,)))
    assert "runs/mine" not in text and "<code>runs</code>" in text and "runs/mine" in named


def test_hidden_benchmarks_are_part_of_the_board_and_its_pages_lead_there(shown, client, tmp_path):
    from tellapart.board.submissions.hidden import HiddenSettings, SubmissionSettings
    from tellapart.board.submissions.service import Submissions

    hidden = Submissions(HiddenSettings(submissions=SubmissionSettings(state=tmp_path), hidden=()))
    there = TestClient(create_app(shown, hidden))
    assert 'href="/hidden"' in there.get("/").text
    page = there.get("/hidden", headers={"accept": "text/html"})
    assert page.status_code == 200
    assert page.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]
    assert 'href="/hidden"' in there.get("/nowhere", headers={"accept": "text/html"}).text
    assert 'href="/hidden"' not in client.get("/").text
    assert client.get("/hidden").status_code == 404


decimals = _environment().globals["decimals"]
scores = _environment().get_template("parts.html.j2").module.scores  # type: ignore[attr-defined]
PAGER = _environment().from_string(
    '{% from "parts.html.j2" import pager with context %}{{ pager(page, pages, "home_page", {}, "Pages") }}'
)


@given(st.integers(2, 3000), st.data())
def test_a_pager_has_the_first_page_the_last_and_the_next_ones_and_says_where_some_are_left_out(pages, data):
    page = data.draw(st.integers(1, pages))
    marks = re.findall("<li>(?:<[^>]*>)?([^<]*)", PAGER.render(page=page, pages=pages, link=lambda *_, **__: "/"))
    found = [None if mark == "…" else int(mark.replace(",", "")) for mark in marks]
    numbers = [one for one in found if one is not None]
    assert numbers == sorted(set(numbers))
    assert {1, pages, page, max(1, page - 1), min(pages, page + 1)} <= set(numbers) <= set(range(1, pages + 1))
    assert len(found) <= 9
    for before, one, after in zip(found, found[1:], found[2:], strict=False):
        if one is None:
            assert after - before > 1
        elif before is not None:
            assert one == before + 1


@given(st.lists(st.floats(-1e6, 1e6), max_size=5))
def test_a_columns_largest_number_has_four_digits(numbers):
    digits, largest = decimals(numbers), max(map(abs, numbers), default=0.0)
    assert digits >= 0
    if 1e-9 < largest < 1000:
        assert 999 < largest * 10**digits < 10_000


def test_a_cell_keeps_the_room_that_its_column_needs():
    whole, bare = Cell(value=0.5, low=0.4, high=0.6, tier=1, n=9), Cell(value=0.25, n=9)
    rooms = [signs_of([whole, bare, None]), signs_of([bare])]
    assert rooms == [{"tier", "interval", "gap"}, set()]
    assert '<span class="tier none"></span> <span class="interval"></span>' in scores([bare], rooms[:1])
    assert "interval" not in scores([bare], rooms[1:])
    assert scores([Cell(value=0.5, n=9, mark="<i>")], [()]).endswith('<span class="mark-trust">&lt;i&gt;</span></td>')


def test_models_of_one_place_share_a_label_and_long_names_lose_their_middle(tmp_path):
    name = "open_clip:ViT-B-32/laion2b_s34b_b79k"
    for benchmark in ("shapes", "second"):
        for folder, model in (("a", name), ("b", "twin")):
            write_run(tmp_path / benchmark / folder, model, skill=2.0, benchmark=benchmark)
    client, _ = open_board(tmp_path, lambda problem: None)
    text = client.get("/ranks").text
    drawing = text[text.index("<svg") : text.index("</svg>")]
    assert drawing.count("<text") == 2 + 2  # two columns, and one label at each end of two lines
    assert drawing.count(" +1</text>") == 2
    assert name not in drawing.split("<text", 1)[1].replace(f"<title>{name}</title>", "")
