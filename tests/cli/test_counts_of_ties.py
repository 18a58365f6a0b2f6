"""Tied items are items of one metric, and every door gives the same number for it: run, show, table, page and JSON."""

import re
from pathlib import Path

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
