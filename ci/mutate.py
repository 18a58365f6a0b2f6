"""Would a test notice? Makes every small mistake of `mutants.py` in every metric, and runs the tests until one fails.

    python ci/mutate.py                      all mutants
    python ci/mutate.py --sample 100         a hundred of them, always the same
    python ci/mutate.py --only retrieval     those of one module, or one function: retrieval.Ranks.recall

A mutant that no test notices is a hole in the tests, or no mistake: then `equivalent_mutants.toml` has the reason. Each
runs in a fork of the process that collected the tests; those that read files outside the checkout are left out.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import importlib
import importlib.abc
import importlib.util
import os
import resource
import signal
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Annotated, Any

# One thread: it is forked, and the tests are small.
os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")

import pytest
import typer
from forked import Fork
from mutants import Mutant, mutants_of, with_probes

ROOT = Path(__file__).parents[1]
PACKAGE = "tellapart.metrics"
SOURCES = ROOT / "src" / "tellapart" / "metrics"
TESTS = ROOT / "tests" / "metrics"
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.toml")
#: Imported before anything is forked, so that no mutant pays for them; none imports a metric.
HEAVY = ("numpy.testing", "scipy.stats", "pydantic", "hypothesis.extra.numpy", "tellapart.data.scores")
MEMORY = 8 << 30


@dataclass(frozen=True, slots=True)
class Measured:
    """One test, as it ran without a mutant: its seconds of work, and the functions of the metrics that it called."""

    name: str
    seconds: float
    called: frozenset[str]


class Runner:
    """A pytest plugin that does some work in place of running all tests, and runs single ones for it."""

    def __init__(self, work: Callable[[Runner], Any]) -> None:
        self.work = work
        self.items: dict[str, pytest.Item] = {}
        self.failed = self.skipped = False
        self.answer: Any = None

    def pytest_collection(self) -> None:
        """Draw the same examples each time and do not look for smaller ones: the first failure is enough."""
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile(
            "mutants", deadline=None, derandomize=True, database=None, phases=phases, max_examples=25
        )
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Do the work instead of running all tests."""
        self.items = {item.nodeid: item for item in session.items}
        try:
            if session.testsfailed == 0:
                self.answer = self.work(self)
        except Exception as error:  # pytest would only print it
            self.answer = error
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember a failure."""
        self.failed |= report.failed
        self.skipped |= report.skipped

    def passes(self, name: str) -> bool:
        """Run one test."""
        self.failed = self.skipped = False
        item = self.items[name]
        item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
        return not self.failed


def with_tests(paths: Sequence[Path], work: Callable[[Runner], Any]) -> Any:
    """Collect the tests of these files and do something with them; None where they cannot be collected."""
    runner = Runner(work)
    flags = ["-o", "addopts=", "--import-mode=importlib", "--doctest-modules", "--strict-markers", "--assert=plain"]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    flags += ["--tb=native", "--capture=no", "-p", "no:cacheprovider", "-q", "-p", "no:logging"]
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    pytest.main([*flags, "--rootdir", str(ROOT), *map(str, paths)], plugins=[runner])
    if isinstance(runner.answer, Exception):
        raise runner.answer
    return runner.answer


def measured(runner: Runner, called: set[str]) -> list[Measured]:
    """Run each test once, without a mutant; leave out those that skip, or read files outside the checkout."""

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith(str(ROOT.parent / "shared")):
            pytest.skip("reads a file outside the checkout")

    sys.addaudithook(refuse)
    found = []
    for name in runner.items:
        called.clear()
        start = time.process_time()
        if not runner.passes(name):
            raise RuntimeError(f"{name} fails without any mutant; run it with pytest first")
        if not runner.skipped:
            found.append(Measured(name, time.process_time() - start, frozenset(called)))
    return found


def first_failure(runner: Runner, tests: Sequence[Measured]) -> str | None:
    """Run tests until one fails; one that takes far longer than it did hangs, and ends this process."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for test in tests:
        signal.setitimer(signal.ITIMER_PROF, 5 + 10 * test.seconds)
        if test.name in runner.items and not runner.passes(test.name):
            return test.name
    return ""


