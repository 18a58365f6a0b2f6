"""What is used of open_clip beyond the names at its root is listed in one module, and its absence is explained."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import tellapart
from tellapart.errors import MissingDependencyError
from tellapart.models.openclip.internals import ATTRIBUTES, NAMES, VERSIONS, internal_name, read_attribute
from tellapart.models.openclip.library import import_open_clip
from tellapart.models.openclip.source import resolve
from tellapart.models.openclip.tokens import TextTower
from tellapart.models.openclip.weights import assemble
from tellapart.models.torch.backend import import_torch

pytest.importorskip("torch", reason="torch is not installed (the models extra)")
import_torch()

SOURCE = Path(tellapart.__file__).parent
INTERNALS = SOURCE / "models" / "openclip" / "internals.py"

#: Files that hold models, towers and tokenizers of open_clip, and what they call them.
HOLDERS = [*(SOURCE / "models" / "openclip").glob("*.py"), SOURCE / "training" / "encoders" / "openclip_encoder.py"]
HELD = {"model", "_model", "text", "_text", "vision", "visual", "tokenizer", "_tokenizer", "transformer"}


def root_of(open_clip: Any) -> set[str]:
    """The names that open_clip's `__init__.py` exports."""
    body = ast.parse(Path(open_clip.__file__).read_text(encoding="utf-8")).body
    return {alias.asname or alias.name for node in body if isinstance(node, ast.ImportFrom) for alias in node.names}


def is_open_clip(node: ast.expr) -> bool:
    called = node.func if isinstance(node, ast.Call) else node
    return isinstance(called, ast.Name) and called.id in {"open_clip", "import_open_clip"}


def below_root(tree: ast.AST, public: set[str]) -> Iterator[str]:
    """Names of open_clip in a file that are not at its root."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("open_clip."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "open_clip":
            names = {alias.name for alias in node.names}
            yield from names - public if node.module == "open_clip" else {str(node.module)}
        elif isinstance(node, ast.Attribute) and is_open_clip(node.value) and node.attr not in public:
            yield node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            first = node.args[0]
            if node.func.id in {"getattr", "setattr", "hasattr", "vars"} and is_open_clip(first):
                yield ast.unparse(node)
            text = first.value if isinstance(first, ast.Constant) else None
            if isinstance(text, str) and node.func.id == "require" and text.startswith("open_clip."):
                yield text


def read_names(tree: ast.AST) -> set[str]:
    """Attributes that a file reads of models, towers and tokenizers, by a dot, `getattr` or `read_attribute`."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            holder = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            if holder in HELD:
                found.add(node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1:
            readers = {"getattr", "hasattr", "read_attribute"}
            if node.func.id in readers and isinstance(node.args[1], ast.Constant):
                found.add(str(node.args[1].value))
    return found


def test_no_module_names_what_is_below_the_root(open_clip: Any) -> None:
    public = root_of(open_clip)
    assert {"create_model", "image_transform", "get_model_preprocess_cfg", "__version__"} <= public
    texts = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py") if path != INTERNALS}
    found = {path: list(below_root(ast.parse(text), public)) for path, text in texts.items() if "open_clip" in text}
    assert len(found) > 5
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "line",
    [
        "import open_clip.model",
        "from open_clip import factory",
        "from open_clip.transform import PreprocessCfg",
        "open_clip.transform.image_transform_v2()",
        "import_open_clip().convert",
        "getattr(open_clip, name)",
        "require('open_clip.convert', extra='models')",
    ],
)
def test_such_a_line_would_be_seen(open_clip: Any, line: str) -> None:
    assert list(below_root(ast.parse(line), root_of(open_clip)))


def test_every_listed_name_is_used_and_there(open_clip: Any) -> None:
    assert {"convert", "model", "transformer"} <= {name.partition(".")[0] for name in NAMES}
    written = "".join(path.read_text(encoding="utf-8") for path in HOLDERS if path != INTERNALS)
    for name in NAMES:
        module, attribute = name.split(".")
        assert hasattr(sys.modules[f"open_clip.{module}"], attribute)
        # Whole, or put together in a loop over modules.
        assert f'"{name}"' in written or (f'"{attribute}"' in written and f"{module}" in written), name


