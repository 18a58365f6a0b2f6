"""OFA, and captions of X-VLM and FIBER, by laws, shapes and formulas: no output of the authors' code is at hand.

Formulas and modules were written by the same hand from the same facts.
"""

import argparse
import json
import math
from itertools import pairwise, product

import numpy as np
import pytest
import tiny_captioners
import torch
from golden import build, build_published
from numpy.typing import NDArray
from tiny_captioners import OFA_SETTINGS, TINY, fiber_captioner, ofa_state, save_captioner, xvlm_captioner
from tiny_files import PICTURES, TEXTS, save_cappa, save_tokenizer
from tiny_fusion_encoders import roberta
from tiny_heads import PlainBert, gelu, softmax, split

from facts import raises
from pictures import encoded
from sets import write_file
from tellapart.errors import ModelError
from tellapart.models.find import find_model
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Generator, PairScorer
from tellapart.records.samples import read_samples
from tellapart_native.heads.decoding import Search, search_beams
from tellapart_native.ofa import Ofa, cell_distances, token_buckets

pytestmark = pytest.mark.slow


FAMILIES = ("ofa", "xvlm", "fiber")


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captioners")
    return {family: save_captioner(folder / family, family) for family in FAMILIES}


@pytest.fixture(scope="module", params=FAMILIES)
def name(request, names):
    return names[request.param]


@pytest.fixture(scope="module")
def model(name):
    return find_model(name)


@pytest.fixture(scope="module", params=["cappa", *FAMILIES])
def reader(request, names, tmp_path_factory):
    """A model that gives captions a likelihood, whether it writes some or not."""
    if request.param == "cappa":
        return find_model(save_cappa(tmp_path_factory.mktemp("captioners") / "cappa"))
    return find_model(names[request.param])


def image_of(model, picture=PICTURES[0]):
    (state,) = model.encoder.encode_images([picture])
    return tuple(tensor[None] for tensor in state.tensors)


def decode(model, ids, image):
    with torch.inference_mode():
        return model.encoder.halves.decode(ids, image, None)


def captions(model, length: int = 9):
    more = torch.randint(5, 20, (1, length), generator=torch.Generator().manual_seed(4))
    return torch.cat([torch.tensor([getattr(model.encoder.halves, "start", [1])]), more], dim=1)


def test_the_score_is_the_sum_of_each_word_read_alone(reader):
    """The chain rule, behind the words that are given: no later word and no padding changes anything."""
    ids, image, given = captions(reader), image_of(reader), reader.encoder.halves.given
    words = [
        float(decode(reader, ids[:, :k], image)[0, -1].double().log_softmax(-1)[ids[0, k]])
        for k in range(given, ids.shape[1])
    ]
    mask = torch.tensor([[True] * ids.shape[1] + [False] * 2])
    with torch.inference_mode():
        ends = [torch.cat([ids, torch.tensor([end])], dim=1) for end in ([7, 8], [9, 3])]
        join = reader.encoder.halves.join
        scores = [float(join(image, (padded, mask))) for padded in ends]
        other = float(join(image_of(reader, PICTURES[1]), (ends[0], mask)))
    assert len(words) == 9
    assert scores[0] == scores[1] == pytest.approx(sum(words), abs=1e-3) and abs(other - scores[0]) > 1e-3


def test_a_batch_changes_no_answer(model, name):
    assert isinstance(model, Generator) and not isinstance(model, PairScorer)
    prompts = [model.task_prompt("caption").fill()] * 3
    written = model.answer([[picture] for picture in PICTURES], prompts)
    assert [find_model(name).answer([[picture]], prompts[:1])[0] for picture in PICTURES] == written


def test_beams_read_anew_write_the_same(model):
    halves, image = model.halves, image_of(model)

    def read_anew(ids, _rows):
        rows = tuple(tensor.expand(len(ids), *tensor.shape[1:]) for tensor in image)
        return decode(model, ids, rows)[:, -1].log_softmax(-1)

    with torch.inference_mode():
        anew = search_beams(read_anew, halves.start, halves.end, halves.search)
        assert halves.write_text(image) == halves.spell_words(anew)
        assert halves.write_text(image, 9)


