"""mypy and pyright know every public name, and refuse wrong uses of it: `typed_uses.py` is read by both."""

import ast
import json
import re
import sys
from pathlib import Path

import pytest

import tellapart
from scripts import run_python
from tellapart.metrics.registry import METRICS
from tellapart.metrics.streaming import class_name

USES = Path(__file__).with_name("typed_uses.py")
SOURCE = Path(tellapart.__file__).parent


def wrong_lines() -> set[int]:
    return {number for number, line in enumerate(USES.read_text().splitlines(), 1) if line.endswith("# wrong")}


def lines_of_mypy(_folder: Path) -> dict[int, str]:
    # With the cache of `make types`, where there is one: a second in place of half a minute.
    done = run_python("-m", "mypy", "--strict", "--no-error-summary", USES, status=None, cwd=SOURCE.parents[1])
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    return {int(line): said for line, said in re.findall(r"typed_uses\.py:(\d+): error: (.+)", done.stdout)}


def lines_of_pyright(tmp_path: Path) -> dict[int, str]:
    settings = {"include": [str(USES)], "extraPaths": [str(SOURCE.parent)]}
    settings |= {"typeCheckingMode": "standard", "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = ["-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "-p", tmp_path]
    found = json.loads(run_python(*command, status=None, cwd=tmp_path).stdout)["generalDiagnostics"]
    errors = [one for one in found if one["severity"] == "error" and one["file"] == str(USES)]
    return {one["range"]["start"]["line"] + 1: one["message"] for one in errors}


@pytest.mark.slow
@pytest.mark.parametrize(("checker", "read_errors"), [("mypy", lines_of_mypy), ("basedpyright", lines_of_pyright)])
def test_type_checkers_take_right_uses_and_refuse_wrong_ones(checker, read_errors, tmp_path):
    pytest.importorskip(checker, reason='the checkers are in the extra "dev"')
    found = read_errors(tmp_path)
    assert len(wrong_lines()) > 20 and set(found) == wrong_lines(), found


def test_stubs_name_what_is_loaded_on_first_use_and_the_class_of_every_metric():
    nodes = [node for node in ast.parse((SOURCE / "__init__.pyi").read_text()).body if isinstance(node, ast.ImportFrom)]
    typed = {alias.asname: node.module for node in nodes for alias in node.names}
    assert typed == {**tellapart._WHERE, "metrics": "tellapart"}
    assert set(tellapart.__all__) == {*typed, "__version__"}
    typed = re.findall(r"^class (\w+)", (SOURCE / "metrics" / "__init__.pyi").read_text(), re.MULTILINE)
    assert {*typed} == {class_name(metric) for metric in METRICS} <= set(dir(tellapart.metrics))
