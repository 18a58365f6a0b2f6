"""Run folders, imported numbers and timings become rows, and stay what they were."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import event, text
from sqlmodel import Session, select

from boards import open_board
from facts import check_facts, raises
from tellapart.board.records import rank, read_in
from tellapart.board.settings import BoardSettings, read_settings
from tellapart.board.store import (
    SCHEMA,
    Benchmark,
    BoardTable,
    Entry,
    Item,
    Model,
    Score,
    Source,
    Store,
    Vector,
    database_url,
    pack,
    unpack,
)
from tellapart.board.views.leaderboard import all_benchmarks, by_tag, heads_of, leaderboard, read_scores
from tellapart.board.watch import Watch
from tellapart.errors import DataError, RunError, StoreError
from tellapart.evaluation.verified import read_result
from tellapart.records.imported import read_imported
from tellapart.records.result import Flips, Precision
from tellapart.records.run_folder import write_result
from tellapart.records.samples import read_samples
from tellapart.report.interchange.foreign import import_results
from tellapart.stats.multiple import holm
from tellapart.stats.paired import mcnemar, tiers


def labels(store: Store) -> list[str]:
    with store.session() as session:
        return sorted(session.exec(select(Model.label)).all())


def test_a_run_folder_comes_back_number_for_number(write_run, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "a", skill=1.0)
    record, samples = read_result(folder).benchmarks["shapes"], read_samples(folder, "shapes")
    with Store("sqlite://") as store:
        assert read_in(store, BoardSettings(runs=(tmp_path,)), pytest.fail) == 1
        with store.session() as session:
            scores = session.exec(select(Score).where(Score.tag == "")).all()
            assert {s.metric: (s.value, s.low, s.high, s.chance, s.n) for s in scores} == {
                name: (v.value, v.low, v.high, v.chance, v.n) for name, v in record.metrics.items()
            }
            by = session.exec(select(Score).where(Score.tag == "type", Score.value_of == "colour")).all()
            assert {s.metric: s.value for s in by} == {
                n: v.value for n, v in record.by["type"]["colour"].metrics.items()
            }
            items = session.exec(select(Item).order_by(Item.position)).all()
            assert [(i.name, i.cluster, i.texts) for i in items] == [(s.id, s.cluster, list(s.texts)) for s in samples]
            raw = session.exec(select(Vector).where(Vector.metric == "")).one()
            expected = np.float32([s.scores for s in samples])
            assert (unpack(raw.data).reshape(-1, 2, 2) == expected).all()


def test_flips_of_a_lower_precision_stand_beside_its_name(write_run, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "a", skill=1.0)
    result = read_result(folder)
    flips = {name: Flips(n=200, gained=1, lost=lost, low=0.0, high=0.1, p=1.0) for name, lost in (("x", 0), ("y", 2))}
    found = Precision(dtype="bfloat16", against="float32", items=200, seed=0, flips=flips, largest_difference=0.1)
    benchmarks = {name: record.model_copy(update={"precision": found}) for name, record in result.benchmarks.items()}
    model = result.model.model_copy(update={"dtype": "bfloat16"})
    write_result(folder, result.model_copy(update={"benchmarks": benchmarks, "model": model}))
    with open_board(tmp_path) as (_, store), store.session() as session:
        note = session.exec(select(Model.note)).one()
    check_facts(note, "bfloat16", f"{4 * len(benchmarks)} of {400 * len(benchmarks)}", "float32")


def test_reading_twice_changes_nothing_and_a_new_run_is_read_alone(write_run, tmp_path: Path) -> None:
    settings = BoardSettings(runs=(tmp_path,))
    write_run(tmp_path / "a", "a", skill=1.0)
    with open_board(settings) as (_, store):
        with store.session() as session:
            before = store.version(session)
        assert read_in(store, settings, pytest.fail) == 0
        with store.session() as session:
            assert store.version(session) == before
        write_run(tmp_path / "b", "b", skill=2.0, seed=1)
        assert read_in(store, settings, pytest.fail) == 1
        assert labels(store) == ["a", "b"]
        with store.session() as session:
            assert store.version(session) > before


def test_a_run_that_went_is_gone_and_a_run_that_changed_is_read_again(write_run, tmp_path: Path) -> None:
    settings = BoardSettings(runs=(tmp_path,))
    for name in ("a", "b"):
        write_run(tmp_path / name, name, skill=1.0)
    with open_board(settings) as (_, store):
        (tmp_path / "a" / "results.json").unlink()
        write_run(tmp_path / "b", "b", skill=4.0)
        read_in(store, settings, pytest.fail)
        assert labels(store) == ["b"]
        with store.session() as session:
            value = session.exec(select(Score.value).where(Score.metric == "group_score", Score.tag == "")).one()
        assert value == read_result(tmp_path / "b").benchmarks["shapes"].metrics["group_score"].value


def test_of_two_runs_of_a_model_on_a_benchmark_the_later_one_counts(write_run, tmp_path: Path) -> None:
    write_run(tmp_path / "1-later", "a", skill=9.0, started="2026-02-01T00:00:00+00:00")
    write_run(tmp_path / "2-earlier", "a", skill=0.0, started="2026-01-01T00:00:00+00:00")
    with open_board(tmp_path) as (_, store), store.session() as session:
        assert session.exec(select(Entry.folder)).all() == [str(tmp_path / "1-later")]


def test_when_the_later_of_two_runs_goes_the_earlier_one_counts_again(write_run, tmp_path: Path) -> None:
    settings = BoardSettings(runs=(tmp_path,))
    write_run(tmp_path / "1-later", "a", skill=9.0, started="2026-02-01T00:00:00+00:00")
    write_run(tmp_path / "2-earlier", "a", skill=0.0, started="2026-01-01T00:00:00+00:00")
    write_run(tmp_path / "3-other", "b", skill=0.0, seed=1)
    with open_board(settings) as (_, store):
        shutil.rmtree(tmp_path / "1-later")
        assert read_in(store, settings, pytest.fail) == 1
        with store.session() as session:
            folders = sorted(session.exec(select(Entry.folder)).all())
            assert folders == [str(tmp_path / name) for name in ("2-earlier", "3-other")]
        assert read_in(store, settings, pytest.fail) == 0
        shutil.rmtree(tmp_path / "2-earlier")
        shutil.rmtree(tmp_path / "3-other")
        read_in(store, settings, pytest.fail)
        with store.session() as session:
            for table in (Model, Benchmark, Entry, Item, Score, Vector):
                assert session.exec(select(table)).all() == []


def test_a_record_of_hidden_labels_needs_no_samples_and_joins_no_other_items(write_run, tmp_path: Path) -> None:
    write_run(tmp_path / "a", "a", skill=1.0)
    hidden = write_run(tmp_path / "b", "b", skill=1.0, fingerprint="hidden-" + "0" * 57)
    shutil.rmtree(hidden / "samples")
    with open_board(tmp_path) as (_, store), store.session() as session:
        assert sorted(session.exec(select(Benchmark.name)).all()) == ["shapes", "shapes#00000000"]
        assert session.exec(select(Item.benchmark_id).distinct()).all() == [1]


def test_other_items_under_the_same_name_are_another_benchmark(write_run, tmp_path: Path) -> None:
    write_run(tmp_path / "a", "a", skill=1.0)
    write_run(tmp_path / "b", "b", skill=1.0, n=10, fingerprint="0" * 64)
    with open_board(tmp_path) as (_, store), store.session() as session:
        assert sorted(session.exec(select(Benchmark.name)).all()) == ["shapes", "shapes#00000000"]


def test_scores_made_elsewhere_join_the_benchmark_of_the_same_ids_on_trust(write_run, tmp_path: Path) -> None:
    write_run(tmp_path / "a", "a", skill=1.0)
    write_run(tmp_path / "b", "b", skill=1.0, fingerprint="ids-" + "0" * 60)
    with open_board(tmp_path) as (_, store), store.session() as session:
        assert session.exec(select(Benchmark.slug)).all() == ["shapes"]
        assert sorted(session.exec(select(Entry.on_trust)).all()) == [False, True]


def test_an_imported_run_is_not_called_on_trust(write_run, tmp_path: Path) -> None:
    write_run(tmp_path / "a", "a", skill=1.0, fingerprint="ids-" + "0" * 60)
    file = tmp_path / "theirs.json"
    metrics = {"text_acc": 0.3, "image_acc": 0.1, "acc": 0.05}
    held = {"dataset": "winoground", "model": "m", "pretrained": "", "task": "image_caption_selection"}
    file.write_text(json.dumps({**held, "metrics": metrics}))
    import_results([file], tmp_path / "theirs", command="")
    with open_board(tmp_path) as (_, store), store.session() as session:
        assert {head.label: mark for head, mark in heads_of(session).values()} == {"a": "on trust", "m": "imported"}
        benchmarks = session.exec(select(Benchmark)).all()
        scores = read_scores(session, benchmarks, "", ["text_score"])
        assert sorted(one.cell.mark for one in scores) == ["imported", "on trust"]


@pytest.mark.parametrize("clusters", [None, 12])
def test_tiers_are_those_of_the_statistics(write_run, tmp_path: Path, clusters: int | None) -> None:
    for seed, skill in enumerate((3.0, 2.8, 0.0)):
        write_run(tmp_path / str(seed), f"m{seed}", skill=skill, seed=seed, clusters=clusters)
    found = {name: read_samples(tmp_path / name, "shapes") for name in "012"}
    outcomes = {f"m{name}": [s.outcomes["group_score"] for s in samples] for name, samples in found.items()}
    expected = {
        name: tier.rank
        for tier in tiers(outcomes, [s.cluster for s in found["0"]] if clusters else None)
        for name in tier.names
    }
    with open_board(tmp_path) as (_, store), store.session() as session:
        rows = session.exec(
            select(Model.name, Score.tier)
            .join(Entry, Entry.model_id == Model.id)
            .join(Score, Score.entry_id == Entry.id)
            .where(Score.metric == "group_score", Score.tag == "")
        ).all()
    assert dict(rows) == expected
    assert expected["m2"] > expected["m0"]


def with_outcomes(session: Session, outcomes: np.ndarray) -> Benchmark:
    """A benchmark on which each row is a model's outcomes; the first model is the first entry."""
    source = Source(path="here", digest="", kind="run")
    benchmark = Benchmark(slug="b", name="b", fingerprint="f", title="B", task="pairs", n=outcomes.shape[1])
    benchmark.headline = ["group_score"]
    session.add_all([source, benchmark])
    session.flush()
    same = {"benchmark_id": benchmark.id}
    session.add_all(Item(**same, position=k, name=f"{k}", unit="item", cluster=f"{k}") for k in range(benchmark.n))
    for k, column in enumerate(outcomes):
        model = Model(slug=f"m{k}", name=f"m{k}", label=f"m{k}", kind="model", identity=f"m{k}")
        session.add(model)
        session.flush()
        entry = Entry(**same, model_id=model.id, source_id=source.id, started="", folder="here")
        session.add(entry)
        session.flush()
        score = {"metric": "group_score", "value": float(column.mean()), "n": benchmark.n}
        session.add(Score(**same, **score, entry_id=entry.id))
        session.add(Vector(entry_id=entry.id, metric="group_score", data=pack(np.float32(column)), tied=b""))
    session.flush()
    return benchmark


