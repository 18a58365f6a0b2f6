"""Texts that share their beginnings get the vectors of texts encoded apart, bit for bit; other towers do not share."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from tiny_models import check_neighbours
from tiny_openclip import TEXTS, named

from tellapart.models.find import find_model
from tellapart.models.openclip.tokens import TextTower
from tellapart.models.torch.backend import exact_batches, fixed_batches, positions_by_key
from tellapart.models.torch.dual_encoder import TorchDual
from tellapart.models.torch.shared_beginnings import HIDDEN, pack_texts

VALSE = Path(__file__).parents[4] / "shared" / "data" / "valse"
START, END, SIZE = 49406, 49407, 16

#: Captions that are beginnings of others, equal ones, one word, none, and some beyond the context.
CAPTIONS = [
    *TEXTS,
    *(f"there are exactly {count} {noun}" for count in ("two", "three", "four") for noun in ("cats", "red cups")),
    "there are exactly",
    "there",
    "there are exactly two cats",
    "! a",
    "a ! b",
    "a red cup end_of_text left of a blue bowl",
    "there are exactly two " * 30,
    "there are exactly two " * 30 + "dogs",
]


def tower_of(open_clip, architecture: str, dtype: str) -> tuple[Any, TextTower]:
    torch.manual_seed(0)
    model = open_clip.create_model(architecture).eval().to(getattr(torch, dtype))
    for parameter in model.parameters():  # large enough that every step shows; CoCa leaves one as the memory was
        torch.nn.init.normal_(parameter, std=0.3)
    return model, TextTower(model)


def encode_apart(tower: TextTower, ids):
    """The plain pass: batches of one shape."""
    return torch.cat([tower.encode(ids[batch])[:real] for batch, real in fixed_batches(range(len(ids)), SIZE)])


@st.composite
def token_rows(draw: st.DrawFn, length: int) -> NDArray[np.int64]:
    """Rows of tokens as a tokenizer makes them, of few words, so that they begin alike: cut, short, with early ends."""
    words = st.lists(st.sampled_from([0, 1, 2, 320, END]), max_size=length + 3)
    rows = np.zeros((draw(st.integers(1, 40)), length), np.int64)
    texts = draw(st.lists(words, min_size=len(rows), max_size=len(rows)))
    for row, text in zip(rows, texts, strict=True):
        tokens = [START, *text, END][:length]
        tokens[-1] = END
        row[: len(tokens)] = tokens
    return rows


@pytest.mark.parametrize(
    ("architecture", "dtype", "length"),
    [
        *(("tiny", "float32", 8), ("tiny-quickgelu", "float32", 16), ("tiny-custom", "float64", 16)),
        *(("tiny", "bfloat16", 16), ("tiny-coca", "float32", 76), ("tiny-coca", "float64", 76)),
    ],
)
def test_trees_of_every_shape_give_the_bits_of_the_plain_pass(open_clip, architecture, dtype, length):
    _, tower = tower_of(open_clip, architecture, dtype)
    assert tower.shares

    @settings(max_examples=12, suppress_health_check=list(HealthCheck))
    @given(rows=token_rows(length))
    def compare(rows: NDArray[np.int64]) -> None:
        ids = torch.from_numpy(rows)
        with torch.inference_mode():
            apart = encode_apart(tower, ids)
            assert torch.equal(tower.encode_shared({"input_ids": ids}, SIZE), apart)
        assert apart.std() > 0

    compare()


@pytest.mark.parametrize("architecture", ["tiny", "tiny-custom", "tiny-coca"])
def test_captions_have_the_bytes_of_the_plain_pass_in_any_order_and_company(checkpoints, monkeypatch, architecture):
    model = find_model(f"open_clip:{named(architecture)}@{checkpoints(architecture)}")
    assert isinstance(model, TorchDual) and model.shares_beginnings
    shared = check_neighbours(model.encode_texts, CAPTIONS, sizes=(5, 9))
    with monkeypatch.context() as patch:
        patch.setattr(TextTower, "shares", False)
        assert np.array_equal(model.encode_texts(CAPTIONS), shared)
    with exact_batches(4):  # times one text at a time: nothing to share
        assert not model.shares_beginnings


def wrap_layer(text) -> None:
    class Adapted(torch.nn.Linear):
        def forward(self, states):
            return super().forward(states) * 2

    mlp = text.transformer.resblocks[0].mlp
    plain, mlp.c_fc = mlp.c_fc, Adapted(32, 128).eval()
    mlp.c_fc.load_state_dict(plain.state_dict())


def replace_forward(text) -> None:
    mlp = text.transformer.resblocks[0].mlp
    mlp.forward = lambda states: torch.nn.Sequential.forward(mlp, states) * 2


def quantise_weight(text) -> None:
    class Quantised(torch.nn.Parameter):  # as libraries wrap a weight that they unpack for each product
        pass

    layer = text.transformer.resblocks[0].mlp.c_fc
    layer.weight = Quantised(layer.weight.detach().round(decimals=1), requires_grad=False)


CHANGES: dict[str, Callable[[Any], object]] = {
    "states": lambda text: text.transformer.resblocks[1].register_forward_hook(lambda _module, _, output: output * 1.5),
    "inputs": lambda text: text.ln_final.register_forward_pre_hook(lambda _module, inputs: (inputs[0] + 1,)),
    "forward": replace_forward,
    "wrapped": wrap_layer,
    "quantised": quantise_weight,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_tower_that_was_changed_is_computed_plainly_with_its_change(checkpoints, change):
    model = find_model(f"open_clip:tiny-custom@{checkpoints('tiny-custom')}")
    before = model.encode_texts(CAPTIONS)
    CHANGES[change](model.towers.module.text)
    assert not model.shares_beginnings
    # Of the plain pass, which goes through the changed modules.
    assert not np.array_equal(before, model.encode_texts(CAPTIONS))


def test_towers_that_are_compiled_trained_or_of_other_classes_do_not_share(open_clip, monkeypatch):
    model, _ = tower_of(open_clip, "tiny", "float32")

    def works():
        return TextTower(model).shares

    assert works()
    model.train()
    assert not works()
    model.eval()
    handle = torch.nn.modules.module.register_module_forward_hook(lambda *_: None)
    assert not works()
    handle.remove()
    with monkeypatch.context() as patch:  # as `Module.compile` leaves it; the compiler takes seconds to import
        patch.setattr(model.transformer.resblocks[0], "_compiled_call_impl", model.transformer.resblocks[0].forward)
        assert not works()
    assert works()
    model.__class__ = type("Wrapped", (type(model),), {})
    assert not works()
    assert not tower_of(open_clip, "tiny-bidirectional", "float32")[1].shares


def read_captions(names: Sequence[str], count: int) -> list[str]:
    if not VALSE.is_dir():
        pytest.skip("VALSE's captions are not in ../shared/data")
    rows = [row for name in names for row in list(json.loads((VALSE / f"{name}.json").read_text()).values())[:count]]
    return [row[key] for row in rows for key in ("caption", "foil") if row.get(key)]


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_real_captions_have_the_bytes_of_the_plain_pass_at_full_width(open_clip, threads):
    captions = read_captions(["counting-hard", "foil-it", "coreference-standard"], 20)
    torch.manual_seed(0)
    model = open_clip.create_model("ViT-B-32").eval()
    tower, ids = TextTower(model), open_clip.get_tokenizer("ViT-B-32")(captions)
    assert tower.shares
    torch.set_num_threads(threads)
    try:
        with torch.inference_mode():
            for length, rows in positions_by_key(tower.lengths(ids)).items():
                part = ids[rows, :length]
                assert torch.equal(tower.encode_shared({"input_ids": part}, SIZE), encode_apart(tower, part))
    finally:
        torch.set_num_threads(1)


def beginnings(tokens: NDArray[np.int64]) -> set[tuple[tuple[int, int], ...]]:
    """The distinct beginnings of texts: tuples of (place, token), each ending at a place that is seen."""
    paths = [tuple((place, int(token)) for place, token in enumerate(row) if token != HIDDEN) for row in tokens]
    return {path[: end + 1] for path in paths for end in range(len(path))}


@given(
    tokens=arrays(np.int64, st.tuples(st.integers(0, 12), st.integers(1, 6)), elements=st.integers(-1, 2)),
    spare=st.integers(0, 9),
)
def test_each_text_is_in_one_pack_with_its_tokens_and_each_beginning_once(tokens, spare):
    tokens[:, 0] = 3  # as every tokenizer starts
    size = tokens.shape[1] + spare
    packs = list(pack_texts(tokens, size))
    assert sorted(text for pack in packs for text in pack.texts.tolist()) == list(range(len(tokens)))
    for pack in packs:
        rows = tokens[pack.texts]
        seen = rows != HIDDEN
        assert pack.tokens.shape == pack.depths.shape == (size,)
        assert np.array_equal(pack.tokens[pack.nodes][seen], rows[seen])
        assert np.array_equal(pack.depths[pack.nodes][seen], np.nonzero(seen)[1])
        nodes = pack.nodes[pack.first]
        assert sorted(nodes.tolist()) == list(range(len(beginnings(rows)))) and not (pack.first & ~seen).any()
        # A node stands for one beginning: no two texts share one unless they agree up to it.
        for place in range(rows.shape[1]):
            for node in set(pack.nodes[seen[:, place], place].tolist()):
                sharing = (pack.nodes[:, place] == node) & seen[:, place]
                assert len(np.unique(rows[sharing, : place + 1], axis=0)) == 1


@pytest.mark.parametrize(("size", "packs"), [(6, 1), (5, 2), (4, 2)])
def test_a_pack_that_is_full_starts_the_next_and_a_text_beyond_a_pack_is_refused(size, packs):
    texts = np.array([[7, 1, 2, 9], [7, 1, 3, 9]])
    assert len(list(pack_texts(texts, size))) == packs
    with pytest.raises(ValueError, match=r"4 tokens.*size=3"):
        list(pack_texts(texts, 3))
