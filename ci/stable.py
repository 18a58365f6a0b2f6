"""Run `make test` again and again, in random orders, beside other work or not, and keep how each run ended.

    python ci/stable.py [--runs 20] [--record bench/records/stable.json] [--minutes M]

Each run has a seed, which orders the test files, a number of workers and a load: `idle`, `busy` (two processes that
compute at the same niceness), or `one core` (everything on a single core; two such runs go side by side, on two cores).
A run is written to the record when it ends, so the script can be stopped and goes on: it counts the runs of the commit
that is checked out, and drops those of others. The exit status is 1 if a run of the record failed.

Repeat a run: make test JOBS=WORKERS OPTIONS="--no-loadscope-reorder --file-order SEED"
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
#: A busy process ends with this one, however that ends.
BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): sum(range(100_000))"


class Condition(NamedTuple):
    """Under which a run takes place: workers, load, and the core of a run that has one."""

    workers: int
    load: str
    core: int | None = None


#: Twenty of them in turn: four on an idle machine, sixteen under load. A run on one core is beside the other one.
CONDITIONS = (
    *((Condition(1, "one core", 0), Condition(2, "one core", 1)),) * 7,
    (Condition(2, "busy"),),
    (Condition(4, "busy"),),
    (Condition(4, "idle"),),
    (Condition(2, "idle"),),
    (Condition(4, "idle"),),
    (Condition(1, "idle"),),
)


def main() -> int:
    """Do the runs that are left; return 1 if one of the record failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--record", type=Path, default=ROOT / "bench" / "records" / "stable.json")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no run after so long")
    options = parser.parse_args()
    commit, until = tested_commit(), time.monotonic() + 60 * options.minutes
    record = json.loads(options.record.read_text()) if options.record.exists() else {"runs": []}
    record = {"cores": os.cpu_count(), "runs": [run for run in record["runs"] if run["commit"] == commit]}
    subprocess.run(["make", "--no-print-directory", ".venv/.test"], cwd=ROOT, check=True)
    for conditions in left_conditions(record["runs"], options.runs):
        if time.monotonic() > until:
            break
        seeds = [1 + len(record["runs"]) + number for number in range(len(conditions))]
        with ThreadPoolExecutor(len(conditions)) as side_by_side:
            for run in side_by_side.map(run_tests, conditions, seeds):
                record["runs"].append({"commit": commit, **run})
                print(json.dumps(run), flush=True)
        write_record(options.record, record)
    return int(any(run["failed"] for run in record["runs"]))


def tested_commit() -> str:
    """Return the commit of the files that are tested: the last one that changed more than records and documents.

    Raises:
        SystemExit: a file of them is changed and not committed.
    """
    files = ["src", "tests", "ci", "conftest.py", "pyproject.toml", "Makefile", "examples", "docs/*.py", "bench/*.py"]
    files += [":!examples/*/record"]
    if changed := _git("status", "--porcelain", "--untracked-files=no", "--", *files):
        raise SystemExit(f"commit first, for the record names a commit:\n{changed}")
    return _git("log", "-1", "--format=%h", "--abbrev=12", "--", *files)


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def left_conditions(runs: list[Mapping[str, Any]], count: int) -> Iterator[tuple[Condition, ...]]:
    """Yield the conditions of the runs that are left, in their order; each tuple is run side by side."""
    done = [(run["workers"], run["load"], run["core"]) for run in runs]
    planned = 0
    while planned < count:
        for conditions in CONDITIONS:
            if planned >= count:
                return
            planned += len(conditions)
            if all(tuple(one) in done for one in conditions):
                for one in conditions:
                    done.remove(tuple(one))
            else:
                yield conditions


def run_tests(condition: Condition, seed: int) -> dict[str, Any]:
    """Run the tests once; return the facts of the run."""
    results = ROOT / "scratch" / f"stable-{seed}.xml"
    results.parent.mkdir(exist_ok=True)
    results.unlink(missing_ok=True)
    options = f"--no-loadscope-reorder --file-order {seed} -q --junitxml={results}"
    command = ["make", "--no-print-directory", "test", f"JOBS={condition.workers}", f"OPTIONS={options}"]
    if condition.core is not None:
        command = ["taskset", "-c", str(condition.core), *command]
    began = time.monotonic()
    with busy_processes(2 if condition.load == "busy" else 0), results.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
    facts = {
        "seed": seed,
        **condition._asdict(),
        "wall_seconds": round(time.monotonic() - began, 1),
        "processor_seconds": round(usage.ru_utime + usage.ru_stime, 1),
    }
    return facts | read_results(results, os.waitstatus_to_exitcode(status))


def read_results(path: Path, status: int) -> dict[str, Any]:
    """Return the counts of a file of results, and the names of what failed; the exit status where there is no file."""
    if not path.exists():
        return {"passed": 0, "failed": 1, "skipped": 0, "failures": [f"no results: make ended with {status}"]}
    cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    bad = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    failures = sorted({f"{case.get('classname')}::{case.get('name')}" for case in bad})
    skipped = sum(case.find("skipped") is not None for case in cases)
    if status and not failures:
        failures = [f"make ended with {status}"]
    passed = len(cases) - skipped - len(bad)
    return {"passed": passed, "failed": len(failures), "skipped": skipped, "failures": failures}


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep processes computing, at this process's niceness."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY, str(os.getpid())]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write the record whole, or not at all."""
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(record, indent=1) + "\n")
    draft.replace(path)


if __name__ == "__main__":
    sys.exit(main())
