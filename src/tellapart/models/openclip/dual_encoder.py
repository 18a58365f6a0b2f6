"""Dual encoders of open_clip: published weights, hub models, folders and checkpoint files."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tellapart.data.strict_json import read_json
from tellapart.errors import DataError, explain_failure, require
from tellapart.models.captions import caption_rule
from tellapart.models.openclip.library import import_open_clip
from tellapart.models.openclip.source import CONFIG, FOLDER, resolve
from tellapart.models.openclip.tokens import TextTower, Tokens, copy_tokenizer
from tellapart.models.openclip.weights import Parts, assemble, complete_name, is_siglip, name_activation
from tellapart.models.options import ModelOptions, ModelPrefix, files_below
from tellapart.models.torch.backend import Runtime, forward, import_torch, move, runtime
from tellapart.models.torch.checkpoint import split_part
from tellapart.models.torch.dual_encoder import LocalFeatures, Pictures, TorchDual, Towers
from tellapart.models.torch.network import Network, Tensor

#: The version of the computation from pixels and texts to vectors: part of the fingerprint, raised when it changes.
_VERSION = "open_clip-1"

#: Fields of a text tower's configuration that change no vector: on its file and the library that wrote it.
_INCIDENTAL = {"_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version"}


def load(name: str, options: ModelOptions) -> TorchDual:
    """Load an open_clip model by its name (see `tellapart.models.openclip.source.resolve`)."""
    options.expect_itc(name, "a dual encoder of open_clip")
    place, source = runtime(options), resolve(complete_name(name))
    parts = assemble(source, texts=options.texts)
    dual = make_dual(source.name, parts, place, import_open_clip().get_model_config(source.architecture))
    parts.model.to(place.device, place.torch_dtype)  # the fingerprint is of the weights as they were read
    return dual


def hold_encoder(name: str, model: Network, transform: Any, tokenizer: Any, place: Runtime) -> TorchDual:
    """Return a caller's model as an encoder, without moving it or hashing its weights: the caller identifies it."""
    tokenizer = copy_tokenizer(tokenizer)
    rule, _ = caption_rule(is_siglip(model, tokenizer), tokenizer)
    tokens = move(Tokens(tokenizer).tokens(["a"], tokenizer.context_length)["input_ids"], place)
    with forward(name, model):
        width = int(model.encode_text(tokens).shape[-1])
    return make_dual(name, Parts(model, transform, tokenizer, rule), place, {"embed_dim": width}, "held")


def make_dual(name: str, parts: Parts, place: Runtime, config: Mapping[str, Any], fingerprint: str = "") -> TorchDual:
    """Make the encoder of a model on its device, or before it is moved there; `fingerprint` replaces its hash."""
    model = parts.model
    tower = TextTower(model)
    reader = Tokens(parts.tokenizer, tower)
    # The last two of open_clip's steps, to a tensor and to mean and deviation, are done a batch at a time.
    *shaping, _, scaling = parts.transform.transforms
    bring_to_size = type(parts.transform)(shaping)
    with explain_failure(f"{name}: mean and std must be a number for each colour"):
        pictures = Pictures(bring_to_size, scaling.mean, scaling.std, place)
    preprocessing = import_open_clip().get_model_preprocess_cfg(model)
    # All that a prepared image depends on; mean and deviation are applied later, a batch at a time.
    shaping_facts = {key: value for key, value in preprocessing.items() if key not in {"mean", "std"}}
    libraries = {library: version(library) for library in ("open_clip_torch", "torchvision", "pillow")}
    facts = [json.dumps(fact, sort_keys=True) for fact in (config, preprocessing, reader.facts)]
    text_config: Any = getattr(getattr(model, "text", None), "config", None)
    if hasattr(text_config, "to_dict"):  # the text tower is a model of transformers
        settings = {key: value for key, value in text_config.to_dict().items() if key not in _INCIDENTAL}
        facts.append(json.dumps(settings, sort_keys=True, default=str))
    # Not offered for a caller's model (`hold_encoder`): its transform may be another than these facts describe.
    image_storage = {
        "preparation": json.dumps([_VERSION, shaping_facts, libraries], sort_keys=True),
        "pack_image": lambda prepared: prepared["pixels"].numpy(),
        "unpack_image": lambda packed: {"pixels": import_torch().from_numpy(packed)},
    }
    towers = Towers(
        name=name,
        module=model,
        place=place,
        image=lambda inputs: model.encode_image(pictures.normalise(inputs)),
        text=lambda inputs: tower.encode(inputs["input_ids"]),
        prepare=pictures.prepare,
        reader=reader,
        facts=(_VERSION, place.dtype, *facts),
        provenance=parts.checkpoint.weights if parts.checkpoint else "",
        checkpoint=parts.checkpoint,
        offers={
            "texts": parts.texts,
            **({} if fingerprint else image_storage),
            "traits": {
                "activation": name_activation(getattr(model, "text", None) or model.transformer),
                "image activation": name_activation(model.visual),
                "context": f"{reader.length} tokens",
                "dtype": place.dtype,
                "texts": parts.texts,
            },
        },
        dimensions=int(config["embed_dim"]),
        shown=pictures.shown,
        shared=tower,
        save=lambda folder: _save(parts, config, folder),
        local=lambda: _find_local(model, tower),
    )
    return TorchDual(towers, fingerprint=fingerprint)


