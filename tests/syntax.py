"""The syntax of the package's files: each is parsed once a process, for all tests that look at it."""

import ast
from collections.abc import Iterator
from functools import cache


@cache
def parse_source(text: str) -> ast.Module:
    """Return the tree of a file's text; nobody changes it."""
    return ast.parse(text)


def walk_statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield a module and its statements at any depth, without their expressions, which are most of a tree."""
    found: list[ast.AST] = [tree]
    for node in found:
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            found += getattr(node, field, ())
