"""Fusion encoders of transformers: BLIP, BLIP-2, ViLT, FLAVA and BridgeTower, each with its matching head."""

from __future__ import annotations

from typing import Any, cast

from tellapart.catalog import import_target
from tellapart.errors import ModelError
from tellapart.models.fusion.family import (
    Contrast,
    FromTransformers,
    FusionFamily,
    Halves,
    Preparation,
    Tensors,
    pad_tokens,
    read_tokens,
)
from tellapart.models.fusion.scoring import READINGS, FusionScorer, TorchFusionEncoder
from tellapart.models.huggingface import files
from tellapart.models.huggingface.inputs import check_images, image_inputs
from tellapart.models.huggingface.load import FUSION
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import Runtime, bucket, import_torch, runtime
from tellapart.models.torch.network import Network, PreTrainedConfig, ProcessorMixin, Tensor


class BridgeTower(Halves):
    """The outputs of the top layers of both towers, one for each bridge; the cross-modal layers join them.

    Class 1 of `itm_score` is the match (`BridgeTowerForImageAndTextRetrieval`: "0 means the pairs don't match and 1
    means they match").
    """

    def __init__(self, module: Network) -> None:
        super().__init__(module)
        # Positions are counted from the padding's id on, as in RoBERTa.
        self.context -= module.config.text_config.pad_token_id + 1
        self._depth: int = module.config.num_hidden_layers
        self._lower = len(module.bridgetower.text_model.encoder.layer) - self._depth + 1

    def images(self, pixel_values: Tensor) -> Tensors:
        """Run the vision tower on float `(batch, 3, h, w)`: `(batch, cross layers, 1 + patches, hidden)`."""
        tower = self.module.bridgetower
        vision = tower.vision_model.visual
        hidden = vision.forward_pre(pixel_values)  # tokens first
        modality = tower.token_type_embeddings.weight[1]
        layers: list[Any] = []
        for depth, block in enumerate(vision.transformer.resblocks[: self._lower + self._depth - 1], 1):
            hidden = block(hidden)
            if depth >= self._lower:
                layers.append(tower._apply_image_transform(vision.forward_post(hidden), len(layers)) + modality)
        layers[0] = tower.cross_modal_image_layernorm(layers[0])
        return (import_torch().stack(layers, dim=1),)

    def texts(self, ids: Tensor, mask: Tensor) -> Tensors:
        """Run the text tower: `(batch, cross layers, tokens, hidden)`, and the mask."""
        tower = self.module.bridgetower
        hidden = tower.text_model.embeddings(input_ids=ids)
        visible = self._extend_mask(hidden, mask)
        modality = tower.token_type_embeddings.weight[0]
        layers: list[Any] = []
        for depth, layer in enumerate(tower.text_model.encoder.layer, 1):
            hidden = layer(hidden, visible)
            if depth >= self._lower:
                layers.append(tower._apply_text_transform(hidden, len(layers)) + modality)
        layers[0] = tower.cross_modal_text_layernorm(layers[0])
        return import_torch().stack(layers, dim=1), mask

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Run the cross-modal layers with their bridges, and the head: `(batch, 2)`."""
        tower = self.module.bridgetower
        (image_layers,), (text_layers, mask) = images, texts
        image, text = image_layers[:, 0], text_layers[:, 0]
        visible = self._extend_mask(text, mask)
        for depth in range(self._depth):
            if depth:
                text = tower.cross_modal_text_link_tower[depth - 1](text_layers[:, depth], text, visible)
                image = tower.cross_modal_image_link_tower[depth - 1](image_layers[:, depth], image, None)
            text, image = (
                tower.cross_modal_text_layers[depth](text, image, attention_mask=visible)[0],
                tower.cross_modal_image_layers[depth](image, text, encoder_attention_mask=visible)[0],
            )
        return self.module.itm_score(tower.get_cls_features(text, image))

    def _extend_mask(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Return the library's mask for keys that are text, one row for all queries."""
        masking = files.import_transformers().masking_utils
        return masking.create_bidirectional_mask(
            config=self.module.config, inputs_embeds=hidden[:, 0:1], attention_mask=mask.long()
        )


BRIDGETOWER = FusionFamily(FromTransformers(BridgeTower, "BridgeTowerForImageAndTextRetrieval"))


#: Parts of the pre-training model that the matching head does not read.
_UNUSED = (
    *("image_codebook", "mim_head", "mlm_head", "mmm_image_head", "mmm_text_head"),
    *("flava.image_projection", "flava.text_projection"),
)