def test_attributes_are_listed_where_they_are_read() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in HOLDERS if path != INTERNALS]
    listed = {name for names in ATTRIBUTES.values() for name in names}
    read = set().union(*map(read_names, trees))
    in_loops = {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert listed - read - in_loops == set()
    public = {"encode_image", "encode_text", *dir(import_torch().nn.Module)}
    elsewhere = {"backend_tokenizer", "__module__", *dir(str), *dir(dict), *dir(type)}  # of transformers and of Python
    assert read - listed - public - elsewhere == set()


def test_a_model_has_what_is_listed(open_clip: Any, checkpoints: Callable[[str], Path]) -> None:
    parts = assemble(resolve(f"open_clip:tiny-gelu@{checkpoints('tiny')}"))
    model, elsewhere = parts.model, {"text", "eos_id", "pool_type", "cls_emb", "get_cast_dtype", "logit_bias"}
    elsewhere |= {"correct_cls_mask", "pad_id", "resblocks"}
    assert [name for name in ATTRIBUTES["model"] if not hasattr(model, name)] == ["text"]
    assert {name for name in ATTRIBUTES["text tower"] if not hasattr(model, name)} < elsewhere
    assert [name for name in ATTRIBUTES["image tower"] if not hasattr(model.visual, name)] == []
    assert [name for name in ATTRIBUTES["layer"] if not hasattr(model.transformer.resblocks[0], name)] == []
    transformers_only = {"strip_sep_token", "tokenizer", "tokenizer_mode"}
    assert {name for name in ATTRIBUTES["tokenizer"] if not hasattr(parts.tokenizer, name)} == transformers_only
    custom = assemble(resolve(f"open_clip:tiny-custom@{checkpoints('tiny-custom')}")).model.text
    assert {"attn_mask", "eos_id", "ln_final", "pool_type", "text_projection"} <= set(dir(custom))


def facts_of(error: pytest.ExceptionInfo[MissingDependencyError], open_clip: Any, name: str) -> bool:
    message = str(error.value)
    line = f'pip install "open_clip_torch{VERSIONS}"'
    return name in message and f"open_clip_torch {open_clip.__version__}" in message and message.endswith(line)


def test_a_name_that_is_gone_is_explained(open_clip: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_clip, "__version__", "4.2.1")
    monkeypatch.delattr(sys.modules["open_clip.convert"], "convert_state_dict")
    with pytest.raises(MissingDependencyError) as gone:
        internal_name("convert.convert_state_dict")
    assert facts_of(gone, open_clip, "open_clip.convert.convert_state_dict")
    with pytest.raises(MissingDependencyError) as moved:
        internal_name("converters.convert_state_dict")
    assert facts_of(moved, open_clip, "open_clip.converters")
    assert "4.2.1" in str(moved.value)


def test_loading_a_model_passes_that_error_on(
    open_clip: Any, checkpoints: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = resolve(f"open_clip:tiny-gelu@{checkpoints('tiny')}")
    monkeypatch.delattr(sys.modules["open_clip.convert"], "convert_state_dict")
    with pytest.raises(MissingDependencyError) as gone:
        assemble(source)
    assert facts_of(gone, open_clip, "open_clip.convert.convert_state_dict")


def test_an_attribute_that_is_gone_is_explained(open_clip: Any, checkpoints: Callable[[str], Path]) -> None:
    model = assemble(resolve(f"open_clip:tiny-gelu@{checkpoints('tiny')}")).model
    tower = TextTower(model)
    assert read_attribute(model, "ln_final") is tower.last_norm
    del model.ln_final
    with pytest.raises(MissingDependencyError) as gone:
        tower.last_norm  # noqa: B018
    assert facts_of(gone, open_clip, "CLIP.ln_final")


def test_the_bound_is_that_of_pyproject(open_clip: Any) -> None:
    content = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    extra = content["project"]["optional-dependencies"]["models"]
    stated = next(Requirement(line) for line in extra if re.match("open_clip_torch", line)).specifier
    assert stated == SpecifierSet(VERSIONS)
    assert import_open_clip().__version__ in stated and "4.0.0" not in stated
