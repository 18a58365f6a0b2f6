"""Jobs are each done once, whatever the number of processes, and a failing job is not swallowed."""

from __future__ import annotations

import math

import pytest

from tellapart_render.demo import run_jobs


@pytest.mark.parametrize("workers", [1, 2])
def test_every_job_is_done_once(workers: int) -> None:
    assert sorted(run_jobs(math.factorial, range(6), workers, "jobs")) == [1, 1, 2, 6, 24, 120]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_a_job_reaches_the_caller(workers: int) -> None:
    with pytest.raises(ValueError, match=r"domain|negative"):
        list(run_jobs(math.sqrt, [4.0, -1.0], workers, "jobs"))


def test_the_counter_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    list(run_jobs(abs, [1, 2], 1, "jobs"))
    assert capsys.readouterr() == ("", "")
