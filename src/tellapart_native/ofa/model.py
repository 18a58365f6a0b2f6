"""OFA (Wang et al. 2022): a ResNet's cells and a question in words go into an encoder; the decoder answers in words.

Written from the names and formulas of the authors' code, without an output of it to compare with; tested by laws,
by formulas in float64 and by the shapes of the published sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tellapart.errors import ModelError
from tellapart.models.fusion.family import Tensors
from tellapart.models.generative.prompts import Prompt
from tellapart.models.torch.backend import import_torch
from tellapart_native.family import Layout, NativeFamily, NativeHalves, Reading
from tellapart_native.heads.decoding import Past, Search, Writer
from tellapart_native.layers.resnet import Resnet
from tellapart_native.module import NativeConfig
from tellapart_native.ofa.layers import Decoder, Encoder, hide_cells
from tellapart_native.preprocessing.captions import clean_like_ofa, clean_like_ofa_matching
from tellapart_native.preprocessing.images import HALF_COLOURS, IMAGENET_COLOURS, square_inputs

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

    from tellapart.models.torch.network import Network

torch = import_torch()
nn = torch.nn

__all__ = ["FAMILY", "Ofa", "OfaCaptioner", "add_codes"]

OFA_CAPTION = Prompt("ofa-caption", 1, " what does the image describe?", "OFA (Wang et al. 2022), its captioning code")
OFA_MATCH = Prompt("ofa-match", 1, ' does the image describe " {text} "?', "OFA (Wang et al. 2022), its pre-training")

#: Pixels of a picture's side in the authors' captioning, if the file does not hold it.
_IMAGE_SIZE = 480

#: Rows of the table of positions that no token of a text has.
_UNUSED = 2

#: The ResNet halves a picture's sides four times.
_STRIDE = 16

#: Codes of an image and bins of a coordinate, which follow the words in the vocabulary: the setting, and how many.
_CODES = {"code": ("code_dict_size", 8192), "bin": ("num_bins", 1000)}

#: Of fairseq's many arguments, those that change a number.
_SETTINGS = (
    "attn_scale_factor",
    "code_dict_size",
    "decoder_layers",
    "depths",
    "disable_entangle",
    "encoder_layers",
    "entangle_position_embedding",
    "imagenet_default_mean_and_std",
    "no_scale_embedding",
    "num_bins",
    "sync_bn",
)


class Ofa(NativeHalves):
    """A picture's cells, and the tokens of ' does the image describe " ... "?'; the answer's first word is read.

    Classes are "yes" and "no": 0 is the match. The authors trained it in pre-training; a file fine-tuned for captions
    may have unlearnt it.
    """

    architecture = "Ofa"
    match = 0

    def take_words(self, tokenizer: PreTrainedTokenizerBase) -> None:
        """Take the tokens of an answer's beginning, "yes" and "no".

        Raises:
            ModelError: they are more than one token, to another tokenizer.
        """
        add_codes(tokenizer, self.module.config)
        self.start, *_ = tokenizer("")["input_ids"]
        self.answers = []
        for word in (" yes", " no"):
            ids = tokenizer(word, add_special_tokens=False)["input_ids"]
            if len(ids) != 1:
                raise ModelError(
                    f"OFA answers with one token, and its tokenizer has {len(ids)} for {word!r}; name BART's with "
                    "tokenizer=FOLDER"
                )
            self.answers += ids

    def images(self, pixel_values: Tensor) -> Tensors:
        """Run the ResNet on float `(batch, 3, h, w)`: `(batch, h / 16, w / 16, width)`."""
        return (self.module.encoder.embed_picture(pixel_values),)

    def join(self, images: Tensors, texts: Tensors) -> Tensor:
        """Return the logits of "yes" and "no" as the first word: `(batch, 2)`."""
        (grid,), (ids, mask) = images, texts
        states, places = self.module.encoder(grid, ids, mask)
        start = torch.full((len(ids), 1), self.start, device=ids.device)
        words = self.module.encoder.embed_tokens
        hidden = hide_cells(mask, len(places) - ids.shape[1], states.dtype)
        decoded = self.module.decoder(start, words, (states, places, hidden))
        return nn.functional.linear(decoded[:, 0], words.weight[self.answers])


class OfaCaptioner(Writer):
    """The encoder's states of a picture and " what does the image describe?", computed once; the decoder's captions."""

    architecture = "OfaCaptioner"
    prompt = OFA_CAPTION
    search = Search(beams=5, longest=16, repeats=3)

    @property
    def facts(self) -> str:
        """The configuration, and the question."""
        return f"{super().facts} asked {self.prompt.text!r}"

    def take_words(self, tokenizer: PreTrainedTokenizerBase) -> None:
        """Take the tokens before and behind a caption, and those of the question."""
        add_codes(tokenizer, self.module.config)
        super().take_words(tokenizer)
        self.question = tokenizer(self.prompt.text)["input_ids"]

    def images(self, pixel_values: Tensor) -> Tensors:
        """Run the encoder on float `(batch, 3, h, w)`: its states, and their positions, `(batch, n, width)` each."""
        encoder = self.module.encoder
        ids = torch.tensor(self.question, device=pixel_values.device).expand(len(pixel_values), -1)
        states, places = encoder(encoder.embed_picture(pixel_values), ids, torch.ones_like(ids, dtype=torch.bool))
        return states, places.expand_as(states)

    def decode(self, ids: Tensor, images: Tensors, past: Past | None = None) -> Tensor:
        """Run the decoder: `(batch, tokens, words)`."""
        states, places = images
        words = self.module.encoder.embed_tokens
        decoded = self.module.decoder(ids, words, (states, places[0], states.new_zeros(())), past)
        return nn.functional.linear(decoded, words.weight)

    def spell_words(self, ids: Sequence[int]) -> str:
        """Return the words of a caption's tokens, without punctuation, as the authors do."""
        return clean_like_ofa(super().spell_words(ids), len(ids))


