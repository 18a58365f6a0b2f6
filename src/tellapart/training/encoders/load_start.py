"""The start of a run: the model that the configuration names, with gradients; fusion encoders of all libraries."""

from __future__ import annotations

import hashlib
import math
import shutil
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tellapart.data.arguments import suggest_beside
from tellapart.errors import DataError, ModelError, require
from tellapart.models.compact.dual_encoder import PREFIX as COMPACT
from tellapart.models.compact.dual_encoder import CompactParts, is_compact, read_compact_config, read_tokenizer
from tellapart.models.find import declared_prefix, find_model
from tellapart.models.fusion.families import find_family, prepare_pixels
from tellapart.models.fusion.family import Contrast, FusionPrefix, Halves, Tensors, TrainableParts, pad_tokens
from tellapart.models.fusion.scoring import FusionScorer
from tellapart.models.fusion.torch_encoder import TorchFusionEncoder
from tellapart.models.huggingface.dual_encoder import SCALED
from tellapart.models.huggingface.files import import_transformers, load_processor, quiet, read_config
from tellapart.models.openclip.library import import_open_clip, quiet_open_clip
from tellapart.models.openclip.source import FOLDER, HUB, TAG
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import Runtime, runtime
from tellapart.models.torch.checkpoint import split_part
from tellapart.models.torch.dual_encoder import TorchDual
from tellapart.training.config import TrainConfig
from tellapart.training.encoders.trainable import Inputs, Trainable, train_dual, unit
from tellapart.training.lazy_torch import Tensor, torch
from tellapart.training.losses.loss import FusionLoss
from tellapart.training.ranks import RankGroup
from tellapart.training.run_files import replace_folder


def open_fusion(
    name: str,
    device: str,
    reading: str | None = None,
    *,
    contrast: bool = True,
    image_size: int | None = None,
    also: Sequence[str] = (),
) -> Trainable:
    """Open a fusion encoder to train its matching head and all below it."""
    place = runtime(ModelOptions(device=device))
    prefix = declared_prefix(name)
    if isinstance(prefix, FusionPrefix) and prefix.open_trainable is not None:
        readings = (reading or "itm", *also)
        parts = prefix.open_trainable(name, place, readings, image_size)
        trainable = train_fusion(parts, place, parts.read, readings)
        _freeze_unread(trainable, place.device, contrast=contrast)
        return trainable
    if also:
        raise ModelError(f"{name}: has one matching head, and a loss names {also[0]!r}; leave out its `reading`")
    if image_size is not None:
        raise ModelError(f"{name}: image_size is for models in their authors' files (meter:, fiber:); leave it out")
    source = name.removeprefix("hf:")
    repository = "/" in name and not name.startswith(("open_clip:", "hf-hub:", "local-dir:", "new:", "onnx:"))
    config_type = read_config(source)["model_type"] if repository or (Path(source) / "config.json").is_file() else ""
    family = find_family(config_type)
    if family is None or family.load_trainable is None:
        raise ModelError(
            f"{name} cannot be trained by a matching loss: name a BLIP or ViLT of transformers for image-text "
            "retrieval, by hub id or folder, or METER or FIBER in its authors' file; or take a loss of dual encoders "
            "(itc, negclip, eqsim, ...)"
        )
    halves, processor = family.load_trainable(source, place), load_processor(source)
    preparation = prepare_pixels(source, family, halves, processor)

    def save(folder: Path) -> str:
        folder.mkdir(parents=True)
        with quiet():
            halves.module.save_pretrained(folder)
            processor.save_pretrained(folder)
        return f"hf:{folder}"

    trainable = train_fusion(TrainableParts(source, halves, preparation, family.contrast, save), place, reading)
    for head in family.contrast.heads if family.contrast is not None and not contrast else ():
        halves.module.get_submodule(head).requires_grad_(False)
    return trainable