def test_tiers_of_many_models_are_those_of_one_exact_test_a_pair() -> None:
    rng = np.random.default_rng(0)
    outcomes = (rng.random((30, 120)) < np.linspace(0.95, 0.05, 30)[:, None]).astype(np.float64)
    order = sorted(range(30), key=lambda k: (-outcomes[k].mean(), f"{k + 1}"))
    pairs = [(a, b) for a in range(30) for b in range(a)]
    adjusted = holm([mcnemar(outcomes[a], outcomes[b]).p for a, b in pairs])
    differ = {pair for pair, p in zip(pairs, adjusted, strict=True) if p <= 0.05}
    expected, best = {}, order[0]
    for place, model in enumerate(order, start=1):
        if (max(best, model), min(best, model)) in differ:
            best = model
        expected[f"m{model}"] = place if best == model else expected[f"m{best}"]
    with Store("sqlite://") as store, store.session() as session:
        rank(session, with_outcomes(session, outcomes))
        rows = session.exec(select(Entry.id, Score.tier).join(Score)).all()
    assert {f"m{entry - 1}": tier for entry, tier in rows} == expected
    assert len(set(expected.values())) > 3


def test_a_leaderboard_reads_the_numbers_of_its_columns_and_no_others(write_run, tmp_path: Path) -> None:
    """An entry has hundreds of numbers: a page that looked at all of them took a fifth of a second."""
    write_run(tmp_path / "a", "a", skill=1.0)
    settings, asked = BoardSettings(runs=(tmp_path,)), []
    with open_board(settings) as (_, store), store.reading() as session:

        def note(_: object, __: object, statement: str, values: object, *___: object) -> None:
            asked.append((statement, values))

        event.listen(session.get_bind(), "before_cursor_execute", note)
        pages = [all_benchmarks(session, settings), leaderboard(session, settings, "shapes")]
        pages.append(by_tag(session, settings, "shapes", "type", "group_score"))
        event.remove(session.get_bind(), "before_cursor_execute", note)
        plans = [
            row[-1]
            for statement, values in asked
            for row in session.connection().exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
            if "score" in row[-1]
        ]
        assert session.execute(text("SELECT count(*) FROM score")).scalar_one() > 40
    assert [len(page.rows) for page in pages] == [1, 1, 1]
    assert len(plans) >= 3
    assert all(plan.startswith("SEARCH score USING") and "benchmark_id=? AND tag" in plan for plan in plans), plans


