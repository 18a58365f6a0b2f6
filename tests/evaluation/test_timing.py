"""What models cost: what is counted equals an independent count; no time is of a remembered or repeated sample."""

import json
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tellapart
from facts import raises
from tellapart.data.images import decode, pixel_hash
from tellapart.errors import DataError, ModelError, RunError
from tellapart.evaluation import timing
from tellapart.evaluation.timing import BATCHES, time_model
from tellapart.models.fusion.scoring import FusionScorer
from tellapart.models.onnx.file_format import weight_count
from tellapart.models.reference import DEMO_ENCODER_FOLDER
from tellapart.records.machine import resident_memory
from tellapart.records.timing_record import PARTS, Duration, Timings, read_timings, write_timings
from tellapart.report.printing import print_timings

FEW = {"repeats": 3, "warm_up": 1, "batch_size": 2}


@pytest.mark.parametrize(
    ("name", "parts", "rates"),
    [
        ("demo-encoder", ("decode", "image", "text", "cross"), ("images", "texts", "pairs")),
        ("random", ("decode", "cross"), ("pairs",)),
        ("blind", ("text",), ("texts",)),
        ("oracle", ("cross",), ("pairs",)),
    ],
)
def test_a_model_has_the_parts_that_its_family_computes(name, parts, rates):
    found = time_model(name, **FEW)
    assert tuple(found.parts) == parts
    assert all(0 < one.low <= one.median <= one.high for one in (found.latency, *found.parts.values()))
    given = found.throughput.model_dump(exclude={"batch_size"})
    assert tuple(rate for rate, value in given.items() if value is not None) == rates
    assert all(given[rate] > 0 for rate in rates)
    assert found.flops is None
    assert (found.image_size == (160, 160)) == ("decode" in parts)