def _freeze_unread(trainable: Trainable, device: str, *, contrast: bool) -> None:
    """Freeze heads of other readings and all else that no gradient comes to: several ranks would wait for it."""
    module = trainable.module
    image = {name: tensor.to(device) for name, tensor in trainable.image(np.zeros((8, 8, 3), np.uint8)).items()}
    tokens = {name: tensor.to(device) for name, tensor in trainable.tokens(["a"]).items()}

    def compute(fusion: Any) -> Any:
        images, texts = fusion.images([image]), fusion.texts(tokens)
        parts = [fusion.join(images, texts)]
        if contrast and fusion.scale is not None:
            vectors = fusion.vectors(images, texts)
            parts += [*vectors, torch.as_tensor(fusion.scale)]
        return sum(part.sum() for part in parts)

    module(compute).backward()
    for parameter in module.parameters():
        parameter.requires_grad_(parameter.grad is not None)
        parameter.grad = None


def train_fusion(parts: TrainableParts, place: Runtime, reading: str | None, heads: tuple[str, ...] = ()) -> Trainable:
    """Return a fusion encoder with gradients.

    Its module, called with a function, calls that with itself: one forward of a full step. The module's `heads` are the
    readings of the columns that `join` returns.
    """
    network, preparation, read = parts.halves.module, parts.preparation, reading or "itm"
    network.requires_grad_(True)
    module: Any = _matcher_class()(parts.halves, parts.contrast, parts.others)
    module.heads = heads or (read,)

    def image(pixels: Pixels) -> Inputs:
        return {key: torch.as_tensor(value) for key, value in preparation.images(pixels).items()}

    def tokens(texts: Sequence[str]) -> Inputs:
        lengths, _ = preparation.texts.lengths(texts)
        tokens = preparation.texts.tokens(texts, max(lengths))
        return {name: tokens[name] for name in ("input_ids", "attention_mask")}

    def model() -> FusionScorer:
        return FusionScorer(TorchFusionEncoder(parts.name, parts.halves, preparation, place, reading=read))

    def find_scale() -> Tensor | None:  # the library's models hold none that is saved
        scale = None if parts.contrast is None else parts.contrast.log_scale(network)
        return scale if isinstance(scale, torch.Tensor) and scale.requires_grad else None

    return Trainable(module, preparation.texts, image, tokens, model, parts.save, find_scale)


@cache
def _matcher_class() -> type[torch.nn.Module]:
    # Made on first use, because its base class is torch's.

    class Matcher(torch.nn.Module):
        """`model` is the library's or the authors'."""

        def __init__(self, halves: Halves, contrast: Contrast | None, others: Sequence[Halves]) -> None:
            super().__init__()
            self.model, self._halves, self._contrast = halves.module, halves, contrast
            self._others = tuple(others)

        @property
        def scale(self) -> Tensor | float | None:
            """The scale of cosines, a parameter's or a number; None without a contrast."""
            if self._contrast is None:
                return None
            # BLIP learnt a temperature, which transformers' checkpoints lack; its configuration has the first value.
            logarithm = self._contrast.log_scale(self.model)
            scale: Tensor | float = logarithm.exp() if isinstance(logarithm, torch.Tensor) else math.exp(logarithm)
            return scale

        def forward(self, compute: Callable[[Any], Any]) -> Any:
            return compute(self)

        def images(self, inputs: Sequence[Inputs]) -> Tensors:
            """States `(n, length, ...)` of prepared images; those of one shape together, padded to the longest."""
            groups: dict[Any, list[int]] = {}
            for number, sample in enumerate(inputs):
                groups.setdefault(sample["pixel_values"].shape, []).append(number)
            states = [
                self._halves.images(**{name: torch.stack([inputs[n][name] for n in numbers]) for name in inputs[0]})
                for numbers in groups.values()
            ]
            length = max(group[0].shape[1] for group in states)
            order = torch.tensor([n for numbers in groups.values() for n in numbers]).argsort()
            columns = zip(*[[pad_tokens(tensor, length) for tensor in group] for group in states], strict=True)
            return tuple(torch.cat(column)[order.to(column[0].device)] for column in columns)

        def texts(self, tokens: Inputs) -> Tensors:
            """States `(m, length, ...)` of tokenised texts."""
            return self._halves.texts(tokens["input_ids"], tokens["attention_mask"].bool())

        def vectors(self, images: Tensors, texts: Tensors) -> tuple[Any, Any]:
            """Unit vectors of images and of texts, float32 `(n, d)`; all the same without a contrast."""
            if self._contrast is None:
                return (torch.ones(len(images[0]), 1, device=images[0].device),) * 2
            image, text = self._contrast.vectors(self.model, images, texts)
            return unit(image.float()), unit(text.float())

        def join(self, images: Tensors, texts: Tensors) -> Tensor:
            """The logit of a match less that of none, float32 `(n, heads)`."""
            if not self._others:
                heads = [(self._halves.match, self._halves.join(images, texts).float())]
            else:
                pooled = self._halves.pool_states(images, texts)  # type: ignore[attr-defined]
                every: Any = (self._halves, *self._others)
                heads = [(halves.match, halves.match_head(pooled).float()) for halves in every]
            columns = [side[:, 0] if match is None else side[:, match] - side[:, 1 - match] for match, side in heads]
            logits: Tensor = torch.stack(columns, dim=1)
            return logits

    return Matcher


