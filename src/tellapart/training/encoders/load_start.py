"""The start of a run: open the model that the configuration names, with gradients."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tellapart.data.arguments import suggest_beside
from tellapart.errors import DataError, ModelError, require
from tellapart.models.caption_rules import caption_rule
from tellapart.models.compact.config import CONFIG, TOKENIZER, WEIGHTS, is_compact, read_compact_config, read_tokenizer
from tellapart.models.compact.dual_encoder import (
    PREFIX,
    CompactEncoder,
    CompactParts,
    open_parts,
    resize,
    scale_pixels,
)
from tellapart.models.compact.dual_encoder import PREFIX as COMPACT
from tellapart.models.compact.towers import build_encoder
from tellapart.models.find import declared_prefix
from tellapart.models.fusion.prefix import FusionPrefix
from tellapart.models.huggingface.dual_encoder import HuggingFaceDual
from tellapart.models.huggingface.files import import_transformers, load_processor, load_weights, quiet, read_config
from tellapart.models.huggingface.images import check_images, image_inputs
from tellapart.models.huggingface.tokens import TokenReader
from tellapart.models.huggingface.towers import Towers, context_length, find_towers, is_siglip, pool_at_end
from tellapart.models.openclip.dual_encoder import OpenClipEncoder
from tellapart.models.openclip.fitting import complete_name
from tellapart.models.openclip.library import import_open_clip, quiet_open_clip
from tellapart.models.openclip.source import Source, resolve
from tellapart.models.openclip.tokens import TextTower, Tokens
from tellapart.models.openclip.weights import Parts, assemble
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import Runtime, import_torch, runtime
from tellapart.models.torch.checkpoint import split_part
from tellapart.training.checkpoint import replace_folder
from tellapart.training.config import StartSettings
from tellapart.training.encoders.fusion_encoder import open_fusion
from tellapart.training.encoders.local_features import LocalFeatures, LocalTower
from tellapart.training.encoders.trainable import Inputs, Trainable, TrainableDual
from tellapart.training.losses.loss import DualLoss, FusionLoss
from tellapart.training.ranks import RankGroup

if TYPE_CHECKING:
    from torch import Tensor


def open_compact(name: str, device: str) -> TrainableCompact:
    """Open a compact dual encoder, `compact:FOLDER`, to train it."""
    place = runtime(ModelOptions(device=device))
    return TrainableCompact(name, open_parts(Path(name.removeprefix(PREFIX)).expanduser()), place)


class TrainableCompact(TrainableDual):
    """A compact dual encoder with gradients."""

    def __init__(self, name: str, parts: CompactParts, place: Runtime) -> None:
        self._name, self._parts, self._where = name, parts, place
        model, config, self.reader = parts.model.to(place.device), parts.config, parts
        super().__init__(
            model,
            lambda images: model.visual(scale_pixels(images["pixels"], config)),
            lambda texts: model.text(texts["ids"]),
        )

    def image(self, pixels: Pixels) -> Inputs:
        """Resize one image, to `pixels`, uint8 `(size, size, 3)`."""
        return {"pixels": import_torch().from_numpy(resize(pixels, self._parts.config))}

    def tokens(self, texts: Sequence[str]) -> Inputs:
        """Tokenise texts, to `ids`, int64 `(m, length)`: as long as the longest needs."""
        ids = import_torch().tensor([encoding.ids for encoding in self._parts.encode(self._name, texts)])
        return {"ids": ids[:, : int((ids != 0).sum(1).max())]}

    def model(self) -> CompactEncoder:
        """Return a model that measures with the weights as they are."""
        return CompactEncoder(self._name, self._parts, self._where)

    def save(self, folder: Path) -> str:
        """Write `config.json`, `tokenizer.json` and `model.safetensors`."""
        write_parts(self._parts, folder)
        return f"{PREFIX}{folder}"


def write_parts(parts: CompactParts, folder: Path) -> None:
    """Write a model's files to a new folder."""
    folder.mkdir(parents=True)
    config = parts.config.model_dump(mode="json")
    (folder / CONFIG).write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    (folder / TOKENIZER).write_text(parts.tokenizer.to_str(pretty=True) + "\n", encoding="utf-8")
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in parts.model.state_dict().items()}
    require("safetensors.torch", extra="train").save_file(tensors, folder / WEIGHTS)


