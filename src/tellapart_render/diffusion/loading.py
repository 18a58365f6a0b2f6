"""Loading of diffusion pipelines from a folder or the hub: at one revision, from safetensors, without foreign code.

The safety checker of Stable Diffusion 1 is not loaded: it would put a black picture in place of one that it suspects,
and a black picture is rejected. People must look at the pictures before they are shown to others; the sets' cards say
this.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from tellapart.data.rows import read_object
from tellapart.errors import DataError, ModelError, first_line, require
from tellapart.models.hub import reach_hub
from tellapart.models.huggingface.files import quiet, silent
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import guard_torch_load, import_torch, runtime

if TYPE_CHECKING:
    from diffusers import DiffusionPipeline

PIPELINES = ("StableDiffusionPipeline", "StableDiffusionXLPipeline")

_LIBRARIES = {"diffusers", "transformers"}
_UNUSED = {"safety_checker", "feature_extractor", "image_encoder"}
_READ = {".json", ".txt", ".model", ".safetensors"}


class DiffusionModel(BaseModel):
    """The table `[options.model]` of a recipe.

    Attributes:
        name: a folder (relative to the recipe) or a hub id.
        revision: the commit on the hub, 40 hexadecimal digits; a branch would change under a build.
        variant: of the weights' files, `fp16` for example.
        unet: another folder or hub id with the denoiser to use instead (for example DPO's), and its commit.
        vae: the same for the autoencoder (for example vae-ft-mse).
        device: `auto` takes CUDA, then Apple's, then the CPU.
        dtype: of weights and activations.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str
    revision: str = ""
    variant: str = ""
    unet: str = ""
    unet_revision: str = ""
    vae: str = ""
    vae_revision: str = ""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"


@dataclass(frozen=True, slots=True)
class DiffusionCheckpoint:
    """The checked files of a pipeline, not in memory yet.

    Attributes:
        kind: the pipeline's class, one of `PIPELINES`.
        folders: of the pipeline, and of the parts that replace some of it, by name.
        revisions: of each of them: a commit of the hub, or the SHA-256 of a folder's files.
        device, dtype, variant: as in `DiffusionModel`, `auto` decided.
    """

    kind: str
    folders: dict[str, Path]
    revisions: dict[str, str]
    device: str
    dtype: str
    variant: str = ""

    @property
    def versions(self) -> dict[str, str]:
        """All that decides the pixels, by name: revisions, the library, and its device and number type."""
        torch = f"{metadata.version('torch')}, {self.device}, {self.dtype}"
        return {**self.revisions, "diffusers": metadata.version("diffusers"), "torch": torch}

    def load(self) -> DiffusionPipeline:
        """Load the pipeline, on its device and in its dtype."""
        torch = import_torch()
        diffusers = require("diffusers", extra="diffusion")
        options: dict[str, Any] = {"use_safetensors": True, "local_files_only": True, "variant": self.variant or None}
        parts: dict[str, Any] = {}
        try:
            with quiet_diffusion(), guard_torch_load(self.folders["pipeline"]):
                for part, name in (("unet", "UNet2DConditionModel"), ("vae", "AutoencoderKL")):
                    if part in self.folders:
                        folder = self.folders[part]
                        subfolder = part if (folder / part).is_dir() else None
                        parts[part] = getattr(diffusers, name).from_pretrained(folder, subfolder=subfolder, **options)
                if self.kind == "StableDiffusionPipeline":
                    parts |= {"safety_checker": None, "requires_safety_checker": False}
                else:
                    parts["add_watermarker"] = False
                pipeline = getattr(diffusers, self.kind).from_pretrained(self.folders["pipeline"], **options, **parts)
                pipeline.set_progress_bar_config(disable=True)
                return pipeline.to(self.device, getattr(torch, self.dtype))
        except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
            raise ModelError(
                f"{self.folders['pipeline']}: cannot be loaded as a {self.kind} ({error!s:.300})"
            ) from error


def open_checkpoint(model: DiffusionModel, home: Path, kinds: Sequence[str] = PIPELINES) -> DiffusionCheckpoint:
    """Find a pipeline's files, the hub's cache before the hub, and check that it is of one of these kinds."""
    require("diffusers", extra="diffusion")
    parts = {"pipeline": (model.name, model.revision)}
    parts |= {"unet": (model.unet, model.unet_revision)} if model.unet else {}
    parts |= {"vae": (model.vae, model.vae_revision)} if model.vae else {}
    folders, revisions = {}, {}
    for part, (name, revision) in parts.items():
        pipeline = part == "pipeline"
        check = partial(_check_pipeline, kinds=kinds, replaced=set(parts)) if pipeline else partial(_check_part, part)
        folders[part], revisions[part] = _find_folder(name, revision, home, model.variant, check)
        check(folders[part], model.variant)
    kind = str(read_object(folders["pipeline"] / "model_index.json")["_class_name"])
    return DiffusionCheckpoint(kind, folders, revisions, _choose_device(model.device), model.dtype, model.variant)


@contextmanager
def quiet_diffusion() -> Iterator[None]:
    """Keep the libraries' reports off the terminal, and numpy 2's warning of how diffusers makes arrays of tensors."""
    with silent(require("diffusers", extra="diffusion").utils.logging), quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def _find_folder(
    name: str, revision: str, home: Path, variant: str, check: Callable[[Path, str], None]
) -> tuple[Path, str]:
    """Return a folder with its revision: the hub's commit, or the SHA-256 of its files."""
    local = home / Path(name).expanduser()
    if local.is_dir():
        return local, _digest_files(local)
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise ModelError(f"{name} is neither a folder nor an id of the hub (owner/name)")
    if not re.fullmatch("[0-9a-f]{40}", revision):
        raise ModelError(
            f"{name} is not a folder, and as an id of the hub it needs its commit: 40 hexadecimal digits, "
            f"got {revision!r}"
        )
    hub = require("huggingface_hub", extra="hub")
    weights = [f"*.{variant}*.safetensors"] if variant else ["*model.safetensors", "*-of-*.safetensors"]
    patterns = ["*.json", "*.txt", "*.model", *weights]
    problem: ModelError | None = None
    try:
        cached = Path(hub.snapshot_download(name, revision=revision, local_files_only=True))
        check(cached, variant)
        return cached, revision
    except (hub.errors.LocalEntryNotFoundError, OSError, ValueError):
        pass  # the cache lacks it
    except ModelError as error:
        problem = error  # the cache may lack a part of it
    try:
        skipped = [f"{part}/*" for part in _UNUSED]
        with reach_hub(hub):
            fetched = hub.snapshot_download(name, revision=revision, allow_patterns=patterns, ignore_patterns=skipped)
    except (hub.errors.HfHubHTTPError, hub.errors.LocalEntryNotFoundError, OSError, ValueError) as error:
        raise problem or ModelError(
            f"{name} at {revision[:12]} is no folder, the hub's cache lacks it, and it cannot be fetched "
            f"({first_line(error):.200}); fetch it where there is a network (hf download {name} --revision {revision}) "
            "or name a folder"
        ) from error
    return Path(fetched), revision


def _check_pipeline(folder: Path, variant: str, *, kinds: Sequence[str], replaced: set[str]) -> None:
    """Check that a pipeline is of one of these kinds, with known parts and safe weights."""
    try:
        index = read_object(folder / "model_index.json")
    except DataError as error:
        raise ModelError(f"{folder} is not a folder of a diffusers pipeline: {error}") from error
    kind = index.get("_class_name")
    if kind not in kinds:
        raise ModelError(f"{folder} is a {kind}; use a {' or a '.join(kinds)}")
    for part, origin in index.items():  # origin: library and class
        if part.startswith("_") or part in _UNUSED | replaced or not isinstance(origin, list) or origin[0] is None:
            continue
        if origin[0] not in _LIBRARIES:
            raise ModelError(f"{folder}: its {part} is code outside diffusers ({origin[0]}), which is not run")
        if not (folder / part).is_dir():
            raise ModelError(f"{folder} has no {part}; its model_index.json names one: copy or fetch it again")
        if (folder / part / "config.json").is_file():
            _check_weights(folder / part, variant)


def _check_part(part: str, folder: Path, variant: str) -> None:
    """Check the weights of a part that replaces a pipeline's; `folder` is the part's, or holds a folder of its name."""
    _check_weights(folder / part if (folder / part).is_dir() else folder, variant)


def _check_weights(folder: Path, variant: str) -> None:
    if any(folder.glob(f"*.{variant}*.safetensors" if variant else "*.safetensors")):
        return
    pickles = sorted(path.name for path in folder.glob("*.bin"))
    file_kind = f"safetensors of variant {variant!r}" if variant else "safetensors"
    pickle_note = f", only {pickles[0]}, a pickle, which could run code" if pickles else ""
    raise ModelError(
        f"{folder} has no {file_kind}{pickle_note}; convert it, or name a revision or variant that has them"
    )


def _digest_files(folder: Path) -> str:
    """Return the SHA-256 of the files that a pipeline reads, and of their names."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.suffix in _READ and path.is_file() and inside.parts[0] not in _UNUSED:
            with path.open("rb") as file:
                digest.update(f"{inside.as_posix()} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()


def _choose_device(name: str) -> str:
    torch = import_torch()
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    return runtime(ModelOptions(device=name)).device
