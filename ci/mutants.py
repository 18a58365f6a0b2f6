"""Every small mistake that could be made in a Python module: one changed comparison, axis, index, operator or number.

A mutant is named by its function and its changed statement. Left alone: annotations, decorators, docstrings, texts, and
what only says how a failure is reported.
"""

import ast
import copy
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import NamedTuple, TypeVar

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_COMPARISONS, _OPERATORS = _TABLES["comparisons"], _TABLES["operators"]
_NAMES = {one: other for pair in _TABLES["partners"] for one, other in (pair, pair[::-1])}
_BUILTINS = {name: _NAMES[name] for name in ("min", "max", "any", "all")}
_TEXTS = {"left": "right", "right": "left"}
_AXES = {0: (1,), 1: (0, 2), 2: (1,)}
_NO_MUTANTS = ("annotation", "returns", "decorator_list", "type_params")

_Node = TypeVar("_Node", bound=ast.AST)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module with one mistake: the function and line that hold it, the statement before and after, and its code."""

    path: Path
    function: str
    line: int
    before: str
    after: str
    at_import: bool
    code: CodeType

    @property
    def where(self) -> str:
        """Module and function: `pairs.text_score`, or `pairs` alone."""
        return f"{self.path.stem}.{self.function}".rstrip(".")

    @property
    def key(self) -> tuple[str, str]:
        """What names the mutant in a list."""
        return self.where, self.after


class _Place(NamedTuple):
    """Where a node hangs in the tree."""

    parent: ast.AST
    field: str
    index: int | None
    statement: ast.stmt
    names: tuple[str, ...]
    in_function: bool

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def mutants_of(path: Path, source: str) -> Iterator[Mutant]:
    """Make the mutants of a module, in the order of its lines."""
    tree = ast.parse(source)
    for node, place in _nodes(tree, _Place(tree, "", None, ast.Pass(), (), False)):
        for changed in _mistakes(node, place):
            before = _shown(place.statement)
            place.put(ast.fix_missing_locations(ast.copy_location(changed, node)))
            after = _shown(changed if isinstance(changed, ast.stmt) else place.statement)
            code = compile(tree, str(path), "exec")
            place.put(node)
            line = getattr(node, "lineno", place.statement.lineno)
            yield Mutant(path, ".".join(place.names), line, before, after, not place.in_function, code)


def with_probes(path: Path, source: str, probe: str) -> CodeType:
    """Compile a module whose functions first call the global `probe` with their names, as `Mutant.where` has them."""
    tree = ast.parse(source)
    owners: list[tuple[ast.Module | ast.ClassDef, str]] = [(tree, path.stem)]
    for owner, name in owners:
        for node in owner.body:
            if isinstance(node, ast.ClassDef):
                owners.append((node, f"{name}.{node.name}"))
            elif isinstance(node, ast.FunctionDef):
                call = ast.parse(f"{probe}({f'{name}.{node.name}'!r})").body[0]
                node.body.insert(1 if ast.get_docstring(node) is not None else 0, call)
    return compile(tree, str(path), "exec")


def _nodes(node: ast.AST, here: _Place) -> Iterator[tuple[ast.AST, _Place]]:
    names, in_function = here.names, here.in_function
    named = node.name if isinstance(node, ast.FunctionDef | ast.ClassDef) else ""
    for field, value in ast.iter_fields(node):
        if field in _NO_MUTANTS:
            continue
        inside = field == "body" and bool(named)
        children: list[tuple[int | None, object]] = [*enumerate(value)] if isinstance(value, list) else [(None, value)]
        for index, child in children:
            if not isinstance(child, ast.AST) or _is_text(child):
                continue
            place = _Place(
                parent=node,
                field=field,
                index=index,
                statement=child if isinstance(child, ast.stmt) else here.statement,
                # Nested functions and classes in functions go by the name of the outermost function.
                names=(*names, named) if inside and not in_function else names,
                in_function=in_function or (inside and isinstance(node, ast.FunctionDef)),
            )
            yield child, place
            yield from _nodes(child, place)


def _is_text(node: ast.AST) -> bool:
    docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return docstring or isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom)


def _mistakes(node: ast.AST, place: _Place) -> Iterator[ast.AST]:
    match node:
        case ast.Compare():
            for k, operator in enumerate(node.ops):
                for other in _COMPARISONS[type(operator).__name__]:
                    yield _with(node, ops=[*node.ops[:k], getattr(ast, other)(), *node.ops[k + 1 :]])
        case ast.BinOp() | ast.AugAssign() if type(node.op).__name__ in _OPERATORS and not _joins_texts(node):
            yield _with(node, op=getattr(ast, _OPERATORS[type(node.op).__name__])())
        case ast.BoolOp():
            yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.Invert() | ast.USub()) if not _is_axis(place):
            yield node.operand
        case ast.Name(ctx=ast.Load()) if node.id in _BUILTINS:
            yield _with(node, id=_BUILTINS[node.id])
        case ast.Attribute(ctx=ast.Load()) if node.attr in _NAMES:
            yield _with(node, attr=_NAMES[node.attr])
        case ast.Subscript(slice=ast.Tuple() as indices) if place.in_function:  # elsewhere it is a type
            yield from (_with(node, slice=_with(indices, elts=elements)) for elements in _exchanged(indices.elts))
        case ast.Constant() if not (isinstance(place.parent, ast.keyword) and place.parent.arg == "strict"):
            yield from (_with(node, value=value) for value in _other_values(node.value, axis=_is_axis(place)))


def _with(node: _Node, **changes: object) -> _Node:
    changed = copy.copy(node)
    for field, value in changes.items():
        setattr(changed, field, value)
    return changed


def _joins_texts(node: ast.BinOp | ast.AugAssign) -> bool:
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.value,)
    return any(isinstance(side, ast.JoinedStr) or isinstance(getattr(side, "value", None), str) for side in sides)


def _is_axis(place: _Place) -> bool:
    return isinstance(place.parent, ast.keyword) and place.parent.arg == "axis"


def _exchanged(elements: list[ast.expr]) -> Iterator[list[ast.expr]]:
    for k in range(len(elements) - 1):
        if ast.dump(elements[k]) != ast.dump(elements[k + 1]):
            yield [*elements[:k], elements[k + 1], elements[k], *elements[k + 2 :]]


def _other_values(value: object, *, axis: bool) -> tuple[object, ...]:
    match value:
        case bool():
            return (not value,)
        case int() if axis and value in _AXES:
            return _AXES[value]
        case int() | float():
            return (type(value)(0 if value == 1 else value + 1),)
        case str() if value in _TEXTS:
            return (_TEXTS[value],)
    return ()


def _shown(statement: ast.stmt) -> str:
    """Write a statement on one line, a compound one without its body."""
    if not hasattr(statement, "body"):
        return ast.unparse(statement)
    parts = {"body": [ast.Pass()], "orelse": [], "decorator_list": []}
    held = {field: value for field, value in parts.items() if hasattr(statement, field)}
    return ast.unparse(_with(statement, **held)).split("\n")[0]