def test_what_a_captioner_cannot_do(model):
    with raises(ModelError, "task", "'vqa'"):
        model.task_prompt("vqa")
    with raises(ModelError, "'What is this?'"):
        model.answer([[PICTURES[0]]], ["What is this?"])
    if own := model.task_prompt("caption").text:
        with raises(ModelError, repr(own)):
            model.answer([[PICTURES[0]]], [""])
    with raises(ModelError, "1", "2", "images"):
        model.answer([PICTURES[:2]], [model.task_prompt("caption").fill()])


def exhaustive(table, longest: int) -> list[int]:
    """Of all captions of a chain of words, the one with the greatest mean."""

    def mean(caption: tuple[int, ...]) -> float:
        return sum(float(table[pair]) for pair in pairwise((1, *caption, 0))) / (len(caption) + 1)

    lengths = range(1, longest + 1)
    return [*max((caption for n in lengths for caption in product(range(1, len(table)), repeat=n)), key=mean)]


def greedy(table, longest: int) -> list[int]:
    """The likeliest word behind each, up to the end, which is never the first."""
    words = [1]
    while len(words) <= longest:
        best, next_best = table[words[-1]].topk(2).indices.tolist()
        word = next_best if (best, len(words)) == (0, 1) else best
        if word == 0:
            break
        words.append(word)
    return words[1:]


