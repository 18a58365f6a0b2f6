"""Laws of every family in its authors' files, on tiny files of all of them; a new family or task is a row."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tiny_files as tiny
import tiny_heads
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tiny_captioners import save_captioner
from tiny_files import PICTURES, STATES, TEXTS, save_cappa, save_family
from tiny_meter_fiber import fiber_state, meter_state, save_lightning
from tiny_region_models import save_region_model
from typer.testing import CliRunner

from facts import check_facts, raises
from tellapart.cli.main import app
from tellapart.data.scores import ScoreKind
from tellapart.errors import DataError, ModelError
from tellapart.models.find import find_model, source_key
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import DualEncoder, Generator, TwoImageClassifier
from tellapart.report.interchange import formats
from tellapart_native.heads.other_tasks import FusionHead
from tellapart_native.training import convert_model


class Row(NamedTuple):
    """A family: what writes its file into a new folder and returns its name, and the readings, the default first."""

    save: Callable[[Path], str]
    readings: Mapping[str, ScoreKind]
    on_regions: bool = False


MATCH: dict[str, ScoreKind] = {"itm": "probability", "itm_logit": "logit"}
COSINE: dict[str, ScoreKind] = {"itc": "similarity"}
WRITE: dict[str, ScoreKind] = {"likelihood": "similarity", "mean_likelihood": "similarity"}
BLIP: dict[str, ScoreKind] = {"itm_enc": "probability", "itm_enc_logit": "logit", "match_logit": "logit"}
RANK: dict[str, ScoreKind] = {"rank": "logit"}
LOGIT: dict[str, ScoreKind] = {"match_logit": "logit"}
VQA: dict[str, ScoreKind] = {"vqa": "logit"}
NLVR2: dict[str, ScoreKind] = {"nlvr2": "probability"}


def lightning(family: str, state: dict[str, Any]) -> Callable[[Path], str]:
    return partial(save_lightning, family=family, state=state)


def head(family: str, make: Callable[[], dict[str, Any]], **settings) -> Callable[[Path], str]:
    return lambda folder: f"{family}:{tiny_heads.save(folder, family, make(), **settings)}"


#: The first two are the fast tests' where the others are slow.
ROWS = {
    "fiber, for contrast": Row(lightning("fiber", fiber_state(itm=False)), COSINE),
    "cappa": Row(save_cappa, WRITE),
    "albef": Row(head("albef", tiny.albef_state, gradcam_layer=3), MATCH | LOGIT | COSINE | {"grad_cam": "logit"}),
    "blip": Row(partial(save_family, family="blip"), BLIP | {"retrieval": "logit"} | MATCH | COSINE),
    "vilt": Row(partial(save_family, family="vilt"), RANK | MATCH),
    "xvlm": Row(partial(save_family, family="xvlm"), MATCH | LOGIT | COSINE | {"boxes": "logit"}),
    "meter": Row(lightning("meter", meter_state()), MATCH | RANK),
    "meter-swin": Row(lightning("meter", meter_state(swin_tower=True)), MATCH | RANK),
    "fiber": Row(lightning("fiber", fiber_state()), MATCH | COSINE | RANK),
    "uniter": Row(partial(save_region_model, family="uniter"), RANK | MATCH, on_regions=True),
    "vilbert": Row(partial(save_region_model, family="vilbert"), MATCH, on_regions=True),
    "vlt5": Row(partial(save_region_model, family="vlt5"), MATCH, on_regions=True),
    "ofa": Row(partial(save_captioner, family="ofa"), WRITE | MATCH),
    "xvlm, for captions": Row(partial(save_captioner, family="xvlm"), WRITE),
    "fiber, for captions": Row(partial(save_captioner, family="fiber"), WRITE | COSINE),
    "albef, for answers": Row(head("albef", tiny_heads.albef_vqa), VQA),
    "albef, for two images": Row(head("albef", tiny_heads.albef_nlvr2), NLVR2),
    "xvlm, for answers": Row(head("xvlm", tiny_heads.xvlm_vqa), VQA),
    "xvlm, for two images": Row(head("xvlm", tiny_heads.xvlm_nlvr2), NLVR2),
    "meter, for answers": Row(head("meter", partial(tiny_heads.meter_head, "vqa")), VQA),
    "fiber, for two images": Row(head("fiber", partial(tiny_heads.fiber_head, "nlvr2")), NLVR2 | COSINE),
}

#: The right images of those that are judged by two.
RIGHT = [*PICTURES[1:], PICTURES[0]]


def numbers_of(model, rows=slice(None)):
    """What a model makes of each picture with its text, alone or in a batch: `(rows, numbers)`."""
    images, texts = PICTURES[rows], TEXTS[rows]
    if isinstance(model, DualEncoder):
        vectors = model.encode_images(images), model.encode_texts(texts)
        np.testing.assert_allclose([np.linalg.norm(side, axis=1) for side in vectors], 1, atol=1e-6)
        return np.concatenate(vectors, axis=1)
    if isinstance(model, TwoImageClassifier):
        return model.judge(images, RIGHT[rows], texts)[:, None]
    if isinstance(model, FusionHead):
        return np.stack(model.outputs(images, texts)).reshape(len(texts), -1)
    return (model.log_likelihoods if isinstance(model, Generator) else model.score_pairs)(images, texts)[:, None]


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", ROWS)
def test_every_reading_of_a_file_and_of_its_converted_folder_gives_each_pair_its_own_numbers(kind, tmp_path):
    row = ROWS[kind]
    name = row.save(tmp_path / "file")
    regions = {"regions": tmp_path / "file" / "regions.npz"} if row.on_regions else {}
    convert_model(name, tmp_path / "folder")

    def opened(reading, source=name):
        return find_model(str(source), ModelOptions(reading=reading, **regions))

    numbers, prints = {}, {}
    for reading, score_kind in row.readings.items():
        model, folder = opened(reading), opened(reading, tmp_path / "folder")
        numbers[reading] = numbers_of(model)
        assert (model.kind, numbers[reading].dtype) == (score_kind, np.float32)
        assert len(np.unique(numbers[reading], axis=0)) == len(PICTURES)
        fresh = opened(reading)
        alone = [numbers_of(fresh, slice(k, k + 1)) for k in range(len(PICTURES))]  # to the bit
        np.testing.assert_array_equal(np.concatenate(alone), numbers[reading])
        np.testing.assert_array_equal(numbers_of(folder), numbers[reading])
        assert model.fingerprint == folder.fingerprint
        prints[reading] = model.fingerprint
    assert len({*prints.values()}) == len(prints)
    assert opened(None).fingerprint == next(iter(prints.values()))
    if {*MATCH} <= {*numbers}:
        np.testing.assert_allclose(numbers["itm"], 1 / (1 + np.exp(-numbers["itm_logit"])), atol=1e-6)
    if {*WRITE} <= {*numbers}:
        tokens = numbers["likelihood"] / numbers["mean_likelihood"]
        np.testing.assert_allclose(tokens, tokens.round(), rtol=1e-4)
        assert (numbers["likelihood"] < 0).all()
    other = "itm" if "vqa" in row.readings else "vqa"
    with raises(ModelError, f"'{other}'", ", ".join(row.readings)):
        opened(other)
    if regions:  # the benchmark's, which stay where they are
        with raises(ModelError, "regions"):
            find_model(str(tmp_path / "folder"))


def test_a_run_recognises_a_model_by_the_regions_beside_its_file_too(tmp_path):
    name = save_region_model(tmp_path / "file", "uniter")
    before = source_key(name, ModelOptions())
    (tmp_path / "file" / "regions.npz").write_bytes(b"of another detector")
    assert None is not source_key(name, ModelOptions()) != before


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["albef", "blip", "vilt", "xvlm", "meter", "meter-swin", "fiber"])
def test_another_image_size_gives_other_numbers_and_one_that_does_not_fit_is_refused(kind, tmp_path):
    name = ROWS[kind].save(tmp_path / "file")
    size = 96 if kind.startswith(("meter", "fiber")) else 128
    larger, plain = (numbers_of(find_model(name, ModelOptions(image_size=side))) for side in (size, None))
    assert np.isfinite(larger).all() and (larger != plain).all()
    # To ViLT any size will do: its pictures are cut to patches.
    facts = dict.fromkeys(("albef", "blip", "xvlm"), ("96", "96")) | dict.fromkeys(
        ("meter-swin", "fiber"), ("Swin", "32")
    )
    if kind in facts:
        with raises(ModelError, "100", "image_size=", facts[kind]):
            find_model(name, ModelOptions(image_size=100))


# A model in its authors' file becomes a folder without pickles, and stays the same model.


@pytest.mark.slow
@pytest.mark.parametrize("family", STATES)
def test_a_converted_model_is_the_same(tmp_path, family, command):
    name = save_family(tmp_path / "x", family)
    said = command("convert", name, tmp_path / "folder", code=0).out
    assert f"it is opened with -m {tmp_path / 'folder'}" in " ".join(said.split())
    assert not list((tmp_path / "folder").glob("*.pth"))
    one, other = (find_model(each, ModelOptions(image_size=128)) for each in (name, str(tmp_path / "folder")))
    assert one.fingerprint == other.fingerprint
    with safe_open(tmp_path / "folder" / "model.safetensors", "pt") as file:
        kept = set(file.keys())
    dropped = {"temp", "image_queue", "ptr_queue", "mlm_score.bias", "text_decoder.cls.predictions.bias"}
    assert kept < {name.replace("text_encoder.bert.", "text_encoder.") for name in STATES[family]()}
    assert not kept & dropped
    config = json.loads((tmp_path / "folder" / "config.json").read_text())
    assert {name: config[name] for name in tiny.SETTINGS} == tiny.SETTINGS
    assert (config["image_size"], config["model_type"].partition("_")[0]) == (tiny.SIZES[family], family)


@pytest.mark.slow
def test_where_a_files_numbers_lie_changes_no_score(tmp_path):
    """Kernels round otherwise on memory that begins elsewhere: a safetensors file's header moves its numbers."""
    name = save_family(tmp_path / "x", "albef")
    convert_model(name, tmp_path / "folder")
    content = load_file(tmp_path / "folder" / "model.safetensors")
    expected = tiny.score(str(tmp_path / "folder"))
    for padding in (1, 25, 49):
        save_file(content, tmp_path / "folder" / "model.safetensors", metadata={"format": "pt", "x": "x" * padding})
        model = find_model(str(tmp_path / "folder"))
        assert {tensor.data_ptr() % 64 for tensor in model.encoder.halves.module.state_dict().values()} == {0}
        np.testing.assert_array_equal(tiny.score(str(tmp_path / "folder")), expected)


