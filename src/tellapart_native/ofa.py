"""OFA (Wang et al. 2022): a ResNet's cells and a question in words go into an encoder; the decoder answers in words.

Written from the names and formulas of the authors' code, without an output of it to compare with; tested by laws,
by formulas in float64 and by the shapes of the published sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, dtype

from tellapart.errors import ModelError, require
from tellapart.models.fusion.family import Tensors
from tellapart.models.generative.prompts import Prompt
from tellapart.models.torch.network import Network
from tellapart_native.family import Layout, NativeFamily, NativeHalves, Reading, published_facts
from tellapart_native.heads.decoding import ByToken, Past, Search, Writer, read_before
from tellapart_native.heads.matching import combine_halves
from tellapart_native.module import NativeConfig, build_linear, nn
from tellapart_native.preprocessing import (
    HALF_COLOURS,
    IMAGENET_COLOURS,
    clean_like_ofa,
    clean_like_ofa_matching,
    square_inputs,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class _Norm(nn.Module):
    """A batch norm by the statistics in the file."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = nn.Parameter(torch.empty(width)), nn.Parameter(torch.empty(width)), eps
        for name in ("running_mean", "running_var"):
            self.register_buffer(name, torch.empty(width))

    def forward(self, states: Tensor) -> Tensor:
        return nn.functional.batch_norm(
            states, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
        )


class Resnet(nn.Module):
    """The stem and three stages of bottlenecks (ResNet V1.5): a grid whose sides are a 16th of the picture's."""

    def __init__(self, layout: Layout, prefix: str, eps: float) -> None:
        super().__init__()
        bottleneck = require("timm.models.resnet", extra="models").Bottleneck

        def make_norm(width: int, **_: Any) -> _Norm:
            return _Norm(width, eps)

        out, _, size, _ = layout.shape_of(f"{prefix}.conv1.weight")
        self.conv1, self.bn1 = nn.Conv2d(3, out, size, 2, size // 2, bias=False), _Norm(out, eps)
        for stage in (1, 2, 3):
            name, blocks = f"{prefix}.layer{stage}", []
            for k in range(layout.count_parts(f"{name}.{{}}.")):
                stride, planes = 2 if stage > 1 and k == 0 else 1, layout.shape_of(f"{name}.{k}.conv1.weight")[0]
                into, out, shortcut = out, bottleneck.expansion * planes, None
                if k == 0:
                    shortcut = nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False), _Norm(out, eps))
                blocks.append(bottleneck(into, planes, stride, shortcut, norm_layer=make_norm))
            setattr(self, f"layer{stage}", nn.Sequential(*blocks))
        self.width = out

    def forward(self, pixel_values: Tensor) -> Tensor:
        """Read float `(batch, 3, h, w)`: `(batch, width, h / 16, w / 16)`."""
        states = nn.functional.max_pool2d(self.bn1(self.conv1(pixel_values)).relu(), 3, 2, 1)
        return self.layer3(self.layer2(self.layer1(states)))


# OFA's encoder and decoder under fairseq's names: pre-norm BART with NormFormer's norms, positions as attention bias.
#
# Absolute positions have separate queries and keys, whose products are the same for every picture and text of one
# length; to them each layer adds a table of relative positions, among the text's tokens and among the picture's cells.

#: Tokens at which the buckets of relative positions end.
_FURTHEST = 1024

#: Rows behind those of offsets between cells, in a table of them.
_MARKS = 3

#: Factor of a head's width under the root, for a file without one.
_SCALE = 2.0


def token_buckets(length: int, half: int) -> Tensor:
    """Return the row of each pair of tokens, query by key, in a table of `2 * half - 1` rows: `(length, length)`.

    Up to half of `half` each distance has a row; further away rows grow by equal ratios.
    """
    place = torch.arange(length)
    apart, middle = place[:, None] - place[None, :], half // 2
    distance = apart.abs().clamp(min=1)
    ratio = torch.log(distance / middle) / math.log((_FURTHEST - 1) / middle)
    far = (torch.ceil(ratio * (middle - 1)) + middle).long() * apart.sign()
    return torch.where(distance <= middle, apart, far) + half - 1


def cell_distances(rows: int, columns: int, side: int) -> Tensor:
    """Return the row of each pair of cells in a table of `(2 * side - 1) ** 2` offsets: `(cells, cells)`."""
    down, right = torch.arange(rows).repeat_interleave(columns), torch.arange(columns).repeat(rows)
    return (down[:, None] - down + side - 1) * (2 * side - 1) + right[:, None] - right + side - 1


