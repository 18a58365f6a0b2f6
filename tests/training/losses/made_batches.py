"""Random batches in float64, with two images that have two captions each."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tellapart.catalog import LOSSES
from tellapart.training.losses.loss import Batch, Loss, LossParts, Matches, find_loss

#: What a batch may have, a row for each pair.
LOCAL = ("units", "patches", "words", "real_words")
#: The numbers of texts that a batch may have.
TEXT_IDS = ("text_ids", "negative_text_ids", "positive_text_ids", "unit_ids")
IDS = [0, 1, 2, 0, 3, 4, 2, 5]


def units(*shape: int, seed: int) -> Tensor:
    made = torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return made / made.norm(dim=-1, keepdim=True)


def batch(seed: int = 0, ids: list[int] = IDS, scale: float = 8.0, *, alike: bool = False, **more) -> Batch:
    """With `alike`, texts have numbers, of so few kinds that many are the same."""
    b, d = len(ids), 5
    generator = torch.Generator().manual_seed(seed)
    shapes = {"text_ids": (b,), "negative_text_ids": (b, 2), "positive_text_ids": (b, 2), "unit_ids": (b, 2, 2)}
    numbers = {name: torch.randint(9, shape, generator=generator) for name, shape in shapes.items() if alike}
    images = units(b, d, seed=seed)
    texts = images + 0.7 * units(b, d, seed=seed + 1)
    others = (units(b, d, seed=seed + 3), units(b, d, seed=seed + 4), torch.tensor(scale, dtype=torch.float64))
    of_others = torch.randint(9, (b,), generator=generator) if alike else None
    mates = Batch(*others, 100 + torch.arange(b), text_ids=of_others)
    return Batch(
        images=images,
        texts=texts / texts.norm(dim=-1, keepdim=True),
        scale=torch.tensor(scale, dtype=torch.float64),
        image_ids=torch.tensor(ids),
        bias=torch.tensor(-3.0, dtype=torch.float64),
        negative_texts=units(b, 2, d, seed=seed + 2),
        has_negative=torch.arange(2 * b).reshape(b, 2) % 3 != 1,
        positive_texts=units(b, 2, d, seed=seed + 6),
        units=units(b, 2, 2, d, seed=seed + 5),
        # A patch has a length of its own: the losses that compare directions take that out.
        patches=units(b, 4, d, seed=seed + 7) * torch.linspace(0.5, 2.0, 4, dtype=torch.float64)[None, :, None],
        words=units(b, 3, 3, d, seed=seed + 8),
        real_words=torch.arange(9 * b).reshape(b, 3, 3) % 4 != 3,
        mates=mates,
        **numbers,
        **more,
    )


def reordered(made: Batch, order: Tensor) -> Batch:
    """The same pairs in another order."""

    def pick(batch: Batch, names: tuple[str, ...]) -> dict[str, Any]:
        return {name: None if (one := getattr(batch, name)) is None else one[order] for name in names}

    old, shared = made.mates, ("images", "texts", "image_ids")
    mates = None if old is None else replace(old, **pick(old, (*shared, "text_ids")))
    names = (*shared, "negative_texts", "has_negative", "positive_texts", *LOCAL, *TEXT_IDS)
    return replace(made, mates=mates, **pick(made, names))


def matches(seed: int = 0, negatives: int = 4) -> Matches:
    b, generator = len(IDS), torch.Generator().manual_seed(seed)

    def logits(*shape: int) -> Tensor:
        return 2.0 * torch.randn(*shape, dtype=torch.float64, generator=generator)

    ids = torch.tensor(IDS)
    # Some are of the pair's own image, some are missing, and in one the text's image is not the wrong image.
    text_ids = torch.randint(-1, 6, (b, negatives), generator=generator)
    image_ids = text_ids.clone()
    text_ids[4, 0], image_ids[4, 0] = 1, 5
    return Matches(
        true=logits(b) + 1, wrong_texts=logits(b, negatives), wrong_images=logits(b, negatives),
        counterparts=logits(b, negatives) + 1, image_ids=ids, negative_text_ids=text_ids, negative_image_ids=image_ids,
    )  # fmt: skip


#: Options of losses that would show little by their defaults.
OPTIONS: dict[str, Any] = {
    "ce-clip": {"bound": 1.0}, "negbench": {"contrast": 0.5, "choice": 0.5}, "hardneg": {"k": 2},
    "eqsim": {"alpha": 0.01, "k": 2}, "eqsim-itm": {"alpha": 0.001, "k": 1},
    "eqsim-ranking": {"alpha": 0.001, "variant": "v2-all"},
}  # fmt: skip


def of_the_catalogue(kind: type[Loss], **options: dict[str, Any]) -> dict[str, Callable[..., LossParts]]:
    """Every loss of a kind, so that a new one has all laws at once."""
    declared, chosen = {name: find_loss(name) for name in LOSSES}, OPTIONS | options
    return {name: partial(loss, **chosen.get(name, {})) for name, loss in declared.items() if isinstance(loss, kind)}
