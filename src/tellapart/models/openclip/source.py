"""Names of open_clip models, resolved to architecture, weights, preprocessing and activation; none is guessed."""

from __future__ import annotations

import json
import warnings
from codecs import BOM_UTF8
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tellapart.data.arguments import suggest_beside
from tellapart.data.strict_json import read_json
from tellapart.errors import ModelError, TellapartWarning, UnknownNameError, explain_failure, nearest
from tellapart.models.hub import fetch_file
from tellapart.models.openclip.library import import_open_clip
from tellapart.models.purpose import MODULES
from tellapart.models.torch.checkpoint import read_checkpoint, split_part
from tellapart.models.torch.peft_adapter import PeftAdapter, find_adapter

#: The prefixes of open_clip models' names.
TAG, HUB, FOLDER = "open_clip:", "hf-hub:", "local-dir:"

CONFIG = "open_clip_config.json"
NEW_ARCHITECTURE = (
    f"of an architecture that open_clip does not list, write {FOLDER}FOLDER, a folder with the weights and {CONFIG} "
    "(model_cfg, preprocess_cfg)"
)
_WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
#: A folder's files of weights, in open_clip's order of search. Other programs save the second name, open_clip never.
_FOLDER_WEIGHTS = (_WEIGHTS[0], "open_clip_pytorch_model.safetensors", _WEIGHTS[1])
WEIGHTS_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth")

#: Suffixes of architectures: open_clip's, and tellapart's for GELU, which open_clip's names do not mark.
_QUICKGELU, _GELU = "-quickgelu", "-gelu"
_PREPROCESSING = ("mean", "std", "interpolation", "resize_mode")


@dataclass(frozen=True, slots=True)
class Source:
    """The arguments of open_clip's functions, and the weights: the entry `part` of a file, and peft's adapter."""

    name: str
    architecture: str
    checkpoint: Path
    preprocessing: Mapping[str, Any]
    adapter: PeftAdapter | None = None
    part: str = ""
    tokenizer: str = ""  # a hub id, whose tokenizer may be from another repository; empty: the architecture's


def resolve(name: str) -> Source:
    """Find the source of a name; the network is used only if a tag or a hub id is not in the hub's cache.

    Activation and preprocessing are those of open_clip's table for a tag, and those of `open_clip_config.json` for a
    folder and a hub id. A bare file holds neither. Many architectures exist with GELU and with QuickGELU, and open_clip
    silently takes the one of the name. Here a file beside it (`open_clip_config.json`, `params.txt` of open_clip's
    trainer), the tag it was fine-tuned from, or the name (`ViT-B-32-quickgelu@`, `ViT-B-32-gelu@`) must decide.
    """
    import_open_clip()
    if name.startswith((FOLDER, HUB)):
        place, part = split_part(name.removeprefix(FOLDER))
        hub = place if name.startswith(HUB) else ""
        path = _fetch_file(name, place.removeprefix(HUB), (CONFIG,)) if hub else Path(place).expanduser() / CONFIG
        steps = _stated_preprocessing(name, _read_config(path))
        checkpoint = _fetch_file(name, place.removeprefix(HUB), _WEIGHTS) if hub else _find_weights(name, path.parent)
        return Source(name, f"{FOLDER}{path.parent}", checkpoint, steps, part=part, tokenizer=hub)
    model, at, file = name.removeprefix(TAG).partition("@")
    architecture, slash, tag = _split_name(model)
    if not at and not slash:
        tags = list(_published_tags(architecture))
        tag_hint = f"a tag ({', '.join(tags[:5])}{', ...' if len(tags) > 5 else ''})" if tags else "a file"
        raise ModelError(
            f"{name} names no weights; write {TAG}{architecture}/TAG or {TAG}{architecture}@FILE with {tag_hint}"
        )
    adapter = find_adapter(file) if at else None
    if slash and (adapter is not None or not at):  # the tag is the model, or the base of an adapter
        published, plain = _published_config(name, architecture, tag), architecture.removesuffix(_GELU)
        return Source(name, plain, _download_weights(name, published), _select_preprocessing(published), adapter)
    file, part = split_part(file if adapter is None else adapter.base)
    path = Path(file).expanduser()
    if adapter is not None and not path.is_file():
        raise ModelError(
            f"{name}: the base model of the adapter, {adapter.base!r}, is not a file; name the weights that it was "
            f"trained from: {TAG}{architecture}/TAG@{adapter.folder}"
        )
    preprocessing = _bare_file_preprocessing(name, architecture, tag, path)
    return Source(name, architecture.removesuffix(_GELU), path, preprocessing, adapter, part)


def _split_name(name: str) -> tuple[str, str, str]:
    """Return the architecture, "/" or nothing, and the tag. open_clip takes `ViT-B/32` for `ViT-B-32`."""
    architectures = import_open_clip().list_models()
    head, slash, tag = name.rpartition("/")
    for architecture, rest in ((name, ("", "")), (head, (slash, tag))):
        dashed = architecture.replace("/", "-")
        plain = dashed.removesuffix(_GELU)
        if dashed in architectures or (plain in architectures and plain + _QUICKGELU in architectures):
            return (dashed, *rest)
    unknown = (head or name).replace("/", "-")
    raise UnknownNameError(
        f"open_clip has no architecture {unknown!r}{nearest(unknown, architectures)}; {NEW_ARCHITECTURE}"
    )