#: Prefixes of models that a contrastive loss trains, beside those of transformers.
_TRAINED = (COMPACT, TAG, HUB, FOLDER)

#: The prefix of a model without weights.
NEW = "new:"

_OPEN_CLIP = "open_clip_config.json"
_SUFFIXES = {".json", ".txt", ".model"}


def new_model_facts(folder: Path) -> str:
    """Return the SHA-256 of the files that describe the model."""
    if not folder.is_dir():
        raise ModelError(f"{NEW}{folder} is not there{suggest_beside(folder)}")
    if not any((folder / name).is_file() for name in (_OPEN_CLIP, "config.json")):
        raise ModelError(f"{NEW}{folder}: the folder lacks {_OPEN_CLIP}, or config.json and a processor's files")
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.is_file() and path.suffix in _SUFFIXES):
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def write_new_model(folder: Path, target: Path, seed: int) -> str:
    """Draw weights for a folder's configuration, write the model to `target` unless it exists, and return its name."""
    new_model_facts(folder)
    if not target.exists():
        torch.manual_seed(seed)
        with replace_folder(target) as draft:
            if is_compact(folder):
                from tellapart.models.compact.towers import build_encoder

                config = read_compact_config(folder)
                tokenizer = read_tokenizer(folder, config)
                CompactParts(config, build_encoder(config, tokenizer.get_vocab_size()), tokenizer).save(draft)
            else:
                (_draw_open_clip if (folder / _OPEN_CLIP).is_file() else _draw_transformers)(folder, draft)
    if is_compact(target):
        return f"{COMPACT}{target}"
    return f"local-dir:{target}" if (target / _OPEN_CLIP).is_file() else f"hf:{target}"


def _draw_open_clip(folder: Path, draft: Path) -> None:
    open_clip = import_open_clip()
    try:
        with quiet_open_clip():
            model = open_clip.create_model(f"local-dir:{folder}", load_weights=False)
    except (RuntimeError, ValueError, TypeError, KeyError, OSError, AssertionError) as error:
        raise ModelError(f"{NEW}{folder}: open_clip cannot build it: {error}") from error
    draft.mkdir(parents=True)
    for path in folder.iterdir():
        if path.suffix in _SUFFIXES:
            shutil.copy(path, draft)
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    require("safetensors.torch", extra="train").save_file(tensors, draft / "open_clip_model.safetensors")


def _draw_transformers(folder: Path, draft: Path) -> None:
    library = import_transformers()
    architecture = next(iter(read_config(str(folder)).get("architectures") or ()), "")
    model_class = getattr(library, architecture, None)
    if model_class is None:
        raise ModelError(f"{NEW}{folder}: transformers lacks the architecture {architecture!r} of config.json")
    with quiet():
        model = model_class(model_class.config_class.from_pretrained(folder))
        draft.mkdir(parents=True)
        model.save_pretrained(draft)
        load_processor(str(folder)).save_pretrained(draft)


