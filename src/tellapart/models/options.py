"""The options that every model is made with, and prefixes: how models that are in no catalogue are named and loaded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType

from tellapart.data.arguments import expect_used
from tellapart.errors import ModelError
from tellapart.models.protocols import Model

__all__ = ["AUTO", "DEVICES", "DTYPES", "MEANT_FOR", "TEXTS", "ModelOptions", "ModelPrefix"]

DEVICES = ("cpu", "cuda", "mps")
DTYPES = ("float32", "bfloat16", "float16")
TEXTS = ("raw", "cleaned", "library")

#: In place of a dtype: the fastest of those, if it flips few outcomes of a sample.
AUTO = "auto"

_AUTHORS = "models in their authors' files"

#: Options that some models take and others do not, and the models that take each.
MEANT_FOR: Mapping[str, str] = MappingProxyType(
    {
        "device": "models that are loaded here: not references, servers (api:), vectors or objects in memory",
        "dtype": f"torch models: open_clip:, hf-hub:, local-dir:, hf:, st: and {_AUTHORS}",
        "reading": "models with readings: of torch, in ONNX folders (onnx:) and on servers (api:)",
        "regions": "models that read a detector's regions: LXMERT, VisualBERT, UNITER, ViLBERT, VL-T5",
        "texts": f"SigLIP of open_clip and hf: (library), and {_AUTHORS} (cleaned)",
        "image_size": _AUTHORS,
        "tokenizer": _AUTHORS,
        "calls": "models on a server (api:)",
        "insecure": "models on a server (api:)",
        "instruction": "embedders and rerankers: st:, and request forms of servers (api:) with a place for one",
    }
)


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Options for making a model; each model uses those that concern it.

    Attributes:
        device: `cpu`, `cuda` or `mps`.
        seed: of models that draw numbers.
        dtype: of a torch model's computation: `float32`, `bfloat16` or `float16`. Scores are float32 always.
        reading: which of a model's readings is scored (`itc`, `itm`, ...); None for the default of its architecture.
        regions: a file of regions that a detector found.
        texts: `raw`, `cleaned` as a model's authors do for retrieval, or `library`, as the library's tokenizer.
        image_size: side of the images in pixels, if not the file's.
        tokenizer: folder of the tokenizer.
        answers: the file of a server's answers; in memory if None.
        calls: requests in flight at once, to a server.
        insecure: ask a server of another machine over plain http, too.
        instruction: to an embedder or a reranker, in place of its default.
        auto: the dtype was chosen by a run, and a model need not take it.

    Raises:
        ModelError: the device, the dtype or the texts are unknown, or a number is below 1.
    """

    device: str = "cpu"
    seed: int = 0
    dtype: str = "float32"
    reading: str | None = None
    regions: Path | None = None
    texts: str = "raw"
    image_size: int | None = None
    tokenizer: Path | None = None
    answers: Path | None = field(default=None, repr=False)  # no number depends on the place of the file
    calls: int = 8
    insecure: bool = False
    instruction: str | None = None
    auto: bool = False

    def __post_init__(self) -> None:
        choices = (("device", self.device, DEVICES), ("dtype", self.dtype, DTYPES), ("texts", self.texts, TEXTS))
        for kind, value, allowed in choices:
            if value not in allowed:
                raise ModelError(f"{kind} {value!r} is unknown; use one of {', '.join(allowed)}")
        if self.image_size is not None and self.image_size < 1:
            raise ModelError(f"image_size must be at least 1 pixel; got {self.image_size}")
        if self.calls < 1:
            raise ModelError(f"calls must be at least 1; got {self.calls}")

    def list_given(self) -> dict[str, object]:
        """Return the options of `MEANT_FOR` that are not at their defaults, each with its value.

        >>> ModelOptions(reading="itm", seed=3).list_given()
        {'reading': 'itm'}
        """
        defaults = {field.name: field.default for field in fields(ModelOptions)}
        changed = {name: value for name in MEANT_FOR if (value := getattr(self, name)) != defaults[name]}
        return {name: value for name, value in changed.items() if not (self.auto and name == "dtype")}

    def expect_itc(self, name: str, kind: str) -> None:
        """Refuse a reading other than `itc` of a kind of models that have this one alone."""
        if self.reading not in {None, "itc"}:
            raise ModelError(f"{name} has no reading {self.reading!r}; {kind} has one, 'itc'")

    def expect_effect(self, name: str, taken: Collection[str]) -> None:
        """Refuse an option that does nothing for a model."""
        for parameter, value in self.list_given().items():
            if parameter not in taken:
                reason = f"on this model (it is for {MEANT_FOR[parameter]}; measure those in another run)"
                expect_used(name, reason, ModelError, **{parameter: (value, None)})


@dataclass(frozen=True, slots=True)
class ModelPrefix:
    """A prefix of model names, such as `onnx:`, listed in `tellapart.catalog.PREFIXES` or by an entry point.

    Attributes:
        forms: each form of such a name, and its meaning, for `tellapart ls models`.
        load: makes the model of a name, prefix included.
        files: returns the files that the numbers of a model of that name depend on, by which a run recognises it; None
            if some may not lie here. Code of this package counts by itself; another package lists its code, too.
        model_type: in `config.json` of a folder that the prefix opens, too; `hf:FOLDER` opens it then. Empty for none.
        convert: writes the model of a name to a new folder, with the tokenizer in the given folder (None: the one in
            the model's folder, or the hub's); returns the number of parameters.
        takes: the options of `tellapart.models.options.MEANT_FOR` that some of its models take; another one ends a run
            before a model is loaded. Those that the loader reads, if None.
    """

    forms: Mapping[str, str]
    load: Callable[[str, ModelOptions], Model]
    files: Callable[[str], list[Path] | None] = lambda _name: None
    model_type: str = ""
    convert: Callable[[str, Path, Path | None], int] | None = None
    takes: frozenset[str] | None = None


def files_below(folder: str) -> list[Path] | None:
    """Return all files of a folder and its sub-folders, sorted; None without such a folder."""
    path = Path(folder).expanduser()
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else None
