"""Dual encoders of open_clip: equal to open_clip's own forward, the same for any batch."""

import logging
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
import tiny_openclip as tiny
import torch
from tiny_models import bert_tokenizer, check_neighbours, edit, transformers

import tellapart as ta
import tellapart.data.video
from facts import raises
from tellapart.errors import ModelError
from tellapart.evaluation.compare import compare, regression_gate
from tellapart.evaluation.run import Settings, run
from tellapart.evaluation.verified import read_result
from tellapart.models.find import find_model, source_key
from tellapart.models.openclip.tokens import TextTower
from tellapart.models.options import ModelOptions
from tellapart.models.scoring.score import score
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.models.torch.backend import fastest_dtype
from tellapart.records.samples import read_samples
from tellapart.report.printing import print_comparison


@pytest.mark.few(2)
@pytest.mark.parametrize("architecture", ["tiny", "tiny-quickgelu", "tiny-bidirectional", "tiny-custom", "tiny-coca"])
def test_scores_are_open_clips_own_pair_by_pair(open_clip, checkpoints, architecture):
    file = checkpoints(architecture)
    model = find_model(f"open_clip:{tiny.named(architecture)}@{file}")
    images, texts = tiny.library_vectors(open_clip, architecture, file)
    scores = model.similarity(model.encode_images(tiny.pictures()), model.encode_texts(tiny.TEXTS))
    assert scores.dtype == np.float32
    # Batches of one shape and texts of another length sum in another order: rounding, no more.
    np.testing.assert_allclose(scores, images @ texts.T, atol=1e-5)
    assert np.ptp(scores) > 0.1  # the comparison could fail


@pytest.mark.parametrize("architecture", ["tiny", "tiny-bidirectional"])
def test_no_bit_changes_with_the_batch_the_order_or_the_neighbours(checkpoints, architecture):
    root = logging.getLogger()
    before = list(root.handlers), root.manager.disable
    model = find_model(f"open_clip:{tiny.named(architecture)}@{checkpoints(architecture)}")
    assert (list(root.handlers), root.manager.disable) == before  # loading leaves the user's logging as it was
    check_neighbours(model.encode_texts, tiny.TEXTS * 3, sizes=(3, 8, 21))
    images = check_neighbours(model.encode_images, tiny.pictures() * 7, sizes=(3, 8, 28))[:4]
    assert model.encode_images([]).shape == model.encode_texts([]).shape == (0, 24)
    prepared = [model.prepare_image(picture) for picture in tiny.pictures()]
    assert {tuple(image["pixels"].shape) for image in prepared} == {(32, 32, 3)}
    assert np.array_equal(model.encode_images([prepared[0], *tiny.pictures()[1:]]), images)


@pytest.mark.parametrize("architecture", ["tiny", "tiny-custom", "tiny-bidirectional", "tiny-coca"])
def test_a_short_text_is_padded_unless_the_tower_sees_its_padding(open_clip, checkpoints, architecture):
    library = open_clip.create_model(architecture, str(checkpoints(architecture))).eval()
    tower, ids = TextTower(library), open_clip.get_tokenizer(architecture)(tiny.TEXTS)
    lengths = tower.lengths(ids)
    if architecture in {"tiny-bidirectional", "tiny-coca"}:
        assert not tower.shortens and set(lengths) == {ids.shape[1]}
        return
    # Start, end and 8, 8, 2, 0, 3, 20 tokens, and one that is too long.
    assert lengths == [16, 16, 8, 8, 8, 24, 77]
    with torch.inference_mode():
        apart = torch.cat([tower.encode(ids[row : row + 1, :length]) for row, length in enumerate(lengths)])
        torch.testing.assert_close(apart, library.encode_text(ids), rtol=1e-5, atol=1e-5)
    model, fits = find_model(f"open_clip:{tiny.named(architecture)}@{checkpoints(architecture)}"), "cat " * 75
    model.encode_texts([*tiny.TEXTS, fits, f"{fits} cat"])  # with start and end 77 tokens, and 78
    assert model.truncated == 2


