"""Everything of open_clip that is used here beyond its public interface, the names at its root.

A release of open_clip may move any of these without notice. A name that is gone is an error with the version that is
installed and which versions have it (docs/decisions/0020). Other modules name nothing below the root of open_clip.
"""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tellapart.errors import MissingDependencyError, require

if TYPE_CHECKING:
    from types import ModuleType

#: The versions under which the tests of these models pass; its upper end is the bound in pyproject.toml.
VERSIONS = ">=3.3,<4"

#: Names below the root, without public counterparts.
NAMES = MappingProxyType(
    {
        "convert.convert_state_dict": "renames MobileCLIP's tensors; the public load_checkpoint also stretches some",
        "model.convert_to_custom_text_state_dict": "renames a text tower's tensors; load_checkpoint as above",
        "model.HFTextEncoder": "is replaced until transformers is needed (decision 18)",
        "model.TimmModel": "is replaced until timm is needed (decision 18)",
        "hf_model.HFTextEncoder": "is read again once transformers is imported",
        "hf_model.transformers": "is None where transformers was hidden from open_clip",
        "timm_model.TimmModel": "is read again once timm is imported",
        "timm_model.timm": "is None where timm was hidden from open_clip",
        "transformer.QuickGELU": "is an activation that no state dict holds",
        "transformer.Transformer": "is a tower that open_clip builds itself, whose activation an option changes",
        "transformer.VisionTransformer": "is a tower that open_clip builds itself, whose activation an option changes",
    }
)

#: Attributes of the objects of `create_model` and `get_tokenizer`. A name after "or" is that of another class.
ATTRIBUTES = MappingProxyType(
    {
        "model": {
            "logit_scale": "the factor of the cosines in training",
            "logit_bias": "a number whose shape differs between checkpoints; None or absent: no bias",
            "text": "the text tower; absent: the model is its own",
            "visual": "the image tower",
            "positional_embedding": "absent: the text tower's tensors are named text.*",
        },
        "text tower": {
            "attn_mask": "None or absent: not causal, so texts are padded to the whole context",
            "cls_emb": "a token appended for pooling, which sees the padding; None or absent: no such token",
            "correct_cls_mask": "of CoCa: whether the appended token's mask is in its place",
            "eos_id": "the token that is pooled at; or text_eos_id",
            "text_eos_id": "the token that is pooled at, of CLIP",
            "ln_final": "the last norm: states of tokens for losses, and the shortened forward pass",
            "pad_id": "of CoCa: the token that its appended token does not see",
            "pool_type": "how a text becomes one vector; or text_pool_type",
            "text_pool_type": "how a text becomes one vector, of CLIP",
            "positional_embedding": "for the shortened forward pass",
            "text_projection": "a matrix, a layer or None: to the space of the features",
            "token_embedding": "for the shortened forward pass",
            "transformer": "for the shortened forward pass",
            "get_cast_dtype": "of the transformer: the dtype that it computes in",
            "resblocks": "of the transformer: its layers",
        },
        "layer": {
            "attn": "for shared beginnings, as the other parts of a layer",
            "ln_1": "the norm before attention",
            "ln_2": "the norm before the MLP",
            "ls_1": "scales the attention's result",
            "ls_2": "scales the MLP's result",
            "mlp": "the MLP",
        },
        "image tower": {
            "attn_pool": "None in a tower that pools by its first token",
            "ln_post": "the last norm: states of patches for losses",
            "pool_type": "how an image becomes one vector; absent: a tower without tokens",
            "proj": "a matrix or None: to the space of the features",
        },
        "tokenizer": {
            "clean_fn": "cleans a text before it is split; named in the fingerprint",
            "context_length": "how many tokens a text becomes",
            "encode": "open_clip's own: the tokens of a text, uncut, to count what is cut",
            "encoder": "open_clip's own: its vocabulary, for the fingerprint",
            "eot_token_id": "open_clip's own: the token that ends a text",
            "reduction_fn": "leaves out words at random; None or absent: none is left out",
            "sot_token_id": "open_clip's own: the token that begins a text",
            "strip_sep_token": "an option that the ids depend on; absent: open_clip's own tokenizer",
            "tokenizer": "that of transformers; absent: open_clip's own",
            "tokenizer_mode": "an option that the ids depend on; absent: open_clip's own tokenizer",
            "vocab_size": "open_clip's own: how many tokens it knows",
        },
    }
)


def internal_name(name: str) -> Any:
    """Return open_clip's object under a name of `NAMES`, such as `convert.convert_state_dict`.

    Call `import_open_clip` first, which leaves out slow imports.

    >>> from tellapart.models.openclip.library import import_open_clip
    >>> _ = import_open_clip()
    >>> list(internal_name("model.convert_to_custom_text_state_dict")({"text_projection": 1}))
    ['text.text_projection']
    """
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(internal_module(module), attribute)
    except AttributeError as gone:
        raise _missing_part(f"open_clip.{name}") from gone


def internal_module(name: str) -> ModuleType:
    """Return a module of open_clip, such as `timm_model`.

    >>> from tellapart.models.openclip.library import import_open_clip
    >>> _ = import_open_clip()
    >>> "VisionTransformer" in vars(internal_module("transformer"))
    True
    """
    require("open_clip", extra="models")
    dotted = f"open_clip.{name}"
    try:
        return importlib.import_module(dotted)
    except ModuleNotFoundError as gone:
        if gone.name != dotted:  # open_clip has it, and fails in it
            raise
        raise _missing_part(dotted) from gone


def read_attribute(owner: object, name: str) -> Any:
    """Return an attribute that `ATTRIBUTES` lists, of a model, a tower or a tokenizer of open_clip.

    >>> from types import SimpleNamespace
    >>> read_attribute(SimpleNamespace(ln_final="a norm"), "ln_final")
    'a norm'
    """
    try:
        return getattr(owner, name)
    except AttributeError as gone:
        raise _missing_part(f"{type(owner).__name__}.{name}") from gone


def _missing_part(name: str) -> MissingDependencyError:
    version = require("open_clip", extra="models").__version__
    return MissingDependencyError(
        f"open_clip_torch {version} has no {name}, which is used here; versions {VERSIONS} have it; run: "
        f'pip install "open_clip_torch{VERSIONS}"'
    )
