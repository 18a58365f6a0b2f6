"""A checkpoint comes back to the bit; one that is damaged or another's is refused with what to do."""

import hashlib
import json
import resource
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from training_sets import Stopped, config, logged, stop_after

import tellapart as ta
from facts import check_facts, raises
from scripts import limited
from tellapart.errors import MissingDependencyError, ModelError, RunError, TellapartWarning
from tellapart.training import run_files
from tellapart.training.losses.loss import read_terms
from tellapart.training.record import read_record, write_training_report
from tellapart.training.training_run import run_training


def trained(seed: int = 0, width: int = 3, steps: int = 2) -> tuple[Any, Any]:
    """A module with a frozen parameter and buffers, after some steps of AdamW."""
    torch.manual_seed(seed)
    module = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.BatchNorm1d(width), torch.nn.Linear(width, 1))
    module[2].bias.requires_grad_(False)
    optimiser = torch.optim.AdamW([p for p in module.parameters() if p.requires_grad], lr=0.1)
    for step in range(steps):
        optimiser.zero_grad()
        torch.manual_seed(step)
        module(torch.randn(8, 4)).square().sum().backward()
        optimiser.step()
    return module, optimiser


def test_a_checkpoint_goes_on_as_if_nothing_had_been(tmp_path):
    module, optimiser = trained()
    state = run_files.TrainingState(2, 0.5, 1, [(1, 0.5), (2, 0.25)])
    run_files.write_checkpoint(tmp_path, module, optimiser, state, keep=1)
    other, again = trained(seed=7, steps=0)
    result = run_files.latest_checkpoint(tmp_path)
    assert result is not None and run_files.read_checkpoint(result, other, again) == state
    for each, opt in ((module, optimiser), (other, again)):
        each[2].bias.data.zero_()  # what is frozen is the start's, and in no checkpoint
        torch.manual_seed(9)
        opt.zero_grad()
        each(torch.randn(8, 4)).square().sum().backward()
        opt.step()
    first, second = run_files.weights_of(module), run_files.weights_of(other)
    assert first.keys() == second.keys() and "2.bias" not in first and "1.running_mean" in first
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_last_ones_are_kept_and_half_written_ones_are_no_checkpoints(tmp_path):
    module, optimiser = trained()
    for step in (1, 2, 10):
        run_files.write_checkpoint(tmp_path, module, optimiser, run_files.TrainingState(step), keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000002", "step-00000010"]
    (tmp_path / "step-00000011").mkdir()
    last = run_files.latest_checkpoint(tmp_path)
    assert last.name == "step-00000010"
    command = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    assert subprocess.run(command, cwd=last, check=True, capture_output=True).stdout.count(b": OK\n") == 3


def test_a_folder_is_written_whole_or_not_at_all(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        run_files.write_folder(tmp_path / "best", {"a.json": {"a": 1}, "b.json": {"b": float("nan")}})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [{"w": torch.zeros(4096)}, {"text": "x" * 8192}])
def test_a_folder_that_does_not_fit_on_the_disk_is_said_and_nothing_is_left(tmp_path, content):
    name = "state.json" if "text" in content else "weights.safetensors"
    with limited(resource.RLIMIT_FSIZE, 4096), raises(RunError, "best", "too large", "resume=True"):
        run_files.write_folder(tmp_path / "best", {name: content})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_takes_the_place_of_the_one_before(tmp_path):
    run_files.write_folder(tmp_path / "best", {"a.json": {"a": 1}})
    (tmp_path / ".best-0a1b2c3_" / "best").mkdir(parents=True)  # as a power cut leaves a draft
    run_files.write_folder(tmp_path / "best", {"b.json": {"b": 1}})
    assert [path.name for path in tmp_path.iterdir()] == ["best"]
    assert [path.name for path in tmp_path.rglob("*.json")] == ["b.json"]
    (tmp_path / "file").touch()
    with raises(RunError, "file/best"):
        run_files.write_folder(tmp_path / "file" / "best", {})


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "foreign": lambda path: path.write_bytes(b"PK\x03\x04" + bytes(200)),
    "deleted": Path.unlink,
}


