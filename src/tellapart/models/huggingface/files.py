"""Configuration, weights and processor of a model of transformers, from a folder or the hub; none of it guessed."""

from __future__ import annotations

import json
import logging
import os
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

from tellapart.data.scores import join_names
from tellapart.data.strict_json import decode_text, expect_content, read_json, read_whole
from tellapart.errors import ModelError, first_sentence, quote, require
from tellapart.models.captions import ControlTokens
from tellapart.models.hub import fetch_file, reach_hub
from tellapart.models.torch.backend import Runtime, guard_torch_load, import_torch
from tellapart.models.torch.checkpoint import read_checkpoint
from tellapart.models.torch.network import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase, ProcessorMixin
from tellapart.models.torch.peft_adapter import find_adapter, merge_adapter

__all__ = [
    "base_of", "config_facts", "find_file", "import_transformers", "is_clip_flan_t5", "load_processor",
    "load_tokenizer", "load_weights", "loading", "processor_facts", "quiet", "read_config", "refuse_other_shards",
    "save", "silent", "tokenizer_facts",
]  # fmt: skip

#: Buffers that older versions saved and that hold nothing learnt: they count up from zero, or are zero.
COUNTERS = re.compile(r"(^|\.)(position_ids|token_type_ids)$")

#: Fields of a configuration about its file and the library that wrote it, not about the model.
_INCIDENTAL = {"_name_or_path", "name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype"}
_INCIDENTAL |= {"processor_class", "_processor_class", "image_processor_type", "feature_extractor_type", "auto_map"}

#: Files of weights that transformers reads before the shards that an index of the same name lists.
_SINGLE = ("model.safetensors", "pytorch_model.bin")

#: Files of a folder that hold a chat template, the first that does counts; and those with the settings of images.
_TEMPLATES = ("chat_template.jinja", "chat_template.json", "tokenizer_config.json")
_IMAGE_SETTINGS = ("preprocessor_config.json", "processor_config.json")

_WEIGHTS = "expected model.safetensors, whole or in shards, that was saved as the class that config.json names"
_ORIGINAL = "the model that it was trained from"
_PROCESSOR = f"copy preprocessor_config.json and the tokenizer's files from {_ORIGINAL}"


def import_transformers() -> ModuleType:
    """Import transformers (after torch, which makes the torchvision beside it importable)."""
    import_torch()
    return require("transformers", extra="models")


def quiet(*, downloads: bool = False) -> AbstractContextManager[None]:
    """Keep the library's reports and bars (save those of `downloads`) off the terminal: failures are raised."""
    return silent(import_transformers().utils.logging, bars=downloads)


@contextmanager
def silent(log: ModuleType, *, bars: bool = False) -> Iterator[None]:
    """Silence a library of Hugging Face through its `utils.logging`; `bars` leaves its progress bars."""
    verbosity, enabled = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity(logging.CRITICAL)
    if not bars:
        log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(verbosity)
        if enabled:
            log.enable_progress_bar()


def base_of(source: str) -> str:
    """Return the base model of an adapter's folder, which has its configuration and processor; else the source."""
    adapter = find_adapter(source)
    if adapter is None:
        return source
    if find_adapter(adapter.base) is not None:
        raise ModelError(f"{source} is an adapter of an adapter, {adapter.base}; merge that one with peft")
    return adapter.base


def read_config(source: str) -> dict[str, Any]:
    """Read `config.json` of a folder or a hub id; of an adapter's folder, that of its base."""
    path = find_file(source, "config.json")
    config = read_json(path, error=ModelError)
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise ModelError(
            f"{source}: config.json names no model_type; expected the configuration of a model of transformers"
        )
    names = config.get("architectures") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ModelError(f"{source}: config.json: field 'architectures': expected a list of names, got {quote(names)}")
    return config


def is_clip_flan_t5(config: Mapping[str, Any]) -> bool:
    """Return whether a configuration is CLIP-FlanT5's, whose `model_type` may be that of the T5 it was trained from."""
    return config.get("model_type") in {"clip_t5", "t5"} and "mm_vision_tower" in config


