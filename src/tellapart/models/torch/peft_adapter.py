"""LoRA adapters in peft's folders, merged by peft into the weights of their base model when it is loaded."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tellapart.data.scores import join_names
from tellapart.data.strict_json import read_json
from tellapart.errors import ModelError, quote, require
from tellapart.models.torch.checkpoint import read_checkpoint
from tellapart.models.torch.network import Network

#: Facts that are in no tensor: rank, scale, method.
ADAPTER_CONFIG = "adapter_config.json"

_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")

#: Weights that LLaVA's trainer saved with an adapter, and that belong to it.
_MORE_WEIGHTS = "non_lora_trainables.bin"

_PREFIX = "base_model.model."


@dataclass(frozen=True, slots=True)
class PeftAdapter:
    """A folder with `adapter_config.json` and the matrices; `settings` is the content of the first."""

    folder: Path
    settings: Mapping[str, Any]

    @property
    def base(self) -> str:
        """The model that the matrices change."""
        base = self.settings.get("base_model_name_or_path")
        if not isinstance(base, str) or not base.strip():
            raise ModelError(
                f"{self.folder / ADAPTER_CONFIG} names no base model; write it there as 'base_model_name_or_path', or "
                "for open_clip name it before the folder: open_clip:ARCH/TAG@FOLDER"
            )
        return base


def find_adapter(source: str | Path) -> PeftAdapter | None:
    """Return the adapter in a folder; None if there is none."""
    folder = Path(source).expanduser()
    place = folder / ADAPTER_CONFIG
    if not place.is_file() or not any((folder / name).is_file() for name in _WEIGHTS):
        return None
    settings = read_json(place, error=ModelError)
    if not isinstance(settings, dict):
        raise ModelError(f"{place} is not a JSON object; expected the configuration that peft saves")
    if settings.get("peft_type") != "LORA":
        raise ModelError(
            f"{place}: 'peft_type' is {settings.get('peft_type')!r}, and only 'LORA' is merged here; merge it where it "
            "was trained (merge_and_unload), and name the merged model"
        )
    if (folder / _MORE_WEIGHTS).is_file():
        raise ModelError(
            f"{folder} has weights beside its matrices, {_MORE_WEIGHTS}, not merged here; merge it where it was "
            "trained, and name the merged model"
        )
    return PeftAdapter(folder, settings)


def merge_adapter(name: str, model: Network, adapter: PeftAdapter, *, unused: Sequence[str] = ()) -> None:
    """Add an adapter's updates to a model's weights, in place; parts in `unused` may be missing in the model.

    Source: Hu et al. 2022, LoRA: Low-Rank Adaptation of Large Language Models, section 4.1.
    """
    peft = require("peft", extra="models")
    file = next(adapter.folder / file for file in _WEIGHTS if (adapter.folder / file).is_file())
    checkpoint = read_checkpoint(file)
    if checkpoint.others:
        raise ModelError(
            f"{name}: {file.name} holds {checkpoint.part} and {checkpoint.others[0]}; leave one of them in it"
        )
    left_out = tuple(f"{_PREFIX}{part}." for part in unused)
    tensors = {key: tensor for key, tensor in checkpoint.saved.items() if not key.startswith(left_out)}
    fix = "the file is not whole, or its base is another class or version: merge it where it was trained"
    fields = {field.name for field in dataclasses.fields(peft.LoraConfig)} | {"runtime_config", "peft_version"}
    if later := sorted(key for key, value in adapter.settings.items() if value and key not in fields):
        raise ModelError(
            f"{adapter.folder / ADAPTER_CONFIG} sets {later[0]!r}, which peft {peft.__version__} does not know; "
            "install the version that saved it"
        )
    try:
        with warnings.catch_warnings(action="ignore"):  # of what it reads of the model; what is wrong is raised here
            wrapped = peft.PeftModel(model, peft.PeftConfig.from_pretrained(str(adapter.folder)))
            report = peft.set_peft_model_state_dict(wrapped, tensors)
        missing = [key for key in report.missing_keys if ".lora_" in key and not key.startswith(left_out)]
        if odd := report.unexpected_keys or missing:
            odd_keys = f"changes what {type(model).__name__} does not have:" if report.unexpected_keys else "lacks"
            raise ModelError(f"{name}: {file.name} {odd_keys} {join_names(odd, 3)}; {fix}")
        wrapped.merge_and_unload(safe_merge=True)
    except (ValueError, TypeError, RuntimeError, KeyError, AttributeError) as error:  # of settings and shapes
        reason = " ".join(str(error).split())  # torch lists shapes on further lines
        raise ModelError(f"{name}: {file.name} cannot be merged by peft: {quote(reason, 300)}; {fix}") from error