class Flava(Halves):
    """Each encoder's last layer (before its final norm), projected; the multimodal encoder joins them.

    The matching head was trained on masked words and patches and is read on complete ones, as `FlavaForPreTraining`
    reads it. Class 1 is the match ("0 means the pairs don't match and 1 means they match", `itm_labels`).
    """

    def images(self, pixel_values: Tensor) -> Tensors:
        """Run the image encoder on float `(batch, 3, h, w)`: `(batch, 1 + patches, hidden)`."""
        layers = self.module.flava.image_model(pixel_values=pixel_values, output_hidden_states=True).hidden_states
        return (self.module.flava.image_to_mm_projection(layers[-1]),)

    def texts(self, ids: Tensor, mask: Tensor) -> Tensors:
        """Run the text encoder: `(batch, tokens, hidden)`, and the mask."""
        layers = self.module.flava.text_model(
            input_ids=ids, attention_mask=mask.long(), output_hidden_states=True
        ).hidden_states
        return self.module.flava.text_to_mm_projection(layers[-1]), mask

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Run the multimodal encoder and the head: `(batch, 2)`."""
        torch = import_torch()
        (image,), (text, mask) = images, texts
        multimodal = self.module.flava.multimodal_model
        length = image.shape[1] + int(multimodal.use_cls_token)
        attended = torch.cat([mask.new_ones((len(image), length)), mask], dim=1)
        hidden = multimodal(torch.cat([image, text], dim=1), attention_mask=attended.long()).last_hidden_state
        return self.module.itm_head(hidden)


FLAVA = FusionFamily(FromTransformers(Flava, "FlavaForPreTraining", _UNUSED))


class Vilt(Halves):
    """Patch embeddings with positions, and token ids; all twelve layers join them.

    The library pads a batch to its largest image and draws the order of the patches at random; here they stay in order,
    and are padded, masked, to the next multiple of 16, which follows from the image alone.

    Two heads exist: `rank_output`, one logit, of models fine-tuned for retrieval (its weights began as row 1, "match",
    of the pre-trained head), and `itm_score`, two classes, of pre-trained ones, of which 1 is the match.
    """

    def __init__(self, module: Network) -> None:
        super().__init__(module)
        config = module.config
        if config.max_image_length > 0:
            raise ModelError(
                f"config.json: field 'max_image_length' is {config.max_image_length}: the model then draws patches at "
                "random, and a pair has no one score; set it to -1 to use all patches"
            )
        self.match = 1 if hasattr(module, "itm_score") else None
        self._side = config.image_size // config.patch_size

    def images(self, pixel_values: Tensor) -> Tensors:
        """Embed float `(batch, 3, h, w)`: `(batch, 1 + patches, hidden)`, padded, and the mask."""
        torch = import_torch()
        embeddings = self.module.vilt.embeddings
        positions = embeddings.position_embeddings
        patches = embeddings.patch_embeddings(pixel_values)  # (batch, hidden, rows, columns)
        grid = positions[:, 1:].transpose(1, 2).reshape(1, -1, self._side, self._side)
        grid = torch.nn.functional.interpolate(grid, size=patches.shape[2:], mode="bilinear", align_corners=True)
        patches = (patches + grid).flatten(2).transpose(1, 2)
        first = (embeddings.cls_token + positions[:, :1]).expand(len(patches), -1, -1)
        tokens = torch.cat([first, patches], dim=1)
        mask = tokens.new_ones(tokens.shape[:2], dtype=torch.bool)
        length = 1 + bucket(patches.shape[1], step=16)
        return pad_tokens(tokens, length), pad_tokens(mask, length)

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Run the transformer and the head: `(batch, 1 or 2)`."""
        (patches, patch_mask), (ids, mask) = images, texts
        pooled = self.module.vilt(
            input_ids=ids, attention_mask=mask.long(), image_embeds=patches, pixel_mask=patch_mask.long()
        ).pooler_output
        return self.module.rank_output(pooled) if self.match is None else self.module.itm_score(pooled)


def _load_vilt(source: str, runtime: Runtime) -> Vilt:
    """Load ViLT for retrieval, or pre-trained ViLT with its `itm_score` head."""
    retrieval = "ViltForImageAndTextRetrieval"
    if retrieval in (files.read_config(source).get("architectures") or []):
        return Vilt(files.load_weights(retrieval, source, runtime))
    return Vilt(files.load_weights(_pretrained_class(), source, runtime, unused=("mlm_score",)))


def _pretrained_class() -> type:
    """Make the class that the library lacks: ViLT with the matching head of its pre-training."""
    nn = import_torch().nn
    vilt = files.import_transformers().models.vilt.modeling_vilt

    class ViltForPreTraining(vilt.ViltPreTrainedModel):  # type: ignore[misc, name-defined]
        """ViLT with `itm_score.fc`, two classes, and a word head that is not read."""

        def __init__(self, config: PreTrainedConfig) -> None:
            super().__init__(config)
            self.vilt = vilt.ViltModel(config)
            self.itm_score = nn.Sequential()
            self.itm_score.add_module("fc", nn.Linear(config.hidden_size, 2))
            self.mlm_score = None
            self.post_init()

    return ViltForPreTraining


VILT = FusionFamily(_load_vilt, load_trainable=_load_vilt, takes_any_shape=True)