def load_weights(
    architecture: type[PreTrainedModel] | str,
    source: str,
    runtime: Runtime,
    *,
    unused: Sequence[str] = (),
    config: PreTrainedConfig | None = None,
) -> PreTrainedModel:
    """Load a model of transformers in evaluation mode, on its device; no weight of it is guessed.

    Of the folder of peft's adapter the base is loaded, and the adapter merged into it. The checkpoint may hold or lack
    parts that are `unused`, whether the class has them or not; the returned model has None there. `config` stands in
    for the source's, for a class that transformers does not have.
    """
    refuse_other_shards(source)
    kind = getattr(import_transformers(), architecture) if isinstance(architecture, str) else architecture
    with loading(source, f"cannot be loaded as {kind.__name__}", _WEIGHTS):
        model, report = kind.from_pretrained(
            _expand_source(source),
            config=config,
            dtype=runtime.torch_dtype,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # so that they are listed; they are refused below
            trust_remote_code=False,
        )
    heads = tuple(f"{name}." for name in unused)
    shapes = {key: f"{key} {tuple(have)}, not {tuple(want)}" for key, have, want in report["mismatched_keys"]}
    problems = {"missing": report["missing_keys"], "unexpected": report["unexpected_keys"], "of another shape": shapes}
    reasons = []
    for problem, listed in problems.items():
        keys = sorted(key for key in listed if not key.startswith(heads) and not COUNTERS.search(key))
        if keys:
            reasons += [f"{len(keys)} {problem} ({join_names([shapes.get(key, key) for key in keys], 3)})"]
    if reasons:
        raise ModelError(
            f"{source}: its weights are not those of {kind.__name__}: {'; '.join(reasons)}; it was saved as "
            f"{' or '.join(model.config.architectures or ['no architecture that it names'])}: check that config.json "
            "and the checkpoint belong together, or ask for another reading"
        )
    if (adapter := find_adapter(source)) is not None:
        merge_adapter(source, model, adapter, unused=unused)
    for name in unused:
        owner, _, leaf = name.rpartition(".")
        if hasattr(holder := model.get_submodule(owner), leaf):
            setattr(holder, leaf, None)
    return model.eval().requires_grad_(False).to(runtime.device)


def save(model: PreTrainedModel, processor: ProcessorMixin, folder: Path) -> str:
    """Write a model and its processor to a new folder; return the name for `tellapart run -m`."""
    folder.mkdir(parents=True)
    with quiet():
        model.save_pretrained(folder)
        processor.save_pretrained(folder)
    return f"hf:{folder}"


def refuse_other_shards(source: str) -> None:
    """Refuse a folder with a single file of weights and an index of shards, if their numbers differ.

    transformers reads the single file; one of the two is a leftover, and no file names it.
    """
    folder = Path(_expand_source(source))
    for single in _SINGLE:
        index = folder / f"{single}.index.json"
        if not ((folder / single).is_file() and index.is_file()):
            continue
        content = read_json(index, error=ModelError)
        listed = content.get("weight_map") if isinstance(content, dict) else None
        shards = sorted({str(shard) for shard in (listed.values() if isinstance(listed, dict) else ())})
        if not shards or not all(Path(shard).name == shard and (folder / shard).is_file() for shard in shards):
            continue  # an index alone can be read by nobody
        if differing := _find_differing(folder / single, [folder / shard for shard in shards]):
            raise ModelError(
                f"{source} holds two models, {single} and {len(shards)} shards of {index.name}; they differ, first in "
                f"{differing}: transformers reads {single}; move the other one out of the folder"
            )


def _find_differing(single: Path, shards: Sequence[Path]) -> str:
    """Return the name of a tensor that differs between a file and the shards; empty if none does."""
    torch, tensors = import_torch(), read_checkpoint(single).saved
    for shard in shards:
        for name, tensor in read_checkpoint(shard).saved.items():
            held = tensors.pop(name, None)
            if held is None or held.dtype != tensor.dtype or not torch.equal(held, tensor):
                return name
    return next(iter(tensors), "")


