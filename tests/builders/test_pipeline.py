"""A build ends in the same bytes however often it was stopped, and for any number of workers."""

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import sys
import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
import typer

from facts import check_facts, raises
from scripts import run_python
from sets import contents, write_file
from tellapart import Item, find_benchmark, read_pair_set, write_pair_set
from tellapart.builders.builder import Candidate, Made
from tellapart.builders.executor import RayExecutor
from tellapart.builders.hub_export import write_imagefolder, write_parquet
from tellapart.builders.journal import journal_of
from tellapart.builders.pipeline import WorkerPlan, attempt, build, describe_kept, sources_of
from tellapart.builders.recipe_file import RecipeFile, fingerprint_facts, open_builder, open_tables, read_recipe_file
from tellapart.builders.selections import ItemFilter, Selection
from tellapart.catalog import BUILDERS, FILTERS, SELECTIONS, load
from tellapart.cli.command import interruptible
from tellapart.data.pairset import PairSet
from tellapart.errors import DataError, MissingDependencyError, RunError, UnknownNameError
from tellapart.report.terminal import open_in_browser


@pytest.fixture
def recipe(tmp_path, site):
    """Write a recipe."""

    def write(builder="squares", extra="", options=""):
        home = tmp_path / builder
        home.mkdir(exist_ok=True)
        path = home / "recipe.toml"
        path.write_text(f'name = "few"\nbuilder = "{builder}"\nseed = 3\n{extra}\n[options]\n{options}\n')
        return path

    return write


@pytest.fixture
def started(site, start):
    """Start `tellapart build` in a process of its own."""

    def build(recipe, out, *more, seconds=0.0):
        variables = {"PYTHONPATH": str(site), "TEST_SECONDS_PER_ITEM": str(seconds), "NO_COLOR": "1"}
        return start("build", recipe, "--out", out, *more, **variables)

    return build


def no_trace(out: Path) -> None:
    assert [p.name for p in out.parent.glob(f".{out.name}*")] == []


@pytest.mark.slow
@pytest.mark.parametrize(("how", "workers"), [(signal.SIGKILL, "2"), (signal.SIGINT, "1"), (signal.SIGTERM, "2")])
def test_a_build_that_was_stopped_goes_on_and_ends_in_the_same_bytes(recipe, started, tmp_path, how, workers):
    path = recipe()
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    build(path, whole)
    process = started(path, cut, "--workers", workers, seconds=0.3)
    for _ in range(5):  # more than the half second after which outcomes are on the disk
        assert process.stderr.readline().startswith("making square-")
    process.send_signal(how)
    printed, said = process.communicate(timeout=30)
    assert printed == ""
    assert not cut.exists()
    assert process.returncode == (130 if how is signal.SIGINT else -how)
    with closing(sqlite3.connect(journal_of(cut))) as journal:
        kept = {name for (name,) in journal.execute("SELECT id FROM outcome")}
    assert 1 <= len(kept) < 12
    if how is signal.SIGINT:
        check_facts(said, len(kept), journal_of(cut), "tellapart build")
        assert "Traceback" not in said

    again = started(path, cut, "--workers", workers)
    printed, said = again.communicate(timeout=60)
    assert again.returncode == 0, said
    made = [line.removeprefix("making ") for line in said.splitlines()]
    assert sorted([*made, *kept]) == [f"square-{k:03d}" for k in range(12)]  # nothing lost, nothing done twice
    assert f"{len(kept)} were decided by an earlier build" in printed
    assert contents(cut) == contents(whole)
    no_trace(cut)


@pytest.mark.slow
def test_a_build_that_decided_nothing_keeps_nothing(recipe, started, tmp_path):
    process = started(recipe(), tmp_path / "set", seconds=4.0)
    assert process.stderr.readline().startswith("making square-")
    process.send_signal(signal.SIGINT)
    printed, said = process.communicate(timeout=30)
    assert (printed, process.returncode) == ("", 130)
    assert said.startswith("interrupted; nothing is kept. Begin again with: tellapart build")