class _Attention(nn.Module):
    """Attention with a bias, whose heads are weighed."""

    def __init__(self, layout: Layout, width: int, heads: int) -> None:
        super().__init__()
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, part, nn.Linear(width, width))
        self.heads, self.scale = heads, _query_scale(layout, width // heads)
        self.c_attn = nn.Parameter(torch.empty(heads))

    def forward(self, states: Tensor, source: Tensor, bias: Tensor) -> Tensor:
        """Read `source (batch, m, width)` from `states (batch, n, width)`."""
        split = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.q_proj(states), self.k_proj(source), self.v_proj(source))
        )
        read = nn.functional.scaled_dot_product_attention(*split, attn_mask=bias, scale=self.scale)
        return self.out_proj((read * self.c_attn[:, None, None]).transpose(1, 2).flatten(2))


def _query_scale(layout: Layout, each: int) -> float:
    return 1 / math.sqrt(each * float(layout.settings.get("attn_scale_factor", _SCALE)))


class _Layer(nn.Module):
    """Attention, in a decoder also to the encoder, and the feed-forward part, between norms."""

    def __init__(self, layout: Layout, prefix: str, width: int, heads: int) -> None:
        super().__init__()
        self.decodes = prefix.startswith("decoder.")
        self.self_attn = _Attention(layout, width, heads)
        if self.decodes:
            self.encoder_attn = _Attention(layout, width, heads)
        crossed = ("self_attn_ln", "encoder_attn_layer_norm", "cross_attn_ln") if self.decodes else ("attn_ln",)
        for name in ("self_attn_layer_norm", *crossed, "final_layer_norm"):
            setattr(self, name, nn.LayerNorm(width))
        self.fc1 = build_linear(layout, f"{prefix}.fc1", width)
        self.ffn_layernorm = nn.LayerNorm(self.fc1.out_features)
        self.fc2 = nn.Linear(self.fc1.out_features, width)

    def forward(
        self,
        states: Tensor,
        bias: Tensor,
        source: Tensor | None = None,
        source_bias: Tensor | None = None,
        *,
        seen: Tensor | None = None,
    ) -> Tensor:
        """Take `(batch, n, width)` one layer up; new tokens read `seen`, which are the states of all tokens so far."""
        read = self.self_attn_layer_norm(states if seen is None else seen)
        attended = self.self_attn(read[:, -states.shape[1] :], read, bias)
        states = states + (self.self_attn_ln if self.decodes else self.attn_ln)(attended)
        if self.decodes:
            crossed = self.encoder_attn(self.encoder_attn_layer_norm(states), source, source_bias)
            states = states + self.cross_attn_ln(crossed)
        inner = nn.functional.gelu(self.fc1(self.final_layer_norm(states)))
        return states + self.fc2(self.ffn_layernorm(inner))