class OfaCaptionerMean(OfaCaptioner):
    """The same by the token."""

    architecture = "OfaCaptionerMean"
    mean = True


def add_codes(tokenizer: PreTrainedTokenizerBase, config: NativeConfig) -> None:
    """Add the tokens `<code_0>`, ... of images and `<bin_0>`, ... of coordinates to BART's, unless they are there.

    Raises:
        ModelError: the model's vocabulary does not end with them.
    """
    codes = [f"<{kind}_{k}>" for kind in _CODES for k in range(getattr(config, kind))]
    known = tokenizer.get_vocab()
    tokenizer.add_tokens([code for code in codes if code not in known], special_tokens=True)  # no words of a caption
    if len(tokenizer) != config.vocab_size:
        raise ModelError(
            f"OFA's tokenizer has {len(tokenizer)} tokens, {len(codes)} of images and coordinates among them, and the "
            f"model {config.vocab_size}; name BART's tokenizer with tokenizer=FOLDER"
        )


def _build_ofa(layout: Layout) -> Network:
    settings = {name: layout.settings[name] for name in _SETTINGS if name in layout.settings}
    size = int(layout.settings.get("image_size", layout.settings.get("patch_image_size", _IMAGE_SIZE)))
    layout = replace(layout, settings=settings)
    module = nn.Module()
    resnet = Resnet(layout, "encoder.embed_images", 1e-3 if settings.get("sync_bn") else 1e-5)
    module.encoder, module.decoder = Encoder(layout, resnet), Decoder(layout)
    most = module.encoder.side * _STRIDE
    if not 0 < size <= most:
        raise ModelError(f"{layout.source}: image_size is {size}; OFA has positions for pictures up to {most} pixels")
    words = module.encoder.embed_tokens.num_embeddings
    # The authors cut questions at 80 tokens, and no caption; the table of positions bounds both.
    context = module.encoder.embed_positions.num_embeddings - _UNUSED
    layout = replace(layout, settings={name: value for name, value in settings.items() if "layers" not in name})
    module.config = NativeConfig("ofa", vocab_size=words, context=context, image_size=size, layout=layout)
    module.config.colours = IMAGENET_COLOURS if settings.get("imagenet_default_mean_and_std") else HALF_COLOURS
    for kind, (setting, published) in _CODES.items():
        setattr(module.config, kind, int(settings.get(setting, published)))
    return module


FAMILY = NativeFamily(
    name="ofa",
    title="OFA",
    holds_settings=True,
    build=_build_ofa,
    readings={
        "likelihood": Reading(OfaCaptioner, "likelihood", "encoder.embed_tokens.weight", prompt=" {}"),
        "mean_likelihood": Reading(OfaCaptionerMean, "likelihood", "encoder.embed_tokens.weight", prompt=" {}"),
        "itm": Reading(Ofa, "itm", "encoder.embed_tokens.weight", clean=clean_like_ofa_matching),
        "itm_logit": Reading(Ofa, "itm_logit", "encoder.embed_tokens.weight", clean=clean_like_ofa_matching),
    },
    images=lambda module: square_inputs(module.config.image_size, module.config.colours),
    vocabulary="facebook/bart-base",
    ignored=(
        "*.version",
        "*.num_batches_tracked",
        "*_rp_bucket",
        "decoder.embed_tokens.weight",  # copies of `encoder.embed_tokens.weight`
        "decoder.output_projection.weight",
        "decoder.image_position_idx",  # of pictures that the decoder writes in codes
        "decoder.image_rel_pos_table_list.*",
        "decoder.embed_image_positions.weight",
        "decoder.image_pos_ln.*",
        "decoder.code_layernorm_embedding.*",
        "classification_heads.*",
    ),
    resize=lambda tensors, _size: tensors,  # positions are looked up by row and column
    clean=clean_like_ofa,
    prompt=OFA_MATCH.fill(text="{}"),
)