def _save(parts: Parts, config: Mapping[str, Any], folder: Path) -> str:
    """Write `open_clip_config.json` and `open_clip_model.safetensors`; its tokenizer, too, if it has one."""
    folder.mkdir(parents=True)
    preprocessing = dict(import_open_clip().get_model_preprocess_cfg(parts.model))
    facts = {"model_cfg": config, "preprocess_cfg": preprocessing}
    (folder / CONFIG).write_text(json.dumps(facts, indent=1), encoding="utf-8")
    tensors = {key: tensor.detach().cpu().contiguous() for key, tensor in parts.model.state_dict().items()}
    require("safetensors.torch", extra="train").save_file(tensors, folder / "open_clip_model.safetensors")
    if (inner := getattr(parts.tokenizer, "tokenizer", None)) is not None:
        inner.save_pretrained(folder)
    return f"{FOLDER}{folder}"


def _find_local(model: Network, tower: TextTower) -> LocalFeatures | None:
    """Return both towers' last norms and projections; None if the pooling is another than CLIP's."""
    vision = model.visual
    if not tower.shortens or getattr(vision, "pool_type", None) != "tok" or vision.attn_pool is not None:
        return None

    def project(states: Tensor) -> Tensor:
        return states if vision.proj is None else states @ vision.proj

    return LocalFeatures((vision.ln_post, project), (tower.last_norm, tower.project), tower.words)


def _checkpoint_files(name: str) -> list[Path] | None:
    """Return the checkpoint and its neighbours, all files that its vectors depend on; None if others may count."""
    _, separator, path = name.partition("@")
    file = Path(split_part(path)[0]).expanduser()
    factory: Any = sys.modules.get("open_clip.factory")
    registered = factory is not None and len(factory._MODEL_CONFIG_PATHS) > 1  # the caller added architectures' files
    if not separator or not file.is_file() or registered:
        return None
    # The files near a checkpoint may show how it was trained.
    neighbours = sorted(path for path in file.parent.iterdir() if path.suffix in {".json", ".txt"} and path.is_file())
    return [file, *neighbours]


def _folder_files(name: str) -> list[Path] | None:
    """Return the files of a model's folder, by which a run recognises it; None if some lie elsewhere."""
    folder = Path(split_part(name.removeprefix(FOLDER))[0]).expanduser()
    with suppress(DataError, KeyError, TypeError):  # whoever loads it learns what is wrong
        if "hf_model_name" in read_json(folder / CONFIG)["model_cfg"]["text_cfg"]:
            return None  # the settings of that text tower lie elsewhere
    return files_below(str(folder))


_TAKES = frozenset({"device", "dtype", "reading", "texts"})

OPEN_CLIP = ModelPrefix(
    {
        "open_clip:ARCH/TAG": "weights that open_clip lists, for example open_clip:ViT-B-32/laion2b_s34b_b79k",
        "open_clip:ARCH@FILE": "a checkpoint of an open_clip architecture; ViT-B-32-quickgelu@FILE if fine-tuned from "
        "OpenAI's",
        "open_clip:ARCH/TAG@FILE": "a checkpoint fine-tuned from the weights of that tag, or a folder of peft's LoRA",
        "open_clip:ARCH@FILE#ema": "the averaged weights of a checkpoint that holds both; #PART is any of its entries",
    },
    load,
    _checkpoint_files,
    takes=_TAKES,
)
HF_HUB = ModelPrefix({"hf-hub:ORG/REPO": "a model of open_clip on the hub"}, load, takes=_TAKES)
LOCAL_DIR = ModelPrefix(
    {"local-dir:PATH": "a folder with open_clip_config.json, of any architecture, and one file of weights"},
    load,
    _folder_files,
    takes=_TAKES,
)
