"""The command line as a user meets it: right answers, one helpful line for every wrong one, and never a traceback."""

import json
import re
from pathlib import Path

import pytest

import tellapart
from facts import check_facts
from published import winoground
from tellapart.errors import StoreError
from tellapart.evaluation.check import Gate

ESCAPE = "\x1b"


def test_people_are_shown_with_their_ties(command):
    ran = command("score", "winoground", "--scores", winoground("human"), "--out", "run", code=0)
    every = command("show", "run", "--all").out
    for out in (ran.out, every):  # no tag has few values: the columns are the metrics
        row = next(line for line in out.splitlines() if line.startswith("human "))
        assert re.findall(r"(\d+\.\d\d) \[", row) == ["89.50", "88.50", "85.50", "97.50"]
    assert re.search(r"^human: 28 items .*\(35 tied comparisons\)$", every, re.MULTILINE)
    assert ran.out.splitlines()[-1] == "report: run/report.html"
    assert Path("run/report.html").stat().st_size > 10_000


def test_comparing_prints_the_exact_test(command):
    for name in ("clip_b32", "clip_l14"):
        command("score", "winoground", "--scores", winoground(name), "--out", name)
    rows = command("compare", "clip_b32", "clip_l14", "--json").json["rows"]
    ran = command("compare", "clip_b32", "clip_l14")
    for row in rows:
        line = next(line for line in ran.out.splitlines() if line.startswith(row["metric"]))
        assert f"{100 * row['difference']:+.2f} [" in line
        assert f"{row['p']:.3g}" in line.split()
    assert "p: exact McNemar, two-sided; Holm over 4 tests" in ran.out
    assert max(map(len, ran.out.splitlines())) <= 120


def test_run_shows_every_model_and_ends_with_the_report(command, made_set, installed):
    models = (word for model in ("colours", "random", "constant") for word in ("-m", model))
    ran = command("run", *models, "-b", f"folder:{made_set()}", "--out", "r", code=0)
    rows = [line.split()[0] for line in ran.out.splitlines() if re.match(r"\w[\w-]* +\d+\.\d\d \[", line)]
    assert rows == ["colours", "random", "constant"]
    assert "chance" in ran.out and "ties broken at random" in ran.out
    every = command("show", "r", "--all")
    for said in ("type = swap", "micro: all items (= macro of type)"):
        assert said in every.out
    assert ran.out.endswith("\nreport: r/report.html\n")
    assert "\n\n\n" not in re.sub(r" +\n", "\n", ran.out).replace("\n\nchance", "\nchance")
    assert (command("show", "r").out, ran.err) == (ran.out, "")


def test_runs_on_other_items_never_share_a_table(command, made_set):
    name = f"folder:{made_set()}"
    command("run", "-m", "random", "-b", name, "--out", "runs/a")
    command("run", "-m", "oracle", "-b", name, "--out", "runs/b", "--limit", "5")
    titles = re.findall(r"percent of .*? items", command("show", "runs").out)
    assert titles[0] == "percent of 12 items"
    assert "percent of 5 of 12 items" in titles


@pytest.mark.parametrize("arguments", [["run", "-m", "random", "-b", "SET", "--out", "r"], ["show", "r"]])
def test_run_and_show_print_one_json_object_with_the_records(command, made_set, arguments):
    name = f"folder:{made_set()}"
    command("run", "-m", "random", "-b", name, "--out", "r")
    found = command(*[name if argument == "SET" else argument for argument in arguments], "--json").json
    assert set(found) == {"out", "report", "warnings", "answer", "runs"}
    (answer,) = found["answer"]
    assert (answer["benchmark"], answer["metric"]) == ("folder:set", "group_score")
    assert answer["sentences"][0].startswith("random reaches ")
    assert [record["model"]["name"] for record in found["runs"]] == ["random"]
    record = json.loads(Path("r/results.json").read_text())
    del record["sha256"]  # of the file, not of the run
    assert found["runs"][0] == record


def test_ls_lists_the_catalogue_and_what_others_installed_broken_or_not(command, installed):
    benchmarks = {row["name"]: row for row in command("ls", "benchmarks", "--json").json}
    assert (benchmarks["winoground"]["shape"], benchmarks["winoground"]["runs"]) == ([2, 2], False)
    assert benchmarks["no-benchmark"]["title"].startswith("cannot be loaded: benchmark 'no-benchmark' is a dict")
    models = {row["name"]: row for row in command("ls", "models", "--json").json}
    assert models["oracle"]["role"] == "reference"
    assert models["colours"] == models["colours"] | {"role": "installed", "kind": "similarity"}
    assert models["gone"]["about"].startswith("cannot be loaded: ") and "no_such_module" in models["gone"]["about"]
    assert models["no-model"]["about"].startswith("cannot be loaded: model 'no-model' is a str")
    assert re.search(r"^winoground needs .*on the hub, gated: https://", command("ls", "benchmarks").out, re.MULTILINE)