#: The prefix of such a model's name.
NEW = "new:"

_OPEN_CLIP = "open_clip_config.json"
_SUFFIXES = {".json", ".txt", ".model"}


def new_model_facts(folder: Path) -> str:
    """Return the SHA-256 of the files that describe the model."""
    if not any((folder / name).is_file() for name in (_OPEN_CLIP, "config.json")):
        if not folder.is_dir():
            raise ModelError(f"{NEW}{folder} is not there{suggest_beside(folder)}")
        raise ModelError(
            f"{NEW}{folder}: expected a folder with {_OPEN_CLIP}, or with config.json and a processor's files"
        )
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.suffix in _SUFFIXES)
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def write_new_model(folder: Path, target: Path, seed: int) -> str:
    """Draw weights for a folder's configuration, write the model to `target` unless that exists, and return its
    name.
    """
    new_model_facts(folder)
    if not target.exists():
        import_torch().manual_seed(seed)
        with replace_folder(target) as draft:
            _find_drawer(folder)(folder, draft)
    if is_compact(target):
        return f"{COMPACT}{target}"
    return f"local-dir:{target}" if (target / _OPEN_CLIP).is_file() else f"hf:{target}"


def _find_drawer(folder: Path) -> Callable[[Path, Path], None]:
    if is_compact(folder):
        return _draw_compact
    return _draw_open_clip if (folder / _OPEN_CLIP).is_file() else _draw_transformers


def _draw_compact(folder: Path, draft: Path) -> None:
    config = read_compact_config(folder)
    tokenizer = read_tokenizer(folder, config)
    write_parts(CompactParts(config, build_encoder(config, tokenizer.get_vocab_size()), tokenizer), draft)


def _draw_open_clip(folder: Path, draft: Path) -> None:
    open_clip = import_open_clip()
    try:
        with quiet_open_clip():
            model: Any = open_clip.create_model(f"local-dir:{folder}", load_weights=False)
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
        raise ModelError(
            f"{NEW}{folder}: config.json names the architecture {architecture!r}, which transformers has not"
        )
    with quiet():
        model = model_class(model_class.config_class.from_pretrained(folder))
        draft.mkdir(parents=True)
        model.save_pretrained(draft)
        load_processor(str(folder)).save_pretrained(draft)


#: Architectures whose checkpoint holds a scale that is the exponential of `logit_scale`.
_SCALED = ("CLIPModel", "MetaClip2Model", "SiglipModel", "Siglip2Model", "AltCLIPModel", "ChineseCLIPModel")


def open_huggingface(source: str, device: str) -> TrainableHuggingFace:
    """Open a CLIP-like model of transformers to train it."""
    place = runtime(ModelOptions(device=device))
    architecture = next(iter(read_config(source).get("architectures") or ()), "")
    if architecture not in _SCALED:
        raise ModelError(
            f"{source}: {architecture or 'a model without an architecture'} cannot be trained by a contrastive loss "
            f"here; take one of {', '.join(_SCALED)}"
        )
    towers = cast("Towers", find_towers(architecture))
    return TrainableHuggingFace(
        source, load_weights(architecture, source, place, unused=towers.unused), load_processor(source), towers, place
    )


class TrainableHuggingFace(TrainableDual):
    """A CLIP-like model of transformers with gradients."""

    def __init__(self, name: str, model: Any, processor: Any, towers: Towers, place: Runtime) -> None:
        self._name, self._processor, self._towers, self._where = name, processor, towers, place
        self._image_inputs = image_inputs(name, processor.image_processor)
        check_images(name, model.config, self._image_inputs)
        pool_at_end(name, model, processor.tokenizer)
        length = context_length(name, model.config, processor.tokenizer, towers)
        _, clean = caption_rule(is_siglip(towers), processor.tokenizer)
        self.reader = TokenReader(processor.tokenizer, length, whole=towers.whole, clean=clean)
        super().__init__(model, lambda images: towers.image(model, images), lambda texts: towers.text(model, texts))

    def image(self, pixels: Pixels) -> Inputs:
        """Prepare one image as the model's processor does."""
        torch = import_torch()
        return {key: torch.as_tensor(value) for key, value in self._image_inputs(pixels).items()}

    def tokens(self, texts: Sequence[str]) -> Inputs:
        """Tokenise texts, as the tokenizer names its tensors."""
        lengths, _ = self.reader.lengths(texts)
        return self.reader.tokens(texts, max(lengths))

    def model(self) -> HuggingFaceDual:
        """Return a model that measures with the weights as they are."""
        return HuggingFaceDual(self._name, self._model, self._processor, self._towers, self._where)

    def save(self, folder: Path) -> str:
        """Write the folder of a model of transformers: configuration, safetensors, processor."""
        folder.mkdir(parents=True)
        with quiet():
            self._model.save_pretrained(folder)
            self._processor.save_pretrained(folder)
        return f"hf:{folder}"


