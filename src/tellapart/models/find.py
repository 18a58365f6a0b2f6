"""Models by their names: from the catalogue, a folder or a file on disk, open_clip's table, or the hub.

A model is loaded only if something must be computed: if every score of a run is stored, the run needs only the
fingerprint that the store filed them under. The store remembers it under a key of all that makes the model: the
contents of its files, the options, this package's code and its libraries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, get_args

from tellapart.catalog import REFERENCES, has, names
from tellapart.catalog import load as load_from_catalog
from tellapart.data.arguments import suggest_beside
from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError, UnknownNameError, quote
from tellapart.models.onnx.dual_encoder import FILES as ONNX_FILES
from tellapart.models.openclip.source import CONFIG, FOLDER, TAG, WEIGHTS_SUFFIXES
from tellapart.models.openclip.weights import explain_weights
from tellapart.models.options import ModelOptions, ModelPrefix, files_below
from tellapart.models.protocols import DualEncoder, Generator, Model, NoteTaker, PairScorer, TextScorer
from tellapart.models.purpose import MODULES
from tellapart.models.store.embedding_store import EmbeddingStore, library_versions
from tellapart.models.torch.peft_adapter import ADAPTER_CONFIG, find_adapter

__all__ = ["find_model"]

_FORMS = (
    "a model is a folder of transformers (hf:FOLDER, with config.json), of open_clip (local-dir:FOLDER), of ONNX "
    f"(onnx:FOLDER) or of vectors (vectors:FOLDER), or a file of open_clip's weights ({TAG}ARCH@FILE)"
)


def explain_path(name: str) -> str | None:
    """Return a sentence on how to name what lies at a path; None of nothing, or of a folder of transformers."""
    path = Path(name).expanduser()
    if name and find_adapter(path) is not None:
        return f"{name} is an adapter of peft; write hf:{name} (its base is of transformers) or {TAG}ARCH/TAG@{name}"
    if name and path.is_dir():
        return _match_folder(path, name)
    if path.suffix in WEIGHTS_SUFFIXES:
        return explain_weights(name)[1] if path.exists() else f"there is no file {name}{suggest_beside(path)}"
    if not path.is_file():
        return None
    scores = f"is no model; a file of scores is measured by: tellapart score BENCHMARK --scores {name}"
    kinds = dict.fromkeys((".npz", ".csv", ".jsonl"), scores) | {
        ".py": f"is a file of Python; name the model in it, {name}:NAME",
        ".onnx": f"is a part of an ONNX model; write onnx:FOLDER, with config.json, {', '.join(ONNX_FILES)} in it",
    }
    return f"{name} {kinds.get(path.suffix, f'is a file, and no model; {_FORMS}')}"


def _match_folder(path: Path, name: str) -> str | None:
    if any((path / file).is_file() for file in ONNX_FILES[:2]):
        return f"{name} is the folder of an ONNX model; write onnx:{name}"
    if (path / "config.json").is_file() and not (path / CONFIG).is_file():
        return None
    for file, library, prefix in ((CONFIG, "open_clip", FOLDER), (MODULES, "sentence-transformers", "st:")):
        if (path / file).is_file():
            return f"{name} is a folder of {library}; write {prefix}{name}"
    kinds = {"config.json": "{}", CONFIG: f"{FOLDER}{{}}", ADAPTER_CONFIG: "hf:{}, an adapter of peft"}
    inside = [form.format(file.parent) for kind, form in kinds.items() for file in sorted(path.glob(f"*/{kind}"))]
    if inside:
        return f"{name} holds no model itself; write {' or '.join(inside[:4])}"
    files = sorted((*path.iterdir(), *path.glob("checkpoints/*")))
    if weights := [file for file in files if file.suffix in WEIGHTS_SUFFIXES]:
        return explain_weights(str(weights[0]))[1]
    vectors = all(any(path.glob(f"{side}.*")) for side in ("images", "texts"))
    return f"{name} is a folder, and no model's; {f'if it has vectors, write vectors:{name}' if vectors else _FORMS}"


def name_forms(*, can_convert: bool = False) -> dict[str, str]:
    """Return form -> meaning of the names that begin with a prefix; `can_convert`: of models that can be converted."""
    forms: dict[str, str] = {}
    for prefix, declaration in _all_prefixes():
        if isinstance(declaration, str):
            forms |= {} if can_convert else {prefix: declaration}
        elif declaration.convert is not None or not can_convert:
            forms |= declaration.forms
    return forms


def declared_prefix(name: str) -> ModelPrefix | None:
    """Return the prefix before the colon of a name; None if there is none of that name.

    >>> declared_prefix("onnx:model"), declared_prefix("demo-encoder")  # doctest: +ELLIPSIS
    (ModelPrefix(forms={'onnx:PATH': ...}, ...), None)
    """
    head, colon, _ = name.partition(":")
    return _load_prefix(head + colon) if colon and has("prefix", head + colon) else None


def prefix_of_type(model_type: str) -> tuple[str, ModelPrefix] | None:
    """Return the prefix of models whose `config.json` names that type, as `("albef:", declaration)`, or None."""
    for prefix, declaration in _all_prefixes():
        if isinstance(declaration, ModelPrefix) and declaration.model_type and declaration.model_type == model_type:
            return prefix, declaration
    return None


def find_model(name: str, options: ModelOptions | None = None) -> Model:
    """Make the model of that name, as `tellapart ls models` lists it or of one of the forms of `name_forms`.

    Raises:
        UnknownNameError: no such name or prefix.
        ModelError: the device, the model's files or an option are wrong.
        MissingDependencyError: the family's library is not installed.

    >>> find_model("constant").kind
    'probability'
    """
    options = options or ModelOptions()
    if (prefix := find_prefix(name)) is not None:
        if ":" in name and not name.partition(":")[2].strip():
            form, meaning = next(iter(prefix.forms.items()))
            raise ModelError(f"{name} names no model; write {form}: {meaning}")
        if prefix.takes is None:
            return _load_watched(prefix.load, name, options)
        options.expect_effect(name, prefix.takes)
        return prefix.load(name, options)
    maker = load_from_catalog("model", name)
    model = _load_watched(lambda _name, watched: maker(watched), name, options)
    if not isinstance(model, Model):
        raise ModelError(f"model {name!r} is a {type(model).__name__} without a name, a fingerprint or a kind of score")
    return model


def expect_taken(name: str, options: ModelOptions) -> None:
    """Refuse an option that no model of a name's prefix takes, before one is loaded, if the prefix declares them."""
    prefix = find_prefix(name)
    if prefix is not None and prefix.takes is not None:
        options.expect_effect(name, prefix.takes)