@pytest.mark.slow
def test_what_is_not_converted(tmp_path, command):
    for model in ("constant", "albef:", "onnx:folder"):
        with raises(ModelError, f"'{model}'", "albef:FILE"):
            formats.convert(model, tmp_path / "folder")
    name = save_family(tmp_path / "x", "albef")
    with raises(DataError, "folder"):
        convert_model(name, tmp_path / "x")
    for file in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        (tmp_path / "x" / file).unlink(missing_ok=True)
    with raises(ModelError, "tokenizer=", "FOLDER"):
        convert_model(name, tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
    tiny.save_tokenizer(tmp_path / "words")
    done = command("convert", name, tmp_path / "folder", "--tokenizer", tmp_path / "words", "--json", code=0)
    parameters = sum(tensor.numel() for tensor in load_file(tmp_path / "folder" / "model.safetensors").values())
    assert done.json == {"out": str(tmp_path / "folder"), "parameters": parameters}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["runs/a"], ("runs/a", "model", "folder")),
        (["albef:a.pth", "folder", "--out", "x"], ("out=x", "to=FORMAT")),
        (["runs/a", "folder", "--to", "lm-eval"], ("folder=folder", "model")),
    ],
)
def test_options_of_the_other_meaning_are_refused(arguments, message):
    result = CliRunner().invoke(app, ["convert", *arguments])
    assert result.exit_code != 0
    check_facts(str(result.exception), message)