def load_processor(source: str, *, pictures: bool = True) -> ProcessorMixin:
    """Load tokenizer and image processor; images are processed by Pillow, whether torchvision is there or not.

    transformers has two processors of images, and takes torchvision's if that is installed; their pixels differ.
    Pillow's resizing is the one that the models' authors trained with, and is available everywhere. Without `pictures`
    there is no processor of images to replace: for videos some have torchvision's alone. A complete processor in an
    adapter's folder replaces the base's, because the adapter was trained with it; so does a chat template.
    """
    library, path = import_transformers(), _expand_source(source)
    adapter = find_adapter(source)
    beside = {} if adapter is None else {file.name: file for file in adapter.folder.iterdir()}
    if adapter is not None and "tokenizer.json" in beside and beside.keys() & set(_IMAGE_SETTINGS):
        path = str(adapter.folder)
    with loading(source, "has no processor that can be read", _PROCESSOR):
        processor = library.AutoProcessor.from_pretrained(path, trust_remote_code=False)
        if pictures:
            images = library.AutoImageProcessor.from_pretrained(path, backend="pil", trust_remote_code=False)
    if getattr(processor, "tokenizer", None) is None:
        raise ModelError(f"{source} has an image processor and no tokenizer; copy its files from {_ORIGINAL}")
    _check_vocabulary(source, processor.tokenizer)
    for name in _TEMPLATES:
        if name in beside and (template := _read_template(beside[name])):
            # A template of texts alone is the language model's, and no processor's.
            holder = processor if "image" in template else processor.tokenizer
            holder.chat_template = template
            break
    if pictures:
        processor.image_processor = images
    return processor


def _read_template(path: Path) -> str | None:
    """Return the chat template that a file is, or has under that name."""
    if path.suffix == ".jinja":
        return decode_text(read_whole(path, error=ModelError), path, error=ModelError)
    content = read_json(path, error=ModelError)
    template = content.get("chat_template") if isinstance(content, dict) else None
    return template if isinstance(template, str) else None


def load_tokenizer(source: str, *, original: str = _ORIGINAL) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a model that has no image processor; the error advises to copy `original`'s."""
    auto = import_transformers().AutoTokenizer
    with loading(source, "has no tokenizer that can be read", f"copy its files from {original}"):
        tokenizer = auto.from_pretrained(_expand_source(source), trust_remote_code=False)
    _check_vocabulary(source, tokenizer, original)
    return tokenizer


def _check_vocabulary(source: str, tokenizer: PreTrainedTokenizerBase, original: str = _ORIGINAL) -> None:
    # Without its files the library makes a tokenizer all the same, of a handful of special tokens.
    names = [name for key, name in type(tokenizer).vocab_files_names.items() if key != "tokenizer_file"]
    if not (_has_file(source, "tokenizer.json") or (names and all(_has_file(source, name) for name in names))):
        expected = f"tokenizer.json, or {' with '.join(names)}" if names else "tokenizer.json"
        raise ModelError(f"{source} has no vocabulary: expected {expected}; copy it from {original}")


def processor_facts(processor: ProcessorMixin) -> str:
    """Describe the preparation of images and texts, for a fingerprint: the same wherever the files lie."""
    images = processor.image_processor
    settings = {"kind": type(images).__name__} | _without_keys(images.to_dict(), _INCIDENTAL)
    facts = {"images": settings, "texts": _text_facts(processor.tokenizer)}
    # Settings of the pair itself (ColPali's words before a query), and InstructBLIP's second tokenizer.
    parts = {"image_processor", "tokenizer", "video_processor", "feature_extractor", "qformer_tokenizer"}
    stated = _without_keys(getattr(processor, "to_dict", dict)(), _INCIDENTAL | parts)
    second = getattr(processor, "qformer_tokenizer", None)
    facts |= {"processor": stated} if any(value is not None for value in stated.values()) else {}
    facts |= {} if second is None else {"qformer": _text_facts(second)}
    return json.dumps(facts, sort_keys=True, ensure_ascii=False, default=str)


