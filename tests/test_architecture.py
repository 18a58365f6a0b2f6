"""The architecture holds: imports point down, names are documented, and the light things stay light."""

import ast
import importlib
import importlib.util
import inspect
import os
import re
import tomllib
from collections.abc import Set
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

import tellapart
from scripts import import_script, run_python
from syntax import parse_source, walk_statements

SOURCE = Path(tellapart.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
#: Packages of the same distribution that join tellapart as a stranger's do: by entry points and public modules alone.
JOINED = sorted(path for path in SOURCE.parent.glob("tellapart_*") if path.is_dir())
EVERYWHERE = sorted([*MODULES, *(path for package in JOINED for path in package.rglob("*.py"))])
#: From the ground up; a module imports from its own room or a lower one. Nothing shares a level.
LEVELS = [
    "errors", "catalog", "stats", "data", "records", "metrics", "models", "benchmarks", "builders", "tasks",
    "evaluation", "diagnosis", "report", "dry_run", "training", "auditing", "annotate", "board", "api", "cli",
    "__main__",
]  # fmt: skip
LEVEL = {name: level for level, name in enumerate(LEVELS)}


def part_of(path: Path) -> str:
    """The top-level name under the package that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@cache
def dotted(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in walk_statements(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
    return {name for name in found if name.split(".")[0].startswith("tellapart")}


@cache
def tree_of(path: Path) -> ast.Module:
    return parse_source(path.read_text(encoding="utf-8"))


def imported_modules(path: Path, known: Set[str]) -> set[str]:
    """The package's modules that a file imports; `from a import b` is `a.b` where that is a module."""
    targets = set()
    for node in walk_statements(tree_of(path)):
        if isinstance(node, ast.Import):
            targets |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            targets |= (whole & known) or {node.module}
    return targets & known


# Of hundreds of files one test asks the same, and names those that do not hold: a test for each would cost seconds.


def test_imports_point_down():
    rooms = [(path, name, name.split(".")[1:2]) for path in MODULES for name in imports_of(path)]
    assert [(dotted(path), name) for path, name, _ in rooms if name.startswith("tellapart_")] == []
    above = [
        f"{dotted(path)} imports {name}, which lies above it"
        for path, name, room in rooms
        if room and path != SOURCE / "__init__.py" and LEVEL[room[0]] > LEVEL[part_of(path)]
    ]
    assert len(rooms) > 1_000 and above == []


def test_nothing_imports_the_root():
    """The version alone is read from the root, by the command that prints it."""
    others = [path for path in MODULES if part_of(path) != "cli" and path != SOURCE / "__init__.py"]
    assert [dotted(path) for path in others if "tellapart" in imports_of(path)] == []


@pytest.fixture(scope="module")
def graph_of_modules() -> dict[str, set[str]]:
    """Every module and the modules that it imports, at any depth of its code."""
    known = {dotted(path) for path in EVERYWHERE}
    return {dotted(path): imported_modules(path, known) for path in EVERYWHERE}


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Groups of nodes that reach each other, by deleting what has nothing left before or behind it."""
    alive = set(graph)
    while True:
        leaves = {node for node in alive if not graph[node] & alive - {node}}
        roots = alive - {target for node in alive for target in graph[node] if target != node}
        if not leaves | roots:
            break
        alive -= leaves | roots
    return [alive] if alive else []


def test_no_files_import_each_other_in_a_circle(graph_of_modules):
    assert sum(map(len, graph_of_modules.values())) > 1_000 and circles(graph_of_modules) == []
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [{"b", "c"}]
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize("package", sorted({path.parent for path in EVERYWHERE}), ids=str)
def test_no_sibling_packages_import_each_other_in_a_circle(package, graph_of_modules):
    prefix = ".".join(package.relative_to(SOURCE.parent).parts)
    depth = prefix.count(".") + 1

    def sibling(name: str) -> str:
        return ".".join(name.split(".")[: depth + 1])

    graph: dict[str, set[str]] = {}
    for module, targets in graph_of_modules.items():
        if module.startswith(f"{prefix}."):
            inner = {sibling(target) for target in targets if target.startswith(f"{prefix}.")}
            graph.setdefault(sibling(module), set()).update(inner)
    assert circles(graph) == []


def test_the_house_has_few_rooms_and_contributing_draws_them():
    rooms = {part_of(path) for path in MODULES}
    assert len(rooms) <= 22, sorted(rooms)
    assert len(list(SOURCE.glob("*.py"))) <= 6
    page = (SOURCE.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = [line.split()[0] for line in re.search(r"```\n(cli .*?)```", page, re.DOTALL)[1].splitlines()]
    assert rooms == [name for name in reversed(LEVELS) if name != "__main__"]


@pytest.mark.parametrize("package", JOINED, ids=lambda package: package.name)
def test_a_package_that_joins_uses_public_interfaces_alone(package):
    """It imports public names of docs/plugin_modules.md alone, and the catalogue has it by entry points."""
    page = (SOURCE.parents[1] / "docs" / "plugin_modules.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(tellapart\.[\w.]+)` \|", page, re.MULTILINE))
    nodes = [node for path in package.rglob("*.py") for node in walk_statements(tree_of(path))]
    whole = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    assert [name for name in whole if name.startswith("tellapart")] == []
    taken = {
        (node.module, alias.name)
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module and not node.module.startswith(package.name)
        for alias in node.names
        if node.module.startswith("tellapart")
    }
    assert len(taken) > 5
    public = {module: set(importlib.import_module(module).__all__) for module in listed}
    assert sorted(name for name in taken if name[1] not in public.get(name[0], ())) == []
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    targets = [target for group in project["entry-points"].values() for target in group.values()]
    assert any(target.startswith(f"{package.name}.") for target in targets)


def test_every_module_listed_as_public_is_used_by_a_package_that_joins():
    page = (SOURCE.parents[1] / "docs" / "plugin_modules.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(tellapart\.[\w.]+)` \|", page, re.MULTILINE))
    used = {name for package in JOINED for path in package.rglob("*.py") for name in imports_of(path)}
    assert listed and sorted(listed - used) == []


def test_a_sub_package_init_holds_a_docstring_only():
    """That of `metrics` also names the classes that `tellapart.metrics` has."""
    doors = {SOURCE, SOURCE / "metrics"}
    inits = [path for path in EVERYWHERE if path.name == "__init__.py" and path.parent not in doors]
    assert len(inits) > 20
    assert [dotted(p) for p in inits if len(tree_of(p).body) != 1 or not ast.get_docstring(tree_of(p))] == []


def test_every_name_of_the_root_has_an_example():
    things = {name: getattr(tellapart, name) for name in tellapart.__all__}
    documented = {name: one for name, one in things.items() if inspect.isfunction(one) or inspect.isclass(one)}
    assert [name for name, one in documented.items() if ">>>" not in (one.__doc__ or "")] == []


def test_no_file_outgrows_one_idea_or_has_the_name_of_a_drawer():
    assert {dotted(path): n for path in EVERYWHERE if (n := len(path.read_text().splitlines())) > 800} == {}
    assert not [p for p in EVERYWHERE if re.search(r"util|helper|common|misc", p.stem)]


HEAVY = (
    "torch", "transformers", "matplotlib", "PIL", "onnxruntime", "scipy", "tokenizers", "jinja2", "numpy", "pydantic",
)  # fmt: skip
PROBE = """
import socket, sys, time
def refuse(*args, **kwargs):
    raise AssertionError("network")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
started = time.process_time()
{action}
print(time.process_time() - started, *[name for name in {heavy!r} if name in sys.modules])
"""

#: Far below the import of any heavy module; the same start takes .3 on an idle core and .6 beside busy ones.
SECONDS = 1.0


def fastest(action: str) -> tuple[float, list[str]]:
    """Run an action in fresh interpreters, up to three; return its least CPU time and the heavy modules it loaded."""
    seen: list[tuple[float, list[str]]] = []
    while len(seen) < 3 and not (seen and min(seen)[0] < SECONDS):
        done = run_python("-c", PROBE.format(action=action, heavy=HEAVY), env={**os.environ, "NO_COLOR": "1"})
        seconds, *loaded = done.stdout.splitlines()[-1].split()
        seen.append((float(seconds), loaded))
    return min(seen)


def test_the_package_imports_and_help_answers_at_once_and_they_load_nothing_heavy():
    help_ = (
        "import sys; sys.argv = ['tellapart', '--help']\n"
        "from tellapart.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code"
    )
    for action in ("import tellapart", help_):
        seconds, loaded = fastest(action)
        assert loaded == [] and seconds < SECONDS


def test_names_of_the_root_are_loaded_on_first_use_and_unknown_ones_are_an_error():
    loaded = "print('tellapart.metrics.pairs' in sys.modules)"
    done = run_python("-c", f"import sys, tellapart; {loaded}; tellapart.text_score; {loaded}")
    assert done.stdout.split() == ["False", "True"]
    assert [name for name in tellapart.__all__ if getattr(tellapart, name, None) is None] == []
    assert not {path.stem for path in SOURCE.glob("*.py")} & set(tellapart.__all__)
    with pytest.raises(AttributeError, match="module 'tellapart' has no attribute 'nonsense'"):
        tellapart.nonsense  # noqa: B018


def test_pytest_passes_over_no_folder_of_tests_or_of_the_package():
    root = SOURCE.parents[1]
    told = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    holding = {path.parent for top in told["testpaths"] for path in (root / top).rglob("*.py")}
    names = {part for folder in holding for part in folder.relative_to(root).parts}
    assert not [name for name in names if any(fnmatch(name, pattern) for pattern in told["norecursedirs"])]


def test_what_conftest_leaves_out_where_an_extra_is_missing_are_files_that_are_there():
    module = import_script(SOURCE.parents[1] / "conftest.py")
    patterns = [pattern for _, _, patterns in module.NEEDS for pattern in patterns]
    assert [pattern for pattern in patterns if not list(SOURCE.glob(pattern))] == []