def open_openclip(name: str, device: str) -> TrainableOpenClip:
    """Open an open_clip model to train it."""
    options = ModelOptions(device=device)
    runtime(options)
    name = complete_name(name)
    source = resolve(name)
    config = import_open_clip().get_model_config(source.architecture)
    parts = assemble(source)
    if parts.checkpoint is not None:
        parts.checkpoint.expect_one(name)
    parts.model.to(device)
    return TrainableOpenClip(source, parts, config, device)


class TrainableOpenClip(TrainableDual):
    """An open_clip model with gradients; all of its weights are trained unless LoRA freezes them."""

    def __init__(self, source: Source, parts: Parts, config: dict[str, Any], device: str) -> None:
        self._source, self._parts, self._config, self._device = source, parts, config, device
        *shaping, _, scale = parts.transform.transforms
        self._shape = type(parts.transform)(shaping)
        self.reader = Tokens(parts.tokenizer)
        self._tower = TextTower(parts.model)

        def encode_images(images: Inputs) -> Tensor:
            pixels = images["pixels"].permute(0, 3, 1, 2).contiguous()  # (n, 3, height, width)
            features: Tensor = parts.model.encode_image(scale(pixels.float().div(255)))
            return features

        super().__init__(parts.model, encode_images, lambda texts: self._tower.encode(texts["ids"]))

    def image(self, pixels: Pixels) -> Inputs:
        """Resize and crop one image, to `pixels`, uint8 `(height, width, 3)`."""
        from PIL import Image

        return {"pixels": import_torch().from_numpy(np.array(self._shape(Image.fromarray(pixels))))}

    def tokens(self, texts: Sequence[str]) -> Inputs:
        """Tokenise texts, to `ids`, int64 `(m, length)`."""
        ids, _ = self.reader.read(texts)
        return {"ids": ids[:, : max(self._tower.lengths(ids), default=ids.shape[1])]}

    def _local_features(self) -> LocalFeatures | None:
        """Find the last norms and projections of a ViT that pools by its first token, and of a causal text tower."""
        vision = self._parts.model.visual
        if not self._tower.shortens or getattr(vision, "pool_type", None) != "tok":
            return None
        if vision.attn_pool is not None:
            return None

        def project(states: Tensor) -> Tensor:
            matrix = vision.proj
            return states if matrix is None else states @ matrix

        images = LocalTower(vision.ln_post, project)
        return LocalFeatures(images, LocalTower(self._tower.last_norm, self._tower.project), self._tower.words)

    def model(self) -> OpenClipEncoder:
        """Return a model that measures with the weights as they are."""
        return OpenClipEncoder(
            self._source.name, self._parts, runtime(ModelOptions(device=self._device)), config=self._config
        )

    def save(self, folder: Path) -> str:
        """Write `open_clip_config.json` and `open_clip_model.safetensors`; its tokenizer, too, if it has one."""
        model = self._parts.model
        folder.mkdir(parents=True)
        config = {"model_cfg": self._config, "preprocess_cfg": dict(import_open_clip().get_model_preprocess_cfg(model))}
        (folder / "open_clip_config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
        tensors = {key: tensor.detach().cpu().contiguous() for key, tensor in model.state_dict().items()}
        require("safetensors.torch", extra="train").save_file(tensors, folder / "open_clip_model.safetensors")
        inner = getattr(self._parts.tokenizer, "tokenizer", None)
        if inner is not None:
            inner.save_pretrained(folder)
        return f"local-dir:{folder}"


def open_start(name: str, settings: StartSettings) -> tuple[Trainable | None, str]:
    """Open the start; return it with the fingerprint of its weights.

    A `new:` model has no weights yet: it comes back as None, with the fingerprint of its architecture; `draw_start`
    opens it, once the run has a folder.
    """
    if name.startswith(NEW):
        return None, new_model_facts(Path(name.removeprefix(NEW)))
    trainable = _open_trainable(name, settings)
    return trainable, trainable.model().fingerprint


def draw_start(name: str, settings: StartSettings, folder: Path, ranks: RankGroup) -> tuple[str, Trainable]:
    """Draw a `new:` model's weights on rank 0, unless the folder exists, and open it on all ranks.

    Returns:
        Its name, and itself.
    """
    new = Path(name.removeprefix(NEW))
    ranks.first(lambda: write_new_model(new, folder, settings.seed))
    with ranks.together():
        drawn = write_new_model(new, folder, settings.seed)  # again by ranks that do not see the first's disk
        trainable = _open_trainable(drawn, settings)
    return drawn, trainable


def _open_trainable(name: str, settings: StartSettings) -> Trainable:
    """Open a fusion encoder or a dual one, as the loss needs it."""
    if isinstance(settings.terms[0].loss, FusionLoss):
        if settings.compiled is not None:
            raise DataError(
                f"compile: {settings.compiled!r} is for dual encoders; a step of a fusion encoder draws its pairs "
                "inside the pass, which leaves nothing to compile; leave it out"
            )
        contrast = settings.matching is None or settings.matching.contrast
        heads = (term.reading for term in settings.terms)
        other_heads = [head for head in dict.fromkeys(heads) if head not in {None, settings.reading or "itm"}]
        return open_fusion(
            name, settings.device, settings.reading, contrast=contrast, image_size=settings.image_size, also=other_heads
        )
    if settings.image_size is not None:
        raise DataError(
            f"image_size: {settings.image_size} pixels are for a fusion encoder in its authors' file; leave it out"
        )
    if settings.matching is not None:
        raise DataError(f"[matching] is of fusion encoders' losses (itm, ranking, ...), and {settings.loss!r} is none")
    trainable = open_dual(name, settings.device)
    losses = [term.loss for term in settings.terms if isinstance(term.loss, DualLoss)]
    if any(loss.bias for loss in losses) and isinstance(trainable, TrainableDual):
        trainable.add_bias()
    if any(loss.local for loss in losses) and isinstance(trainable, TrainableDual):
        trainable.add_local()
    return trainable


def open_dual(name: str, device: str) -> Trainable:
    """Open a dual encoder to train it."""
    from tellapart.models.compact.dual_encoder import PREFIX as COMPACT
    from tellapart.models.openclip.source import FOLDER, HUB, TAG

    if isinstance(declared_prefix(name), FusionPrefix):
        raise ModelError(
            f"{name} cannot be trained by a contrastive loss alone: take a loss of matching heads (itm, ranking, "
            "eqsim-itm, ...), which adds the contrastive one if the model has towers"
        )

    if name.startswith(COMPACT):
        return open_compact(name, device)
    if name.startswith((TAG, HUB, FOLDER)):
        return open_openclip(name, device)
    if name.startswith("hf:") or "/" in name or (Path(name).expanduser() / "config.json").is_file():
        return open_huggingface(name.removeprefix("hf:"), device)
    raise ModelError(
        f"{name} cannot be trained: name a model of open_clip or a CLIP-like one of transformers, by hub id or folder, "
        "or compact:FOLDER"
    )


def resolve_name(name: str, home: Path) -> str:
    """Return a model's or a set's name with its path relative to the working folder, not to the configuration's.

    >>> resolve_name("demo", Path("sets")), resolve_name("openai/clip-vit-base-patch32", Path("sets"))
    ('demo', 'openai/clip-vit-base-patch32')
    """
    prefix, colon, path = name.partition(":")
    prefixed = prefix in {"folder", "local-dir", "hf", "new", "compact"}
    if (
        colon
        and (prefixed or isinstance(declared_prefix(name), FusionPrefix))
        and (home / split_part(path)[0]).exists()
    ):
        return f"{prefix}:{home / path}"
    return str(home / name) if (home / name / "config.json").is_file() else name