class Watched:
    """A pair scorer that keeps what it was asked: the images' hashes, one list a call."""

    name, fingerprint, kind = "watched", "watched-1", "similarity"

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def score_pairs(self, images: Sequence[NDArray[np.uint8]], texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls.append([pixel_hash(image) for image in images])
        return np.zeros(len(texts), np.float32)


@pytest.fixture
def found(monkeypatch) -> Callable[[object], None]:
    """Have that model found, whatever the name."""
    return lambda model: monkeypatch.setattr(timing, "find_model", lambda name, options: model)


def test_no_image_is_asked_about_twice_running_and_halves_are_computed_anew_each_time(found, made_set):
    model = Watched()
    found(model)
    assert time_model("watched", f"folder:{made_set(n=2)}", repeats=9, warm_up=2, batch_size=3).pairs == 4
    assert [len(call) for call in model.calls] == [1] * (9 + 2 + 1) + [3] * (1 + BATCHES)
    asked = [image for call in model.calls for image in call]
    assert all(one != other for one, other in pairwise(asked[:12]))
    assert all(len(set(call)) == len(call) for call in model.calls)
    encoder = Halves()
    found(FusionScorer(encoder))
    record = time_model("halves", repeats=6, warm_up=0, batch_size=4)
    assert encoder.asked == dict.fromkeys(encoder.asked, [1] * 7 + [4] * (1 + BATCHES))
    assert (tuple(record.parts), record.notes) == (PARTS, ("a detector comes before",))
    assert (record.parameters, record.input_shape) == (7, (5, 4))


class Halves:
    """A fusion encoder of numpy that keeps what it was asked."""

    name, fingerprint, kind = "halves", "halves-1", "probability"
    parameters, offers = 7, {}
    left_out = "a detector comes before"

    def __init__(self) -> None:
        self.asked: dict[str, list[int]] = {"images": [], "texts": [], "pairs": []}

    def prepare_image(self, pixels: NDArray[np.uint8]) -> dict[str, Any]:
        return {"features": np.zeros((5, 4), np.float32)}

    def encode_images(self, images: Sequence[Any]) -> list[Any]:
        assert all(isinstance(image, dict) for image in images)
        self.asked["images"].append(len(images))
        return [SimpleNamespace(nbytes=0, truncated=False) for _ in images]

    def encode_texts(self, texts: Sequence[str]) -> list[Any]:
        self.asked["texts"].append(len(texts))
        return [SimpleNamespace(nbytes=0, truncated=False) for _ in texts]

    def score_states(self, images: Sequence[Any], texts: Sequence[Any]) -> NDArray[np.float32]:
        self.asked["pairs"].append(len(texts))
        return np.zeros(len(texts), np.float32)


def test_parameters_are_weights_without_shapes_and_axes_and_as_many_as_a_card_says(tiny_encoder):
    record = time_model(f"onnx:{tiny_encoder.folder}", **FEW)
    assert record.parameters == sum(array.size for array in tiny_encoder.weights.values())
    card = DEMO_ENCODER_FOLDER / "MODEL_CARD.md"
    assert f"{time_model('demo-encoder', **FEW).parameters:,} parameters" in card.read_text()


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


@pytest.mark.parametrize(("kind", "weights"), [(1, 12), (16, 12), (3, 12), (7, 0), (9, 0)])
@pytest.mark.parametrize("dims", [field(1, bytes([3, 4])), bytes([8, 3, 8, 4])], ids=["packed", "one by one"])
def test_weights_are_counted_however_a_shape_is_written(dims, kind, weights):
    tensor = field(5, dims + bytes([16, kind]))
    assert weight_count(field(7, tensor * 2)) == 2 * weights


def saved_numbers(folder: Path, *, unused: tuple[str, ...] = ()) -> int:
    """Count the numbers in a checkpoint's file by its header alone."""
    data = (folder / "model.safetensors").read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return sum(int(np.prod(tensor["shape"])) for name, tensor in header.items() if not name.startswith(("__", *unused)))


def test_parameters_and_flops_of_a_clip_are_those_counted_by_hand_and_of_a_fusion_encoder_are_counted(tiny, tmp_path):
    folder = tiny.clip(tmp_path / "clip")
    record = time_model(str(folder), **FEW)
    assert (record.parameters, tuple(record.parts)) == (saved_numbers(folder), PARTS)
    assert (record.input_shape, record.machine.torch_threads) == ((3, tiny.SIZE, tiny.SIZE), 1)

    def layers(tokens: int) -> int:
        linear = (4 + 2 * 2) * tokens * tiny.WIDTH**2  # q, k, v, out; up and down, twice as wide
        return tiny.LAYERS * 2 * (linear + 2 * tokens**2 * tiny.WIDTH)  # and q by k, weights by v

    patches = (tiny.SIZE // tiny.PATCH) ** 2
    image = 2 * patches * (3 * tiny.PATCH**2) * tiny.WIDTH + layers(patches + 1)
    text = layers(24)  # the demo's captions fill the context
    assert record.flops == image + text + 2 * (2 * tiny.WIDTH * tiny.DIMENSIONS)
    folder = tiny.blip(tmp_path / "blip")
    record = time_model(str(folder), **FEW)
    assert tuple(record.parts) == PARTS
    assert record.parameters == saved_numbers(folder, unused=("vision_proj", "text_proj"))  # of its contrastive head
    assert record.flops > 2 * 16 * 192 * tiny.WIDTH  # the patches alone


def test_the_time_of_a_detector_is_said_to_be_missing(tiny, made_set, tmp_path):
    t = tiny.transformers()
    pairs, folder = made_set(n=2), tmp_path / "visual_bert"
    config = t.VisualBertConfig(
        hidden_size=32, intermediate_size=48, num_attention_heads=2, num_hidden_layers=2, visual_embedding_dim=6,
        vocab_size=80, max_position_embeddings=16, pad_token_id=0,
    )  # fmt: skip
    t.VisualBertForPreTraining(config).save_pretrained(folder)
    tiny.bert_tokenizer().save_pretrained(folder)
    draw = np.random.default_rng(0)
    arrays: dict[str, Any] = {}
    for file in sorted((pairs / "images").iterdir()):
        key = pixel_hash(decode(file.read_bytes(), file.name))
        arrays[f"{key}/features"] = draw.normal(size=(4, 6)).astype(np.float32)
        arrays[f"{key}/boxes"] = np.tile(np.array([0, 0, 1, 1], np.float32), (4, 1))
    np.savez(folder / "regions.npz", **arrays)
    record = time_model(str(folder), f"folder:{pairs}", **FEW)
    assert tuple(record.parts) == PARTS
    assert any("the time and the weights of the detector" in note for note in record.notes)


def test_batches_too_large_for_the_device_are_told(torch, found):
    class Full(Watched):
        def score_pairs(self, images: Sequence[NDArray[np.uint8]], texts: Sequence[str]) -> NDArray[np.float32]:
            if len(texts) > 1:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return super().score_pairs(images, texts)

    found(Full())
    with raises(ModelError, "2", "device", "memory"):
        time_model("full", **FEW)


def test_what_cannot_be_timed_is_refused(made_set, found):
    for name, value in (("repeats", 0), ("warm_up", -1), ("batch_size", 0)):
        with raises(RunError, name, f"{value + 1}", value):
            tellapart.time("blind", **{name: value})
    with raises(RunError, "blind", "twice"):
        tellapart.time(["blind", "random", "blind"])
    with raises(DataError, "vlue-nlvr2", "task"):
        tellapart.time("blind", "vlue-nlvr2")
    with raises(DataError, "6", "batch_size=", "6"):
        time_model("random", f"folder:{made_set(n=3)}", batch_size=7)
    with raises(DataError, "image", "timing"):
        time_model("random", f"folder:{made_set('one', n=1, shape=(1, 2))}", batch_size=1)
    found(SimpleNamespace(name="mute", fingerprint="0", kind="logit"))
    with raises(ModelError, "model", "'mute'"):
        time_model("mute", **FEW)


@pytest.mark.slow
def test_a_model_whose_process_is_killed_is_an_error_in_one_line(tmp_path, monkeypatch):
    about = tmp_path / "deadly-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: deadly\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[tellapart.models]\ndeadly = deadly:make\n")
    (tmp_path / "deadly.py").write_text("import os\n\ndef make(options):\n    os._exit(9)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with raises(RunError, "deadly", "killed", "memory"):
        tellapart.time(["deadly"], **FEW)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["no guard", "standard input"])
def test_a_script_that_cannot_be_read_again_is_not_blamed_on_memory(form, tmp_path):
    guard = "if __name__ == '__main__':\n    "
    code = f"import tellapart as ta\n{'' if form == 'no guard' else guard}ta.time('blind', 'demo', repeats=3)\n"
    script = tmp_path / "script.py"
    script.write_text(code)
    command, given = ([str(script)], None) if form == "no guard" else (["-"], code)
    ran = subprocess.run([sys.executable, *command], input=given, text=True, capture_output=True, check=False)
    said = ran.stderr.splitlines()[-1]
    assert "blind" in said and "__main__" in said and "standard input" in said and "memory" not in said


@pytest.fixture(scope="module")
def measured() -> Timings:
    """Of two models, each in a process of its own."""
    return tellapart.time(["random", "blind"], **FEW, command="tellapart time")


@pytest.mark.slow
def test_a_record_comes_back_from_its_file_as_it_was(measured, tmp_path):
    write_timings(tmp_path / "timing.json", measured)
    assert read_timings(tmp_path / "timing.json") == measured
    text = (tmp_path / "timing.json").read_text()
    assert json.loads(text)["schema"] == 1
    assert platform.node() not in [*json.loads(text)["models"][0]["machine"].values()]
    assert [model.model.name for model in measured.models] == ["random", "blind"]
    assert all(model.peak_memory is None or model.peak_memory >= 0 for model in measured.models)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"schema": 2}', ("2", "1")),
        ('{"schema": 1}', ("'started'", "missing")),
        ("[]", ("timing.json", "object")),
        ("{", ("timing.json", "JSON", "Expecting property name")),
        (None, ("timing.json", "--out", "FILE`")),
    ],
)
def test_a_file_that_is_no_record_is_told(text, message, tmp_path):
    path = tmp_path / "timing.json"
    if text is not None:
        path.write_text(text)
    with raises(RunError, message):
        read_timings(path)