def test_a_build_that_is_interrupted_in_its_audit_keeps_its_set(recipe, tmp_path):
    folder = build(recipe(), tmp_path / "set").folder
    with pytest.raises(typer.Exit) as ended, interruptible(partial(describe_kept, folder)):
        raise KeyboardInterrupt
    assert ended.value.exit_code == 130
    assert describe_kept(folder) == f"the set in {folder} is complete"


def test_neither_workers_nor_a_second_build_change_a_byte_and_it_tells_how_far_it_is(recipe, tmp_path):
    path, told = recipe(), []
    one = build(path, tmp_path / "one", progress=lambda *at: told.append(at))
    assert told == [
        *(("candidates", done, 12) for done in range(13)), ("selections", 0, 0),
        *(("writing", done, 20) for done in range(21)),
    ]  # fmt: skip
    three = build(path, tmp_path / "three", workers=3)
    assert (contents(one.folder), one.funnel) == (contents(three.folder), three.funnel)
    before = {path: path.stat().st_mtime_ns for path in one.folder.rglob("*")}
    again = build(path, tmp_path / "one")
    assert (again.funnel, again.resumed) == (one.funnel, 12)
    assert {path: path.stat().st_mtime_ns for path in one.folder.rglob("*")} == before


def test_every_item_says_where_it_came_from_and_the_card_holds_the_funnel(recipe, tmp_path):
    built = build(recipe(), tmp_path / "set")
    card, items = json.loads((built.folder / "card.json").read_text()), read_pair_set(built.folder).items
    funnel = {"candidates": 12, "redrawn": {"too dark": 5}, "rejected": {"draw: every fifth": 2}, "failed": 0}
    assert (card["title"], card["funnel"]) == ("Squares", {**funnel, "items": 10})
    assert [item.id for item in items] == [f"square-{k:03d}" for k in range(12) if k % 5 != 4]
    facts = {"builder": "squares", "recipe": card["recipe_fingerprint"], "models": {"painter": "1"}, "inputs": {}}
    assert items[3].provenance == {**facts, "seed": [3, "square-003"]}


def test_failures_are_tried_again_alone(recipe, tmp_path, capfd):
    whole = build(recipe(), tmp_path / "whole")
    capfd.readouterr()
    flaky = build(recipe("flaky", options='about_folder = "."'), tmp_path / "set")
    made = capfd.readouterr().err.split()[1::2]
    assert len(made) == 14
    assert made[-2:] == ["square-002", "square-007"]
    assert flaky.funnel == whole.funnel
    images = {name: data for name, data in contents(whole.folder).items() if name.startswith("images/")}
    assert images == {name: data for name, data in contents(flaky.folder).items() if name.startswith("images/")}


@pytest.mark.slow
def test_a_worker_that_dies_costs_its_own_candidate_one_try_and_is_named_when_none_is_left(recipe, tmp_path):
    built = build(recipe("dying", options='about_folder = "."'), tmp_path / "whole", workers=2)
    assert (built.funnel.items, built.funnel.failed) == (10, 0)
    (tmp_path / "dying" / "seen-square-003").unlink()
    path = recipe("dying", "retries = 0", 'about_folder = "."')
    with raises(RunError, "1", "12", "square-003", "Lost", "exit", "-9"):
        build(path, tmp_path / "set", workers=2)
    built = build(path, tmp_path / "set", workers=2)
    assert (built.resumed, built.funnel.items) == (11, 10)


