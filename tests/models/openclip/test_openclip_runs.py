"""A run in bfloat16 that is checked counts the outcomes in which it differs from a run in float32."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_openclip import ARCHITECTURES

import tellapart as ta
from tellapart.evaluation.compare import compare, regression_gate
from tellapart.evaluation.run import Settings, run
from tellapart.evaluation.verified import read_result
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.models.torch.backend import fastest_dtype, import_torch
from tellapart.records.samples import read_samples
from tellapart.report.printing import print_comparison

torch = import_torch()


def test_a_sample_is_scored_in_float32_too(checkpoints: Any, picture_set: Any, tmp_path: Path) -> None:
    name, pairs = f"open_clip:tiny-gelu@{checkpoints('tiny')}", picture_set(60)
    with EmbeddingStore(None) as store:
        low = Settings(models=(name,), benchmarks=(pairs,), dtype="bfloat16", check=40, seed=3)
        checked, *_ = run(low, tmp_path / "low", store=store)
        exact, *_ = run(Settings(models=(name,), benchmarks=(pairs,), seed=3), tmp_path / "exact", store=store)
    ((benchmark, record),) = read_result(checked).benchmarks.items()
    found = record.precision
    assert found is not None and (found.dtype, found.against, found.items, found.seed) == ("bfloat16", "float32", 40, 3)
    drawn = np.sort(np.random.default_rng(3).permutation(60)[:40])
    samples = [[list(read_samples(folder, benchmark))[k] for k in drawn] for folder in (checked, exact)]
    for metric, flips in found.flips.items():
        a, b = ([sample.outcomes[metric] for sample in each] for each in samples)
        assert (flips.gained, flips.lost) == (sum(np.greater(a, b)), sum(np.less(a, b)))
    scores = [np.array([sample.scores for sample in each]) for each in samples]
    assert 0 < found.largest_difference == pytest.approx(np.abs(scores[0] - scores[1]).max())
    assert "group_score" in found.flips
    note = next(note for note in record.notes if "bfloat16" in note)
    assert "40 items" in note and f"group_score {found.flips['group_score'].flipped}" in note


@pytest.mark.slow
def test_auto_takes_the_fastest_dtype_unless_it_flips_too_much(
    checkpoints: Any, picture_set: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr("tellapart.evaluation.run.fastest_dtype", lambda _device: "bfloat16")
    name, pairs = f"open_clip:tiny-gelu@{checkpoints('tiny')}", picture_set(60)
    settings = Settings(models=(name, "oracle"), benchmarks=(pairs,), dtype="auto", check=40, seed=3)
    chosen = {
        "taken": replace(settings, flips=1.0),
        "refused": replace(settings, flips=0.0),
        "float32": replace(settings, dtype="float32", check=None),
    }
    with EmbeddingStore(None) as store:
        folders = {key: [*run(each, tmp_path / key, store=store)] for key, each in chosen.items()}
    results = {key: read_result(each[0]) for key, each in folders.items()}
    records = {key: next(iter(each.benchmarks.values())) for key, each in results.items()}
    taken, refused = (records[key].precision for key in ("taken", "refused"))
    assert taken is not None and refused is not None and taken.share == refused.share > 0
    assert (taken.dtype, taken.most, taken.items) == ("bfloat16", 1.0, 40) and refused.most == 0.0
    assert [results[key].model.dtype for key in chosen] == ["bfloat16", None, None]
    assert results["refused"].model.fingerprint == results["float32"].model.fingerprint
    assert results["refused"].model.fingerprint != results["taken"].model.fingerprint
    assert records["refused"].metrics == records["float32"].metrics
    share = f"{100 * taken.share:.2f}%"
    for key, dtype, limit in (("taken", "bfloat16", "flips=1"), ("refused", "float32", "flips=0")):
        note = next(note for note in records[key].notes if "auto" in note)
        assert f"chose {dtype}" in note and limit in note and share in note
    assert next(iter(read_result(folders["taken"][1]).benchmarks.values())).notes == ()  # the oracle has no dtype
    compared = compare(folders["taken"][0], folders["refused"][0])
    assert compared.dtypes == ("bfloat16", "float32")
    print_comparison(compared)
    assert re.search(r"bfloat16.*float32", capsys.readouterr().out.replace("\n", " "))
    assert compare(folders["refused"][0], folders["float32"][0]).dtypes is None
    assert regression_gate(folders["float32"][0], folders["taken"][0]).dtypes == ("float32", "bfloat16")


@pytest.mark.parametrize(
    ("facts", "dtype"),
    [({"amx_bf16": True}, "bfloat16"), ({"bf16": True}, "bfloat16"), ({"amx_bf16": False}, "float32")],
)
def test_the_fastest_dtype_is_one_with_instructions(facts: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: facts, raising=False)
    assert fastest_dtype("cpu") == dtype and fastest_dtype("mps") == "float16"


def test_a_checkpoint_of_open_clips_training_gets_the_scores_of_its_weights(
    open_clip: Any, checkpoints: Any, made_set: Any, tmp_path: Path
) -> None:
    weights = torch.load(checkpoints("tiny"), weights_only=True)
    folder = tmp_path / "logs" / "checkpoints"
    folder.mkdir(parents=True)
    (tmp_path / "logs" / "params.txt").write_text("lr: 0.1\nmodel: tiny\nforce_quick_gelu: False\n")
    content = {"epoch": 1, "name": "run", "state_dict": {f"module.{name}": value for name, value in weights.items()}}
    torch.save(content, folder / "epoch_1.pt")
    (folder / "epoch_2.pt").write_bytes((folder / "epoch_1.pt").read_bytes()[:-500])
    torch.save(content, folder / "epoch_3.pt")
    pairs, left_out = ta.load_pairs(made_set()), []
    run = ta.evaluate(
        benchmarks=pairs,
        follow=folder,
        every=0.01,
        until=2,
        cache=False,
        out=tmp_path / "run",
        left_out=left_out.append,
    )
    assert run.models == ["epoch_1", "epoch_3"]
    assert [line.partition(":")[0] for line in left_out] == [str(folder / "epoch_2.pt")]
    plain = ta.evaluate(f"open_clip:tiny-gelu@{checkpoints('tiny')}", pairs, cache=False)
    assert [one.scores for one in plain.items().samples] == [one.scores for one in run.items().samples]


@pytest.mark.slow
def test_kills_while_weights_are_loaded_lose_none_and_measure_none_twice(
    checkpoints: Any, made_set: Any, tmp_path: Path
) -> None:
    architectures = tmp_path / "architectures"
    architectures.mkdir()
    (architectures / "tiny.json").write_text(json.dumps(ARCHITECTURES["tiny"]))
    script = Path(__file__).with_name("killed_in_load.py")
    given = (architectures, checkpoints("tiny"), f"folder:{made_set(n=4)}", tmp_path / "followed")
    done = subprocess.run([sys.executable, script, *given], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads((tmp_path / "followed" / "told.json").read_text())
    parts = " ".join(told).split("killed")
    in_load = sum(part.split()[-2:-1] == ["load"] for part in parts[:-1])
    assert len(parts) == 9 and in_load >= 2, told  # killed between the start and the end of reading a file
    names = [line.removeprefix("measured ") for line in told if line.startswith("measured ")]
    runs = [tmp_path / "followed" / "run", *(tmp_path / "followed" / "run" / "beside").iterdir()]
    results = {json.loads((run / "results.json").read_bytes())["model"]["name"]: run for run in runs}
    assert results.keys() == {f"epoch_{step}" for step in range(1, 17)}
    assert len(names) == len(set(names)) and set(names) <= results.keys()
    for name in results:  # once it was measured it is not read again
        if f"measured {name}" in told:
            assert f"load {name}" not in told[told.index(f"measured {name}") :]
    assert [row["step"] for row in ta.open_run(runs[0]).to_json()["checkpoints"]] == list(range(1, 17))
