"""The small language model computes as Llama in transformers, and cuts pieces as sentencepiece does."""

import io
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from facts import raises
from tellapart.errors import ModelError
from tellapart.models.text.find import find_text_scorer
from tellapart.models.text.tinystories import BYTES, Sizes, TinyStories, read_checkpoint
from tellapart.models.torch.backend import import_torch

SENTENCES = """two cats sit on a red mat, and one dog looks at them
the man is eating a sandwich beside the blue table
a woman holds three cups: one is green
children play with a ball in the park near the water
there are no people on the street today
zzz zzz zzz zzzz, says the cat""".splitlines()


@pytest.fixture(scope="session")
def trained():
    """A byte-pair tokenizer like Llama's: a blank before the text, bytes for what it does not know, no normalising."""
    sentencepiece = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 20), model_writer=model, vocab_size=340, model_type="bpe",
        byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, minloglevel=2,
    )  # fmt: skip
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


@pytest.fixture(scope="session")
def pieces(trained):
    names = [trained.id_to_piece(k).replace("▁", " ").encode() for k in range(trained.get_piece_size())]
    rows = [struct.pack("<fi", trained.get_score(k), len(name)) + name for k, name in enumerate(names)]
    return struct.pack("<i", max(map(len, names))) + b"".join(rows)


