"""CLIP-FlanT5, which VQAScore was published with: FlanT5, whose encoder reads an image's patches between two texts.

Source: VQAScore (Lin et al. 2024); linzhiqiu/t2v_metrics before 74c7208, clip_t5_model.py and clip_t5. There are no
classes of transformers for these files: the weights get their names from the class below.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tellapart.errors import ModelError
from tellapart.models.generative.answers import pad_to_square
from tellapart.models.generative.encoder_decoder import EncoderDecoderModel
from tellapart.models.huggingface.files import base_of, import_transformers, load_tokenizer, load_weights, loading
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import Runtime, import_torch, inference
from tellapart.models.torch.network import PreTrainedConfig, Tensor

torch, transformers = import_torch(), import_transformers()

#: Of both sizes; the authors' code reads the texts of either by FlanT5's.
_TOKENIZER = "google/flan-t5-xl"

#: The image's place in a prompt.
_MARK = "<image>"


class ClipFlanT5(transformers.T5ForConditionalGeneration):  # type: ignore[misc, name-defined]
    """FlanT5 with CLIP's vision tower and a projection, under the names of its authors' files."""

    # The library ties the head, too, which FlanT5 has of its own.
    _tied_weights_keys = dict.fromkeys(("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"), "shared.weight")
    # The files hold the one embedding four times.
    _keys_to_ignore_on_load_unexpected = (r"^embed_tokens\.weight$",)

    def __init__(self, config: PreTrainedConfig) -> None:
        super().__init__(config)
        vision = transformers.CLIPVisionConfig(**config.vision)
        self.vision_tower = torch.nn.Module()
        self.vision_tower.vision_tower = transformers.CLIPVisionModel(vision)
        width, depth = config.d_model, config.projector_depth
        layers: list[Any] = [torch.nn.Linear(vision.hidden_size, width)]
        for _ in range(depth - 1):
            layers += [torch.nn.GELU(), torch.nn.Linear(width, width)]
        self.mm_projector = torch.nn.Sequential(*layers) if depth > 1 else layers[0]
        self.post_init()

    def read_images(self, pixel_values: Tensor) -> Tensor:
        """Return the projected patches of images `(n, 3, side, side)`: `(n, patches, width)`."""
        states = self.vision_tower.vision_tower(pixel_values, output_hidden_states=True).hidden_states
        read = states[self.config.mm_vision_select_layer]
        return self.mm_projector(read if self.config.mm_vision_select_feature == "cls_patch" else read[:, 1:])


class ClipFlanT5Model(EncoderDecoderModel):
    """CLIP-FlanT5: an image's patches are made once for all its prompts."""

    def _encode_prompt(self, pictures: Sequence[Pixels], prompt: str) -> dict[str, Any]:
        """Embed image and prompt; the text before the image ends with an end token, and so does the one after it."""
        parts = [self.tokenizer(part).input_ids for part in self._format.format(prompt=prompt).split(_MARK)]
        with inference():
            before, after = (self.model.shared(torch.tensor([part], device=self.runtime.device)) for part in parts)
            embedded = torch.cat([before, self._image_patches(pictures[0]).to(before.dtype), after], dim=1)
        return {"inputs_embeds": embedded, "attention_mask": torch.ones_like(embedded[..., 0], dtype=torch.long)}

    def _image_patches(self, pixels: Pixels) -> Tensor:
        from PIL import Image

        def read() -> Tensor:
            prepare = self.processor.image_processor
            image = Image.fromarray(pad_to_square(pixels, [int(part * 255) for part in prepare.image_mean]))
            values = prepare(images=[image], return_tensors="pt")["pixel_values"]
            return self.model.read_images(values.to(self.runtime.device, self.runtime.torch_dtype))

        return self.read_once(pixels, read)


def load_clip_flan_t5(source: str, config: Mapping[str, Any], runtime: Runtime) -> ClipFlanT5Model:
    """Load CLIP-FlanT5 from a folder or the hub; its tokenizer is the folder's, else FlanT5's of the hub.

    Size and preparation of images come from the CLIP that `mm_vision_tower` of its config.json names, as in the
    authors' code; the vision tower's weights are the file's.
    """
    tower = str(config.get("mm_vision_tower"))
    folder = Path(base_of(source)).expanduser()
    has_tokenizer = any((folder / name).is_file() for name in ("tokenizer.json", "spiece.model"))
    tokenizer = load_tokenizer(source if has_tokenizer else _TOKENIZER, original=_TOKENIZER)
    with loading(tower, "is not a CLIP that can be read", f"correct mm_vision_tower in {source}'s config.json"):
        vision = transformers.CLIPVisionConfig.from_pretrained(tower)
        images = transformers.AutoImageProcessor.from_pretrained(tower, backend="pil", trust_remote_code=False)
    model = load_weights(ClipFlanT5, source, runtime, config=_configure_t5(source, config, vision))
    rows, entries = model.lm_head.weight.shape[0], len(tokenizer)
    if entries > rows:
        raise ModelError(
            f"{source}: its tokenizer has {entries} entries, its head {rows} rows; copy {_TOKENIZER}'s tokenizer there"
        )
    # FlanT5 has rows beyond its tokenizer; the authors' code drops them, so they have no share of any probability.
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight[:entries].clone(), requires_grad=False)
    parts = SimpleNamespace(tokenizer=tokenizer, image_processor=images, image_token=_MARK)
    return ClipFlanT5Model(source, model, parts, runtime)


def _configure_t5(source: str, config: Mapping[str, Any], vision: PreTrainedConfig) -> PreTrainedConfig:
    """Return T5's configuration, with the settings of vision tower and projection for the class above."""
    projector, feature = config.get("mm_projector_type"), config.get("mm_vision_select_feature", "patch")
    layer = config.get("mm_vision_select_layer")
    depth_match = re.fullmatch(r"mlp(\d+)x_gelu", str(projector))
    readable = (projector == "linear" or depth_match) and feature in {"patch", "cls_patch"} and type(layer) is int
    if not readable or config.get("mm_use_im_start_end"):
        raise ModelError(
            f"{source}: config.json has mm_projector_type {projector!r}, mm_vision_select_feature {feature!r}, "
            f"mm_vision_select_layer {layer!r} and mm_use_im_start_end {config.get('mm_use_im_start_end')!r}; read are "
            "'linear' or 'mlp2x_gelu', 'patch' or 'cls_patch', a number, and false"
        )
    left_out = {"model_type", "mm_vision_tower"}  # where the tower lies changes no number
    merged = transformers.T5Config(**{key: value for key, value in config.items() if key not in left_out})
    merged.vision = vision.to_dict()
    merged.projector_depth = int(depth_match[1]) if depth_match else 1
    merged.model_type = "clip_t5"
    return merged