@pytest.mark.slow
def test_a_script_that_its_workers_cannot_read_again_ends_at_once(recipe, site, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(f"import tellapart\ntellapart.build({str(recipe())!r}, {str(tmp_path / 'set')!r}, workers=2)\n")
    done = run_python(script, status=1, env={**os.environ, "PYTHONPATH": str(site)})
    assert "RunError: workers" in done.stderr and '`if __name__ == "__main__":`' in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_what_keeps_failing_stops_the_build_unless_the_recipe_allows_it(recipe, tmp_path, workers):
    out = tmp_path / "set"
    with raises(RunError, "1", "12", "square-001", "ValueError"):
        build(recipe("broken"), out, workers=workers)
    assert not out.exists()
    # What may be left out changes no item: the journal of the stopped build still counts.
    built = build(recipe("broken", "max_failed = 1"), out, workers=workers)
    assert (built.resumed, built.funnel.items, built.funnel.failed) == (11, 9, 1)

    # What no try can change ends it at once.
    with raises(MissingDependencyError, 'pip install "tellapart[build]"', "install"):
        build(recipe("needy"), tmp_path / "other", workers=workers)
    with raises(DataError, "builder", "'misnamed'", "'other'", "candidate"):
        build(recipe("misnamed"), tmp_path / "other", workers=workers)


@pytest.mark.parametrize("limit", [0, -1, 1.5])
def test_a_limit_below_one_is_refused_and_nothing_is_left(recipe, tmp_path, limit):
    with raises(RunError, f"limit={limit}"):
        build(recipe(), tmp_path / "set", limit=limit)
    assert not (tmp_path / "set").exists()


def test_a_limit_takes_the_first_candidates(recipe, tmp_path):
    built = build(recipe(), tmp_path / "set", limit=3)
    assert [item.id for item in read_pair_set(built.folder).items] == ["square-000", "square-001", "square-002"]
    with raises(DataError, "3", "12", "candidates"):
        build(recipe(), tmp_path / "set")


def test_filters_reject_and_are_counted(recipe, tmp_path):
    path = recipe()
    path.write_text(path.read_text() + '\n[[filters]]\nname = "word_gap"\nmaximum = 1\n')
    with raises(DataError, "12", "10", "word_gap", "1", "words"):
        build(path, tmp_path / "set")
    path.write_text(path.read_text().replace("maximum = 1", "maximum = 2"))
    with raises(RunError, ".set.journal", "recipe"):
        build(path, tmp_path / "set")
    assert build(path, tmp_path / "other").funnel.items == 10


def test_a_builder_without_proper_candidates_is_refused(recipe, tmp_path):
    for builder, says in (("twice", ("id", "'a'", "distinct")), ("barren", ())):
        with raises(DataError, "builder", f"'{builder}'", says):
            build(recipe(builder), tmp_path / "set")


def test_a_folder_that_holds_something_else_is_left_alone(recipe, tmp_path):
    mine = write_file(tmp_path / "set" / "mine.txt", "mine")
    with raises(DataError, "pair", "folder"):
        build(recipe(), tmp_path / "set")
    assert mine.read_text() == "mine"
    no_trace(tmp_path / "set")
    build(recipe(), tmp_path / "squares-set")
    with raises(DataError, "pair set", "another"):
        build(recipe("flaky", options='about_folder = "."'), tmp_path / "squares-set")
    journal_of(tmp_path / "other").write_bytes(b"not a database" * 100)
    with raises(RunError, "journal"):
        build(recipe(), tmp_path / "other")


@pytest.mark.slow
def test_two_builds_of_one_set_do_not_work_at_once(recipe, started, tmp_path):
    process = started(recipe(), tmp_path / "set", seconds=0.3)
    process.stderr.readline()
    with raises(RunError, "build", "held"):
        build(recipe(), tmp_path / "set")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said


def test_a_candidate_whose_image_was_changed_in_the_journal_is_built_again_and_said_once(
    recipe, interrupted, tmp_path, caplog
):
    path, journal = recipe(), journal_of(tmp_path / "set")
    build(path, tmp_path / "whole")
    interrupted(path, tmp_path / "set", "selections")
    with closing(sqlite3.connect(journal)) as file, file:
        file.execute("UPDATE image SET data = x'00' WHERE rowid IN (1, 2)")
    assert caplog.messages == []
    built = build(path, tmp_path / "set")
    (message,) = caplog.messages
    assert re.fullmatch(rf"{journal} is damaged: [12] outcomes, first square-\d+'s, are made again", message)
    assert built.resumed in {10, 11}
    assert contents(tmp_path / "set") == contents(tmp_path / "whole")


def test_the_command_prints_the_funnel_and_the_card(command, recipe, tmp_path):
    told = command("build", recipe(), "--out", "set", "--imagefolder", "folder", "--json", code=0).json
    assert (told["card"], told["funnel"]["items"], told["page"]) == ("set/card.json", 10, None)
    shown = command("build", recipe(), "--out", "set")
    rows = [line.rsplit(maxsplit=1) for line in shown.out.splitlines()[2:6]]
    expected = [["candidates", "12"], ["drawn again", "5"], ["rejected by draw", "2"], ["items", "10"]]
    assert [[left.split("  ")[0], n] for left, n in rows] == expected
    assert shown.out.endswith("measure with: tellapart run -b folder:set\ncard: set/card.json\n")
    theirs, ours = read_pair_set(tmp_path / "folder"), read_pair_set(tmp_path / "set")
    assert [(i.id, i.texts, i.cluster) for i in theirs.items] == [(i.id, i.texts, i.cluster) for i in ours.items]
    assert theirs.fingerprint() == ours.fingerprint()
    measured = command("run", "-m", "oracle", "-b", "folder:set", "--out", "run", "--json").json["runs"][0]
    assert measured["benchmarks"]["folder:set"]["metrics"]["group_score"]["value"] == 1.0


def test_parquet_holds_the_images_and_says_so_to_datasets(command, recipe, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the hub extra: pyarrow")
    command("build", recipe(), "--out", "set", "--parquet", "set.parquet")
    table, pairs = parquet.read_table(tmp_path / "set.parquet"), read_pair_set(tmp_path / "set")
    seconds = [pairs.read_bytes(item.images[1]) for item in pairs.items]
    assert [row["image_1"]["bytes"] for row in table.to_pylist()] == seconds
    assert table.column("caption_0").to_pylist() == [item.texts[0] for item in pairs.items]
    assert json.loads(table.column("provenance")[0].as_py()) == pairs.items[0].provenance
    features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    assert features["image_0"] == {"_type": "Image"}
    read = find_benchmark(str(tmp_path / "set.parquet")).records()
    assert [item.tags for item in read.items] == [item.tags for item in pairs.items]
    assert read.fingerprint() == pairs.fingerprint()
    # As docs/my_pairs.md makes a folder of it: pictures in cells have no suffix.
    images = {name: read.read_bytes(name) for item in read.items for name in item.images}
    write_pair_set(tmp_path / "again", read.items, images, read.card)
    assert read_pair_set(tmp_path / "again").fingerprint() == pairs.fingerprint()


@pytest.fixture
def true_at(made_set):
    """Make a set of three items whose true entries are those of these places."""

    def make(shape, *places):
        folder = made_set("set", n=3, shape=shape)
        rows = [json.loads(line) for line in (folder / "pairs.jsonl").read_text().splitlines()]
        write_file(folder / "pairs.jsonl", [row | {"true": places} for row in rows])
        return read_pair_set(folder)

    return make


@pytest.mark.parametrize("shape", [(1, 3), (3, 1)])
def test_an_export_has_the_true_entry_first(true_at, tmp_path, shape):
    pairs = true_at(shape, 2)
    write_imagefolder(pairs, tmp_path / "folder")
    for ours, theirs in zip(pairs.items, read_pair_set(tmp_path / "folder").items, strict=True):
        true = (ours.images * 3)[2], (ours.texts * 3)[2]
        assert (theirs.images[0], theirs.texts[0], theirs.truths) == (*true, (0,))
        assert {*theirs.images} == {*ours.images} and {*theirs.texts} == {*ours.texts}


def test_an_export_of_several_true_texts_or_of_a_video_in_a_cell_is_refused(true_at, tmp_path):
    with raises(DataError, "set", "2", "true"):
        write_imagefolder(true_at((1, 3), 0, 2), tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
    films = PairSet("films", (Item(id="a", images=("a.mp4",), texts=("x", "y")),), tmp_path)
    with raises(DataError, "films.parquet", "a.mp4", "video"):
        write_parquet(films, tmp_path / "films.parquet")


def test_an_export_leaves_a_full_folder_alone(command, recipe, tmp_path):
    for option, place in (("--imagefolder", recipe().parent), ("--parquet", "gone/set.parquet")):
        check_facts(command("build", recipe(), "--out", "set", option, place, code=2).err, place, "folder")


def test_the_command_audits_what_it_built_and_ends_with_the_page(command, recipe, tmp_path):
    plain = build(recipe(), tmp_path / "plain").folder
    ran = command("build", recipe(), "--out", "set", "--open", code=0)  # no terminal here: nothing is opened
    *_, card_line, verdict = ran.out.splitlines()
    assert card_line == "card: set/card.html"
    assert re.fullmatch(r"\d+ of \d+ checks warn: .+", verdict)
    page = (tmp_path / "set" / "card.html").read_text(encoding="utf-8")
    assert "Squares" in page and page.count("data:image/") >= 10
    assert (tmp_path / "set" / "card.md").read_text(encoding="utf-8").startswith("# ")
    whole = contents(tmp_path / "set")
    assert {name: whole[name] for name in whole.keys() - {"card.html", "card.md"}} == contents(plain)
    told = command("build", recipe(), "--out", "set", "--card", "--json").json
    assert (told["verdict"], told["card"], told["page"]) == (verdict, "set/card.json", "set/card.html")
    assert (tmp_path / "set" / "card.html").read_text(encoding="utf-8") == page
    check_facts(command("audit", "set", "--open", code=2).err, "--open", "--to", "DIR")
    command("audit", "set", "--open", "--to", "report", code=0)


def test_a_page_is_shown_to_a_terminal_with_a_display_alone(tmp_path, monkeypatch):
    page, opened = tmp_path / "card.html", tmp_path / "opened"
    page.write_text("<!doctype html>")
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    for name, value in (("BROWSER", f"{browser} %s"), ("DISPLAY", ":9")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("webbrowser._tryorder", None)  # it is found anew, with BROWSER first
    assert not open_in_browser(page)
    leader, follower = os.openpty()
    try:
        with os.fdopen(follower, "w") as terminal, monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", terminal)
            assert open_in_browser(page)
            assert opened.read_text().strip() == page.as_uri()
            patched.delenv("DISPLAY")
            patched.delenv("WAYLAND_DISPLAY", raising=False)
            assert not open_in_browser(page)
    finally:
        os.close(leader)


RIGHT = 'name = "few"\nbuilder = "negatives"\n[options]\ncaptions = "c.csv"\nimages = "."\n'
BLENDER = 'name = "few"\nbuilder = "scenes"\n[options]\nrenderer = "blender"\nblender_python = '
SERVED = RIGHT.replace("negatives", "language-negatives") + '[options.model]\nsource = "http://127.0.0.1:9/v1"\n'


def test_a_right_recipe_has_its_defaults_and_options_without_a_file_are_checked_too(tmp_path):
    read = read_recipe_file(write_file(tmp_path / "recipe.toml", RIGHT))
    assert (read.seed, read.retries, read.max_failed, read.filters) == (0, 2, 0, [])
    with raises(DataError, "[options]", "'image'", "'images'"):
        open_builder(RecipeFile(name="few", builder="negatives", options={"image": "."}), Path())


RECIPES = sorted((Path(__file__).parents[2] / "docs" / "recipes").glob("*.toml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_recipes_in_the_documents_are_right(path):
    assert len(RECIPES) >= 14 and read_recipe_file(path).options  # checked by the builder that it names


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        (RIGHT.replace("builder", "bilder"), DataError, ("recipe.toml", "'bilder'", "'builder'")),
        (RIGHT.replace("captions =", "caption ="), DataError, ("[options]", "'caption'", "'captions'")),
        (RIGHT.replace("negatives", "negative"), UnknownNameError, ("builder", "'negative'", "'negatives'")),
        (RIGHT.replace("negatives", "zebra"), UnknownNameError, ("builder", "'zebra'", "all")),
        (RIGHT.replace('name = "few"\n', ""), DataError, ("recipe.toml", "'name'")),
        (RIGHT.replace('"few"', '"a/b"'), DataError, ("'name'", "'a/b'")),
        (f"seed = -1\n{RIGHT}", DataError, ("'seed'", "input", "0", "-1")),
        (f"{RIGHT}kinds = []\n", DataError, ("[options]", "'kinds'")),
        (f'{RIGHT}kinds = ["swap"]\n', DataError, ("[options]", "'kinds[0]'", "input", "'replace_obj'", "'swap'")),
        (f'{RIGHT}[[filters]]\nname = "word"\n', UnknownNameError, ("filters[0]", "filter", "'word'", "'words'")),
        (f"{RIGHT}[[filters]]\nmaximum = 3\n", DataError, ("filters[0]", "field 'name'", "words")),
        (f'{RIGHT}[[filters]]\nname = "words"\nmax = 3\n', DataError, ("filters[0]", "'max'", "'maximum'")),
        (f'{RIGHT}[[selections]]\nname = "distinkt"\n', UnknownNameError,
         ("selections[0]", "selection", "'distinkt'", "'distinct'", "distinct")),
        (f'{RIGHT}[[selections]]\nname = "per_cluster"\n', DataError, ("selections[0]", "'maximum'")),
        ("name = \n", DataError, ("recipe.toml", "TOML", "Invalid")),
        (f'{BLENDER}"./evil"\n', DataError, ("[options]", "field 'blender_python'", "TELLAPART_BLENDER_PYTHON")),
        (f'{SERVED}key_variable = "AWS_SECRET_ACCESS_KEY"\n', DataError,
         ("[options]", "'model.key_variable'", "TELLAPART_API_KEY")),
        (f'{SERVED}api_key = "sk-1"\n', DataError, ("[options]", "'model.api_key'", "TELLAPART_API_KEY")),
    ],
)  # fmt: skip
def test_a_wrong_recipe_says_what_is_wrong(tmp_path, wrong, error, says):
    with raises(error, says):
        read_recipe_file(write_file(tmp_path / "recipe.toml", wrong))


def test_the_fingerprint_is_of_all_that_decides_the_set_and_of_nothing_else():
    def fingerprint(inputs="a", model="1", version="1", **changes):
        recipe = RecipeFile(name="few", builder="negatives", **{"seed": 1} | changes)
        return fingerprint_facts(recipe.facts({"captions.csv": inputs}, {"m": model}, version))

    assert fingerprint(retries=9, max_failed=9) == fingerprint()
    changes = ({"seed": 2}, {"filters": [{"name": "words"}]}, {"selections": [{"name": "distinct"}]})
    others = {fingerprint("b"), fingerprint(model="2"), fingerprint(version="2")}
    assert len(others | {fingerprint(**change) for change in changes} | {fingerprint()}) == 7


def test_the_catalogue_of_builders_is_on_its_page_and_of_the_right_classes():
    page = (Path(__file__).parents[2] / "docs" / "builders.md").read_text(encoding="utf-8")
    named = {*BUILDERS, *FILTERS, *SELECTIONS}
    named |= {option for name in BUILDERS for option in load("builder", name).Options.model_fields}
    assert {name for name in named if f"`{name}`" not in page} == set()
    assert {name for name in FILTERS if not issubclass(load("filter", name), ItemFilter)} == set()
    assert {name for name in SELECTIONS if not issubclass(load("selection", name), Selection)} == set()


@pytest.mark.usefixtures("site")
def test_another_package_adds_a_filter_and_a_selection(tmp_path):
    rules = {"filters": [{"name": "quiet"}], "selections": [{"name": "first", "count": 1}]}
    recipe = RecipeFile(name="few", builder="squares", **rules)
    ((_, quiet),) = open_tables("filter", recipe.filters, "r.toml")
    ((_, first),) = open_tables("selection", recipe.selections, "r.toml")
    items = [Item(id=name, images=("a.png",), texts=("A DOG", "a cat")) for name in "ab"]
    assert quiet.fault(Made(items[0], {})) == "a shouted caption"
    assert first.left_out(items, seed=0, home=tmp_path) == {"b": "not among the first"}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_program_beside_the_recipe_is_not_run(tmp_path, workers):
    program, ran = tmp_path / "evil", tmp_path / "ran"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    recipe = write_file(tmp_path / "recipe.toml", f'{BLENDER}"{program}"\n[options.items]\ncounting = 1\n')
    with raises(DataError, "program", "recipe"):
        build(recipe, tmp_path / "set", workers=workers)
    assert not ran.exists()


# A build on a Ray cluster loses a node and ends in the same bytes; what is wrong with a cluster is said at once.


@pytest.fixture
def ray_folder():
    """Delete Ray's folder of logs and sockets; it has no other place, for the path of a socket may have 107 bytes."""
    yield
    shutil.rmtree(Path(tempfile.gettempdir()) / "ray", ignore_errors=True)


@pytest.mark.slow
def test_a_cluster_that_loses_a_node_builds_the_same_bytes(recipe, site, ray_folder, tmp_path):
    pytest.importorskip("ray", reason="needs the ray extra")
    whole = build(recipe(), tmp_path / "whole")
    # A process of its own: Ray leaves threads, sockets and warnings behind.
    command = [Path(__file__).with_name("ray_driver.py"), recipe(), tmp_path / "set"]
    variables = {"PYTHONPATH": str(site), "TEST_SECONDS_PER_ITEM": "0.3", "RAY_USAGE_STATS_ENABLED": "0"}
    said = json.loads(run_python(*command, timeout=150, env=os.environ | variables).stdout.splitlines()[-1])
    assert (said["items"], said["alive"], said["told"]) == (10, 1, list(range(13)))
    check_facts(said["refused"][0], "has tellapart", "tellapart 0 is at work here; install the same on every node")
    assert said["refused"][1].endswith("has 2 CPUs and 0 GPUs; a worker takes 1 CPU and 1 GPUs")
    assert contents(whole.folder) == contents(tmp_path / "set")


def test_an_address_where_nothing_answers_is_an_error_at_once_and_a_missing_ray_is_named(monkeypatch):
    pytest.importorskip("ray", reason="needs the ray extra")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and deaf
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with raises(RunError, "Ray", f"'{address}'"):
            next(RayExecutor(address).perform(abs, [1]))
    with raises(RunError, "'nowhere'", "Ray", "HOST:PORT"):
        next(RayExecutor("nowhere").perform(abs, [1]))
    monkeypatch.setitem(sys.modules, "ray", None)
    with raises(MissingDependencyError, 'pip install "tellapart[ray]"', "run"):
        next(RayExecutor("local").perform(abs, [1]))


def test_a_worker_with_other_inputs_or_another_version_refuses_to_work(recipe, tmp_path):
    read = read_recipe_file(recipe())
    sources = dict(sources_of(open_builder(read, tmp_path)))
    for wrong, says in (
        ({"tellapart": "0"}, ("tellapart is", "0")),
        ({"file captions.csv": "9f86" * 16}, ("captions.csv", "9f86" * 16)),
        ({"model painter": "2"}, ("model", "1", "2")),
    ):
        told = tuple(sorted((sources | wrong).items()))
        with raises(RunError, says):
            attempt([Candidate("square-000", 0)], WorkerPlan(read.model_dump_json(), tmp_path, "0123", told))
