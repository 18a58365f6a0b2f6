"""The prefix `hf:` of models of transformers."""

from __future__ import annotations

from tellapart.models.options import ModelOptions
from tellapart.models.prefix import ModelPrefix, files_below
from tellapart.models.protocols import Model

__all__ = ["HF"]


def _load(name: str, options: ModelOptions) -> Model:
    from tellapart.models.huggingface.load import load

    return load(name, options)


HF = ModelPrefix(
    {
        "hf:PATH or ORG/REPO": "a model of transformers, for example openai/clip-vit-base-patch32; hf: may be left out",
    },
    _load,
    files=lambda name: files_below(name.removeprefix("hf:")),
)
