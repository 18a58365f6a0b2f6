"""Signatures have types: few functions return or take a bare `Any`."""

from __future__ import annotations

import ast
from pathlib import Path

import tellapart
from syntax import parse_source, walk_statements

SOURCE = Path(tellapart.__file__).parents[1]

#: Shares of all functions of `src`, with little room above those reached: 1.6 % and 2.2 %.
MOST_RETURNED, MOST_TAKEN = 0.020, 0.025


def is_bare(annotation: ast.expr | None) -> bool:
    return isinstance(annotation, ast.Name) and annotation.id == "Any"


def shares_of_any(sources: list[str]) -> tuple[int, float, float]:
    """Count functions, and the shares of them that return a bare `Any` and that take one."""
    functions = [
        node
        for text in sources
        for node in walk_statements(parse_source(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    takes = [[*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs] for node in functions]
    returned = sum(is_bare(node.returns) for node in functions)
    taken = sum(any(is_bare(each.annotation) for each in arguments) for arguments in takes)
    return len(functions), returned / len(functions), taken / len(functions)


def test_few_functions_return_or_take_a_bare_any() -> None:
    packages = [path for path in SOURCE.glob("tellapart*") if path.is_dir()]
    sources = [path.read_text(encoding="utf-8") for package in packages for path in package.rglob("*.py")]
    functions, returned, taken = shares_of_any(sources)
    assert functions > 4_000 and returned <= MOST_RETURNED and taken <= MOST_TAKEN


def test_a_bare_any_is_seen() -> None:
    first = "def a(x: Any) -> int: ...\ndef b(*, y: Any) -> Any: ...\n"
    text = first + "def c(z: list[Any]) -> None: ...\nasync def d() -> Any: ..."
    assert shares_of_any([text]) == (4, 0.5, 0.5)