def test_a_broken_run_is_told_and_the_others_are_shown(write_run, tmp_path: Path) -> None:
    write_run(tmp_path / "a", "a", skill=1.0)
    write_run(tmp_path / "broken", "b", skill=1.0)
    (tmp_path / "broken" / "samples" / "shapes.jsonl").unlink()
    problems: list[str] = []
    with open_board(tmp_path, problems.append) as (_, store):
        assert labels(store) == ["a"]
    assert len(problems) == 1
    check_facts(problems[0], "samples/shapes.jsonl", "missing")


def test_samples_of_other_items_are_refused(write_run, tmp_path: Path) -> None:
    write_run(tmp_path / "a", "a", skill=1.0)
    write_run(tmp_path / "b", "b", skill=1.0, n=10)  # the fingerprint says that the items are the same
    problems: list[str] = []
    with Store("sqlite://") as store:
        read_in(store, BoardSettings(runs=(tmp_path,)), problems.append)
    check_facts(problems[0], "10", "shapes", "60")


def test_a_timing_gives_the_model_of_the_same_weights_its_cost(write_run, tmp_path: Path) -> None:
    write_run(tmp_path / "a", "a", skill=1.0)
    same, other = ({"name": "a", "fingerprint": f} for f in ("weights of a", "others"))
    timing = {
        "machine": {"processor": "P", "cores": 2, "system": "Linux"},
        "device": "cpu",
        "dtype": "float32",
        "benchmark": "demo",
        "pairs": 1,
        "repeats": 1,
        "warm_up": 0,
        "batches": 1,
        "latency": {"median": 0.02, "low": 0.01, "high": 0.03},
        "parts": {},
        "throughput": {"batch_size": 1},
        "parameters": 1234,
    }
    models = [timing | {"model": same}, timing | {"model": other, "parameters": 1}]
    content = {"schema": 1, "started": "", "command": "", "versions": {}, "models": models}
    (tmp_path / "timing.json").write_text(json.dumps(content))
    with open_board(tmp_path) as (_, store), store.session() as session:
        model = session.exec(select(Model)).one()
        assert (model.latency, model.parameters) == (0.02, 1234)