@pytest.mark.few(1)
@pytest.mark.parametrize("mode", ["shortest", "squash", "longest"])
def test_images_are_prepared_bit_for_bit_as_by_open_clips_own_transform(open_clip, checkpoints, tmp_path, mode):
    from PIL import Image

    stated = {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4], "interpolation": "bilinear", "resize_mode": mode}
    # Pictures are read in colour, whatever mode is stated.
    folder = tiny.saved_folder(tmp_path, checkpoints("tiny"), preprocess_cfg=stated | {"mode": "L"})
    settings, given = open_clip.transform.PreprocessCfg(size=32, **stated), []
    transform = open_clip.transform.image_transform_v2(settings, is_train=False)
    model = find_model(f"local-dir:{folder}")
    model.towers.module.encode_image = lambda pixels: (given.append(pixels), torch.ones(len(pixels), 24))[1]
    model.encode_images(tiny.pictures())
    expected = torch.stack([transform(Image.fromarray(picture)) for picture in tiny.pictures()])
    assert torch.equal(given[0][:4], expected)


@pytest.fixture(scope="module")
def transformers_folder(open_clip, tmp_path_factory):
    """A model whose text tower and tokenizer are of transformers, as open_clip saves it."""
    folder = tmp_path_factory.mktemp("with-transformers")
    tokenizer = bert_tokenizer(200)
    tokenizer.save_pretrained(folder)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    transformers().BertConfig(vocab_size=len(tokenizer), **shape).save_pretrained(folder)
    text = {"hf_model_name": str(folder), "hf_tokenizer_name": "its own", "context_length": 200}
    text |= {"hf_proj_type": "linear", "hf_pooler_type": "mean_pooler"}
    tiny.write_config(folder, model_cfg=tiny.CLIP | {"text_cfg": text})
    torch.manual_seed(0)
    model = open_clip.create_model(f"local-dir:{folder}", load_weights=False, pretrained_text=False)
    torch.save(model.state_dict(), folder / "open_clip_pytorch_model.bin")
    return folder


def test_a_text_tower_and_a_tokenizer_of_transformers_score_as_by_open_clip(open_clip, transformers_folder):
    name = f"local-dir:{transformers_folder}"
    model = find_model(name)
    library, _, preprocess = open_clip.create_model_and_transforms(name)
    tokenizer = open_clip.get_tokenizer(name)
    with torch.inference_mode():
        expected = [library.eval().encode_text(tokenizer([text]), normalize=True)[0].numpy() for text in tiny.TEXTS]
    np.testing.assert_allclose(model.encode_texts(tiny.TEXTS), expected, atol=1e-5)
    assert model.truncated == 1
    assert model.encode_texts([]).shape == (0, 24)
    assert model.traits["image activation"] == "GELU"
    before = dict(vars(tokenizer.tokenizer))  # a caller's tokenizer is left as it was
    assert ta.model(library, preprocess=preprocess, tokenizer=tokenizer).fingerprint
    assert vars(tokenizer.tokenizer) == before


@pytest.mark.parametrize("change", [{"truncation_side": "left"}, {"padding_side": "left"}, {"hidden_act": "relu"}])
def test_the_fingerprint_moves_with_the_sides_of_texts_and_with_settings_that_lie_elsewhere(
    change, transformers_folder, checkpoints, tmp_path
):
    folder, elsewhere = (shutil.copytree(transformers_folder, tmp_path / name) for name in ("model", "elsewhere"))
    edit(folder / "open_clip_config.json", lambda it: it["model_cfg"]["text_cfg"].update(hf_model_name=str(elsewhere)))
    before = find_model(f"local-dir:{folder}")
    changed = elsewhere / "config.json" if "hidden_act" in change else folder / "tokenizer_config.json"
    edit(changed, lambda content: content.update(change))
    after = find_model(f"local-dir:{folder}")
    assert np.abs(after.encode_texts(tiny.TEXTS) - before.encode_texts(tiny.TEXTS)).max() > 1e-6
    assert after.fingerprint != before.fingerprint
    registered = f"open_clip:tiny-gelu@{checkpoints('tiny')}"  # an architecture of the caller's file
    assert [source_key(name, ModelOptions()) for name in (f"local-dir:{folder}", registered)] == [None, None]