Judge = Callable[[Mutant, Sequence[Measured]], "str | None"]


def judged(mutants: Sequence[Mutant], tests: Sequence[Measured], judge: Judge) -> list[str | None]:
    """Judge mutants one after the other, each in a fork: which test noticed it, None for none."""
    before: Counter[tuple[str, str | None]] = Counter()
    noticed: list[str | None] = []
    anew = judge is imported_anew
    for mutant in mutants:
        # Those that call the function; where modules are imported anew, all that call the module.
        module = f"{mutant.path.stem}."
        facing = [
            test
            for test in tests
            if mutant.where in test.called or (anew and any(name.startswith(module) for name in test.called))
        ]
        # First those that noticed its neighbours, then the quickest.
        facing = sorted(facing or tests, key=lambda test: (-before[mutant.where, test.name], test.seconds, test.name))
        answer = Fork(lambda mutant=mutant, facing=facing: [judge(mutant, facing)]).answer()
        # No answer: a test hung or died, or the module cannot even be imported.
        noticed.append("no test came to its end" if answer is None else answer or None)
        before[mutant.where, noticed[-1]] += 1
    return noticed


def spread(jobs: int, mutants: Sequence[Mutant], tests: Sequence[Measured], judge: Judge) -> list[str | None]:
    """Judge mutants in several processes, after a control: the unchanged module must go unnoticed."""
    if not mutants:
        return []
    unchanged = compile(mutants[0].path.read_text("utf-8"), str(mutants[0].path), "exec")
    if failed := next(filter(None, judged([dataclasses.replace(mutants[0], code=unchanged)], tests, judge)), None):
        raise RuntimeError(
            f"without any mistake in it, {mutants[0].where} fails when it is run like a mutant: {failed}"
        )
    forks = [Fork(lambda job=job: [judged(mutants[job::jobs], tests, judge)]) for job in range(jobs)]
    noticed: list[str | None] = [None] * len(mutants)
    for job, fork in enumerate(forks):
        noticed[job::jobs] = fork.answer()
    return noticed


def in_place(runner: Runner) -> Judge:
    """Return the judge of a mutant of a function: whatever holds the function, by any name, gets the changed code."""
    functions: dict[str, list[FunctionType]] = {}
    gc.unfreeze()  # pytest froze what collecting made, and frozen objects are not listed
    caches = [found for found in gc.get_objects() if isinstance(found, functools._lru_cache_wrapper)]
    for found in gc.get_objects():
        if isinstance(found, FunctionType) and found.__code__.co_filename.startswith(str(SOURCES)):
            functions.setdefault(f"{Path(found.__code__.co_filename).stem}.{found.__code__.co_qualname}", []).append(
                found
            )

    def judge(mutant: Mutant, tests: Sequence[Measured]) -> str | None:
        changed = mutant.code
        for part in mutant.function.split("."):
            changed = next(c for c in changed.co_consts if isinstance(c, CodeType) and c.co_name == part)
        for function in functions[mutant.where]:
            function.__code__ = changed
        for cache in caches:
            cache.cache_clear()
        return first_failure(runner, tests)

    return judge


def imported_anew(mutant: Mutant, tests: Sequence[Measured]) -> str | None:
    """Judge a mutant of what runs on import: import and collect with the mutant in the module's place."""
    signal.setitimer(signal.ITIMER_PROF, 240)
    sys.meta_path.insert(0, Replaced({mutant.path.stem: mutant.code}))
    files = list(dict.fromkeys(ROOT / test.name.partition("::")[0] for test in tests))
    answer: str | None = with_tests(files, lambda runner: first_failure(runner, tests))
    return answer