def test_imported_numbers_stand_beside_runs_and_have_no_tier(write_run, tmp_path: Path) -> None:
    write_run(tmp_path / "a", "a", skill=1.0)
    path = tmp_path / "records.toml"
    path.write_text(
        'source = "a paper"\n[[models]]\nname = "people"\nkind = "human"\n[models.scores.shapes]\ngroup_score = 0.855\n'
        '[[models]]\nname = "b"\n[models.scores.shapes]\ngroup_score = 0.5\n'
    )
    with open_board(BoardSettings(runs=(tmp_path,), imported=(path,))) as (_, store), store.session() as session:
        assert session.exec(select(Benchmark.slug)).all() == ["shapes"]
        rows = session.exec(
            select(Model.name, Model.kind, Score.tier, Entry.tie_rule)
            .join(Entry, Entry.model_id == Model.id)
            .join(Score, Score.entry_id == Entry.id)
            .where(Score.metric == "group_score", Score.tag == "")
        ).all()
    assert sorted(rows) == [
        ("a", "model", 1, ""),
        ("b", "model", None, "not known"),
        ("people", "human", None, "not known"),
    ]


def test_a_watch_reads_a_run_that_came_later(write_run, tmp_path: Path) -> None:
    settings = BoardSettings(runs=(tmp_path,))
    with Store("sqlite://") as store:
        watch = Watch(store, settings, pytest.fail)
        write_run(tmp_path / "a", "a", skill=1.0)
        assert watch.look()
        assert labels(store) == ["a"]
        assert not watch.look()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source = 3", "'source'"),
        ('source = "a"\n[[models]]\nname = "b"\nlatency = -1.0', "'models[0].latency'"),
        ('source = "a"\n[[models]]\nname = "b"\n[models.scores.x]\ny = nan', "'models[0].scores.x.y'"),
        ('source = "a"\nmodel = []', ("'models'", "missing")),
        ("source =", "TOML"),
    ],
)
def test_a_file_of_numbers_that_is_wrong_is_refused(tmp_path: Path, text: str, message: str | tuple[str, ...]) -> None:
    path = tmp_path / "records.toml"
    path.write_text(text)
    with raises(DataError, message):
        read_imported(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[bord]", "'bord'"),
        ("[board]\ntitel = 'a'", ("'titel'", "'title'")),
        ("[board", "TOML"),
    ],
)
def test_a_board_file_that_is_wrong_is_refused(tmp_path: Path, text: str, message: str | tuple[str, ...]) -> None:
    path = tmp_path / "board.toml"
    path.write_text(text)
    with raises(DataError, message):
        read_settings(path)