_PROJECTIONS = ("vision_proj", "text_proj")


class Blip(Halves):
    """The vision tower's last hidden state, and token ids; the text encoder joins them.

    Class 1 of `itm_head` is the match (BLIP's demo: `softmax(itm_output, dim=1)[:, 1]` is "the probability that image
    and text match").
    """

    def images(self, pixel_values: Tensor) -> Tensors:
        """Run the vision tower on float `(batch, 3, h, w)`: `(batch, 1 + patches, hidden)`."""
        return (self.module.vision_model(pixel_values=pixel_values).last_hidden_state,)

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Run the text encoder with cross-attention, and the head: `(batch, 2)`."""
        (image,), (ids, mask) = images, texts
        hidden = self.module.text_encoder(
            input_ids=ids,
            attention_mask=mask.long(),
            encoder_hidden_states=image,
            encoder_attention_mask=mask.new_ones(image.shape[:2]).long(),
        ).last_hidden_state
        return self.module.itm_head(hidden[:, 0])


class Blip2(Blip):
    """The vision tower's output, and token ids; the Q-Former joins them.

    The head reads every query, and its logits are averaged (BLIP-2, section 3.1). Class 1 is the match
    (`Blip2ForImageTextRetrieval`: "probs[0][1] that image 0 is"; LAVIS: `softmax(itm_output, dim=1)[:, 1]`).
    """

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Run the Q-Former on queries, text and image, and the head: `(batch, 2)`."""
        (image,), (ids, mask) = images, texts
        queries = self.module.query_tokens.expand(len(image), -1, -1)
        count = queries.shape[1]
        attended = import_torch().cat([mask.new_ones((len(image), count)), mask], dim=1)
        hidden = self.module.qformer(
            query_embeds=self.module.embeddings(input_ids=ids, query_embeds=queries),
            query_length=count,
            attention_mask=attended.long(),
            encoder_hidden_states=image,
            encoder_attention_mask=mask.new_ones(image.shape[:2]).long(),
        ).last_hidden_state
        head = self.module.itm_head
        return head(hidden[:, :count].to(head.weight.dtype)).mean(dim=1)


def _project_vectors(model: Network, images: Tensors, texts: Tensors) -> tuple[Any, Any]:
    (patches,), (ids, mask) = images, texts
    words = model.text_encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    return model.vision_proj(patches[:, 0]), model.text_proj(words[:, 0])


BLIP = FusionFamily(
    load=FromTransformers(Blip, "BlipForImageTextRetrieval", _PROJECTIONS),
    load_trainable=FromTransformers(Blip, "BlipForImageTextRetrieval"),
    contrast=Contrast(_PROJECTIONS, _project_vectors),
)
BLIP_2 = FusionFamily(FromTransformers(Blip2, "Blip2ForImageTextRetrieval", ("vision_projection", "text_projection")))


def load_itm(source: str, options: ModelOptions) -> FusionScorer:
    """Load a fusion encoder of transformers with its matching head, from a folder or the hub, as a pair scorer."""
    place = runtime(options)
    model_type = files.read_config(source)["model_type"]
    family = find_family(model_type)
    if family is None:
        raise ModelError(
            f"{source} is of type {model_type!r}, which has no reading 'itm' here; {', '.join(FUSION)} have"
        )
    prepare_regions = family.regions(source, options) if family.regions else None
    halves = family.load(source, place)
    if prepare_regions is not None:
        preparation = prepare_regions(halves)
    else:
        preparation = prepare_pixels(source, family, halves, files.load_processor(source))
    return FusionScorer(TorchFusionEncoder(source, halves, preparation, place, reading=options.reading or "itm"))


def hold_itm(name: str, model: Network, processor: ProcessorMixin, place: Runtime, reading: str) -> FusionScorer | None:
    """Return a caller's model with its matching head as a pair scorer, without moving it; None if it cannot be held."""
    family = find_family(model.config.model_type)
    loader = None if family is None else family.load
    if family is None or not isinstance(loader, FromTransformers) or reading not in READINGS:
        return None
    halves = loader.halves(model)
    preparation = prepare_pixels(name, family, halves, processor)
    return FusionScorer(TorchFusionEncoder(name, halves, preparation, place, reading=reading, fingerprint="held"))


def find_family(model_type: str) -> FusionFamily | None:
    """Return the declaration of the family that `config.json` names; None if it has no matching head."""
    return cast("FusionFamily", import_target(FUSION[model_type])) if model_type in FUSION else None


def prepare_pixels(source: str, family: FusionFamily, halves: Halves, processor: ProcessorMixin) -> Preparation:
    """Prepare images and texts by the model's processor."""
    images = image_inputs(source, processor.image_processor)
    if not family.takes_any_shape:
        check_images(source, halves.module.config, images)
    texts = read_tokens(source, halves, processor.tokenizer)
    return Preparation(images, texts, files.processor_facts(processor))