class Replaced(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports other code, and one more global, in the place of some modules of the metrics."""

    def __init__(self, codes: dict[str, CodeType], **more: object) -> None:
        self.codes, self.more = {f"{PACKAGE}.{stem}": code for stem, code in codes.items()}, more

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:  # noqa: ARG002
        """Answer for these modules alone."""
        if name not in self.codes:
            return None
        return importlib.util.spec_from_file_location(name, self.codes[name].co_filename, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        """Run the other code."""
        module.__dict__.update(self.more)
        exec(self.codes[module.__name__], module.__dict__)  # noqa: S102


def judge_all(mutants: Sequence[Mutant], jobs: int) -> list[tuple[Mutant, str | None]]:
    """Measure the tests, judge the mutants of functions in place, and those of what ran on import anew."""
    for name in HEAVY:
        importlib.import_module(name)
    called: set[str] = set()

    def work(runner: Runner) -> tuple[list[Measured], list[int], list[str | None]]:
        places = [k for k, mutant in enumerate(mutants) if not mutant.at_import and mutant.where not in called]
        tests = Fork(lambda: [measured(runner, called)]).answer()
        return tests, places, spread(jobs, [mutants[k] for k in places], tests, in_place(runner))

    def measure_and_judge() -> Any:
        probed = {path.stem: with_probes(path, path.read_text("utf-8"), "_called") for path in SOURCES.glob("[!_]*.py")}
        sys.meta_path.insert(0, Replaced(probed, _called=called.add))
        return with_tests([TESTS, SOURCES], work)

    answer = Fork(lambda: [measure_and_judge()]).answer()
    if answer is None:
        sys.exit("the tests of the metrics do not run; try pytest tests/metrics src/tellapart/metrics")
    tests, places, noticed = answer
    rest = [mutant for k, mutant in enumerate(mutants) if k not in places]
    first = [mutants[k] for k in places]
    return [*zip(first, noticed, strict=True), *zip(rest, spread(jobs, rest, tests, imported_anew), strict=True)]


def main(
    sample: Annotated[int, typer.Option(help="how many, evenly over those that are not listed; 0 for all")] = 0,
    only: Annotated[str, typer.Option(help="a module or a function, such as retrieval.Ranks.recall")] = "",
    jobs: int = os.cpu_count() or 1,
) -> None:
    """Judge the mutants that are asked for; exit 1 where one is neither noticed nor known to be no mistake."""
    start = time.perf_counter()
    every = [mutant for path in sorted(SOURCES.glob("*.py")) for mutant in mutants_of(path, path.read_text("utf-8"))]
    entries = tomllib.loads(EQUIVALENT.read_text("utf-8"))["equivalent"]
    known = {(entry["where"], after) for entry in entries for after in entry["after"]}
    chosen = [mutant for mutant in every if f"{mutant.where}.".startswith(f"{only}.".lstrip("."))]
    if sample:
        chosen = [mutant for mutant in chosen if mutant.key not in known]
        chosen = chosen[:: max(1, len(chosen) // sample)]
    found = judge_all(chosen, jobs)
    missed = [mutant for mutant, noticed in found if not noticed]
    holes = sorted(
        (mutant for mutant in missed if mutant.key not in known), key=lambda mutant: (mutant.path, mutant.line)
    )
    lines = []
    for mutant in holes:
        lines.append(f"{mutant.path.relative_to(ROOT)}:{mutant.line}: no test notices in {mutant.where}")
        lines.append(f"  - {mutant.before}\n  + {mutant.after}")
    for where, after in sorted(known - {mutant.key for mutant in every}):
        lines.append(f"{EQUIVALENT.name}: no such mutant in {where}: {after}")
    for mutant, noticed in found:
        if noticed and mutant.key in known:
            lines.append(f"{EQUIVALENT.name}: noticed by {noticed}: {mutant.where}: {mutant.after}")
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.write(
        f"{len(found)} of {len(every)} mutants: {len(found) - len(missed)} noticed, {len(missed) - len(holes)} known "
        f"to be no mistake, {len(holes)} not noticed; {time.perf_counter() - start:.0f} s\n"
    )
    sys.exit(bool(lines))


if __name__ == "__main__":
    typer.run(main)