def test_paths_in_a_board_file_are_relative_to_it(tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    path.write_text('[board]\nruns = ["runs", "/srv/runs"]\nimported = ["a.toml"]')
    found = read_settings(path)
    assert found.runs == (tmp_path / "runs", Path("/srv/runs"))
    assert found.imported == (tmp_path / "a.toml",)


def test_a_database_that_cannot_be_opened_is_an_error_that_says_so(tmp_path: Path) -> None:
    with raises(StoreError, "database="):
        Store(f"sqlite:///{tmp_path}/no/such/folder/board.sqlite")


def test_a_database_is_found_again_with_what_it_held(write_run, tmp_path: Path) -> None:
    write_run(tmp_path / "a", "a", skill=1.0)
    url, settings = database_url(None, tmp_path), BoardSettings(runs=(tmp_path,))
    with Store(url) as store:
        read_in(store, settings, pytest.fail)
    with Store(url) as again:
        assert labels(again) == ["a"]
        assert read_in(again, settings, pytest.fail) == 0


def test_what_fails_within_a_session_is_not_kept(tmp_path: Path) -> None:
    with Store(database_url(None, tmp_path)) as store:
        with pytest.raises(RunError), store.session() as session:
            store.mark_changed(session)
            raise RunError("stop")
        with store.session() as session:
            assert store.version(session) == 0


#: Version -> the SHA-256 of its tables; a change of a table needs a new version.
DIGESTS = {6: "8824b9316da0948b01de7a40d0323892fe2a86ab8fd8e5ef89c097bfec747279"}

CHANGES = {
    "an older version": "UPDATE board_schema SET version = 1",
    "a newer version with one more table": (
        "UPDATE board_schema SET version = 999, tables = json_insert(tables, '$[#]', 'thumbnail');"
        "CREATE TABLE thumbnail (model_id INTEGER REFERENCES model (id));"
        "INSERT INTO thumbnail SELECT id FROM model"
    ),
    "no version": "DELETE FROM board_schema",
    "a table of other columns": "UPDATE board_schema SET version = 1; DROP TABLE vector; CREATE TABLE vector (a)",
}

STRANGERS = {
    "a table of the same name": "CREATE TABLE model (name TEXT); INSERT INTO model VALUES ('theirs')",
    "other tables": "CREATE TABLE notes (name TEXT); INSERT INTO notes VALUES ('theirs'); PRAGMA user_version = 2",
    "another program's Alembic": "CREATE TABLE alembic_version (version_num TEXT);"
    "INSERT INTO alembic_version VALUES ('1975ea83b712'); CREATE TABLE item (name TEXT)",
    "a table like the board's own record of its version": "CREATE TABLE board_schema (name TEXT)",
}


def dump(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        content = list(connection.iterdump())
    connection.close()
    return content


def change(path: Path, script: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.executescript(script)
    connection.close()


@pytest.mark.slow
def test_another_set_of_tables_has_another_version() -> None:
    lines = []
    for table in BoardTable.metadata.tables.values():
        for column in table.columns:
            targets = sorted(key.target_fullname for key in column.foreign_keys)
            lines.append(f"{column} {column.type} {column.nullable} {column.primary_key} {column.unique} {targets}")
        lines += [f"{index.name} {[str(column) for column in index.columns]} {index.unique}" for index in table.indexes]
    text = "\n".join(sorted(lines))
    assert {SCHEMA: hashlib.sha256(text.encode()).hexdigest()} == DIGESTS


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CHANGES))
def test_tables_of_another_version_are_rebuilt_and_the_records_read_again(name: str, write_run, tmp_path: Path) -> None:
    write_run(tmp_path / "a", "mine", skill=1.0)
    path, settings = tmp_path / "board.sqlite", BoardSettings(runs=(tmp_path,))
    with Store(f"sqlite:///{path}") as store:
        assert read_in(store, settings, pytest.fail) == 1
    before = dump(path)
    change(path, CHANGES[name])
    with Store(f"sqlite:///{path}") as store:
        assert read_in(store, settings, pytest.fail) == 1
        with store.session() as session:
            assert session.exec(select(Model.label)).all() == ["mine"]
    assert sorted(dump(path)) == sorted(before)


@pytest.mark.slow
def test_opening_a_database_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "board.sqlite"
    Store(f"sqlite:///{path}").close()
    before = path.read_bytes()
    Store(f"sqlite:///{path}").close()
    assert path.read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("name", list(STRANGERS))
def test_a_database_of_another_program_is_an_error_and_stays_as_it_is(name: str, tmp_path: Path) -> None:
    path = tmp_path / "theirs.sqlite"
    change(path, STRANGERS[name])
    before = dump(path)
    with raises(StoreError, "database=", "opened"):
        Store(f"sqlite:///{path}")
    assert dump(path) == before


@pytest.mark.slow
def test_a_file_that_is_not_a_database_is_an_error_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database\n" * 1000)
    with raises(StoreError, "database=", "database"):
        Store(f"sqlite:///{path}")
    assert path.read_text() == "not a database\n" * 1000