def test_check_says_how_many_gates_hold_and_fails_when_one_falls(command, monkeypatch):
    good, bad = (Gate("constant", "2x2", "text_score", "0 %", got, got == "0 %") for got in ("0 %", "100 %"))
    for gates, code, last in (([good], 0, "1 of 1 gates hold"), ([good, bad], 1, "1 of 2 gates hold")):
        monkeypatch.setattr("tellapart.api.checks.check_references", lambda _progress, gates=gates: gates)
        ran = command("check", code=code)
        assert (ran.out.splitlines()[-1], "FAILS" in ran.out) == (last, bool(code))
    document = command("check", "--json", code=1).json
    assert (document["passed"], [gate["passed"] for gate in document["gates"]]) == (False, [True, False])


def test_a_group_of_commands_prints_its_help_once_and_the_version_is_printed(command):
    ran = command("annotate")
    assert (ran.code, (ran.out + ran.err).count("Usage: tellapart annotate")) == (2, 1)
    ran = command("--version")
    assert (ran.code, ran.out, ran.err) == (0, f"tellapart {tellapart.__version__}\n", "")


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("models.store.embedding_store.EmbeddingStore.put_numbers", StoreError("it is full; name another --cache")),
        ("api.evaluate.run_in_ranks", OSError(28, "No space left on device", "somewhere")),
    ],
)
def test_an_error_of_the_store_or_the_machine_is_one_line(command, made_set, monkeypatch, place, error):
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(f"tellapart.{place}", refuse)
    ran = command("run", "-m", "random", "-b", f"folder:{made_set()}", "--out", "r")
    assert (ran.code, ran.out, ran.err) == (2, "", f"error: {error}\n")


def test_a_run_has_a_folder_named_after_the_time_and_the_cache_that_was_named(command, made_set, installed):
    name = f"folder:{made_set()}"
    found = [command("run", "-m", "random", "-b", name, "--no-cache", "--json").json["out"] for _ in range(2)]
    assert len(set(found)) == 2
    assert all(re.fullmatch(r"runs/\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d\.\d{3}", out) for out in found)
    assert not Path("cache").exists()
    for out, images in (("a", 24), ("b", 0)):
        ran = command("run", "-m", "colours", "-b", name, "--cache", "mine", "--out", out, "--json")
        assert ran.json["runs"][0]["benchmarks"]["folder:set"]["images_encoded"] == images
    assert Path("mine/store.sqlite").is_file()
    assert not Path("cache").exists()
    file = ("--cache", "mine/store.sqlite", "--out", "c")  # a file where a folder is wanted
    check_facts(command("run", "-m", "random", "-b", name, *file, code=2).err, "error", "mine/store.sqlite")
    assert not Path("c").exists()


@pytest.mark.slow
def test_a_name_that_would_steer_the_terminal_is_made_harmless(command, made_set):
    file = Path("s.csv")
    rows = [f"item-{k},{i},{t},{(k * 7 + i * 3 + t) % 5}" for k in range(12) for i in range(2) for t in range(2)]
    file.write_text("\n".join(["id,image,text,score", *rows]) + "\n")
    name = f"folder:{made_set()}"
    for out in ("r", "other", "third"):
        ran = command("score", name, "--scores", file, "--name", "evil\x1b[2J[red]", "--out", out, code=0)
        assert ESCAPE not in ran.out and "[red]" in ran.out
    for runs in (("r", "other"), ("r", "other", "third")):
        ran = command("compare", *runs, code=0)
        assert ESCAPE not in ran.out and "[red] (run 2)" in ran.out


@pytest.mark.slow
def test_a_run_without_arguments_is_the_default_model_which_passes_every_gate(command):
    ran = command("run", "--limit", "12", "--json", code=0)
    models = [record["model"]["name"] for record in ran.json["runs"]]
    assert models == ["demo-encoder", "random", "constant", "blind", "bag-of-words", "oracle"]
    found = [record["benchmarks"]["demo"] for record in ran.json["runs"]]
    assert {record["limited_from"] for record in found} == {400}
    assert len({record["fingerprint"] for record in found}) == 1
    assert (found[0]["images_encoded"], found[0]["texts_encoded"]) == (found[0]["images"], found[0]["texts"])
    assert [record["metrics"]["group_score"]["value"] for record in found][-1] == 1
    again = command("run", "--limit", "12", "--json").json["runs"]
    assert again[0]["benchmarks"]["demo"]["images_encoded"] == 0
    assert [record["benchmarks"]["demo"]["metrics"] for record in again] == [record["metrics"] for record in found]
    ran = command("check", "demo-encoder", "--json", code=0)
    own = [gate for gate in ran.json["gates"] if gate["subject"] == "demo-encoder"]
    assert len(own) == 6
    assert all(gate["passed"] for gate in own)


@pytest.mark.slow
def test_numbers_are_printed_before_the_report_is_drawn(command, tmp_path):
    (tmp_path / "run" / "report.html").mkdir(parents=True)  # so that no report can be written there
    done = command("run", "-m", "random", "--limit", "20", "--out", "run", code=2)
    assert "group_score" in done.out
    assert "report.html" in done.err
    assert command("show", "run", "--json").out == ""