def options_beside(name: object, models: Sequence[object], options: ModelOptions) -> ModelOptions:
    """Return the options for one model of a run: a reference model that runs with other models takes the seed alone.

    >>> options = ModelOptions(dtype="bfloat16")
    >>> [options_beside("random", models, options).dtype for models in (["random", "hf:clip"], ["random"])]
    ['float32', 'bfloat16']
    """
    is_reference, *are_references = (isinstance(model, str) and model in REFERENCES for model in (name, *models))
    return ModelOptions(seed=options.seed) if is_reference and not all(are_references) else options


def _load_watched(load: Callable[[str, ModelOptions], Model], name: str, options: ModelOptions) -> Model:
    """Make a model by a loader that does not declare the options it takes; those that it does not read do nothing."""
    were_read: set[str] = set()

    class Watched(ModelOptions):
        def __getattribute__(self, option: str) -> Any:
            were_read.add(option)
            return object.__getattribute__(self, option)

    watched = Watched(**{option.name: getattr(options, option.name) for option in fields(ModelOptions)})
    were_read.clear()
    model = load(name, watched)
    options.expect_effect(name, were_read)
    return model


def find_prefix(name: str) -> ModelPrefix | None:
    """Return the prefix that a model's name begins with; None for a name of the catalogue.

    A folder of transformers and a hub id get that of `hf:`, which may be left out.
    """
    if not isinstance(name, str):
        raise UnknownNameError(f"find_model({quote(name)}): {type(name).__name__} is not a name; give a text")
    if (declared := declared_prefix(name)) is not None:
        return declared
    if has("model", name):
        return None
    path = Path(name).expanduser()
    if path.suffix in WEIGHTS_SUFFIXES and path.is_file() and explain_weights(name)[0]:
        return _load_prefix("open_clip:")
    if (lies_there := explain_path(name)) is not None:
        raise UnknownNameError(lies_there)
    if (path / "config.json").is_file():
        return _load_prefix("hf:")
    head, colon, _ = name.partition(":")
    if head in {"http", "https"}:
        raise UnknownNameError(
            f"{name} is an address; write api:{name} for a model on a server, hf:ORG/REPO for the hub's"
        )
    if colon and "/" not in head:  # a hub id has no colon
        return _load_prefix(head + colon)
    return _load_prefix("hf:") if "/" in name else None