class _Stack(nn.Module):
    """The parts of encoder and decoder alike: layers, positions, tables of relative positions."""

    def __init__(self, layout: Layout, prefix: str, links: tuple[str, ...]) -> None:
        super().__init__()
        rows, self.heads = layout.shape_of(f"{prefix}.token_rel_pos_table_list.0.weight")
        names = [f"{prefix}.layers.{k}" for k in range(layout.count_parts(f"{prefix}.layers.{{}}."))]
        positions, width = layout.shape_of(f"{prefix}.embed_positions.weight")
        self.layers = nn.ModuleList(_Layer(layout, name, width, self.heads) for name in names)
        self.token_rel_pos_table_list = nn.ModuleList(nn.Embedding(rows, self.heads) for _ in names)
        self.embed_positions = nn.Embedding(positions, width)
        for name in ("pos_ln", "layer_norm", "layernorm_embedding"):
            setattr(self, name, nn.LayerNorm(width))
        for link in links:
            for part in ("q", "k"):
                setattr(self, f"{link}_{part}_linear", nn.Linear(width, width))
        self.position_scale = _query_scale(layout, width // self.heads)
        self.embed_scale = 1.0 if layout.settings.get("no_scale_embedding", True) else math.sqrt(width)

    def relate_positions(self, link: str, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the bias of absolute positions, of normalised positions `(n, width)`: `(1, heads, n, m)`."""
        query, key = (
            getattr(self, f"{link}_{part}_linear")(places).unflatten(-1, (self.heads, -1)).transpose(0, 1)
            for part, places in (("q", queries), ("k", keys))
        )
        return (query * self.position_scale @ key.transpose(1, 2))[None]

    def token_bias(self, length: int, layer: int) -> Tensor:
        """Return a layer's bias of relative positions among tokens: `(heads, length, length)`."""
        table = self.token_rel_pos_table_list[layer]
        return table(token_buckets(length, (table.num_embeddings + 1) // 2).to(table.weight.device)).permute(2, 0, 1)


class Encoder(_Stack):
    """Reads a picture's cells, then a text's tokens."""

    def __init__(self, layout: Layout, resnet: Network) -> None:
        super().__init__(layout, "encoder", ("pos",))
        width = self.embed_positions.embedding_dim
        self.embed_tokens = nn.Embedding(layout.shape_of("encoder.embed_tokens.weight")[0], width)
        self.type_embedding = nn.Embedding(2, width)
        self.embed_images, self.image_proj = resnet, nn.Linear(resnet.width, width)
        self.side = math.isqrt(layout.shape_of("encoder.embed_image_positions.weight")[0] - 1)
        self.embed_image_positions = nn.Embedding(self.side**2 + 1, width)
        for name in ("image_pos_ln", "patch_layernorm_embedding"):
            setattr(self, name, nn.LayerNorm(width))
        offsets = (2 * self.side - 1) ** 2 + _MARKS
        self.image_rel_pos_table_list = nn.ModuleList(nn.Embedding(offsets, self.heads) for _ in self.layers)
        self.entangled = bool(layout.settings.get("entangle_position_embedding", False))

    def embed_picture(self, pixel_values: Tensor) -> Tensor:
        """Read float `(batch, 3, h, w)`: a grid of cells `(batch, h / 16, w / 16, width)`."""
        return self.image_proj(self.embed_images(pixel_values).permute(0, 2, 3, 1))

    def forward(self, grid: Tensor, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Read a grid of cells and int64 `(batch, tokens)`, of which the bool mask hides the padding.

        Returns:
            States `(batch, cells + tokens, width)`, and the positions, normalised: `(cells + tokens, width)`.
        """
        (rows, columns), tokens = grid.shape[1:3], ids.shape[1]
        cells = rows * columns
        down, right = (torch.arange(sides, device=ids.device) for sides in (rows, columns))
        image_places = self.embed_image_positions((down[:, None] * self.side + right + 1).flatten())
        places = self.embed_positions.weight[:tokens]
        image, text = grid.flatten(1, 2) * self.embed_scale, self.embed_tokens(ids) * self.embed_scale
        if self.entangled:
            image, text = image + image_places, text + places
        image = self.patch_layernorm_embedding(image + self.type_embedding.weight[1])
        text = self.layernorm_embedding(text + self.type_embedding.weight[0])
        states = torch.cat([image, text], dim=1)
        positions = torch.cat([self.image_pos_ln(image_places), self.pos_ln(places)])
        absolute = self.relate_positions("pos", positions, positions)
        hidden = hide_cells(mask, cells, states.dtype)
        apart = cell_distances(rows, columns, self.side).to(ids.device)
        for k, layer in enumerate(self.layers):
            among_cells = self.image_rel_pos_table_list[k](apart).permute(2, 0, 1)
            relative = nn.functional.pad(among_cells, (0, tokens, 0, tokens))
            relative = relative + nn.functional.pad(self.token_bias(tokens, k), (cells, 0, cells, 0))
            states = layer(states, absolute + relative + hidden)
        return self.layer_norm(states), positions


class Decoder(_Stack):
    """Reads the words so far, and the encoder's states."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout, "decoder", ("self_pos", "cross_pos"))
        self.entangled = not layout.settings.get("disable_entangle", True)

    def forward(
        self, ids: Tensor, words: Network, source: tuple[Tensor, Tensor, Tensor], past: Past | None = None
    ) -> Tensor:
        """Return states at each of int64 `(batch, tokens)`, or each that is not past: `(batch, tokens, width)`."""
        length, (states, source_places, hidden) = ids.shape[1], source
        new = length - (past.length if past else 0)
        places = self.embed_positions.weight[:length]
        text = words(ids[:, -new:]) * self.embed_scale
        text = self.layernorm_embedding(text + places[-new:] if self.entangled else text)
        places = self.pos_ln(places)
        absolute = self.relate_positions("self_pos", places[-new:], places)
        read, lowest = read_before(ids[:1], new), torch.finfo(text.dtype).min
        later = torch.zeros((), dtype=text.dtype, device=ids.device).where(read, lowest)
        crossed = self.relate_positions("cross_pos", places[-new:], source_places) + hidden
        for k, layer in enumerate(self.layers):
            seen = None if past is None else past.add_states(k, text)
            bias = absolute + self.token_bias(length, k)[:, -new:] + later
            text = layer(text, bias, states, crossed, seen=seen)
        return self.layer_norm(text)


def hide_cells(mask: Tensor, cells: int, precision: dtype) -> Tensor:
    """Return the summand of attention that hides padding behind a picture: `(batch, 1, 1, cells + n)`."""
    padded = nn.functional.pad(~mask, (cells, 0))[:, None, None]
    return padded.to(precision) * torch.finfo(precision).min


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


class Ofa(NativeHalves):
    """A picture's cells, and the tokens of ' does the image describe " ... "?'; the answer's first word is read.

    Classes are "yes" and "no": 0 is the match. The authors trained it in pre-training; a file fine-tuned for captions
    may have unlearnt it.
    """

    match = 0

    def take_words(self, tokenizer: PreTrainedTokenizerBase, folder: Path = Path()) -> None:
        """Take the tokens of an answer's beginning, "yes" and "no"."""
        del folder
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

    prompt = OFA_CAPTION
    search = Search(beams=5, longest=16, repeats=3)

    @property
    def facts(self) -> str:
        """The configuration, and the question."""
        return f"{super().facts} asked {self.prompt.text!r}"

    def take_words(self, tokenizer: PreTrainedTokenizerBase, folder: Path = Path()) -> None:
        """Take the tokens before and behind a caption, and those of the question."""
        add_codes(tokenizer, self.module.config)
        super().take_words(tokenizer, folder)
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


def add_codes(tokenizer: PreTrainedTokenizerBase, config: NativeConfig) -> None:
    """Add the tokens `<code_0>`, ... of images and `<bin_0>`, ... of coordinates to BART's, unless they are there."""
    codes = [f"<{kind}_{k}>" for kind in _CODES for k in range(getattr(config, kind))]
    vocabulary = tokenizer.get_vocab()
    tokenizer.add_tokens(
        [code for code in codes if code not in vocabulary], special_tokens=True
    )  # no words of a caption
    if len(tokenizer) != config.vocab_size:
        raise ModelError(
            f"OFA's tokenizer has {len(tokenizer)} tokens, {len(codes)} of images and coordinates among them, and the "
            f"model {config.vocab_size}; name BART's tokenizer with tokenizer=FOLDER"
        )


def _build_ofa(layout: Layout) -> Network:
    settings = {name: layout.settings[name] for name in published_facts("ofa")["settings"] if name in layout.settings}
    size = int(layout.settings.get("image_size", layout.settings.get("patch_image_size", _IMAGE_SIZE)))
    layout = replace(layout, settings=settings)
    module = nn.Module()
    resnet = Resnet(layout, "encoder.embed_images", 1e-3 if settings.get("sync_bn") else 1e-5)
    module.encoder, module.decoder = Encoder(layout, resnet), Decoder(layout)
    largest = module.encoder.side * _STRIDE
    if not 0 < size <= largest:
        raise ModelError(
            f"{layout.source}: image_size is {size}; OFA has positions for pictures up to {largest} pixels"
        )
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
        "mean_likelihood": Reading(
            combine_halves("OfaCaptionerMean", ByToken, OfaCaptioner),
            "likelihood",
            "encoder.embed_tokens.weight",
            prompt=" {}",
        ),
        "itm": Reading(Ofa, "itm", "encoder.embed_tokens.weight", clean=clean_like_ofa_matching),
        "itm_logit": Reading(Ofa, "itm_logit", "encoder.embed_tokens.weight", clean=clean_like_ofa_matching),
    },
    images=lambda module: square_inputs(module.config.image_size, module.config.colours),
    vocabulary="facebook/bart-base",
    resize=lambda tensors, _size: tensors,  # positions are looked up by row and column
    clean=clean_like_ofa,
    prompt=OFA_MATCH.fill(text="{}"),
)