def test_memory_above_the_start_is_what_was_taken():
    before = resident_memory()
    taken = np.ones(256 * 2**20, np.uint8)  # much more than what a collection may free meanwhile
    peak = resident_memory(peak=True)
    if before is None or peak is None:
        pytest.skip("this system does not say")
    assert peak >= before + taken.nbytes // 2


def test_models_that_share_a_name_are_named_as_they_were_asked_for(monkeypatch):
    record = time_model("blind", **FEW)
    monkeypatch.setattr("tellapart.api.checks.time_apart", lambda name, measure: record)
    assert [each.model.name for each in tellapart.time(["a/blind", "b/blind"]).models] == ["a/blind", "b/blind"]


def test_the_tables_hold_every_number_and_say_how_it_was_measured(measured, capsys):
    memory = {"peak_memory": 999_600, "peak_device_memory": 2_000_000_000}
    size = {"parameters": 151_277_313, "flops": 14_780_000_000, "notes": ("evil\x1b[2J",)}
    latency = Duration(median=0.0123, low=0.001, high=1.5)
    first = measured.models[0].model_copy(update=memory | size | {"latency": latency})
    print_timings(measured.model_copy(update={"models": (first, measured.models[1])}))
    printed = capsys.readouterr().out
    for cell in ("151 M", "14.8 G", "1 MB", "2 GB", "12.3 [1.00, 1,500]", "not counted"):
        assert cell in printed
    assert "3 pairs of demo one by one, after 1 to warm up; throughput: median of 3 batches" in printed
    assert "random: evil\\x1b[2J" in printed


@pytest.mark.slow
def test_the_command_prints_tables_and_writes_what_it_prints_as_json(command):
    few = ("--repeats", 2, "--warm-up", 0, "--batch-size", 2)
    ran = command("time", "-m", "blind", *few, "--out", "timing.json", "--json", code=0)
    assert (ran.err, ran.json) == ("", json.loads(Path("timing.json").read_text()))
    (model,) = read_timings(Path("timing.json")).models
    assert (model.repeats, model.warm_up, model.throughput.batch_size, model.batches) == (2, 0, 2, BATCHES)
    assert model.model.fingerprint == "tellapart:blind:1" and model.machine.processor
    printed = command("time", "-m", "blind", *few).out
    assert "latency of one pair, milliseconds" in printed and "throughput and size" in printed