def _published_tags(architecture: str) -> Mapping[str, Mapping[str, Any]]:
    """Return open_clip's configuration of every published set of weights of an architecture, by tag."""
    open_clip, plain = import_open_clip(), architecture.removesuffix(_GELU)
    return {tag: open_clip.get_pretrained_cfg(plain, tag) for tag in open_clip.list_pretrained_tags_by_model(plain)}


def _published_config(name: str, architecture: str, tag: str) -> Mapping[str, Any]:
    """Return open_clip's configuration of an architecture's tag, if it fits the architecture's activation."""
    tags, key = _published_tags(architecture), tag.lower().replace("-", "_")  # as open_clip reads them
    config = tags.get(key)
    if config is None:
        twin = _find_twin(architecture)
        of_twin = twin is not None and key in _published_tags(twin)
        hint = f"; did you mean {name.replace(architecture, str(twin), 1)!r}?" if of_twin else nearest(tag, tags)
        listed = f"; it has {', '.join(tags)}" if tags and not hint else ""
        raise UnknownNameError(f"open_clip has no weights {tag!r} of {architecture!r}{hint}{listed}")
    _expect_activation(name, architecture, "these weights were trained with", _state_activation(config))
    return config


def _expect_activation(name: str, architecture: str, evidence: str, trained: str) -> None:
    """Refuse weights of the other activation, for which open_clip has another architecture."""
    twin, computed = _find_twin(architecture), _find_activation(architecture)
    if twin and trained != computed:
        raise ModelError(
            f"{name}: {evidence} {trained}, and {architecture} computes with {computed}; did you mean "
            f"{name.replace(architecture, twin, 1)!r}?"
        )


def _find_twin(architecture: str) -> str | None:
    """Return the same architecture with the other activation, if open_clip has it."""
    architectures = import_open_clip().list_models()
    base = architecture.removesuffix(_QUICKGELU).removesuffix(_GELU)
    other = base if architecture.endswith(_QUICKGELU) else base + _QUICKGELU
    return other if other in architectures else None


def _find_activation(architecture: str) -> str:
    return _state_activation(import_open_clip().get_model_config(architecture.removesuffix(_GELU)))


def _state_activation(config: Mapping[str, Any]) -> str:
    return "QuickGELU" if config.get("quick_gelu") else "GELU"


def _select_preprocessing(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: config[key] for key in _PREPROCESSING if key in config}


def _bare_file_preprocessing(name: str, architecture: str, tag: str, file: Path) -> Mapping[str, Any]:
    """Return the preprocessing of a bare file; refuse it if its activation is another, or is unknown."""
    if not file.is_file():
        raise ModelError(f"{name}: {file} is {'a folder' if file.is_dir() else 'no file'}; name a checkpoint file")
    config = _read_config(file.with_name(CONFIG)) if file.with_name(CONFIG).is_file() else None
    evidence = {} if config is None else {CONFIG: _state_activation(config["model_cfg"])}
    if trained := _read_trained_activation(file):
        evidence["params.txt"] = trained
    for source, stated in evidence.items():
        _expect_activation(name, architecture, f"{source} beside the file says", stated)
    if tag:
        preprocessing = _select_preprocessing(_published_config(name, architecture, tag))
    elif config is not None and "preprocess_cfg" in config:
        preprocessing = dict(config["preprocess_cfg"])
    else:
        preprocessing = _shared_preprocessing(name, architecture)
    if _find_twin(architecture) and not (tag or evidence or architecture.endswith((_QUICKGELU, _GELU))):
        forms = " or ".join(name_forms(architecture, file))
        checkpoint = read_checkpoint(file, shapes_only=True)
        of_trainer = checkpoint.part == "state_dict" and {"epoch", "name", "optimizer"} <= checkpoint.beside.keys()
        if not of_trainer or _settings_file(file).is_file():  # settings that are there name no activation
            raise ModelError(
                f"{name}: write {forms}; it is unknown whether this file was trained with GELU or QuickGELU, and every "
                "number depends on it"
            )
        warnings.warn(
            f"{name}: open_clip's trainer wrote this file, so it is read with {_find_activation(architecture)}, the "
            f"activation of {architecture}; to name it, write {forms}",
            TellapartWarning,
            stacklevel=2,
        )
    return preprocessing


def name_forms(architecture: str, file: Path | str) -> list[str]:
    """Return the names that a bare file of an architecture may be given: two, if its activation is needed."""
    if _find_twin(architecture) is None:
        return [f"{TAG}{architecture}@{file}"]
    base = architecture.removesuffix(_QUICKGELU).removesuffix(_GELU)
    return [
        f"{TAG}{base}{_QUICKGELU}@{file} (fine-tunes of OpenAI's, MetaCLIP's or DFN's weights)",
        f"{TAG}{base}{_GELU}@{file} (of LAION's or DataComp's, or trained from nothing)",
    ]