@pytest.mark.parametrize("name", ["weights.safetensors", "optimiser.safetensors", "state.json"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_said(tmp_path, name, damage):
    module, optimiser = trained()
    run_files.write_checkpoint(tmp_path, module, optimiser, run_files.TrainingState(2), keep=1)
    checkpoint = tmp_path / "step-00000002"
    DAMAGES[damage](checkpoint / name)
    with raises(RunError, name, "step-00000002", "delete"):
        run_files.read_checkpoint(checkpoint, *trained())


def test_another_models_checkpoint_is_refused(tmp_path):
    module, optimiser = trained()
    run_files.write_checkpoint(tmp_path, module, optimiser, run_files.TrainingState(2), keep=1)
    with raises(RunError, "model", "weights", "shape"):
        run_files.read_checkpoint(tmp_path / "step-00000002", *trained(width=5))
    weights = run_files.weights_of(module)
    del weights["2.weight"]
    with raises(ModelError, "model", "2.weight", "weights"):
        run_files.copy_weights(weights, module)
    wider, moments = trained()
    wider.add_module("3", torch.nn.Linear(1, 1))
    run_files.write_checkpoint(tmp_path / "other", wider, moments, run_files.TrainingState(1), keep=1)
    with raises(RunError, "run"):
        run_files.read_checkpoint(tmp_path / "other" / "step-00000001", *trained())


def seal(checkpoint: Path) -> None:
    """Write the checksums anew: what is wrong is then wrong in itself."""
    files = sorted(path for path in checkpoint.iterdir() if path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (checkpoint / "SHA256SUMS").write_text("".join(lines))


def test_the_state_of_another_step_and_a_checkpoint_without_sums_are_refused(tmp_path):
    for step in (1, 2):
        run_files.write_checkpoint(tmp_path, *trained(steps=step), run_files.TrainingState(step), keep=2)
    first, second = sorted(tmp_path.iterdir())
    state, sums = (second / "state.json").read_bytes(), second / "SHA256SUMS"
    for content, sealed, facts in (
        ((first / "state.json").read_bytes(), True, ("step 1", "delete")),
        (state.replace(b'"unmoved": 0', b'"unmoved": 1'), False, "delete"),
        (state.replace(b'"unmoved": 0', b'"later": 0'), True, ("another version", "later, unmoved")),
    ):
        (second / "state.json").write_bytes(content)
        if sealed:
            seal(second)
        with raises(RunError, "state.json", "step-00000002", facts):
            run_files.read_checkpoint(second, *trained())
    sums.unlink()
    with raises(RunError, "SHA256SUMS", "step-00000002", "delete"):
        run_files.read_checkpoint(second, *trained())


def test_best_weights_of_another_type_or_step_are_refused(tmp_path):
    module, _ = trained()
    weights = run_files.weights_of(module)
    sums = run_files.write_folder(tmp_path / "best", {"weights.safetensors": weights})
    path = tmp_path / "best" / "weights.safetensors"
    run_files.read_weights(path, module, sums["weights.safetensors"])
    save_file({name: value + 1 for name, value in weights.items()}, path)
    with raises(RunError, "best/weights.safetensors", "SHA-256"):
        run_files.read_weights(path, module, sums["weights.safetensors"])
    with raises(ModelError, "0.weight", "type"):
        run_files.copy_weights({name: value.half() for name, value in weights.items()}, module)


def test_what_a_kill_left_of_older_checkpoints_is_deleted(tmp_path):
    for name, file in (("step-00000002", "state.json"), ("step-00000004", "weights.safetensors")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).touch()
    run_files.delete_older(tmp_path, 1)
    assert {path.name for path in tmp_path.iterdir()} == {"step-00000002", "step-00000004"}  # 2 is the last whole one
    run_files.write_folder(tmp_path / "step-00000006", {"state.json": {}})
    run_files.delete_older(tmp_path, 1)
    assert {path.name for path in tmp_path.iterdir()} == {"step-00000006"}


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"fingerprint": "a"}', '{"fingerprint": "a", "fingerprint": "b"}', "[" * 9_000]
)
def test_a_damaged_claim_is_said(tmp_path, content):
    (tmp_path / "run.json").write_text(content)
    with raises(RunError, "run.json", "out="):
        run_files.RunFiles(tmp_path).claim("b", resume=True)


def test_a_training_that_has_not_ended_is_not_shown_as_a_run(tmp_path):
    run_files.RunFiles(tmp_path / "run").claim("a", resume=False)
    ta.evaluate("oracle", "demo", limit=2, out=tmp_path / "run" / "report")  # the first of its measurements is there
    with raises(RunError, f"{tmp_path}/run", "not ended", "report.html", "--resume"):
        ta.show(tmp_path / "run")


def test_the_log_keeps_whole_lines_up_to_the_step(tmp_path):
    files, whole = run_files.RunFiles(tmp_path), '{"step": 1, "total": 2.0}\n'
    files.log_path.write_text(f'{whole}{{"step": 3, "total": 2.0}}\n{{"step": 1, "step": 2}}\n{{"step": 2, "to')
    files.cut_log(2)
    assert files.log_path.read_text() == whole


def test_another_run_is_refused_by_the_keys_that_differ(tmp_path):
    files = run_files.RunFiles(tmp_path / "run")
    assert not files.claim("a", {"optimiser": {"epochs": 4}, "seed": 0}, resume=False)
    with raises(RunError, f"{tmp_path}/run", "optimiser.epochs 4 -> 8", "out=") as refused:
        files.claim("b", {"optimiser": {"epochs": 8}, "seed": 0}, resume=True)
    assert "seed" not in str(refused.value) and "model =" not in str(refused.value)
    (files.folder / "record.json").write_text(json.dumps({"model": "compact:run/model"}))
    with raises(RunError, "optimiser.epochs 4 -> 8", "model = 'compact:run/model'"):
        files.claim("b", {"optimiser": {"epochs": 8}, "seed": 0}, resume=True)


def test_planned_steps_are_measured_once(tmp_path):
    files = run_files.RunFiles(tmp_path)
    files.claim("a", {"seed": 0}, resume=False)
    assert [files.fix_steps(lambda: 7), files.fix_steps(lambda: 9)] == [7, 7]
    assert files.claim("a", resume=True)


def written(path: Path, steps: int, **terms: float) -> Path:
    """Write a log in which the last step's terms are 1, the others' as given."""
    path.write_text("\n".join(map(json.dumps, [{"step": k + 1, "total": 1.0, **terms} for k in range(steps)])))
    return path


@pytest.mark.parametrize(
    ("steps", "terms", "facts"),
    [
        (50, {"image_to_text": 0.5, "eqsim.v1": 0.0, "eqsim.v2": 0.0}, ("eqsim.v1, eqsim.v2 were", "50", "alpha")),
        (50, {"image_to_text": 0.0}, ("image_to_text was", "50")),
        (49, {"image_to_text": 0.5, "eqsim.v1": 0.0}, ()),
        (60, {"image_to_text": 1e-9, "gradient_norm": 0.0, "learning_rate": 0.0}, ()),
    ],
)
def test_terms_that_are_0_at_each_of_50_steps_are_named_with_the_reason_of_their_loss(tmp_path, steps, terms, facts):
    losses = read_terms({"name": "itc", "also": {"eqsim": {}}})
    line = run_files.describe_idle(written(tmp_path / "log.jsonl", steps, **terms), losses)
    check_facts(line, *facts)
    assert bool(line) == bool(facts) and ("alpha" in line) == ("alpha" in facts)


@pytest.mark.slow
def test_a_run_names_its_idle_terms(tmp_path):
    settings = config(tmp_path, loss={"name": "eqsim", "alpha": 0.99}, optimiser={"steps": 50}, batch={"size": 4})
    with pytest.warns(TellapartWarning) as told:
        run_training(settings, tmp_path, tmp_path / "run")
    record = read_record(tmp_path / "run")
    check_facts(str(told[0].message), "v1 was 0", "50 steps", "loss.alpha")
    assert record.idle == str(told[0].message)
    page = write_training_report(tmp_path / "run", record).read_text(encoding="utf-8")
    check_facts(page, "did nothing", "v1 was 0")


def _events(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Tag -> steps and values, as TensorBoard shows them."""
    module = "tensorboard.backend.event_processing.event_accumulator"
    read = pytest.importorskip(module, reason="needs the extra 'train'").EventAccumulator(str(folder)).Reload()
    return {tag: [(one.step, one.value) for one in read.Scalars(tag)] for tag in read.Tags()["scalars"]}


@pytest.mark.slow
def test_a_resumed_run_tells_each_step_once(tmp_path):
    settings = config(tmp_path, log={"tensorboard": True}, data={"validation": "folder:train"}, optimiser={"steps": 6})
    with pytest.raises(Stopped):  # one step beyond the checkpoint
        run_training(settings, tmp_path, tmp_path / "run", progress=stop_after(5))
    assert [step for step, _ in _events(tmp_path / "run" / "tensorboard")["total"]] == [1, 2, 3, 4, 5]
    run_training(settings, tmp_path, tmp_path / "run", resume=True)
    result, lines = _events(tmp_path / "run" / "tensorboard"), logged(tmp_path / "run")
    for tag in ("total", "learning_rate", "gradient_norm", "scale", "validation_group_score"):
        expected = [(line["step"], line[tag]) for line in lines if tag in line]
        assert [step for step, _ in result[tag]] == [step for step, _ in expected]
        assert [value for _, value in result[tag]] == pytest.approx([value for _, value in expected], rel=1e-6)
    assert len(result["total"]) == 6 and len(result["validation_group_score"]) == 3


@pytest.mark.slow
@pytest.mark.skipif(find_spec("wandb") is not None, reason="wandb is installed")
def test_a_missing_tracker_is_said_before_the_first_step(tmp_path):
    with raises(MissingDependencyError, "tellapart[wandb]", "needed"):
        run_training(config(tmp_path, log={"wandb": "pairs"}), tmp_path, tmp_path / "run")
    assert not (tmp_path / "run" / "log.jsonl").exists()


def test_what_is_told_is_opened_with_the_first_number(tmp_path):
    with run_files.open_trackers(config(tmp_path, log={"tensorboard": True}).log, tmp_path / "run", "few") as settings:
        assert len(settings) == 1 and not (tmp_path / "run").exists()
        settings[0](7, {"total": 0.5})
    assert _events(tmp_path / "run" / "tensorboard") == {"total": [(7, 0.5)]}
