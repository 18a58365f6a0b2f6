"""One tree of errors, and the door to optional dependencies."""

import ast
import sys
import tomllib
from pathlib import Path

import pytest

import tellapart.errors
from facts import raises
from tellapart.errors import (
    UNPACKED,
    DataError,
    MissingDependencyError,
    TellapartError,
    explain_failure,
    first_line,
    first_sentence,
    require,
)

ROOT = Path(__file__).parents[1]
KINDS = [
    kind
    for name in tellapart.errors.__all__
    if isinstance(kind := getattr(tellapart.errors, name), type) and not issubclass(kind, Warning)
]


def test_every_error_is_a_public_tellapart_error_and_no_other_error():
    assert len(KINDS) == 11
    for kind in KINDS:
        assert issubclass(kind, TellapartError)
        # `except ValueError` around a call must not swallow what is meant to be read.
        assert set(kind.__mro__) - set(KINDS) == {Exception, BaseException, object}
    own = {n for n, v in vars(tellapart.errors).items() if isinstance(v, type) and issubclass(v, Exception)}
    assert own == {kind.__name__ for kind in KINDS} | {"TellapartWarning"}


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_says_its_message_and_nothing_else(kind):
    with pytest.raises(TellapartError, match=r"^what was got$"):
        raise kind("what was got")


def test_an_error_is_told_by_its_first_line_or_sentence():
    long = ValueError("\n too large. Perhaps:\n - that")
    assert (first_line(long), first_sentence(long)) == ("too large. Perhaps:", "too large")
    assert (first_line(ValueError("x" * 999)), first_sentence(ValueError("x" * 999))) == ("x" * 300, "x" * 200)
    assert first_line(ZeroDivisionError()) == first_sentence(ZeroDivisionError()) == "ZeroDivisionError"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ZeroDivisionError("by 0.\nat line 3"), "a fails: by 0; save it"),
        (DataError("as it was"), "as it was"),
    ],
)
def test_the_failure_of_a_library_is_one_line_and_errors_of_this_package_pass(error, said):
    with pytest.raises(TellapartError, match=f"^{said}$"), explain_failure("a fails", "; save it"):
        raise error


def test_a_module_that_is_there_is_returned():
    assert require("json.decoder", extra="train") is sys.modules["json.decoder"]


@pytest.mark.parametrize("module", ["a_module_nobody_has", "a_module_nobody_has.inner", "json.a_module_nobody_has"])
def test_a_missing_module_is_answered_with_the_line_that_installs_it(module):
    with raises(MissingDependencyError, module, 'pip install "tellapart[render]"', "run") as caught:
        require(module, extra="render")
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_a_module_that_is_there_but_broken_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "broken_by_import.py").write_text("import another_module_nobody_has\n")
    (tmp_path / "broken_by_itself.py").write_text("raise RuntimeError('operator nms does not exist')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="another_module_nobody_has"):
        require("broken_by_import", extra="train")
    with raises(RuntimeError, "operator"):
        require("broken_by_itself", extra="train")


@pytest.mark.slow
def test_every_extra_that_a_message_can_name_exists():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {
        keyword.value.value
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "require"
        for keyword in node.keywords
        if keyword.arg == "extra" and isinstance(keyword.value, ast.Constant)
    }
    assert named <= set(extras)


def test_an_error_is_raised_while_another_archive_is_closed():
    class Closing(str):
        def replace(self, *words: object) -> str:
            UNPACKED.pop("/other", None)
            return str(self).replace(*map(str, words))

    UNPACKED.update({"/unpacked": "run.zip", "/other": "other.zip"})
    try:
        assert str(TellapartError(Closing("/unpacked/results.json is cut"))) == "run.zip/results.json is cut"
    finally:
        UNPACKED.pop("/unpacked")
