"""What a loss is: its inputs, its declaration and its options, the sum of several, and what losses share.

A loss is a function of a `Batch` of vectors (dual encoders) or of `Matches` (fusion encoders), whose keyword parameters
are its options; `@loss` declares what a training step must give. Losses compare all ranks' pairs a few rows of the
similarity matrix at a time: memory is that of a chunk of rows. A rank computes its rows against the columns of all
ranks, gathered with gradients; DDP's average over ranks is then the gradient of one rank. Random draws depend on the
step, the row and the column alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise, repeat
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model

from tellapart.catalog import load
from tellapart.data.fields import field_fault
from tellapart.data.validation import validate
from tellapart.errors import DataError, ModelError, UnknownNameError
from tellapart.training.lazy_torch import Tensor, torch

#: Scalars that are summed, by name, and their sum under `total`. Weights are in the parts already.
LossParts = dict[str, "Tensor"]

Function = TypeVar("Function", bound=Callable[..., LossParts])

#: Axes by their letters. The size of an axis is that of the first tensor that has it.
_AXES = {"b": "pairs", "d": "dimensions", "n": "negatives", "p": "true captions", "u": "units", "2": "unit and foil"}
_AXES |= {"q": "patches", "c": "captions", "w": "words"}


@cache
def _shapes(inputs: type) -> dict[str, str]:
    """Return the axes of each tensor of a class of inputs."""
    hints = get_type_hints(inputs, include_extras=True).items()
    return {name: hint.__metadata__[0] for name, hint in hints if get_origin(hint) is Annotated}


def _check_shapes(inputs: Batch | Matches) -> None:
    sizes = {"2": 2}
    kind: type = type(inputs)
    for name, axes in _shapes(kind).items():
        if (tensor := getattr(inputs, name)) is not None:
            shape = tuple(tensor.shape)
            if len(shape) == len(axes):
                for axis, size in zip(axes, shape, strict=True):
                    sizes.setdefault(axis, max(size, 1))
            if shape != (expected := tuple(map(sizes.get, axes, repeat(1)))):
                place, named = f"{kind.__name__}({name}=...)", ", ".join(map(_AXES.__getitem__, axes))
                raise ModelError(f"{place} has shape {shape}; expected ({named}), which is {expected} here")


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """One rank's encoded pairs: image `i` and text `i` belong together. Every rank holds the same number of them.

    All vectors but those of patches are unit vectors. Ids are equal if two images, or two texts as the tower reads
    them, are the same, on any rank: a text that some pair of all ranks joins with an image is never its negative.

    Attributes:
        images: float `(b, d)`.
        texts: float `(b, d)`.
        scale: scalar that cosines are multiplied by (the exponential of CLIP's `logit_scale`).
        image_ids: int64 `(b,)`.
        bias: scalar that SigLIP adds to its logits.
        negative_texts: float `(b, f, d)`, of captions that are false of image `i`.
        has_negative: bool `(b, f)`, False if an image has fewer; all True if None.
        positive_texts: float `(b, p, d)`, of further true captions; the first means the same as the pair's text.
        units: float `(b, u, 2, d)`, of parts of each caption, each with its foil, which is false of the image.
        patches: float `(b, p, d)`, of the parts of each image, of any length.
        words: float `(b, 1 + f, w, d)`, of the tokens of each text and its false captions.
        real_words: bool `(b, 1 + f, w)`, False if a token begins a text or fills it up.
        mates: the hard counterpart of each pair (another image and its caption), as many pairs as these.
        chunk: rows of the similarity matrix in memory at a time; all of them if None. Changes no number.
        step: seed of a loss that draws negatives; another number, other draws.
        text_ids, negative_text_ids, positive_text_ids, unit_ids: int64, of each text; None if no two are the same.
        facts: int64 `(k, 2)`, further images and texts that are true of them, by id; as many on each rank.

    Raises:
        ModelError: a shape is none of the above, or chunk is below 1; later, a loss needs what is None.

    >>> import torch
    >>> from tellapart.training.losses.contrast import itc
    >>> batch = Batch(torch.eye(2), torch.eye(2), scale=torch.tensor(10.0), image_ids=torch.arange(2))
    >>> sorted(itc(batch))
    ['image_to_text', 'text_to_image', 'total']
    """

    images: Annotated[Tensor, "bd"]
    texts: Annotated[Tensor, "bd"]
    scale: Annotated[Tensor, ""]
    image_ids: Annotated[Tensor, "b"]
    bias: Tensor | None = None
    negative_texts: Annotated[Tensor | None, "bnd"] = None
    has_negative: Annotated[Tensor | None, "bn"] = None
    positive_texts: Annotated[Tensor | None, "bpd"] = None
    units: Annotated[Tensor | None, "bu2d"] = None
    patches: Annotated[Tensor | None, "bqd"] = None
    words: Annotated[Tensor | None, "bcwd"] = None
    real_words: Annotated[Tensor | None, "bcw"] = None
    mates: Batch | None = None
    chunk: int | None = None
    step: int = 0
    text_ids: Annotated[Tensor | None, "b"] = None
    negative_text_ids: Annotated[Tensor | None, "bn"] = None
    positive_text_ids: Annotated[Tensor | None, "bp"] = None
    unit_ids: Annotated[Tensor | None, "bu2"] = None
    facts: Tensor | None = None

    def __post_init__(self) -> None:
        _check_shapes(self)
        if self.mates is not None and self.mates.images.shape != self.images.shape:
            shapes = tuple(self.mates.images.shape), tuple(self.images.shape)
            raise ModelError(f"Batch(mates.images=...) has shape {shapes[0]}; expected {shapes[1]}: one for each pair")
        if self.chunk is not None and self.chunk < 1:
            raise ModelError(f"Batch(chunk={self.chunk}): a chunk has at least one row; None takes all rows at once")

    def need(self, name: str, loss: str) -> Tensor:
        """Return a field that a loss needs; an error names both, and the field's axes."""
        tensor: Tensor | None = getattr(self, name)
        if tensor is None:
            axes = ", ".join(_AXES[axis] for axis in _shapes(Batch).get(name, ""))
            raise ModelError(f"{loss} needs Batch({name}=...){axes and f' ({axes})'}, which this batch lacks")
        return tensor

    def true_pairs(self) -> Tensor | None:
        """Return ids `(k, 2)` of images and texts that this rank knows to be true of them; None if texts have none."""
        if self.text_ids is None:
            return None
        texts = [self.text_ids[:, None]]
        texts += [] if self.positive_text_ids is None else [self.positive_text_ids]
        texts += [] if self.unit_ids is None else [self.unit_ids[:, :, 0]]
        columns = torch.cat(texts, dim=1)
        pairs = [torch.stack([self.image_ids[:, None].expand_as(columns), columns], dim=-1).flatten(0, 1)]
        pairs += [] if self.facts is None else [self.facts]
        mates = None if self.mates is None else self.mates.true_pairs()
        return torch.cat(pairs if mates is None else [*pairs, mates])


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """One rank's matching logits; pair `i` is crossed with `m` negative pairs. Every rank holds equally many pairs.

    A logit is the head's logit of "matched" less that of "not matched", if it has two.

    Attributes:
        true: float `(b,)`, of image `i` with text `i`.
        wrong_texts: float `(b, m)`, of image `i` with the text of its negative `j`.
        wrong_images: float `(b, m)`, of the image of negative `j` with text `i`.
        counterparts: float `(b, m)`, of the image of negative `j` with its text; EqSim needs it.
        image_ids: int64 `(b,)`, the image of each pair.
        negative_text_ids: int64 `(b, m)`, the image that each wrong text belongs to, or the pair's if the text is true
            of that; -1 if the negative is missing.
        negative_image_ids: int64 `(b, m)`, the number of each wrong image, or the pair's if its text is true of the
            wrong one; -1 if the negative is missing. A negative of the pair's image counts nowhere.
        close: bool `(b, m)`, which negatives are hard; if None, those that the logits themselves find most similar.

    Raises:
        ModelError: a shape is none of the above.

    >>> import torch
    >>> zeros, ids = torch.zeros(1, 3), torch.tensor([[1, 0, -1]])  # the second negative is of the pair's own image
    >>> Matches(torch.zeros(1), zeros, zeros, None, torch.tensor([0]), ids, ids).has_wrong_text.tolist()
    [[True, False, False]]
    """

    true: Annotated[Tensor, "b"]
    wrong_texts: Annotated[Tensor, "bn"]
    wrong_images: Annotated[Tensor, "bn"]
    counterparts: Annotated[Tensor | None, "bn"]
    image_ids: Annotated[Tensor, "b"]
    negative_text_ids: Annotated[Tensor, "bn"]
    negative_image_ids: Annotated[Tensor, "bn"]
    close: Annotated[Tensor | None, "bn"] = None

    def __post_init__(self) -> None:
        _check_shapes(self)

    @property
    def has_wrong_text(self) -> Tensor:
        """Which wrong texts count, bool `(b, m)`: those of another image."""
        return (self.negative_text_ids >= 0) & (self.negative_text_ids != self.image_ids[:, None])

    @property
    def has_wrong_image(self) -> Tensor:
        """Which wrong images count, bool `(b, m)`: other images."""
        return (self.negative_image_ids >= 0) & (self.negative_image_ids != self.image_ids[:, None])


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss of either family; calling it calls its function, which returns scalar parts and their sum, `total`.

    `idle_reason` is why a term may be 0 at every step, and what to do; empty if no reason is known.
    """

    function: Callable[..., LossParts]
    idle_reason: str = field(default="", kw_only=True, compare=False)

    def __call__(self, inputs: Batch | Matches, **options: Any) -> LossParts:
        """Return the parts of the loss, with options or the defaults."""
        return self.function(inputs, **options)

    @property
    def options(self) -> type[BaseModel]:
        """The table of its options, which pydantic reads from the function's signature."""
        return _options_table(self.function)

    def read_options(self, values: Mapping[str, Any], place: str) -> dict[str, Any]:
        """Return all options, with some values set; an error begins with the place."""
        return dict(validate(self.options, values, place))


@dataclass(frozen=True, slots=True)
class DualLoss(Loss):
    """A loss of dual encoders: its function takes a `Batch`.

    Attributes:
        negative_captions: false captions that it was published with, for each image.
        negative_images: use of each row's hard counterpart: `none`; `pairs`, more pairs of the batch, where the rows
            have counterparts; `mate`, the row's `Batch.mates`, which the function cannot do without.
        units: units of each caption in `Batch.units`, each with its foil; every row then needs one.
        local: whether it reads `Batch.patches` and `Batch.words`: the model must have both.
        joins: whether its pictures are two rows' joined (`data.join`), with captions that name both.
        bias: whether it reads `Batch.bias`: a model that has none then gets one.
    """

    negative_captions: int = 0
    negative_images: Literal["none", "pairs", "mate"] = "none"
    units: int = 0
    local: bool = False
    joins: bool = False
    bias: bool = False


@dataclass(frozen=True, slots=True)
class FusionLoss(Loss):
    """A loss of fusion encoders: its function takes `Matches`.

    Attributes:
        negatives: pairs that each pair is crossed with, if the configuration gives no number.
        wrong_images: whether the function reads `Matches.wrong_images`; if not, no image is crossed with a wrong text's
            image.
        counterparts: whether it reads `Matches.counterparts`; a pair's wrong text and image then come from one pair.
    """

    negatives: int = 1
    wrong_images: bool = True
    counterparts: bool = False


def loss(**needs: Any) -> Callable[[Function], Function]:
    """Declare a function as a loss, and what it needs: fields of `DualLoss` if it takes `batch`, else of `FusionLoss`.

    The function is called as before. Its options are its keyword-only parameters, with types that pydantic checks.

    >>> @loss(negative_captions=2)
    ... def scaled(batch, *, weight: float = 2.0):
    ...     return {"total": batch.scale * weight}
    """

    def declare(function: Function) -> Function:
        _family(function.__name__, function)(function, **needs)
        vars(function)["needs"] = needs
        return function

    return declare


def find_loss(name: str) -> Loss:
    """Return a loss of the catalogue, or of another package's entry point `tellapart.losses`.

    A function without `@loss` gets no negatives but those that the configuration asks for, if it takes `batch`; every
    logit, with one negative a pair, if it takes `matches`.

    >>> find_loss("negclip").negative_captions, find_loss("eqsim").read_options({"k": 4}, "[loss]")["k"]
    (1, 4)
    """
    target = load("loss", name)
    if isinstance(target, Loss):
        return target
    family = _family(name, target)
    return family(target, **vars(target).get("needs", {"counterparts": True} if family is FusionLoss else {}))


def _family(name: str, function: object) -> type[DualLoss | FusionLoss]:
    """Return the family of a function by its parameters."""
    parameters = list(inspect.signature(function).parameters.values()) if inspect.isfunction(function) else []
    first = parameters[0].name if parameters else ""
    if first not in {"batch", "matches"} or any(one.kind is not one.KEYWORD_ONLY for one in parameters[1:]):
        raise DataError(
            f"loss {name!r} is {function!r}, from which no loss can be declared; let its entry point name a function "
            "(batch) that takes a Batch, or (matches) that takes Matches (both of tellapart.training.losses.loss), "
            "with its options after a star: (batch, *, weight: float = 0.5)"
        )
    return DualLoss if first == "batch" else FusionLoss


@cache
def _options_table(function: Callable[..., LossParts]) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (Any if parameter.annotation is parameter.empty else parameter.annotation, default)
    strict = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    return create_model(function.__name__, __config__=strict, __module__=function.__module__, **fields)


@dataclass(frozen=True, slots=True)
class LossTerm:
    """A loss of a sum with its options, its factor, and the matching head that gives its logits, if not the run's."""

    name: str
    loss: Loss
    options: Mapping[str, Any] = field(default_factory=dict)
    factor: float = 1.0
    reading: str | None = None


def read_terms(table: Mapping[str, Any], where: str = "[loss]") -> tuple[LossTerm, ...]:
    """Return the losses that a table names: the table's loss first, then those of `also`, which are added to it."""
    if not isinstance(table.get("name"), str):
        raise field_fault(where, "name", "is missing; `tellapart ls losses` lists the losses")
    first = dict(table)
    name, also = first.pop("name"), first.pop("also", {})
    if not isinstance(also, Mapping) or not all(isinstance(values, Mapping) for values in also.values()):
        raise DataError(f"{where}: 'also' holds a table for each loss: [loss.also.itc]")
    terms = list[LossTerm]()
    for place, added, values in [(where, name, first), *((f"{where}: also", *entry) for entry in also.items())]:
        options, shares = dict(values), dict[str, Any]()
        if terms:
            shares = {key: options.pop(key) for key in ("factor", "reading") if key in options}
        try:
            loss = find_loss(added)
        except UnknownNameError as error:
            raise UnknownNameError(f"{place}: {error}") from error
        terms.append(LossTerm(added, loss, loss.read_options(options, f"{place}: {added!r}"), **shares))
        if len(terms) > 1:
            _check_added(terms[0], terms[-1], f"{where}: also.{added}")
    return tuple(terms)


def _check_added(first: LossTerm, added: LossTerm, place: str) -> None:
    """Refuse a loss that cannot be added to the first."""
    loss, factor, reading, matching = added.loss, added.factor, added.reading, isinstance(first.loss, FusionLoss)
    if not isinstance(factor, int | float) or isinstance(factor, bool) or not 0 <= factor < float("inf"):
        raise DataError(f"{place}: factor is {factor!r}; give a number that is not below 0")
    if isinstance(loss, FusionLoss) and not matching:
        raise DataError(f"{place}: matches pairs, and {first.name!r} is contrastive; let [loss] name {added.name!r}")
    if added.name == first.name and reading is None:
        raise DataError(f"{place}: [loss] is that loss already")
    if reading is not None and not (isinstance(reading, str) and isinstance(loss, FusionLoss)):
        raise DataError(f"{place}: reading is {reading!r}; it names a matching head, of a loss that matches")
    needs = isinstance(loss, DualLoss) and (loss.negative_captions or loss.negative_images == "mate" or loss.bias)
    if matching and needs:
        raise DataError(f"{place}: needs false captions, counterparts or a bias, which no fusion encoder's step has")


def sum_terms(terms: Sequence[LossTerm], inputs: Sequence[Any]) -> LossParts:
    """Return the sum of losses, each of its `Batch` or `Matches`; added ones' parts are named after the loss."""
    summed = dict(terms[0].loss.function(inputs[0], **terms[0].options))
    total = summed.pop("total")
    for term, arguments in zip(terms[1:], inputs[1:], strict=True):
        parts = term.loss.function(arguments, **term.options)
        total = total + term.factor * parts["total"]
        summed |= {f"{term.name}.{name}": term.factor * part for name, part in parts.items() if name != "total"}
    return {**summed, "total": total}


def sum_parts(**parts: Tensor) -> LossParts:
    """Return scalar parts by name, and their sum under `total`."""
    first, *others = parts.values()
    return {**parts, "total": sum(others, start=first)}


def wide(tensor: Tensor) -> Tensor:
    """Return float32 for half precision, and any other tensor unchanged: losses compare in float32 at least."""
    return tensor.float() if tensor.dtype in {torch.float16, torch.bfloat16} else tensor


#: Constants of SplitMix64, less 2^64 if above 2^63: int64 wraps as the source's uint64 does.
_ROW, _COLUMN, _STEP = 0x9E3779B97F4A7C15 - (1 << 64), 0xC2B2AE3D27D4EB4F - (1 << 64), 0x165667B19E3779F9
_FIRST, _SECOND = 0xBF58476D1CE4E5B9 - (1 << 64), 0x94D049BB133111EB - (1 << 64)


def uniform(step: int, rows: Tensor, columns: int) -> Tensor:
    """Return numbers within (0, 1), float32 `(len(rows), columns)`: a hash of step, row and column.

    Source: the finaliser of SplitMix64 (Steele, Lea and Flood 2014).
    """

    def mix_bits(x: Tensor) -> Tensor:
        # A right shift is arithmetic, so the copies of the sign are cut off.
        x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * _FIRST
        x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * _SECOND
        return x ^ ((x >> 31) & ((1 << 33) - 1))

    mixed = rows[:, None] * _ROW + torch.arange(columns, device=rows.device)[None, :] * _COLUMN
    mixed = mix_bits(mixed + mix_bits(torch.tensor(step * _STEP % (1 << 63), device=rows.device)))
    # The upper 23 bits: with the half they are exact in float32, and never 0 or 1.
    return (((mixed >> 41) & 0x7FFFFF).float() + 0.5) / (1 << 23)


def draw(logits: Tensor, count: int, step: int, rows: Tensor) -> Tensor:
    """Draw `count` distinct columns a row by a softmax, as `torch.multinomial` does; -1 if none is left."""
    # With standard Gumbel noise added to logits, the largest is a draw by their softmax.
    noise = -(-uniform(step, rows, logits.shape[1]).log()).log()
    return best(logits + noise.to(logits.dtype), count)


def best(values: Tensor, count: int) -> Tensor:
    """Return the columns of each row's `count` largest values, int64 `(c, count)`; -1 if a value is -inf or missing."""
    top = values.topk(min(count, values.shape[1]), dim=1)
    columns = torch.where(top.values == float("-inf"), -1, top.indices)
    return torch.nn.functional.pad(columns, (0, count - columns.shape[1]), value=-1)


def rank_and_count() -> tuple[int, int]:
    """Return this process's rank, and how many ranks train together; 0 and 1 without torch.distributed."""
    together = torch.distributed.is_available() and torch.distributed.is_initialized()
    return (torch.distributed.get_rank(), torch.distributed.get_world_size()) if together else (0, 1)


def gather(rows: Tensor) -> Tensor:
    """Return every rank's rows, rank 0's first; a gradient flows back to the rank that each row came from."""
    rank, count = rank_and_count()
    if count == 1:
        return rows

    def sum_over_ranks(gradient: Tensor) -> Tensor:
        # Every rank's loss depends on these rows.
        gradient = gradient.clone(memory_format=torch.contiguous_format)
        torch.distributed.all_reduce(gradient)
        return gradient

    everyone = [torch.empty_like(rows, memory_format=torch.contiguous_format) for _ in range(count)]
    torch.distributed.all_gather(everyone, rows.detach().contiguous())
    everyone[rank] = rows
    joined = torch.cat(everyone)
    if joined.requires_grad:
        joined.register_hook(sum_over_ranks)
    return joined


def mean_over_ranks(value: Tensor) -> Tensor:
    """Return the mean of all ranks' values; its gradient is that of this rank's value, as DDP expects."""
    _, count = rank_and_count()
    if count == 1:
        return value
    mean = value.detach().clone()
    torch.distributed.all_reduce(mean)
    return mean / count + (value - value.detach())


def share(total: Tensor, count: Tensor) -> Tensor:
    """Return the mean of all ranks' counts: the sum of `total` over the sum of `count`; 0 if nothing counted."""
    counted = mean_over_ranks(count.detach().to(total.dtype))
    # Below one term in all no rank has a term, and the sum is 0.
    return mean_over_ranks(total / counted.clamp(min=1.0 / rank_and_count()[1]))


#: Makes one number of an image's and a text's (an odd number: int64 wraps, and nothing is lost).
_IMAGE = -0x61C8864680B583EB


@dataclass(frozen=True, slots=True, eq=False)
class MatrixRows:
    """`c` rows of the matrix of all ranks' `n` pairs, and of its transpose: this rank's, or a chunk of them.

    The diagonal of true pairs begins at `part.start`. `text_ids` are None if each text is true of its image alone; else
    `true` has, sorted, a number for each image id with the id of a text that is true of it.
    """

    images: Tensor
    texts: Tensor
    scale: Tensor
    image_ids: Tensor
    part: slice
    chunk: int | None = None
    text_ids: Tensor | None = None
    true: Tensor | None = None

    @property
    def index(self) -> Tensor:
        """The rows' numbers among all pairs, int64 `(c,)`."""
        return torch.arange(self.part.start, self.part.stop, device=self.images.device)

    @property
    def negatives(self) -> tuple[Tensor, Tensor]:
        """True if the column's text is false of the row's image, and if the row's text is of the column's, `(c, n)`."""
        images, texts, part = self.image_ids, self.text_ids, self.part
        if texts is None:
            return (images[part, None] != images,) * 2
        return ~find_true(self.true, images[part, None], texts), ~find_true(self.true, images, texts[part, None])

    @property
    def negative(self) -> Tensor:
        """True if each of two pairs' texts is false of the other's image, bool `(c, n)`."""
        return torch.logical_and(*self.negatives)

    def cosines(self) -> tuple[Tensor, Tensor]:
        """Cosines of images with all texts, and of texts with all images, `(c, n)`."""
        return self.images[self.part] @ self.texts.T, self.texts[self.part] @ self.images.T

    def logits(self, *, with_true: bool = True) -> tuple[Tensor, Tensor]:
        """Scaled `cosines`; -inf at pairs that are true, but for the row's pair itself, unless it is left out, too."""
        sides = list[Tensor]()
        for cosines, negative in zip(self.cosines(), self.negatives, strict=True):
            left_out = ~negative
            if with_true:
                left_out.diagonal(self.part.start).fill_(False)
            sides.append((self.scale * cosines).masked_fill(left_out, float("-inf")))
        return sides[0], sides[1]


def gather_pairs(batch: Batch) -> MatrixRows:
    """Gather the pairs of all ranks, with gradients, and return this rank's rows; half precision becomes float32."""
    count, (rank, _) = len(batch.images), rank_and_count()
    true, image_ids = gather_true(batch), gather(batch.image_ids)
    text_ids = None if batch.text_ids is None else gather(batch.text_ids)
    if text_ids is not None and true is not None:
        alone = len(image_ids.unique()) == len(text_ids.unique()) == len(true.unique()) == len(image_ids)
        text_ids = None if alone else text_ids  # each text is true of its image alone: images decide, without a search
    images, texts, part = gather(wide(batch.images)), gather(wide(batch.texts)), slice(rank * count, (rank + 1) * count)
    return MatrixRows(images, texts, wide(batch.scale), image_ids, part, batch.chunk, text_ids, true)


def gather_true(batch: Batch) -> Tensor | None:
    """Return the images with the texts that any rank knows to be true of them, as `find_true` takes them.

    If ranks hold different numbers of pairs, all of them raise, so that none waits.
    """
    counts = gather(torch.tensor([len(batch.images)], device=batch.images.device)).tolist()
    if len(set(counts)) > 1:
        raise ModelError(f"ranks hold {counts} pairs; a loss needs equal numbers: drop or pad the last batch")
    pairs = batch.true_pairs()
    return None if pairs is None else gather(pairs[:, 0] * _IMAGE + pairs[:, 1]).sort().values


def find_true(true: Tensor | None, image_ids: Tensor, text_ids: Tensor | None) -> Tensor:
    """Return whether texts are known to be true of images, bool, of shapes that broadcast; False without ids."""
    if true is None or text_ids is None:
        return torch.zeros_like(image_ids, dtype=torch.bool)
    sought = image_ids * _IMAGE + text_ids
    return true[torch.searchsorted(true, sought).clamp(max=len(true) - 1)] == sought


def by_rows(rows: MatrixRows, function: Callable[[MatrixRows], Tensor]) -> Tensor:
    """Return `function` of rows, `(c, ...)`, computed a chunk at a time and again in the backward pass."""
    first, last = rows.part.start, rows.part.stop
    # Similarities are compared in float32 whatever the encoders ran in.
    with torch.autocast(rows.images.device.type, enabled=False):
        if rows.chunk is None or rows.chunk >= last - first:
            return function(rows)
        cuts = pairwise([*range(first, last, rows.chunk), last])
        parts = [replace(rows, part=slice(*cut)) for cut in cuts]
        return torch.cat([recompute(function, part, preserve_rng_state=False) for part in parts])


def recompute(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call a function whose activations are not kept: the backward pass computes them again."""
    from torch.utils.checkpoint import checkpoint

    return checkpoint(function, *arguments, use_reentrant=False, **options)


class NegativePairs(NamedTuple):
    """The pairs of all ranks, int64 `(b, m)`, by whose texts and images each pair is crossed; -1 for none."""

    texts: Tensor
    images: Tensor


def hard_negatives(batch: Batch, count: int = 1, *, shared: bool = False, hardest: bool = False) -> NegativePairs:
    """Draw hard negatives from the pairs of all ranks, by the softmax of their contrastive logits.

    The draws depend on `batch.step` and on the pair's number over all ranks, not on how many ranks there are.

    Source: ALBEF (Li et al. 2021), section 3.2; EqSim's released `hard_itm` for `shared`.
    """
    pairs = gather_pairs(batch)

    def choose(rows: MatrixRows) -> Tensor:
        sides = rows.logits(with_true=False)
        if shared:
            sides = (torch.maximum(*sides).masked_fill(~rows.negative, float("-inf")),) * 2
        chosen = [
            best(logits, count) if hardest else draw(logits, count, 2 * batch.step + side * (not shared), rows.index)
            for side, logits in enumerate(sides)
        ]
        return torch.stack(chosen, dim=1)

    with torch.no_grad():
        return NegativePairs(*by_rows(pairs, choose).unbind(1))
