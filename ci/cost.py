"""A plugin of pytest: the processor seconds of each test file, its programs' included.

    python -m pytest --costs FILE ...        `make test-cost`

The table has a line for each file, the dearest first: processor seconds, those of programs that its tests started,
tests, and seconds a test. "collecting" is the processor time of the workers outside of tests: Python's start, imports
and collection. A program counts when the test that started it has waited for it. The file has the seconds of each test.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

import pytest

#: Files that the table shows; the file has all.
ROWS = 60


class Seconds(NamedTuple):
    """Processor seconds of a process, and of the programs that it waited for."""

    own: float = 0.0
    programs: float = 0.0

    @classmethod
    def now(cls) -> Seconds:
        """Return this process's so far."""
        times = os.times()
        return cls(times.user + times.system, times.children_user + times.children_system)

    def since(self, earlier: Seconds) -> Seconds:
        """Return the difference."""
        return Seconds(self.own - earlier.own, self.programs - earlier.programs)


BEGAN = pytest.StashKey[Seconds]()


class Costs:
    """Processor seconds by test, in the process that runs the tests and in the one that prints."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.tests: dict[str, Seconds] = {}
        self.workers = 0.0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Note when a test begins."""
        item.stash[BEGAN] = Seconds.now()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add the seconds of a test to its last report, which xdist sends to the process that prints."""
        report = yield
        if call.when == "teardown":
            report.user_properties.append(("processor_seconds", list(Seconds.now().since(item.stash[BEGAN]))))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the seconds of a test."""
        seconds = dict(report.user_properties).get("processor_seconds") if report.when == "teardown" else None
        if isinstance(seconds, list):
            self.tests[report.nodeid] = Seconds(*seconds)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Hand over the seconds of this worker; without workers, they are this process's."""
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            output["processor_seconds"] = sum(Seconds.now())
        elif not self.config.getoption("numprocesses", default=None):
            self.workers = sum(Seconds.now())

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Add the seconds of a worker."""
        self.workers += getattr(node, "workeroutput", {}).get("processor_seconds", 0.0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table, and write the file."""
        path = self.config.getoption("--costs")
        if not path:
            return
        files: dict[str, list[Seconds]] = defaultdict(list)
        for name, seconds in self.tests.items():
            files[name.split("::")[0]].append(seconds)
        sums = {name: (sum(map(sum, tests)), sum(test.programs for test in tests)) for name, tests in files.items()}
        total = sum(seconds for seconds, _ in sums.values())
        write = terminalreporter.write_line
        terminalreporter.section("processor seconds by file")
        write(f"{'seconds':>8} {'programs':>9} {'tests':>6} {'a test':>7}  file")
        write(f"{self.workers:8.1f} {'':9} {len(self.tests):6} {'':7}  all, {self.workers - total:.1f} collecting")
        for name in sorted(sums, key=lambda name: -sums[name][0])[:ROWS]:
            (seconds, programs), count = sums[name], len(files[name])
            write(f"{seconds:8.1f} {programs:9.1f} {count:6} {seconds / count:7.2f}  {name}")
        rounded = {name: [round(part, 3) for part in seconds] for name, seconds in self.tests.items()}
        Path(path).write_text(json.dumps({"all": self.workers, "tests": rounded}, indent=1) + "\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--costs FILE`."""
    parser.addoption("--costs", help="print processor seconds by file, and write those of each test to this file")


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin's state."""
    config.pluginmanager.register(Costs(config), "costs")