def test_a_search_keeps_its_rules_one_beam_is_greedy_and_beams_enough_find_the_best_of_all():
    for seed in range(20):
        logits = torch.randn((4, 4), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        table = logits.log_softmax(-1)
        for beams, expected in ((1, greedy(table, 4)), (300, exhaustive(table, 4))):
            search = Search(beams=beams, longest=4)
            assert search_beams(lambda ids, _, t=table: t[ids[:, -1]].float(), [1], 0, search) == expected
    table = torch.tensor([[0.0, 0, 0, 0], [9, 1, 5, 2], [9, 8, 1, 7], [9, 1, 8, 1]]).log_softmax(-1)

    def write(**rules):
        return search_beams(lambda ids, _: table[ids[:, -1]], [1], 0, Search(**rules))

    assert write(beams=1, longest=6) == [2]  # an end is the likeliest behind all; the first may not be one
    assert write(beams=1, longest=6, shortest=6) == [2, 1, 2, 1, 2, 1]
    assert write(beams=1, longest=6, shortest=6, repeats=2) == [2, 1, 3, 2, 3, 1]
    assert write(beams=1, longest=3, shortest=3) == [2, 1, 2]
    table = torch.tensor([[0.0] * 3, [-30, 2, 1.9], [-1, -30, 0]]).log_softmax(-1)
    long, short = (write(beams=9, longest=7, counted=counted) for counted in (0, 60))
    assert len(long) > len(short)  # the more is counted beside the caption, the less its length helps


@pytest.mark.parametrize("length", [1, 40])
def test_buckets_are_the_formula(length):
    """Written anew, number by number: OFA's buckets of tokens, and of cells."""
    half, middle = 16, 8
    for query, row in enumerate(token_buckets(length, half).tolist()):
        for key, bucket in enumerate(row):
            apart = query - key
            if abs(apart) > middle:
                ratio = math.log(abs(apart) / middle) / math.log(1023 / middle)
                apart = int(math.copysign(math.ceil(ratio * (middle - 1)) + middle, apart))
            assert bucket == apart + half - 1
    assert int(token_buckets(1024, 256).max()) == 510
    apart = cell_distances(2, 3, 6)[[0, 5], 0].tolist()
    assert apart == [5 * 11 + 5, (5 + 1) * 11 + 5 + 2]  # the second: one row down, two columns to the right
    assert int(cell_distances(42, 42, 42).max()) == 83**2 - 1


#: Parameters in the authors' files, each shared tensor once (they say 182 M and 472 M), and of those read here.
OFA_PARAMETERS = {"base": (182_238_536, 180_383_720), "large": (472_977_152, 469_842_432)}


@pytest.mark.parametrize("size", tiny_captioners.PUBLISHED)
def test_ofa_of_published_size(size):
    shapes = tiny_captioners.ofa_shapes(tiny_captioners.PUBLISHED[size])
    module = build_published("ofa", shapes)  # no missing and no unknown name
    aside = ("version", "bucket", "_idx", "tracked", "running_mean", "running_var")
    aside += ("decoder.embed_tokens.weight", "decoder.output_projection.weight")  # copies
    once = {name: shape for name, shape in shapes.items() if not name.endswith(aside)}
    read = sum(parameter.numel() for parameter in module.parameters())
    assert (sum(map(math.prod, once.values())), read) == OFA_PARAMETERS[size]
    assert (module.config.image_size, module.config.vocab_size, module.config.code) == (480, 59457, 8192)
    with torch.device("meta"):
        grid = module.encoder.embed_picture(torch.empty(2, 3, 480, 480))
    assert tuple(grid.shape) == (2, 30, 30, tiny_captioners.PUBLISHED[size].width)


@pytest.fixture
def module():
    return build("ofa", ofa_state(), OFA_SETTINGS)[1]


def test_padding_of_a_question_changes_nothing(module):
    grid = module.encoder.embed_picture(torch.randn((1, 3, 32, 32), generator=torch.Generator().manual_seed(1)))
    ids, mask = torch.randint(5, 20, (1, 6), generator=torch.Generator().manual_seed(2)), torch.ones(1, 6).bool()
    whole, _ = module.encoder(grid, ids, mask)
    padded = torch.nn.functional.pad(ids, (0, 2), value=7)
    longer, places = module.encoder(grid, padded, torch.nn.functional.pad(mask, (0, 2)))
    torch.testing.assert_close(longer[:, :10], whole, atol=1e-5, rtol=1e-5)
    assert places.shape == (12, 16)


def test_ofa_reads_the_arguments_of_fairseq(names, tmp_path):
    """The same arguments in `args` and in `cfg`; others change numbers; codes are words of the vocabulary."""
    old = find_model(names["ofa"])
    arguments = {"model": argparse.Namespace(encoder_layers=2), "task": OFA_SETTINGS}
    torch.save({"args": None, "cfg": arguments, "model": ofa_state()}, tmp_path / "new.pt")
    save_tokenizer(tmp_path, tiny_captioners.bart())
    assert find_model(f"ofa:{tmp_path / 'new.pt'}").fingerprint == old.fingerprint
    facts = json.loads(str(old.halves.module.config))
    assert facts["imagenet_default_mean_and_std"] is True and "data" not in facts
    tokens = old.halves.tokenizer("<code_2><bin_1>", add_special_tokens=False)["input_ids"]
    assert tokens == [len(old.halves.tokenizer) - 3, len(old.halves.tokenizer) - 1]
    settings = {**OFA_SETTINGS, "model_type": "ofa"}
    write_file(tmp_path / "config.json", settings | {"image_size": 48})
    assert find_model(f"ofa:{tmp_path / 'new.pt'}").fingerprint != old.fingerprint
    write_file(tmp_path / "config.json", settings | {"num_bins": 9})
    with raises(ModelError, "OFA", "12", "tokenizer"):
        find_model(f"ofa:{tmp_path / 'new.pt'}")
    with raises(ModelError, "image_size", "112", "OFA", "96"):
        find_model(names["ofa"], ModelOptions(image_size=112))


def test_ofa_matches(names):
    model = find_model(names["ofa"], ModelOptions(reading="itm"))
    yes, no = model.encoder.halves.answers
    assert [model.encoder.preparation.texts.tokenizer.decode([word]) for word in (yes, no)] == [" yes", " no"]
    scores = model.score_pairs(PICTURES, TEXTS)
    cleaned = find_model(names["ofa"], ModelOptions(reading="itm", texts="cleaned")).score_pairs(PICTURES, TEXTS)
    assert (cleaned != scores).tolist() == [False, True, False]
    # The matching's form keeps the punctuation inside.
    as_authors = model.score_pairs(PICTURES[1:2], ["a red bowl, on the cup!"])
    np.testing.assert_array_equal(cleaned[1:2], as_authors)


def test_an_ofa_without_its_arguments_or_words_for_yes_and_no_is_refused(tmp_path, module):
    torch.save({"model": ofa_state()}, tmp_path / "bare.pt")
    with raises(ModelError, "args", "config.json"):
        find_model(f"ofa:{tmp_path / 'bare.pt'}")
    module.config.bin += len(tiny_captioners.bart()) - len(roberta())
    with raises(ModelError, "OFA", "3", "' yes'"):
        Ofa(module).take_words(roberta())


@pytest.mark.parametrize("family", FAMILIES)
def test_captions_are_measured(names, family, tmp_path, command):
    for k, picture in enumerate(PICTURES):
        write_file(tmp_path / f"{k}.png", encoded(picture))
    rows = [{"image": f"{k}.png", "caption": [text]} for k, text in enumerate(TEXTS)]
    write_file(tmp_path / "caption_vlue_test.json", rows)
    command("run", "-m", names[family], "-b", "vlue-captions", "--data", tmp_path, "--out", "run", code=0)
    assert len(read_samples(tmp_path / "run", "vlue-captions")) == 3


Numbers = NDArray[np.float64]
EACH = TINY.width // TINY.heads


class PlainOfa(PlainBert):
    """OFA's encoder and decoder in float64, head by head, pair of places by pair of places."""

    def norm(self, name: str, x: Numbers, eps: float = 1e-5) -> Numbers:
        return super().norm(name, x, eps)

    def convolve(self, name: str, norm: str, x, stride: int):
        weight = torch.from_numpy(self.state[f"{name}.weight"])
        x = torch.nn.functional.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)
        parts = (self.state[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        mean, variance, scale, shift = (torch.from_numpy(part)[:, None, None] for part in parts)
        return (x - mean) / (variance + 1e-5).sqrt() * scale + shift

    def look(self, pixels):
        """The grid of cells, `(width, rows, columns)`."""
        own = "encoder.embed_images"
        x = self.convolve(f"{own}.conv1", f"{own}.bn1", pixels.double(), 2).relu()
        x = torch.nn.functional.max_pool2d(x, 3, 2, 1)
        for stage, depth in enumerate(TINY.blocks, start=1):
            for k in range(depth):
                block, stride = f"{own}.layer{stage}.{k}", 2 if stage > 1 and k == 0 else 1
                inner = x
                for part, pace in ((1, 1), (2, stride), (3, 1)):
                    inner = self.convolve(f"{block}.conv{part}", f"{block}.bn{part}", inner, pace)
                    inner = inner if part == 3 else inner.relu()
                if k == 0:
                    x = self.convolve(f"{block}.downsample.0", f"{block}.downsample.1", x, stride)
                x = (x + inner).relu()
        return x[0]

    def read(self, name: str, x: Numbers, source: Numbers, bias: Numbers) -> Numbers:
        """Attention with a bias `(heads, queries, keys)`."""
        q, k = self.heads(f"{name}.q_proj", x), self.heads(f"{name}.k_proj", source)
        shares = softmax(np.einsum("qhd,khd->hqk", q, k) / math.sqrt(2 * EACH) + bias)
        read = np.einsum("hqk,khd->qhd", shares, self.heads(f"{name}.v_proj", source))
        return self.linear(f"{name}.out_proj", (read * self.state[f"{name}.c_attn"][:, None]).reshape(len(x), -1))

    def heads(self, name: str, x: Numbers) -> Numbers:
        return self.linear(name, x).reshape(len(x), TINY.heads, EACH)

    def places(self, query: str, key: str, queries: Numbers, keys: Numbers) -> Numbers:
        """The bias of absolute places, `(heads, queries, keys)`."""
        return np.einsum("qhd,khd->hqk", self.heads(query, queries), self.heads(key, keys)) / math.sqrt(2 * EACH)

    def feed(self, name: str, x: Numbers) -> Numbers:
        inner = gelu(self.linear(f"{name}.fc1", self.norm(f"{name}.final_layer_norm", x)))
        return np.asarray(x + self.linear(f"{name}.fc2", self.norm(f"{name}.ffn_layernorm", inner)))

    def encode(self, pixels, ids: list[int]) -> tuple[Numbers, Numbers]:
        """States and normalised places of cells, then tokens."""
        grid = self.look(pixels)
        rows, columns = grid.shape[1:]
        cells = [(row, column) for row in range(rows) for column in range(columns)]
        image = self.linear("encoder.image_proj", np.array([grid[:, row, column].numpy() for row, column in cells]))
        types, words = (self.state[f"encoder.{one}.weight"] for one in ("type_embedding", "embed_tokens"))
        seen = self.norm("encoder.patch_layernorm_embedding", image + types[1])
        x = np.concatenate([seen, self.norm("encoder.layernorm_embedding", words[ids] + types[0])])
        tables = {part: self.state[f"encoder.embed_{part}.weight"] for part in ("image_positions", "positions")}
        image_places = tables["image_positions"][[row * TINY.side + column + 1 for row, column in cells]]
        text_places = self.norm("encoder.pos_ln", tables["positions"][: len(ids)])
        places = np.concatenate([self.norm("encoder.image_pos_ln", image_places), text_places])
        absolute = self.places("encoder.pos_q_linear", "encoder.pos_k_linear", places, places)
        for k in range(TINY.depth):
            bias, own = absolute.copy(), f"encoder.layers.{k}"
            table = self.state[f"encoder.image_rel_pos_table_list.{k}.weight"]
            for a, (row, column) in enumerate(cells):
                for b, (other, beside) in enumerate(cells):
                    step = 2 * TINY.side - 1
                    bias[:, a, b] += table[(row - other + TINY.side - 1) * step + column - beside + TINY.side - 1]
            bias[:, len(cells) :, len(cells) :] += self.relative("encoder", k, len(ids))
            normed = self.norm(f"{own}.self_attn_layer_norm", x)
            x = x + self.norm(f"{own}.attn_ln", self.read(f"{own}.self_attn", normed, normed, bias))
            x = self.feed(own, x)
        return self.norm("encoder.layer_norm", x), places

    def relative(self, tower: str, layer: int, length: int) -> Numbers:
        """The bias of relative places among few tokens: each distance has a row."""
        assert length <= TINY.half // 2 + 1
        table, places = self.state[f"{tower}.token_rel_pos_table_list.{layer}.weight"], range(length)
        return np.moveaxis([[table[a - b + TINY.half - 1] for b in places] for a in places], 2, 0)

    def decode(self, ids: list[int], states: Numbers, places: Numbers) -> Numbers:
        """Logits of the words behind each."""
        words = self.state["encoder.embed_tokens.weight"]
        x = self.norm("decoder.layernorm_embedding", words[ids])
        own_places = self.norm("decoder.pos_ln", self.state["decoder.embed_positions.weight"][: len(ids)])
        absolute = self.places("decoder.self_pos_q_linear", "decoder.self_pos_k_linear", own_places, own_places)
        absolute = absolute + np.triu(np.full((len(ids), len(ids)), -np.inf), 1)
        crossed = self.places("decoder.cross_pos_q_linear", "decoder.cross_pos_k_linear", own_places, places)
        for k in range(TINY.depth):
            own, bias = f"decoder.layers.{k}", absolute + self.relative("decoder", k, len(ids))
            normed = self.norm(f"{own}.self_attn_layer_norm", x)
            x = x + self.norm(f"{own}.self_attn_ln", self.read(f"{own}.self_attn", normed, normed, bias))
            normed = self.norm(f"{own}.encoder_attn_layer_norm", x)
            x = x + self.norm(f"{own}.cross_attn_ln", self.read(f"{own}.encoder_attn", normed, states, crossed))
            x = self.feed(own, x)
        return np.asarray(self.norm("decoder.layer_norm", x) @ words.T)


def test_ofa_is_the_formula():
    state = ofa_state()
    module, plain = build("ofa", state, OFA_SETTINGS)[1], PlainOfa(state)
    pixels = torch.randn((1, 3, 48, 32), generator=torch.Generator().manual_seed(3))  # three rows of two cells
    question, caption = [0, 7, 8, 9, 2], [0, 11, 6, 13]
    states, places = plain.encode(pixels, question)
    expected = plain.decode(caption, states, places)
    with torch.inference_mode():
        ids, words, grid = torch.tensor([question]), module.encoder.embed_tokens, module.encoder.embed_picture(pixels)
        source, theirs = module.encoder(grid, ids, torch.ones_like(ids, dtype=torch.bool))
        np.testing.assert_allclose(source[0], states, atol=1e-4)
        decoded = module.decoder(torch.tensor([caption]), words, (source, theirs, source.new_zeros(())))
        ours = torch.nn.functional.linear(decoded, words.weight)[0].numpy()
    np.testing.assert_allclose(ours, expected, atol=1e-4)
    assert np.ptp(expected, axis=1).min() > 1


class PlainRoberta(PlainBert):
    """RoBERTa's layers in float64, and FIBER's that read an image."""

    def norm(self, name: str, x, eps: float = 1e-5):
        return super().norm(name, x, eps)

    def read(self, name: str, x, source, *, causal: bool = False):
        """An attention's output, neither added to anything nor normalised."""
        values = split(self.linear(f"{name}.self.value", source))
        shares = self.shares(name, x, source, causal=causal)
        read = np.einsum("hqk,khd->qhd", shares, values).reshape(len(x), -1)
        return self.linear(f"{name}.output.dense", read)

    def fused(self, name: str, x, image):
        own = self.read(f"{name}.attention", x, x, causal=True)
        crossed = self.read(f"{name}.crossattention_t2i", own, image)
        alpha = self.state[f"{name}.alpha_t2i"]
        x = self.norm(f"{name}.attention.output.LayerNorm", alpha * crossed + own + x)
        inner = gelu(self.linear(f"{name}.intermediate.dense", x))
        return self.norm(f"{name}.output.LayerNorm", self.linear(f"{name}.output.dense", inner) + x)


def test_fiber_writes_by_the_formula(tmp_path):
    model = find_model(save_captioner(tmp_path / "x", "fiber"))
    plain, ids = PlainRoberta(fiber_captioner()), [0, 7, 9, 6, 11]
    images = image_of(model)
    cells = images[-1][0].double().numpy()  # the tower's last stage, of width 32
    rows = {part: plain.state[f"text_transformer.embeddings.{part}_embeddings.weight"] for part in ("word", "position")}
    types = plain.state["text_transformer.embeddings.token_type_embeddings.weight"][0]
    x = rows["word"][ids] + rows["position"][2 : 2 + len(ids)] + types
    x = plain.norm("text_transformer.embeddings.LayerNorm", x)
    for k in range(9):
        name = f"text_transformer.encoder.layer.{k}"
        seen = plain.linear(f"cross_modal_att_layers.{k}", cells) if k in (6, 7) else cells
        x = plain.layer(name, x, causal=True) if k < 6 else plain.fused(name, x, seen)
    expected = plain.words("mlm_score", plain.linear("cross_modal_text_transform", x))
    np.testing.assert_allclose(decode(model, torch.tensor([ids]), images)[0], expected, atol=2e-4)


def test_xvlm_writes_by_the_formula(tmp_path):
    model = find_model(save_captioner(tmp_path / "x", "xvlm"))
    plain, ids = PlainBert(xvlm_captioner()), [2, 7, 9, 6, 11]
    images = image_of(model)
    cells = images[0][0].double().numpy()  # their mean comes first
    np.testing.assert_allclose(cells[0], cells[1:].mean(0), atol=1e-5)
    x = plain.embed("text_decoder.bert.embeddings", ids)
    x = plain.layer("text_decoder.bert.encoder.layer.0", x, causal=True)
    x = plain.layer("text_decoder.bert.encoder.layer.1", x, cells, causal=True)
    expected = np.log(softmax(plain.words("text_decoder.cls.predictions", x)))
    np.testing.assert_allclose(decode(model, torch.tensor([ids]), images)[0], expected, atol=2e-4)
    assert model.halves.start == model.halves.tokenizer("a picture of", add_special_tokens=True)["input_ids"][:-1]
