"""The script that runs `make test` again and again: what it reads of a run, and which runs are left."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import stable

RESULTS = """<testsuites><testsuite>
<testcase classname="tests.test_a" name="test_good"/>
<testcase classname="tests.test_a" name="test_skipped"><skipped message="no file"/></testcase>
<testcase classname="tests.test_a" name="test_bad"><failure message="1 == 2"/></testcase>
<testcase classname="tests.test_a" name="test_bad"><error message="the test leaves behind"/></testcase>
</testsuite></testsuites>"""


def test_a_run_is_counted_from_its_results(tmp_path: Path) -> None:
    path = tmp_path / "results.xml"
    path.write_text(RESULTS)
    counts = stable.read_results(path, 1)
    assert counts == {"passed": 1, "failed": 1, "skipped": 1, "failures": ["tests.test_a::test_bad"]}


def test_a_run_without_results_or_that_ended_badly_failed(tmp_path: Path) -> None:
    assert stable.read_results(tmp_path / "none.xml", -9)["failed"] == 1
    path = tmp_path / "results.xml"
    path.write_text("<testsuites><testsuite><testcase classname='a' name='b'/></testsuite></testsuites>")
    assert stable.read_results(path, 0)["failed"] == 0
    assert stable.read_results(path, 2)["failed"] == 1


def test_twenty_runs_are_planned_and_those_done_are_not_done_again() -> None:
    planned = [one for together in stable.left_conditions([], 20) for one in together]
    assert len(planned) == 20
    loads = Counter(one.load for one in planned)
    assert loads["busy"] + loads["one core"] >= 5 and {one.workers for one in planned} == {1, 2, 4}
    done = [one._asdict() for one in planned[:8]]
    left = [one for together in stable.left_conditions(done, 20) for one in together]
    assert left == planned[8:]
