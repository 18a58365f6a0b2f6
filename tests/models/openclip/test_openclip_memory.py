"""open_clip's objects in memory: the bytes of scores of the same weights through a file."""

from __future__ import annotations

from typing import Any

import pytest
from tiny_openclip import TEXTS, named, pictures

import tellapart as ta
from tellapart.models.find import find_model
from tellapart.models.scoring.score import score
from tellapart.models.store.embedding_store import EmbeddingStore

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("architecture", ["tiny", "tiny-bidirectional", "tiny-custom"])
def test_the_triple_of_open_clip_gives_the_bytes_of_its_checkpoint(
    architecture: str, open_clip: Any, checkpoints: Any, picture_set: Any
) -> None:
    file, pairs = checkpoints(architecture), picture_set(4)
    model, _, preprocess = open_clip.create_model_and_transforms(architecture, str(file))
    tokenizer = open_clip.get_tokenizer(architecture)
    model.train()
    held = ta.model(model, preprocess=preprocess, tokenizer=tokenizer, name="mine")
    named_model = find_model(f"open_clip:{named(architecture)}@{file}")
    one, other = (score(each, pairs, store=EmbeddingStore(None)).scores for each in (held, named_model))
    assert one.values.tobytes() == other.values.tobytes()
    assert held.encode_images(pictures()).tobytes() == named_model.encode_images(pictures()).tobytes()
    assert held.encode_texts(TEXTS).tobytes() == named_model.encode_texts(TEXTS).tobytes()
    assert held.truncated == named_model.truncated > 0
    assert model.training and held.stored and held.name == "mine"


def test_a_changed_encode_text_and_a_hook_on_the_text_tower_are_followed(open_clip: Any, checkpoints: Any) -> None:
    import torch

    model, _, preprocess = open_clip.create_model_and_transforms("tiny-custom", str(checkpoints("tiny-custom")))
    prepared = {"preprocess": preprocess, "tokenizer": open_clip.get_tokenizer("tiny-custom")}

    def encode_now() -> Any:
        return torch.tensor(ta.model(model, **prepared).encode_texts(TEXTS))

    plain = encode_now()
    handle = model.text.register_forward_hook(lambda _module, _given, output: -output)
    assert torch.allclose(encode_now(), -plain, atol=1e-5)
    handle.remove()

    class Turned(type(model)):  # type: ignore[misc]
        def encode_text(self, text: Any, normalize: bool = False) -> Any:
            return -super().encode_text(text, normalize)

    model.__class__ = Turned
    assert torch.allclose(encode_now(), -plain, atol=1e-5)
