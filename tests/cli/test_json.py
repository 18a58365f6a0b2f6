"""Every command takes `--json`, and then prints one JSON document alone; every door counts the same ties."""

import json
import re
from pathlib import Path

import pytest


@pytest.fixture
def workplace(command, made_set, tmp_path) -> Path:
    """A folder with all that the commands below read: a set, runs of two models, their costs, another tool's file."""
    made_set("pairs", n=4)
    command("run", "-m", "random", "-m", "oracle", "-b", "folder:pairs", "--out", "runs/r", "--no-cache", code=0)
    Path("costs.csv").write_text("model,milliseconds\nrandom,1\noracle,2\n")
    rows = [f"item-{k},{i},{t},{(k * 7 + i * 3 + t) % 5}" for k in range(4) for i in range(2) for t in range(2)]
    Path("scores.csv").write_text("\n".join(["id,image,text,score", *rows]) + "\n")
    held = {"dataset": "winoground", "model": "theirs", "pretrained": "x", "task": "image_caption_selection"}
    metrics = {"image_acc": 0.125, "text_acc": 0.0625, "acc": 0.03125}
    Path("theirs.json").write_text(json.dumps({**held, "metrics": metrics, "language": "en"}))
    (tmp_path / "board.toml").write_text(
        '[submissions]\nstate = "state"\n[[hidden]]\nname = "secret"\npairs = "pairs"\nmetrics = ["group_score"]\n'
        "total = 1\nlargest_share = 1000.0\n"
    )
    return tmp_path


#: What is called, and the keys of its document: the first are tried at once, the others by a slow test.
CALLS: dict[str, list[tuple[tuple[str, ...], set[str] | None]]] = {
    "first": [
        (("ls", "models"), None),
        (("export", "folder:pairs", "--to", "pairs.csv"), {"to", "pairs"}),
        (("show", "runs/r"), {"out", "report", "warnings", "answer", "runs"}),
    ],
    "others": [
        (("score", "folder:pairs", "--scores", "scores.csv", "--out", "s"), {"out", "report", "runs"}),
        (("compare", "runs/r", "runs/r/beside/oracle"), None),
        (("time", "-m", "random", "-b", "folder:pairs", "--repeats", "1", "--warm-up", "1", "--batch-size", "2"), None),
        (("audit", "pairs", "--to", "card"), {"findings"}),
        (("annotate", "ls"), None),
        (("annotate", "export", "match", "folder:pairs", "--to", "study"), {"to", "survey", "units", "tasks"}),
        (("mine", "pairs", "-m", "demo-encoder", "--nearest", "1", "--out", "mined.jsonl"), {"out", "rows", "images"}),
        (("plot", "bars", "runs/r", "--out", "a.svg"), {"kind", "out"}),
        (("table", "runs/r"), None),
        (("table", "runs/r", "--out", "table.json"), {"out"}),
        (("import", "theirs.json", "--out", "theirs"), {"out", "model", "benchmarks"}),
        (("convert", "runs/r", "--to", "lm-eval"), {"format", "text"}),
        (("convert", "runs/r", "--to", "lm-eval", "--out", "lm.json"), {"format", "out"}),
        (("board", "export", "--runs", "runs", "--out", "site"), {"out", "pages"}),
        (("board", "user", "ann", "--board", "board.toml"), {"user", "role", "token_id", "token"}),
        (("board", "user", "bob", "cat", "--board", "board.toml"), None),
    ],
}


@pytest.mark.few(1)
@pytest.mark.parametrize("calls", CALLS.values(), ids=CALLS)
def test_a_command_prints_one_document_and_nothing_else(command, workplace, calls):
    for arguments, keys in calls:
        document = json.loads(command(*arguments, "--json", code=0).out)
        assert not keys or keys <= set(document), arguments
        assert all((workplace / document[key]).exists() for key in {"out", "to"} & (keys or set())), arguments


# Tied items are items of one metric, and every door gives the same number for it: run, show, table, page and JSON.

MODELS = ("constant", "blind", "bag-of-words")
METRICS = ("text_score", "image_score", "group_score")
NOTE = r"[:;] {} ((?:[\w-]+ [\d.]+ \(\d+ tied\)(?:, )?)+)"


def flat(text: str) -> str:
    return " ".join(text.replace("\\", "").split())


def test_run_show_table_page_and_json_give_one_number_of_tied_items(command):
    models = (part for model in MODELS for part in ("-m", model))
    ran = flat(command("run", *models, "-b", "demo", "--limit", 40, "--out", "run").out)
    shown, every, table = (flat(command(*words, "run").out) for words in (["show"], ["show", "--all"], ["table"]))
    page = flat(re.sub(r"<[^>]*>", " ", Path("run/report.html").read_text()))
    records = {one["model"]["name"]: one["benchmarks"]["demo"] for one in command("show", "run", "--json").json["runs"]}
    # It sees no image, so the two always tie; texts tie if they are equally long.
    blind = [records["blind"]["metrics"][name]["ties"] for name in METRICS]
    assert 0 < blind[0] == blind[2] < blind[1] == 40
    for model, record in records.items():
        ties = {name: record["metrics"][name]["ties"] for name in METRICS}
        noted = {name: f"{100 * record['metrics'][name]['tie_neutral']:.2f} ({ties[name]} tied)" for name in METRICS}
        for text, names in ((ran, ["group_score"]), (shown, ["group_score"]), (table, METRICS)):
            for name in names:
                (note,) = re.findall(NOTE.format(name), text)
                assert f"{model} {noted[name]}" in note
        assert f"ties broken at random {' '.join(noted.values())}" in every
        row = re.search(rf"\b{model} (?:0|75)\.00", page)
        on_page = [int(count) for count in re.findall(r"tie-neutral, (\d+) tied", page[row.start() :])[:3]]
        assert sorted(on_page) == sorted(ties.values())
        # The items that hold a tie are a count of another thing, and have another name.
        held = rf"{model}: {record['tied_items']} items [^;.]*with a tie, whether it decides a metric or not"
        assert re.search(held, every) and re.search(held, page)
    assert "whether it decides" not in ran + table