def _read_trained_activation(file: Path) -> str:
    """Return the activation that open_clip's trainer used, by `RUN/params.txt` beside `RUN/checkpoints/FILE`.

    It is unknown, and empty, for a fine-tune of OpenAI's weights under the plain name: open_clip computed with
    QuickGELU then until its version 3, and with GELU since.
    """
    path = _settings_file(file)
    if file.absolute().parent.name != "checkpoints" or not path.is_file():
        return ""
    lines = (line.partition(": ") for line in path.read_text("utf-8", "replace").splitlines())
    settings = {key: value.strip() for key, _, value in lines}
    trained = settings.get("model", "").replace("/", "-")
    if trained not in import_open_clip().list_models():
        return ""
    if settings.get("force_quick_gelu") == "True" or _find_activation(trained) == "QuickGELU":
        return "QuickGELU"
    return "" if settings.get("pretrained", "").lower() == "openai" else "GELU"


def _settings_file(file: Path) -> Path:
    """Return the file of settings of open_clip's trainer, if it wrote this checkpoint."""
    return file.absolute().parent.parent / "params.txt"


def _shared_preprocessing(name: str, architecture: str) -> dict[str, Any]:
    """Return the preprocessing of all published weights of an architecture; empty, for open_clip's, without any."""
    activation, tags_by_kind = _find_activation(architecture), dict[str, list[str]]()  # a kind is written as JSON
    for tag, config in _published_tags(architecture).items():
        if _find_twin(architecture) is None or _state_activation(config) == activation:
            tags_by_kind.setdefault(json.dumps(_select_preprocessing(config)), []).append(tag)
    if len(tags_by_kind) > 1:
        listed = "; ".join(f"{tags[0]}: {kind}" for kind, tags in tags_by_kind.items())
        tags = [tags[0] for tags in tags_by_kind.values()]
        raise ModelError(
            f"{name}: weights of {architecture} are published with {len(tags)} kinds of preprocessing ({listed}); "
            f"name the one that this file was trained from: {name.replace('@', f'/{tags[0]}@', 1)} or .../{tags[1]}@..."
        )
    return json.loads(next(iter(tags_by_kind))) if tags_by_kind else {}


def _find_weights(name: str, folder: Path) -> Path:
    weights = [folder / file for file in _FOLDER_WEIGHTS if (folder / file).is_file()]
    if not weights:
        weights = sorted(path for path in folder.iterdir() if path.suffix in WEIGHTS_SUFFIXES)
        if len(weights) != 1:
            listed = f"; it has {', '.join(path.name for path in weights)}" if weights else ""
            raise ModelError(f"{name}: expected {_WEIGHTS[0]} in {folder}, or one file of weights{listed}")
    return weights[0]


def _read_config(path: Path) -> dict[str, Any]:
    if not path.parent.is_dir():
        raise ModelError(f"{path.parent} is not there{suggest_beside(path.parent)}")
    if not path.exists():
        other = "st:" if (path.parent / MODULES).is_file() else "hf:" if (path.parent / "config.json").is_file() else ""
        if find_adapter(path.parent) is not None:  # a folder of peft, which lacks the base model
            other = f"{TAG}ARCH/TAG@"
        advice = f"write {other}{path.parent}" if other else "expected a folder as open_clip saves it"
        raise ModelError(f"{path.parent} has no {CONFIG}; {advice}")
    config = read_json(path, error=ModelError)
    if path.read_bytes().startswith(BOM_UTF8):  # open_clip opens the file again, by itself
        raise ModelError(f"{path} begins with a byte order mark, which open_clip does not read; save it without one")
    if not isinstance(config, dict) or not isinstance(config.get("model_cfg"), dict):
        raise ModelError(f"{path} has no 'model_cfg'; expected the configuration of an open_clip model")
    return config


def _stated_preprocessing(name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    stated = config.get("preprocess_cfg")
    missing = [key for key in _PREPROCESSING if key not in (stated or {})]
    if not isinstance(stated, dict) or {"mean", "std"} & set(missing):
        raise ModelError(
            f"{name}: {CONFIG} lacks {', '.join(missing)}; add the values of its training, for example "
            'OpenAI\'s "preprocess_cfg": {"mean": [0.48145466, 0.4578275, 0.40821073], '
            '"std": [0.26862954, 0.26130258, 0.27577711]}'
        )
    return stated


def _download_weights(name: str, published: Mapping[str, Any]) -> Path:
    if published.get("hf_hub") and "file" not in published:  # with a file open_clip downloads nothing
        repository, _, file = published["hf_hub"].rpartition("/")
        return _fetch_file(name, repository, (str(Path(file).with_suffix(".safetensors")), file) if file else _WEIGHTS)
    with explain_failure(f"{name}: cannot be downloaded from {published.get('url')}"):
        return Path(import_open_clip().download_pretrained(published))


def _fetch_file(name: str, repository: str, files: Iterable[str]) -> Path:
    subject = name if name == f"{HUB}{repository}" else f"{name}: {repository}"
    return fetch_file(subject, repository, files, library="open_clip", instead=f"a file: {TAG}ARCH@FILE")
