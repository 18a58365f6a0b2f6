"""A term of the loss that never acts is named while the run trains, in its record and on its page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="training needs the extra 'train'")

from training_sets import config

from facts import check_facts
from tellapart.errors import TellapartWarning
from tellapart.training.losses.loss import read_terms
from tellapart.training.record import read_record
from tellapart.training.report.page import write_training_report
from tellapart.training.run_files import describe_idle, find_idle_terms
from tellapart.training.training_run import run_training

pytestmark = pytest.mark.usefixtures("single_thread")


def written(path: Path, steps: int, **terms: float) -> Path:
    """Write a log in which the last step's terms are 1, the others' as given."""
    rows = [{"step": k + 1, "total": 1.0, **terms} for k in range(steps)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_terms_that_are_0_at_each_of_the_first_50_steps_are_found(tmp_path: Path) -> None:
    assert find_idle_terms(written(tmp_path / "log.jsonl", 50, itc=0.5, v1=0.0, v2=0.0)) == ("v1", "v2")
    assert find_idle_terms(written(tmp_path / "log.jsonl", 49, itc=0.5, v1=0.0)) == ()
    assert find_idle_terms(written(tmp_path / "log.jsonl", 60, itc=1e-9, gradient_norm=0.0, learning_rate=0.0)) == ()


def test_the_reason_is_of_the_loss_that_owns_the_term() -> None:
    terms = read_terms({"name": "itc", "also": {"eqsim": {}}})
    check_facts(describe_idle(["eqsim.v1"], terms), "eqsim.v1 was", "alpha")
    assert "alpha" not in describe_idle(["image_to_text"], terms)


@pytest.mark.slow
def test_a_run_names_its_idle_terms(tmp_path: Path) -> None:
    loss = {"name": "eqsim", "alpha": 0.99}
    settings = config(tmp_path, loss=loss, optimiser={"steps": 50, "learning_rate": 1e-3}, batch={"size": 4})
    with pytest.warns(TellapartWarning) as told:
        run_training(settings, tmp_path, tmp_path / "run")
    record = read_record(tmp_path / "run")
    check_facts(str(told[0].message), "v1 was 0", "50 steps", "loss.alpha")
    assert record.idle == str(told[0].message)
    page = write_training_report(tmp_path / "run", record).read_text(encoding="utf-8")
    check_facts(page, "did nothing", "v1 was 0")