def test_a_tokenizer_with_more_entries_than_embeddings_is_refused(transformers_folder, checkpoints, tmp_path):
    text = tiny.TEXT | {"vocab_size": 5, "hf_tokenizer_name": "its own", "pool_type": "last"}
    for file in transformers_folder.glob("tokenizer*"):
        shutil.copy(file, tmp_path)
    few = {"token_embedding.weight": torch.ones(5, 32)}
    file = tiny.spoilt(tmp_path, checkpoints("tiny"), lambda state: state.update(few))
    folder = tiny.saved_folder(tmp_path, file, model_cfg=tiny.CLIP | {"text_cfg": text})
    with raises(ModelError, "5", "tokenizer", "token"):
        find_model(f"local-dir:{folder}")


@pytest.mark.slow
def test_a_second_model_that_crops_alike_decodes_nothing(checkpoints, picture_set, tmp_path, monkeypatch):
    pairs, decoded, decode = picture_set(3), [], tellapart.data.video.decode
    monkeypatch.setattr(
        "tellapart.data.video.decode", lambda data, where: (decoded.append(where), decode(data, where))[1]
    )
    first, second = (find_model(f"open_clip:{name}@{checkpoints('tiny')}") for name in ("tiny-quickgelu", "tiny-gelu"))
    other = find_model(f"open_clip:tiny-40@{checkpoints('tiny-40')}")  # larger crops
    with EmbeddingStore(tmp_path / "store.sqlite") as store:
        values, counts = [], []
        for model in (first, second, other):
            values.append(score(model, pairs, store=store).scores.values)
            counts.append(len(decoded))
    assert counts == [6, 6, 12]
    alone = score(second, pairs, store=EmbeddingStore(None)).scores.values
    assert values[1].tobytes() == alone.tobytes()  # not a bit moved


@pytest.mark.parametrize("architecture", ["tiny", "tiny-bidirectional", "tiny-custom"])
def test_the_triple_of_open_clip_gives_the_bytes_of_its_checkpoint(architecture, open_clip, checkpoints, picture_set):
    file, pairs = checkpoints(architecture), picture_set(4)
    model, _, preprocess = open_clip.create_model_and_transforms(architecture, str(file))
    model.train()
    held = ta.model(model, preprocess=preprocess, tokenizer=open_clip.get_tokenizer(architecture), name="mine")
    loaded = find_model(f"open_clip:{tiny.named(architecture)}@{file}")
    for compute in (
        lambda model: score(model, pairs, store=EmbeddingStore(None)).scores.values,
        lambda model: model.encode_images(tiny.pictures()),
        lambda model: model.encode_texts(tiny.TEXTS),
    ):
        assert compute(held).tobytes() == compute(loaded).tobytes()
    assert held.truncated == loaded.truncated > 0
    assert model.training and held.stored and held.name == "mine"


