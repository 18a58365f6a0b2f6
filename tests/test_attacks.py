"""Files that were made to do harm are refused in one line, soon; `ci/gates.py` reads them with little memory, too."""

import ast
import re
import time
import tomllib
from pathlib import Path

import pytest

for _library in ("torch", "av", "h5py", "pyarrow", "safetensors", "fastapi", "huggingface_hub", "matplotlib"):
    pytest.importorskip(_library)

from attacks import ATTACKS, try_attack  # noqa: E402

ROOT = Path(__file__).parents[1]
SOURCES = [*(ROOT / "src").rglob("*.py")]
#: Attacks that write or read hundreds of megabytes.
SLOW = {
    "parquet, one text in all rows", "parquet, a huge page", "regions, a bomb", "device without end",
    "recipe of a device", "names that steer: board",
}  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in ATTACKS])
def test_a_harmful_or_false_file_is_refused_soon_in_one_line(name, tmp_path):
    started = time.process_time()
    outcome, said = try_attack(ATTACKS[name], tmp_path)
    assert outcome == ("refused" if ATTACKS[name].facts else "read"), said
    assert time.process_time() - started < 15


def test_every_false_input_of_the_list_has_its_test():
    listed = tomllib.loads((ROOT / "ci" / "false_inputs.toml").read_text(encoding="utf-8"))["tried"]
    for row in listed:
        file, _, test = row["by"].partition("::")
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")
        assert file != "tests/test_attacks.py" or ATTACKS.keys() >= set(row["inputs"])
    names = [name for row in listed for name in row["inputs"]]
    assert len(set(names)) == len(names) > 80


#: Files of the program itself, of the system, or of a library's data that their user installed.
TRUSTED = set(
    """
    __init__.py api/run.py annotate/study.py auditing/card.py benchmarks/plugins.py
    board/rendering.py board/submissions/administer.py board/submissions/prepared.py board/submissions/accounts.py
    builders/captions/stages.py catalog.py cli/command.py cli/options.py
    builders/video/footage.py data/atomic.py models/compact/onnx_export.py models/memory/identity.py
    models/openclip/source.py records/machine.py records/run_folder.py report/image_sources.py
    report/interchange/push.py report/paper_tables/layouts.py report/plots/prepare.py report/show.py
    tasks/authors.py
    training/encoders.py training/record.py training/run_files.py
    """.split()  # noqa: SIM905  (a list of names reads better so)
)


def test_files_of_others_are_read_by_the_door_that_bounds_them():
    readers = {
        path.relative_to(ROOT / "src" / "tellapart").as_posix()
        for path in (ROOT / "src" / "tellapart").rglob("*.py")
        if re.search("read_(text|bytes)", text := path.read_text(encoding="utf-8"))
        and any(
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("read_text", "read_bytes")
            and not (node.args and isinstance(node.args[0], ast.Name))  # an item's image, of a pair set
            for node in ast.walk(ast.parse(text))
        )
    }
    assert readers <= TRUSTED, "read files of others with data.strict_json.read_whole"
    assert readers >= TRUSTED, "shorten the list"


def test_whatever_is_printed_or_logged_passes_through_plain():
    """Only `report.terminal` prints, and each text of a file that is logged is a call of `plain`, or named by one."""
    direct, unquoted = [], []
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        if not re.search(r"\bprint\b|\becho\b|Console|stdout|\b_log\b|getLogger", text):
            continue
        tree = ast.parse(text)
        quoted = {
            target.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for targets, values in [(node.targets[0], node.value)]
            for target, value in zip(
                targets.elts if isinstance(targets, ast.Tuple) else [targets],
                values.elts if isinstance(values, ast.Tuple) else [values],
                strict=False,
            )
            if isinstance(target, ast.Name) and _calls_plain(value)
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            if re.fullmatch(r"print|(typer|click)\.echo|Console|rich\.print|.*\.stdout(\.buffer)?\.write", called):
                direct.append(path.name)
            if re.fullmatch(r"(_log|logging\.getLogger\(__name__\))\.\w+", called) and node.args:
                kinds = re.findall("%[.0-9]*([sdf])", ast.literal_eval(node.args[0]))
                unquoted += [
                    (path.name, ast.unparse(arg))
                    for kind, arg in zip(kinds, node.args[1:], strict=True)
                    if kind == "s" and not _calls_plain(arg) and ast.unparse(arg) not in quoted
                ]
    assert set(direct) == {"terminal.py", "blender_worker.py", "worker.py"}  # two write JSON to the process above
    assert not unquoted


def _calls_plain(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "plain"
