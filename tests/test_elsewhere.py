"""What other tools wrote becomes a board file and a file of predictions that tellapart reads."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from examples.elsewhere.codalab import convert_bundle, read_bundle
from examples.elsewhere.lmms_eval import convert_samples, read_ids

from scripts import run_python
from tellapart.board.records import read_settings
from tellapart.board.submissions.hidden import read_hidden

ROOT = Path(__file__).parents[1]
CODALAB = """
title: Which caption is true?
description: A challenge.
end_date: 2027-03-01
has_registration: true
competition_docker_image: codalab/codalab-legacy:py37
html: {overview: overview.html}
phases:
  1: {phasenumber: 1, label: Development, start_date: 2026-01-01, max_submissions: 100}
  2:
    phasenumber: 2
    label: Test
    start_date: 2026-02-01
    max_submissions: 13
    max_submissions_per_day: 2
    scoring_program: scoring_program.zip
    reference_data: reference.zip
"""
CODABENCH = """
version: 2
title: "Schönes Rätsel"
phases:
  - {name: Only, start: 2026-01-01, end: "2026-12-31 12:00:00+00:00", max_submissions: 5, tasks: [0]}
tasks: [{index: 0, scoring_program: program, reference_data: data}]
leaderboards: [{title: Results, key: main}]
"""


def test_a_bundle_of_codalab_becomes_a_board_file_that_serves_reads(tmp_path):
    (tmp_path / "competition.yaml").write_text(CODALAB)
    command = ["-m", "examples.elsewhere.codalab", tmp_path, "--name", "captions", "--benchmark", "demo"]
    done = run_python(*command, "--out", tmp_path / "board.toml", cwd=ROOT)
    settings, hidden = read_settings(tmp_path / "board.toml"), read_hidden(tmp_path / "board.toml")
    assert (settings.title, settings.about) == ("Which caption is true?", "A challenge.")
    [one] = hidden.hidden
    assert (one.name, one.benchmark, one.daily, one.total) == ("captions", "demo", 2, 13)
    assert one.closes == datetime(2027, 3, 1, tzinfo=UTC)
    for lost in ("Development", "scoring_program", "reference_data", "competition_docker_image", "html"):
        assert lost in done.stdout


def test_a_bundle_of_codabench_has_its_phases_in_a_list(tmp_path):
    (tmp_path / "competition.yaml").write_text(CODABENCH, encoding="utf-8")
    text, lost = convert_bundle(read_bundle(tmp_path), "riddle", {"pairs": "pairs"})
    (tmp_path / "board.toml").write_text(text, encoding="utf-8")
    [one] = read_hidden(tmp_path / "board.toml").hidden
    assert (one.title, one.total, one.pairs) == ("Schönes Rätsel", 5, tmp_path / "pairs")
    assert (one.closes, lost) == (datetime(2026, 12, 31, 12, tzinfo=UTC), ["leaderboards", "tasks"])


def test_a_folder_without_a_bundle_is_refused_by_its_path(tmp_path):
    with pytest.raises(SystemExit, match=r"competition\.yaml"):
        read_bundle(tmp_path)


def test_samples_of_lmms_eval_become_predictions(tmp_path):
    rows = [
        {"doc_id": 0, "doc": {"question_id": "a"}, "filtered_resps": ["(a) "], "resps": [["(a)"]]},
        {"doc_id": 1, "doc": {"question_id": "b"}, "filtered_resps": [["No"]]},
    ]
    path = tmp_path / "samples.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    assert convert_samples(path) == [{"id": "0", "prediction": "(a)"}, {"id": "1", "prediction": "No"}]
    assert [row["id"] for row in convert_samples(path, "question_id")] == ["a", "b"]
    # lmms-eval writes characters as they are, and U+2028 ends no line of JSONL.
    path.write_text(json.dumps({"doc_id": 0, "filtered_resps": ["No\u2028way"]}, ensure_ascii=False), encoding="utf-8")
    assert convert_samples(path) == [{"id": "0", "prediction": "No\u2028way"}]
    path.write_text(json.dumps({"doc_id": 0, "filtered_resps": [[0.5, True]]}))
    with pytest.raises(SystemExit, match="line 1"):
        convert_samples(path)


def test_answers_that_lmms_eval_logged_are_scored_in_the_order_of_an_export(tmp_path, command):
    task = ["vlue-nlvr2", "--data", str(ROOT / "examples" / "hidden_board" / "statements")]
    assert command("export", *task, "--to", str(tmp_path / "ids.csv")).code == 0
    ids = read_ids(tmp_path / "ids.csv")
    samples = [{"doc_id": k, "filtered_resps": ["True"]} for k in range(len(ids))]
    (tmp_path / "samples.jsonl").write_text("\n".join(map(json.dumps, samples)))
    rows = convert_samples(tmp_path / "samples.jsonl", ids=ids)
    (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, rows)))
    given = ["--scores", str(tmp_path / "answers.jsonl"), "--name", "yes", "--out", str(tmp_path / "run")]
    done = command("score", *task, *given, code=0)
    assert "50.00%" in done.out + done.err
    with pytest.raises(SystemExit, match="doc_id 1"):
        convert_samples(tmp_path / "samples.jsonl", ids=ids[:1])