def test_a_callers_classes_of_steps_and_tokenizers_are_called_and_training_steps_refused(
    open_clip, checkpoints, picture_set
):
    model, training, preprocess = open_clip.create_model_and_transforms("tiny", str(checkpoints("tiny")))
    tokenizer = open_clip.get_tokenizer("tiny")
    *shaping, to_tensor, scaling = preprocess.transforms

    class HalfToTensor:
        def __call__(self, image):
            return to_tensor(image) / 2

    class Prompted(type(tokenizer)):
        def __call__(self, texts, context_length=None):
            return super().__call__([f"a photo of {text}" for text in texts], context_length)

    def measure(preprocess, tokenizer):
        held = ta.model(model, preprocess=preprocess, tokenizer=tokenizer)
        return held.stored, ta.evaluate(held, picture_set(2), cache=False).items().scores

    halved, (_, plain) = type(preprocess)([*shaping, HalfToTensor(), scaling]), measure(preprocess, tokenizer)
    for parts in ((halved, tokenizer), (preprocess, Prompted())):
        is_stored, scores = measure(*parts)
        _, expected = measure(*(lambda given, part=part: part(given) for part in parts))
        np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-6)
        assert np.abs(scores - plain).max() > 1e-3
        assert not is_stored
    with raises(ModelError, "RandomResizedCrop", "the third"):
        measure(training, tokenizer)


def test_pictures_prepared_by_a_model_or_a_callers_transform_serve_no_other_transform(
    open_clip, checkpoints, picture_set, tmp_path
):
    file, pairs = checkpoints("tiny"), picture_set(3)

    def measure(mode, cache):
        model, _, preprocess = open_clip.create_model_and_transforms("tiny", str(file))
        if mode is not None:  # of another crop than the model's configuration
            preprocess = open_clip.image_transform(32, is_train=False, mean=tiny.MEAN, std=tiny.STD, resize_mode=mode)
        held = ta.model(model, preprocess=preprocess, tokenizer=open_clip.get_tokenizer("tiny"))
        return ta.evaluate(held, pairs, cache=cache).items().scores

    ta.evaluate(f"open_clip:tiny-gelu@{file}", pairs, cache=tmp_path)
    for mode in (None, "squash", "longest"):
        np.testing.assert_array_equal(measure(mode, tmp_path), measure(mode, False))
    assert np.abs(measure("squash", False) - measure(None, False)).max() > 1e-3


def test_a_changed_encode_text_and_a_hook_on_the_text_tower_are_followed(open_clip, checkpoints):
    model, _, preprocess = open_clip.create_model_and_transforms("tiny-custom", str(checkpoints("tiny-custom")))
    prepared = {"preprocess": preprocess, "tokenizer": open_clip.get_tokenizer("tiny-custom")}

    class Turned(type(model)):
        def encode_text(self, text, normalize=False):
            return -super().encode_text(text, normalize)

    def encode_now():
        return ta.model(model, **prepared).encode_texts(tiny.TEXTS)

    plain = encode_now()
    handle = model.text.register_forward_hook(lambda _module, _given, output: -output)
    hooked = encode_now()
    handle.remove()
    model.__class__ = Turned
    for turned in (hooked, encode_now()):
        np.testing.assert_allclose(turned, -plain, atol=1e-5)