def model_bytes(sizes: Sizes, seed: int = 0) -> bytes:
    rng = np.random.default_rng(seed)
    frequencies = 10_000.0 ** -(np.arange(0, sizes.dim // sizes.heads, 2) / (sizes.dim // sizes.heads))
    angles = np.arange(sizes.context)[:, None] * frequencies
    weights = {name: rng.normal(0, 0.3, shape) for name, shape in sizes.layout().items()}
    weights["rotation"] = np.stack([np.cos(angles), np.sin(angles)])
    for name in ("attention_norm", "feed_norm", "norm"):
        weights[name] += 1
    return struct.pack("<7i", *sizes) + b"".join(weight.astype("<f4").tobytes() for weight in weights.values())


PLAIN = Sizes(dim=16, hidden=24, layers=2, heads=4, key_heads=4, vocabulary=340, context=48)
GROUPED = Sizes(dim=24, hidden=20, layers=3, heads=6, key_heads=2, vocabulary=-340, context=48)


@pytest.fixture
def checkpoint(tmp_path, pieces):
    def write(sizes=PLAIN, seed=0, *, apart=False):
        path = tmp_path / "model.bin"
        path.write_bytes(model_bytes(sizes, seed) + (b"" if apart else pieces))
        if apart:
            (tmp_path / "tokenizer.bin").write_bytes(pieces)
        return path

    return write


def reference(path: Path):
    """The same weights in transformers' Llama, whose heads turn halves instead of neighbours."""
    pytest.importorskip("torch")
    torch = import_torch()
    transformers = pytest.importorskip("transformers")
    read = read_checkpoint(path)
    s, w = read.sizes, read.weights
    head = s.dim // s.heads
    config = transformers.LlamaConfig(
        vocab_size=abs(s.vocabulary), hidden_size=s.dim, intermediate_size=s.hidden, num_hidden_layers=s.layers,
        num_attention_heads=s.heads, num_key_value_heads=s.key_heads, max_position_embeddings=s.context,
        rms_norm_eps=1e-5, tie_word_embeddings=s.vocabulary > 0,
    )  # fmt: skip

    def halves(matrix: np.ndarray, heads: int) -> np.ndarray:
        rows = matrix.T.reshape(heads, head // 2, 2, s.dim)
        return rows.swapaxes(1, 2).reshape(heads * head, s.dim)

    state = {"model.embed_tokens.weight": w["embedding"], "model.norm.weight": w["norm"]}
    state["lm_head.weight"] = w["classifier"].T
    names = {"self_attn.o_proj": "output", "self_attn.v_proj": "value"}
    names |= {f"mlp.{name}_proj": name for name in ("gate", "up", "down")}
    for k in range(s.layers):
        layer = {
            "input_layernorm": w["attention_norm"][k],
            "post_attention_layernorm": w["feed_norm"][k],
            "self_attn.q_proj": halves(w["query"][k], s.heads),
            "self_attn.k_proj": halves(w["key"][k], s.key_heads),
        } | {theirs: w[ours][k].T for theirs, ours in names.items()}
        state |= {f"model.layers.{k}.{name}.weight": values for name, values in layer.items()}
    model = transformers.LlamaForCausalLM(config).double().eval()
    tensors = {name: torch.tensor(np.array(values), dtype=torch.float64) for name, values in state.items()}
    model.load_state_dict(tensors, strict=True)
    return model


@pytest.mark.parametrize("sizes", [PLAIN, GROUPED], ids=["plain", "grouped keys, a classifier of its own"])
def test_likelihoods_are_those_of_transformers_llama(checkpoint, sizes):
    path = checkpoint(sizes)
    other, model = reference(path), TinyStories.load(path)
    torch = import_torch()
    for text in (*SENTENCES, "a", "ünd 猫!"):
        pieces = model.encode(text)
        with torch.no_grad():
            logits = other(torch.tensor([[1, *pieces]])).logits[0, :-1]
        expected_logs = logits.log_softmax(-1)[torch.arange(len(pieces)), torch.tensor(pieces)].numpy()
        np.testing.assert_allclose(model.log_likelihoods(text), expected_logs, atol=2e-4)


@example("a zzzzz zzz")  # the same pair at two places: the first is joined
@given(st.text(alphabet="acdehilmnoprstwz ,.:<0x41>/sé猫\U0001f600\t\n", max_size=40))
def test_pieces_are_those_of_sentencepiece(trained, pieces, tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "encode.bin"
    if not path.exists():
        path.write_bytes(model_bytes(PLAIN) + pieces)
    assert TinyStories.load(path).encode(text) == trained.encode(" ".join(text.split()))


def test_a_text_spells_no_control_and_is_scored_alone_and_one_without_words_refused(checkpoint):
    model = TinyStories.load(checkpoint())
    assert not {0, 1, 2} & set(model.encode("<s> </s> <unk>"))
    assert model.encode("<0x41>") != [ord("A") + BYTES]
    assert model.encode("猫")[-3:] == [byte + BYTES for byte in "猫".encode()]
    together = model.score_texts(SENTENCES)
    assert together.tolist() == [model.score_texts([text]).item() for text in SENTENCES]
    assert model.score_texts(["  a\n cat  "]).item() == model.score_texts(["a cat"]).item()
    with raises(ModelError, "words", "' '"):
        model.score_texts([" "])
    with raises(ModelError, "48", "text"):
        model.score_texts(["q" * 60])


def test_a_checkpoint_whose_tokenizer_changed_is_opened_again(checkpoint, pieces):
    path = checkpoint(apart=True)
    before = find_text_scorer(f"tinystories:{path}", path.parent)
    assert find_text_scorer(f"tinystories:{path}", path.parent) is before
    path.with_name("tokenizer.bin").write_bytes(pieces + b"\0")
    assert find_text_scorer(f"tinystories:{path}", path.parent).fingerprint != before.fingerprint


def test_a_sum_and_a_mean_are_of_the_same_likelihoods_wherever_the_tokenizer_lies(checkpoint):
    whole, other = (TinyStories.load(checkpoint(seed=seed)) for seed in (0, 1))
    path = checkpoint(apart=True)
    apart, mean = TinyStories.load(path), TinyStories.load(path, per_token=True)
    counts = np.array([len(whole.encode(text)) for text in SENTENCES])
    sums, *others = (model.score_texts(SENTENCES) for model in (whole, apart, other, mean))
    assert sums.tolist() == others[0].tolist() and (sums != others[1]).all()
    np.testing.assert_allclose(sums, others[2] * counts, rtol=1e-6)
    assert whole.fingerprint == apart.fingerprint
    assert len({model.fingerprint for model in (whole, other, mean)}) == 3
    assert mean.name == whole.name + "-per-token"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data, _: b"", ("llama2.c", "checkpoint")),
        (lambda data, _: b"PK" + data[2:], "model.bin"),
        (lambda data, _: struct.pack("<7i", 16, 24, 2, 3, 3, 340, 48) + data[28:], ("llama2.c", "checkpoint")),
        (lambda data, end: data[: end - 1], ("bytes", "weights")),
        (lambda data, end: data[:end], ("tokenizer.bin", "tokenizer")),
        (lambda data, _: data[:-1], ("339", "340")),
        (lambda data, end: data[: end + 2], ("0", "340")),
    ],
    ids=["empty", "another file", "sizes that do not fit", "weights cut", "no tokenizer", "tokenizer cut", "a stump"],
)
def test_a_damaged_file_is_refused(checkpoint, damage, said):
    path = checkpoint()
    path.write_bytes(damage(path.read_bytes(), len(model_bytes(PLAIN))))
    with raises(ModelError, said):
        TinyStories.load(path)