def open_start(name: str, config: TrainConfig) -> tuple[Trainable | None, str]:
    """Open the start; return it with the fingerprint of its weights."""
    if name.startswith(NEW):
        return None, new_model_facts(Path(name.removeprefix(NEW)))
    trainable = _open_trainable(name, config)
    return trainable, trainable.model().fingerprint


def draw_start(name: str, config: TrainConfig, folder: Path, ranks: RankGroup) -> tuple[str, Trainable]:
    """Draw a `new:` model's weights on rank 0, unless the folder exists; return its name, and itself, on all ranks."""
    new = Path(name.removeprefix(NEW))
    ranks.first(lambda: write_new_model(new, folder, config.seed))
    with ranks.together():
        drawn = write_new_model(new, folder, config.seed)  # again by ranks that do not see the first's disk
        return drawn, _open_trainable(drawn, config)


def _open_trainable(name: str, config: TrainConfig) -> Trainable:
    """Open a fusion encoder or a dual one, as the loss needs it."""
    terms = config.loss_terms()
    if isinstance(terms[0].loss, FusionLoss):
        if config.compile is not None:
            raise DataError(
                f"compile: {config.compile!r} is for dual encoders; a fusion encoder's pairs are drawn inside the pass"
            )
        contrast, reading = config.matching is None or config.matching.contrast, config.reading
        also = [head for head in dict.fromkeys(term.reading for term in terms) if head not in {None, reading or "itm"}]
        return open_fusion(name, config.device, reading, contrast=contrast, image_size=config.image_size, also=also)
    if config.image_size is not None:
        raise DataError(f"image_size: {config.image_size} is for fusion encoders in their authors' files; leave it out")
    if config.matching is not None:
        raise DataError(f"[matching] is of fusion encoders' losses (itm, ranking, ...), and {terms[0].name!r} is none")
    trainable = open_dual(name, config.device)
    if any(getattr(term.loss, "bias", False) for term in terms):
        trainable.add_bias()
    if any(getattr(term.loss, "local", False) for term in terms):
        trainable.add_local()
    return trainable


def open_dual(name: str, device: str) -> Trainable:
    """Open a dual encoder to train it."""
    if isinstance(declared_prefix(name), FusionPrefix):
        raise ModelError(
            f"{name} cannot be trained by a contrastive loss alone: take a loss of matching heads (itm, ranking, "
            "eqsim-itm, ...), which adds the contrastive one if the model has towers"
        )
    library = name.startswith("hf:") or "/" in name or (Path(name).expanduser() / "config.json").is_file()
    if library and not name.startswith(_TRAINED):
        architecture = next(iter(read_config(name.removeprefix("hf:")).get("architectures") or ()), "")
        if architecture not in SCALED:
            raise ModelError(
                f"{name}: {architecture or 'a model without an architecture'} cannot be trained by a contrastive loss "
                f"here; take one of {', '.join(SCALED)}"
            )
    if library or name.startswith(_TRAINED):
        model = find_model(name, ModelOptions(device=device, reading="itc"))
        if isinstance(model, TorchDual) and model.towers.save is not None:
            if model.towers.checkpoint is not None:
                model.towers.checkpoint.expect_one(model.name)
            return train_dual(model)
    raise ModelError(
        f"{name} cannot be trained: name a model of open_clip or a CLIP-like one of transformers, by hub id or folder, "
        "or compact:FOLDER"
    )


def resolve_name(name: str, home: Path) -> str:
    """Return a model's or a set's name with its path relative to the working folder, not to the configuration's."""
    prefix, colon, path = name.partition(":")
    prefixed = prefix in {"folder", "local-dir", "hf", "new", "compact"}
    of_file = bool(colon) and (prefixed or isinstance(declared_prefix(name), FusionPrefix))
    if of_file and (home / split_part(path)[0]).exists():
        return f"{prefix}:{home / path}"
    return str(home / name) if (home / name / "config.json").is_file() else name