def tokenizer_facts(tokenizer: PreTrainedTokenizerBase) -> str:
    """Describe the preparation of texts, for a fingerprint."""
    return json.dumps(_text_facts(tokenizer), sort_keys=True, ensure_ascii=False, default=str)


def _text_facts(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        # Padding and truncation are as the last call left them.
        vocabulary = _without_keys(json.loads(backend.to_str()), {"padding", "truncation"})
    else:
        options = {key: value for key, value in vars(tokenizer).items() if isinstance(value, bool)}
        vocabulary = {"sentencepiece": tokenizer.sp_model.serialized_model_proto().hex(), "options": options}
    return {
        "kind": type(tokenizer).__name__,
        "inputs": list(tokenizer.model_input_names),
        "side": tokenizer.padding_side,
        "special": {key: str(value) for key, value in tokenizer.special_tokens_map.items()},
        "vocabulary": vocabulary,
        "captions": ControlTokens(tokenizer).facts,
    }


def config_facts(config: PreTrainedConfig) -> str:
    """Describe a model's configuration, for a fingerprint: much of it (activations, token ids) is in no weight."""
    return json.dumps(_without_keys(config.to_dict(), _INCIDENTAL), sort_keys=True, default=str)


def part_settings(part: Any) -> dict[str, Any]:
    """Return the settings of a part of sentence-transformers, for JSON: the keys of a router's mappings are tuples."""
    settings: dict[str, Any] = part.get_config_dict()
    return settings | ({"route_mappings": str(mappings)} if (mappings := settings.get("route_mappings")) else {})


def _without_keys(value: Any, keys: set[str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_keys(item, keys) for key, item in value.items() if key not in keys}
    return [_without_keys(item, keys) for item in value] if isinstance(value, list) else value


def _expand_source(source: str) -> str:
    """Return the path of a folder, with `~` expanded, or else the hub id; of an adapter, its base's."""
    folder = Path(source := base_of(source)).expanduser()
    return str(folder) if folder.is_dir() else source


def find_file(source: str, name: str, *, library: str = "transformers") -> Path:
    """Return a file of a folder, or of the hub, from its cache if it is there; `library` is for messages."""
    source = base_of(source)
    folder = Path(source).expanduser()
    if folder.is_dir():
        if not (folder / name).is_file():
            raise ModelError(f"{source} has no {name}; expected the folder of a model of {library}")
        return folder / name
    require("torch", extra="models")  # first: without it nothing is worth fetching
    return fetch_file(f"{source} (no such folder here)", source, [name], library=library, instead="the model's folder")


def _has_file(source: str, name: str) -> bool:
    folder = Path(source := base_of(source)).expanduser()
    if folder.is_dir():
        return (folder / name).is_file()
    cached = require("huggingface_hub", extra="models").try_to_load_from_cache(source, name)
    return isinstance(cached, str | os.PathLike)


@contextmanager
def loading(source: str, failure: str, advice: str) -> Iterator[None]:
    """Load in quiet, and turn the library's exceptions into one line."""
    folder = Path(base_of(source)).expanduser()
    local = folder.is_dir()
    for path in folder.iterdir() if local else ():
        if path.is_file():
            expect_content(None, path, ModelError)
    try:
        reached = nullcontext() if local else reach_hub(require("huggingface_hub", extra="models"))
        with reached, quiet(downloads=not local), guard_torch_load(source):
            yield
    except ModelError:  # of the guard
        raise
    except pickle.UnpicklingError as error:  # torch's reason takes a paragraph
        raise ModelError(
            f"{source} {failure}: its weights are a pickle with more than tensors in it, and loading them could run "
            "code; save them as .safetensors"
        ) from error
    except Exception as error:  # files that do not fit fail anywhere in the library, with any exception
        raise ModelError(f"{source} {failure} ({first_sentence(error)}); {advice}") from error
