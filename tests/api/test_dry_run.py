"""A dry run of `run`: all problems at once, what is stored already, the time of the rest; nothing is written."""

import json
import shutil
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import tellapart as ta
from facts import check_facts, raises
from tellapart.cli.main import app
from tellapart.errors import RunError

SCENES = Path("examples/eqsim_ablation/smoke_scenes").absolute()


def dry(*arguments: object) -> tuple[int, Any]:
    done = CliRunner().invoke(app, ["run", "--dry-run", "--json", "-q", *map(str, arguments)])
    return done.exit_code, json.loads(done.stdout)


def test_it_counts_sets_and_stored_numbers_and_writes_nothing(tmp_path):
    place = (
        "-m", "demo-encoder", "-m", "oracle", "-b", f"folder:{SCENES}", "--cache", tmp_path / "cache", "--limit", 12,
    )  # fmt: skip
    code, plan = dry(*place, "--out", tmp_path / "run")
    assert (code, plan["passed"], plan["problems"]) == (0, True, [])
    counts = {"items": 12, "images": 24, "captions": 24, "texts": 24, "scores": 48}
    assert plan["sets"] == [{"set": "folder:smoke_scenes", **counts}]
    news = [(each["model"], each["new_images"], each["new_texts"], each["new_scores"]) for each in plan["parts"]]
    assert news == [("demo-encoder", 24, 24, 48), ("oracle", 24, 24, 48)]
    assert all(each["seconds"] > 0 and "timed" in each["basis"] for each in plan["parts"])
    assert plan["memory"] > 1e6 and list(tmp_path.iterdir()) == []

    ta.run("demo-encoder", f"folder:{SCENES}", limit=4, cache=tmp_path / "cache")
    stored = (tmp_path / "cache" / "store.sqlite").read_bytes()
    encoder, _ = dry(*place, "--out", tmp_path / "run")[1]["parts"]
    assert [encoder[f"new_{kind}"] for kind in ("images", "texts", "scores")] == [16, 16, 32]
    assert (tmp_path / "cache" / "store.sqlite").read_bytes() == stored
    ta.run("demo-encoder", f"folder:{SCENES}", limit=12, cache=tmp_path / "cache")
    encoder, _ = dry(*place, "--out", tmp_path / "run")[1]["parts"]
    assert (encoder["new_scores"], encoder["seconds"], encoder["basis"]) == (0, 0.0, "all scores are stored")
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


def test_it_looks_into_the_runs_folder(tmp_path):
    place = ("-b", f"folder:{SCENES}", "--limit", 4, "--no-cache", "--out", tmp_path / "run")
    ta.run("demo-encoder", f"folder:{SCENES}", limit=4, out=tmp_path / "run", cache=False)
    kept = sorted((path, path.read_bytes()) for path in (tmp_path / "run").rglob("*") if path.is_file())
    code, plan = dry("-m", "demo-encoder", "-m", "oracle", *place)
    first, second = plan["parts"]
    assert (code, first["seconds"], first["basis"]) == (0, 0.0, f"measured in {tmp_path / 'run'} already")
    assert second["seconds"] > 0 and "timed" in second["basis"]
    other = shutil.copytree(SCENES, tmp_path / "other" / SCENES.name) / "pairs.jsonl"
    other.write_text(other.read_text().replace("small red coffee mug", "small red cup"))
    code, plan = dry("-m", "demo-encoder", "-b", f"folder:{other.parent}", *place[2:])
    assert code == 1
    check_facts(plan["problems"][0], (str(tmp_path / "run"), "smoke_scenes", "other content"))
    code, plan = dry("-m", "oracle", *place)
    assert code == 1
    check_facts(plan["problems"][0], (str(tmp_path / "run"), "another run", "demo-encoder"))
    assert kept == sorted((path, path.read_bytes()) for path in (tmp_path / "run").rglob("*") if path.is_file())


def test_all_problems_are_named_at_once_and_the_command_ends_with_1(tmp_path):
    folder = tmp_path / "scenes"
    shutil.copytree(SCENES, folder)
    pictures = sorted((folder / "images").iterdir())
    pictures[0].unlink()
    pictures[4].unlink()
    pointer = tmp_path / "pointers"
    shutil.copytree(SCENES, pointer)
    for picture in sorted((pointer / "images").iterdir())[:2]:
        picture.write_text("version https://git-lfs.github.com/spec/v1\n")
    sets = [option for name in (f"folder:{folder}", f"folder:{pointer}", "demmo") for option in ("-b", name)]
    code, plan = dry("-m", "orcale", "-m", "api:x", "-m", "random", *sets, "--dtype", "bfloat16")
    assert (code, plan["passed"]) == (1, False)
    facts = [pictures[0].name, pictures[4].name, "demmo", "'orcale'", "api:x", "attribute-000_1", "git lfs pull"]
    check_facts("\n".join(plan["problems"]), *facts)
    assert len(plan["problems"]) == 6  # a set, two pictures, a name of a set and two of models; none of the reference


def test_names_in_files_of_python_are_problems_of_the_same_list(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "mine.py").write_text("def bright(image, text):\n    return 0.5\n")
    typed = [f"{tmp_path / 'mine.py'}:{name}" for name in ("brigth", "dark", "SET")]
    code, plan = dry("-m", typed[0], "-m", "oracle", "-m", typed[1], "-b", typed[2], "-b", "demmo", "--name", "a")
    assert code == 1 and len(plan["problems"]) == 4
    for problem, name in zip(plan["problems"], ("SET", "brigth", "dark", "demmo"), strict=True):
        check_facts(problem, name)


def test_python_has_the_plan_and_shows_it(capsys, tmp_path):
    run = ta.evaluate(
        ["oracle", "constant"], "demo", names=["right", "same"], limit=6, out=tmp_path / "r", dry_run=True
    )
    assert run.plan is not None and run.plan.parts["model"] == ["right", "same"]
    assert "constant" not in repr(run) and "right" in repr(run)
    run.show()
    check_facts(capsys.readouterr().out, str(tmp_path / "r"), "captions", "no problem found")
    assert not (tmp_path / "r").exists()
    with raises(RunError, "dry_run=True", "follow="):
        ta.evaluate("open_clip:ViT-B-32@{}", "demo", follow=tmp_path, dry_run=True)


def test_vectors_that_are_stored_leave_scores_to_compute(tmp_path):
    folder = tmp_path / "crossed"
    shutil.copytree(SCENES, folder)
    rows = [json.loads(line) for line in (SCENES / "pairs.jsonl").read_text().splitlines()[:6]]
    crossed = [{**row, "texts": rows[k - 1]["texts"]} for k, row in enumerate(rows)]
    ta.run("demo-encoder", ta.read_pair_set(SCENES).select(range(6)), cache=tmp_path / "cache", out=tmp_path / "run")
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in crossed))
    code, plan = dry("-m", "demo-encoder", "-b", f"folder:{folder}", "--cache", tmp_path / "cache")
    (part,) = plan["parts"]
    assert (code, plan["problems"]) == (0, [])
    assert [part[f"new_{kind}"] for kind in ("images", "texts", "scores")] == [0, 0, 24]