def test_a_sample_is_scored_in_float32_too_and_auto_takes_the_fastest_dtype_unless_it_flips_too_much(
    checkpoints, picture_set, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("tellapart.evaluation.run.fastest_dtype", lambda _device: "bfloat16")
    name = f"open_clip:tiny-gelu@{checkpoints('tiny')}"
    settings = Settings(models=(name, "oracle"), benchmarks=(picture_set(60),), dtype="auto", check=40, seed=3)
    chosen = {
        "stated": replace(settings, dtype="bfloat16"),
        "taken": replace(settings, flips=1.0),
        "refused": replace(settings, flips=0.0),
        "float32": replace(settings, dtype="float32", check=None),
    }
    with EmbeddingStore(None) as store:
        folders = {key: [*run(each, tmp_path / key, store=store)] for key, each in chosen.items()}
    results = {key: read_result(each[0]) for key, each in folders.items()}
    records = {key: next(iter(each.benchmarks.values())) for key, each in results.items()}
    stated, taken, refused = (records[key].precision for key in ("stated", "taken", "refused"))
    assert (stated.dtype, stated.against, stated.items, stated.seed) == ("bfloat16", "float32", 40, 3)
    drawn = np.sort(np.random.default_rng(3).permutation(60)[:40])
    samples = [
        [list(read_samples(folders[key][0], next(iter(results[key].benchmarks))))[k] for k in drawn]
        for key in ("stated", "float32")
    ]
    for metric, flips in stated.flips.items():
        a, b = ([sample.outcomes[metric] for sample in each] for each in samples)
        assert (flips.gained, flips.lost) == (sum(np.greater(a, b)), sum(np.less(a, b)))
    scores = [np.array([sample.scores for sample in each]) for each in samples]
    assert stated.largest_difference == pytest.approx(np.abs(scores[0] - scores[1]).max())
    assert 0 < stated.largest_difference < 0.05
    note = next(note for note in records["stated"].notes if "bfloat16" in note)
    assert "40 items" in note and f"group_score {stated.flips['group_score'].flipped}" in note
    assert taken.share == refused.share > 0
    assert (taken.dtype, taken.most, taken.items) == ("bfloat16", 1.0, 40) and refused.most == 0.0
    assert [results[key].model.dtype for key in chosen] == ["bfloat16", "bfloat16", None, None]
    assert results["refused"].model.fingerprint == results["float32"].model.fingerprint
    assert results["refused"].model.fingerprint != results["taken"].model.fingerprint
    assert records["refused"].metrics == records["float32"].metrics
    share = f"{100 * taken.share:.2f}%"
    for key, dtype, limit in (("taken", "bfloat16", "flips=1"), ("refused", "float32", "flips=0")):
        note = next(note for note in records[key].notes if "auto" in note)
        assert f"chose {dtype}" in note and limit in note and share in note
    assert next(iter(read_result(folders["taken"][1]).benchmarks.values())).notes == ()  # the oracle has no dtype
    compared = compare(folders["taken"][0], folders["refused"][0])
    assert compared.dtypes == ("bfloat16", "float32")
    print_comparison(compared)
    assert re.search(r"bfloat16.*float32", capsys.readouterr().out.replace("\n", " "))
    assert compare(folders["refused"][0], folders["float32"][0]).dtypes is None
    assert regression_gate(folders["float32"][0], folders["taken"][0]).dtypes == ("float32", "bfloat16")


@pytest.mark.parametrize(
    ("facts", "dtype"),
    [({"amx_bf16": True}, "bfloat16"), ({"bf16": True}, "bfloat16"), ({"amx_bf16": False}, "float32")],
)
def test_the_fastest_dtype_is_one_with_instructions(facts, dtype, monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: facts, raising=False)
    assert fastest_dtype("cpu") == dtype and fastest_dtype("mps") == "float16"


def test_a_checkpoint_of_open_clips_training_gets_the_scores_of_its_weights(checkpoints, made_set, tmp_path):
    weights, folder = torch.load(checkpoints("tiny"), weights_only=True), tmp_path / "logs" / "checkpoints"
    folder.mkdir(parents=True)
    (tmp_path / "logs" / "params.txt").write_text("lr: 0.1\nmodel: tiny\nforce_quick_gelu: False\n")
    content = {"epoch": 1, "name": "run", "state_dict": {f"module.{name}": value for name, value in weights.items()}}
    for epoch in (1, 3):
        torch.save(content, folder / f"epoch_{epoch}.pt")
    (folder / "epoch_2.pt").write_bytes((folder / "epoch_1.pt").read_bytes()[:-500])
    pairs, left_out = ta.load_pairs(made_set()), []
    files = {"follow": folder, "out": tmp_path / "run", "cache": False}
    run = ta.evaluate(benchmarks=pairs, every=0.01, until=2, left_out=left_out.append, **files)
    assert run.models == ["epoch_1", "epoch_3"]
    assert [line.partition(":")[0] for line in left_out] == [str(folder / "epoch_2.pt")]
    plain = ta.evaluate(f"open_clip:tiny-gelu@{checkpoints('tiny')}", pairs, cache=False)
    assert [one.scores for one in plain.items().samples] == [one.scores for one in run.items().samples]