def _all_prefixes() -> Iterator[tuple[str, ModelPrefix | str]]:
    """Yield every prefix and its declaration, or why it cannot be loaded."""
    for prefix in names("prefix"):
        try:
            yield prefix, _load_prefix(prefix)
        except Exception as error:  # another package's prefix may fail in any way; the others are there nevertheless
            yield prefix, f"cannot be loaded: {error}"


def _load_prefix(prefix: str) -> ModelPrefix:
    declaration = load_from_catalog("prefix", prefix)
    if not isinstance(declaration, ModelPrefix):
        raise ModelError(f"prefix {prefix!r} is a {type(declaration).__name__}; its package must give a ModelPrefix")
    return declaration


#: This package's code of all model families: a number may change with any of it.
_CODE = Path(__file__).parent
_SCORERS = (TextScorer, DualEncoder, PairScorer, Generator)


@dataclass(eq=False)
class Deferred:
    """The identity of a model that is not loaded yet, and how to make it."""

    name: str
    fingerprint: str
    kind: ScoreKind
    make: Callable[[], Model]
    texts: str = ""
    provenance: str = ""
    notes: str = ""
    is_reranker: bool = False
    _loaded: Model | None = field(default=None, init=False)

    @property
    def truncated(self) -> int:
        """Texts that lost their end, as the model counts them; 0 while it has read none."""
        return int(getattr(self._loaded, "truncated", 0))

    def take_notes(self) -> tuple[str, ...]:
        """Return what a user should know of the model, a sentence each."""
        return tuple(self.notes.splitlines())

    def load(self) -> Model:
        """Load the model, once."""
        if self._loaded is None:
            model = self.make()
            if (model.name, model.fingerprint, model.kind) != (self.name, self.fingerprint, self.kind):
                raise ModelError(f"model {self.name!r} changed while it was being loaded; run it again")
            self._loaded = model
        return self._loaded


def find_deferred(name: str, options: ModelOptions, store: EmbeddingStore) -> Model | Deferred:
    """Return the model of that name: deferred if the store remembers one made of exactly the same, else loaded."""
    key = source_key(name, options)
    if key is None:
        return find_model(name, options)
    facts = store.model_of(key)
    if facts is not None and facts["kind"] in get_args(ScoreKind):
        return Deferred(make=partial(find_model, name, options), **facts)  # type: ignore[arg-type]
    model = find_model(name, options)
    # Not of a model that only answers, which is asked again each time, nor of one whose prompt every record names.
    if isinstance(model, _SCORERS) and not hasattr(model, "prompt"):
        attributes = ("name", "fingerprint", "kind", "texts", "provenance", "is_reranker")
        facts = {attribute: getattr(model, attribute, "") for attribute in attributes}
        facts["notes"] = "\n".join(model.take_notes()) if isinstance(model, NoteTaker) else ""
        store.put_model(key, facts)
    return model


def source_key(name: str, options: ModelOptions) -> str | None:
    """Return the SHA-256 of all that a model is made of; None if some of its files may not lie here."""
    prefix = find_prefix(name)
    files = None if prefix is None else prefix.files(name)
    if files is None:
        return None
    files = [*files, *([options.regions.expanduser()] if options.regions else [])]
    files += files_below(str(options.tokenizer)) or () if options.tokenizer else ()
    facts = [name, repr(options), *library_versions()]
    facts += [f"{path.relative_to(_CODE)} {_content_hash(path)}" for path in sorted(_CODE.rglob("*.py"))]
    facts += [f"{path.name} {_content_hash(path)}" for path in files]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def _content_hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}") from error
