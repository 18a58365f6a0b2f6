"""A model in memory: the bytes of the file's scores, left as it was, and known by its parameters."""

import functools
import os
import random
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from plain_towers import PREPARED, Towers, preprocess, tokenizer

import tellapart as ta
from facts import raises
from scripts import run_python
from tellapart.data.pairset import PairSet
from tellapart.errors import ModelError, TellapartError, TellapartWarning
from tellapart.models.find import find_model
from tellapart.models.memory.held import HeldModel
from tellapart.models.memory.identity import Description, hash_tensors, of_modules
from tellapart.models.options import ModelOptions
from tellapart.models.scoring.score import score
from tellapart.models.store.batches import available_cores
from tellapart.models.store.embedding_store import EmbeddingStore


def bytes_of(model, pairs: PairSet) -> bytes:
    return score(model, pairs, store=EmbeddingStore(None)).scores.values.tobytes()


def held_in_memory(folder: Path, architecture: str) -> tuple[Any, Any]:
    transformers = tiny_models.transformers()
    model = getattr(transformers, architecture).from_pretrained(folder)
    return model, transformers.AutoProcessor.from_pretrained(folder)


HELD = {"clip": "CLIPModel", "siglip": "SiglipModel", "blip": "BlipForImageTextRetrieval", "groupvit": "GroupViTModel"}


@pytest.mark.parametrize("family", HELD)
def test_a_model_of_transformers_gives_the_bytes_of_its_folder(family, tmp_path, picture_set):
    pairs, folder = picture_set(4), tiny_models.FAMILIES[family](tmp_path)
    model, processor = held_in_memory(folder, HELD[family])
    model.train()  # as in a loop: dropout would show
    held = ta.model(model, processor)
    assert held.name == HELD[family]
    assert bytes_of(held, pairs) == bytes_of(find_model(f"hf:{folder}"), pairs)
    assert model.training


def test_the_other_reading_is_chosen_where_the_model_is_given(tmp_path, picture_set):
    pairs, folder = picture_set(3), tiny_models.blip(tmp_path)
    held = ta.model(*held_in_memory(folder, "BlipForImageTextRetrieval"), reading="itc")
    assert bytes_of(held, pairs) == bytes_of(find_model(f"hf:{folder}", ModelOptions(reading="itc")), pairs)
    with raises(ModelError, "reading='itm'", "ta.model"):
        ta.evaluate(held, pairs, reading="itm")


def expect_known(make: Callable[[bool], Any], pairs: PairSet, cache: Path) -> None:
    """Of a model and a changed one expect other scores, and those of a changed one although the store has some."""
    before, again, after = (ta.evaluate(make(changed), pairs, cache=cache) for changed in (False, False, True))
    assert again.result().benchmarks["pictures"].images_encoded == 0  # out of the store
    anew = ta.evaluate(make(True), pairs, cache=False).items().scores
    assert np.abs(anew - before.items().scores).max() > 1e-3
    np.testing.assert_array_equal(after.items().scores, anew)


def cut_sooner(_model, processor):
    processor.tokenizer.model_max_length = 9


def cut_beginnings(_model, processor):
    processor.tokenizer.truncation_side = "left"


def rest_adapter(model, _processor):
    model.base_model.disable_adapter_layers()


@pytest.mark.parametrize("change", [cut_sooner, cut_beginnings, rest_adapter])
def test_a_model_of_transformers_is_known_by_its_processor_and_its_adapter(change, tmp_path, picture_set):
    peft = pytest.importorskip("peft", reason="peft is not installed (the train extra)")
    folder, pairs = tiny_models.clip(tmp_path / "clip"), picture_set(2)
    long = tuple(item.model_copy(update={"texts": tuple(text * 3 for text in item.texts)}) for item in pairs.items)

    def make(changed):
        model, processor = held_in_memory(folder, "CLIPModel")
        torch.manual_seed(0)
        with warnings.catch_warnings(action="ignore"):  # of a property that peft reads
            model = peft.get_peft_model(model, peft.LoraConfig(init_lora_weights=False, target_modules=["q_proj"]))
        if changed:
            change(model, processor)
        return ta.model(model, processor)

    expect_known(make, replace(pairs, items=long), tmp_path / "cache")


def transforms_of_torchvision() -> Any:
    return pytest.importorskip("torchvision.transforms")


def layers_in_eight_bits(_towers, known, changed):
    torch.manual_seed(changed)
    with warnings.catch_warnings(action="ignore"):  # torch announces that this way goes
        packed = torch.ao.quantization.quantize_dynamic(Towers(), {torch.nn.Linear}, torch.qint8)
    torch.manual_seed(0)
    torch.nn.init.normal_(packed.text[0].weight)
    return ta.model(packed, **known)


def function_of_a_step(towers, known, changed):
    from PIL import ImageOps

    transforms = transforms_of_torchvision()
    step = transforms.Lambda(ImageOps.invert if changed else ImageOps.solarize)  # the text of either is "Lambda()"
    steps = transforms.Compose([transforms.Resize((4, 4)), step, transforms.ToTensor()])
    return ta.model(towers, **known | {"preprocess": steps})


class Prompted:
    """An object with a model, whose numbers depend on more than its weights."""

    _prompt, table = "", None

    def __init__(self, towers: Towers, **attributes: Any) -> None:
        self.towers = towers
        self.__dict__ |= attributes

    def encode_images(self, images):
        return self.towers.encode_image(torch.stack([preprocess(image) for image in images]))

    def encode_texts(self, texts):
        vectors = self.towers.encode_text(tokenizer([f"{self._prompt}{text}" for text in texts]))
        return vectors if self.table is None else vectors + self.table[1000]


class Heir(Prompted):
    """It reads texts as the class before it does."""


def private_attribute(towers, _known, changed):
    return Heir(towers, _prompt="a photo of " if changed else "")


def number_far_inside_a_tensor(towers, _known, changed):
    table = torch.zeros(2000, 16)
    table[1000] += changed * torch.arange(16)
    return Heir(towers, table=table)


class Both(Prompted, Towers):
    """A module with the two methods."""

    __init__, towers = Towers.__init__, property(lambda self: self)


def parameter_of_a_module_with_two_methods(_towers, _known, changed):
    torch.manual_seed(0)
    module = Both().train()
    module.visual[0].bias.data.add_(changed)
    return module


class Leaves:
    class Before:
        def begin(self, text):
            return text


class Begins:
    class Before:
        def begin(self, text):
            return f"a photo of {text}"


def code_of_the_class_before(towers, _known, changed):
    class After((Begins if changed else Leaves).Before, Prompted):
        def encode_texts(self, texts):
            return super().encode_texts([self.begin(text) for text in texts])

    return After(towers)


PARTS = [layers_in_eight_bits, function_of_a_step, private_attribute, number_far_inside_a_tensor]
PARTS += [parameter_of_a_module_with_two_methods, code_of_the_class_before]


@pytest.mark.parametrize("make", PARTS)
def test_a_model_is_known_by_what_moves_its_numbers(make, towers, known, picture_set, tmp_path):
    expect_known(partial(make, towers, known), picture_set(2), tmp_path)


@pytest.fixture
def towers():
    torch.manual_seed(0)
    return Towers()


def test_a_plain_module_gives_the_bytes_of_its_weights_read_again(tmp_path, towers, picture_set):
    from safetensors.torch import load_file, save_file

    save_file(towers.state_dict(), tmp_path / "weights.safetensors")
    again = Towers()
    again.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    pairs = picture_set(4)
    one, other = (ta.model(each, **PREPARED, fingerprint=name) for each, name in ((towers, "a"), (again, "b")))
    assert bytes_of(one, pairs) == bytes_of(other, pairs)
    assert np.ptp(np.frombuffer(bytes_of(one, pairs), np.float32)) > 0.01


def test_a_module_is_at_rest_however_far_behind_a_function_it_lies(towers, picture_set):
    class Settings:
        def __getattr__(self, name):
            return {"size": 8}[name]

    class Behind:
        def __init__(self):
            self.parts, self.settings = [towers], Settings()

        def images(self, images):
            return self.parts[0].encode_image(torch.stack([*map(preprocess, images)]))

        def texts(self, texts):
            return [*torch.nn.Parameter(self.parts[0].encode_text(tokenizer(texts)))]  # which ask for a gradient

    behind, pairs = Behind(), picture_set(3)
    expected = np.frombuffer(bytes_of(ta.model(towers, **PREPARED), pairs), np.float32)
    for images, texts in (
        (behind.images, behind.texts),
        (partial(Behind.images, behind), partial(Behind.texts, behind)),
        (
            lambda images: towers.encode_image(torch.stack([*map(preprocess, images)])),
            lambda texts: towers.encode_text(tokenizer(texts)),
        ),
    ):
        held = ta.model(images=images, texts=texts, fingerprint="a")
        assert np.allclose(np.frombuffer(bytes_of(held, pairs), np.float32), expected, atol=1e-6)  # without dropout
    assert towers.visual.training


def state_of(model) -> list[Any]:
    return [
        [(name, part.training) for name, part in model.named_modules()],
        hash_tensors(model),
        [(each.requires_grad, each.grad is not None and each.grad.tolist()) for each in model.parameters()],
        random.getstate(),
        [str(each) for each in np.random.get_state()],
        torch.get_rng_state().tolist(),
    ]


def test_a_model_is_left_as_it_was_after_a_run_an_error_and_an_interruption(towers, picture_set):
    pairs = picture_set(3)
    towers.train()
    towers.frozen.eval()
    towers.encode_text(tokenizer(["a"])).sum().backward()
    before = state_of(towers)
    seen = []

    def watch(module, _given, _output):
        seen.append(module.training or torch.is_grad_enabled())
        random.random(), np.random.rand(), torch.rand(1)

    handle = towers.visual.register_forward_hook(watch)
    ta.evaluate(ta.model(towers, **PREPARED), pairs, cache=False)
    assert seen and not any(seen)
    handle.remove()
    assert state_of(towers) == before
    for error in (KeyboardInterrupt, RuntimeError("a fault of its own")):

        def fail(_module, _given, error=error):
            raise error

        handle = towers.text.register_forward_pre_hook(fail)
        with pytest.raises((KeyboardInterrupt, ModelError)):
            ta.evaluate(ta.model(towers, **PREPARED), pairs, cache=False)
        handle.remove()
        assert state_of(towers) == before
    loss = towers.encode_image(torch.rand(2, 3, 4, 4)).sum()
    loss.backward()  # it trains on


@pytest.fixture
def known():
    """The preparation of the towers' inputs, of functions with a fingerprint."""

    functions = {name: partial(function) for name, function in PREPARED.items()}
    for name, function in functions.items():
        function.fingerprint = name
    return functions


def test_a_hook_counts_and_turns_the_store_off(towers, known, picture_set, tmp_path):
    pairs = picture_set(2)
    plain = ta.evaluate(ta.model(towers, **known), pairs, cache=tmp_path)
    assert plain.result().benchmarks["pictures"].notes == ()
    handle = towers.visual.register_forward_hook(lambda _module, _given, output: -output)
    hooked = ta.evaluate(ta.model(towers, **known), pairs, cache=tmp_path)
    handle.remove()
    assert np.allclose(hooked.items().scores, -plain.items().scores, atol=1e-6)
    (note,) = hooked.result().benchmarks["pictures"].notes
    assert "hook" in note and "visual" in note and "stored" in note


def test_the_fingerprint_is_that_of_the_weights_as_they_are_at_each_measurement(towers, known, picture_set, tmp_path):
    held, pairs = ta.model(towers, **known), picture_set(3)
    first = ta.evaluate(held, pairs, cache=tmp_path)
    same = ta.evaluate(held, pairs, cache=tmp_path)
    assert first.result().model.fingerprint == same.result().model.fingerprint
    assert first.result().benchmarks["pictures"].images_encoded > 0
    assert same.result().benchmarks["pictures"].images_encoded == 0  # out of the store
    with torch.no_grad():
        towers.visual[0].weight.data.neg_()  # a change that no version counter sees
    changed = ta.evaluate(held, pairs, cache=tmp_path)
    assert changed.result().model.fingerprint != first.result().model.fingerprint
    assert not np.allclose(changed.items().scores, first.items().scores)
    named = ta.evaluate(ta.model(towers, **PREPARED, fingerprint="mine-3"), pairs, cache=tmp_path)
    assert named.result().model.fingerprint == "mine-3"


def test_a_callers_autocast_moves_no_number(towers, tmp_path, picture_set):
    pairs, folder = picture_set(2), tiny_models.clip(tmp_path)

    def score_pair(_image, text):
        return torch.full((1, 9), 0.1) @ torch.full((9, 1), len(text) / 7)

    score_pair.fingerprint = "mine"
    makers = [lambda: ta.model(score_pair), lambda: ta.model(towers, **PREPARED)]
    for make in (*makers, lambda: find_model(f"hf:{folder}")):
        with torch.autocast("cpu", torch.bfloat16):
            scored = bytes_of(make(), pairs)
        assert scored == bytes_of(make(), pairs)


def test_what_a_steps_text_writes_or_its_class_sets_by_default_leaves_the_fingerprint_as_it_was():
    transforms, found = transforms_of_torchvision(), []
    for step in (transforms.Normalize((0.5,), (0.2,)), transforms.Lambda(len)):
        found.append(Description())
        found[-1].add_callable(step, "preprocess")
    assert found[0].facts == ["preprocess Normalize(mean=(0.5,), std=(0.2,))"]
    assert found[1].facts[0] == "preprocess Lambda()" and "builtins.len" in found[1].facts[1]


def test_a_callers_processor_of_a_librarys_parts_is_unknown(tmp_path):
    _, processor = held_in_memory(tiny_models.clip(tmp_path), "CLIPModel")
    callers = type("Callers", (type(processor),), {"__call__": len})
    found = Description()
    for made in (processor, callers(processor.image_processor, processor.tokenizer)):
        found.add_callable(made, "processor")
    assert (len(found.facts), len(found.unknown)) == (1, 1)


@pytest.mark.slow
def test_a_fingerprint_takes_a_second_for_a_gigabyte_of_parameters():
    layers = torch.nn.ParameterList([torch.randn(8_000_000) for _ in range(8)])
    rates = []
    for _ in range(3):
        start = time.process_time()
        hash_tensors(layers)
        rates.append(8 * 32e6 / (time.process_time() - start))
    assert max(rates) * available_cores() >= 1e9, rates  # each core hashes pieces of its own


def test_an_unknown_preparation_turns_the_store_off_and_the_record_names_it(towers, picture_set, tmp_path):
    record = ta.evaluate(ta.model(towers, **PREPARED), picture_set(2), cache=tmp_path).result()
    (note,) = record.benchmarks["pictures"].notes
    assert "preprocess" in note and "tokenizer" in note and "fingerprint=" in note
    with EmbeddingStore(tmp_path / "store.sqlite") as store:
        assert store.models() == []


@pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0")
def test_a_compiled_module_is_measured(towers, picture_set):
    pairs = picture_set(2)
    expected = bytes_of(ta.model(towers, **PREPARED), pairs)
    towers.visual = torch.compile(towers.visual, backend="eager")
    for module in (towers, torch.compile(towers, backend="eager"), torch.nn.DataParallel(towers)):
        assert bytes_of(ta.model(module, **PREPARED), pairs) == expected


def test_settings_of_named_models_do_not_move_one_in_memory(towers, picture_set):
    pairs, held = picture_set(2), ta.model(towers, **PREPARED)
    assert isinstance(held, HeldModel) and held.parts.module is towers
    assert all(gate.passed for gate in ta.check(held))
    towers.to(torch.bfloat16)
    run = ta.evaluate(ta.model(towers, **PREPARED), pairs, cache=False).result()
    assert (run.model.dtype, run.run.device) == ("bfloat16", "cpu")
    assert next(towers.parameters()).dtype == torch.bfloat16


def cosines(images, texts):
    lengths = np.linalg.norm(images, axis=1)[:, None] * np.linalg.norm(texts, axis=1)
    return images @ texts.T / lengths


def distances(images, texts):
    return -np.abs(np.asarray(images, np.float64)[:, None] - texts[None]).sum(axis=2)


@pytest.mark.parametrize("form", [np.ndarray.tolist, partial(torch.tensor, requires_grad=True), np.float64])
@pytest.mark.parametrize("similarity", [cosines, distances])
def test_an_object_with_two_methods_gets_pil_images_and_returns_numbers_of_any_kind(similarity, form, picture_set):
    modes = set()

    class Mine:
        fingerprint = "mine-1"

        def encode_images(self, images):
            modes.update((type(image).__module__.partition(".")[0], image.mode) for image in images)
            return form(np.array([np.asarray(image).reshape(-1, 3).mean(axis=0) for image in images]))

        def encode_texts(self, texts):
            return form(np.array([[len(text), text.count("e"), 3.0] for text in texts]))

    if similarity is distances:
        Mine.similarity = lambda _, images, texts: form(distances(images, texts))
    pairs = picture_set(3)
    run = ta.evaluate(Mine(), pairs, cache=False)
    assert (run.models, modes) == (["Mine"], {("PIL", "RGB")})
    item = pairs.items[0]
    means = np.array([pairs.pixels(image).reshape(-1, 3).mean(axis=0) for image in item.images])
    counts = np.array([[len(text), text.count("e"), 3.0] for text in item.texts])
    np.testing.assert_allclose(run.items().scores[0], similarity(means, counts), rtol=1e-5)


@pytest.mark.parametrize("form", [list, torch.tensor, np.float64])
@pytest.mark.parametrize("method", ["score_pairs", "score_texts", "log_likelihoods", "score_matrix"])
def test_an_object_returns_numbers_of_any_kind_as_many_as_it_is_asked_for(method, form, picture_set):
    def numbers(*inputs):
        lengths = [-len(text) / 7 for text in inputs[-1]]
        return form([lengths] * len(inputs[0]) if method == "score_matrix" else lengths)

    kind = {"kind": "logit"} if method == "log_likelihoods" else {}
    mine = type("Mine", (), {"fingerprint": "mine-1", method: staticmethod(numbers), **kind})
    pairs = picture_set(3)
    expected = [[[np.float32(-len(text) / 7) for text in item.texts]] * 2 for item in pairs.items]
    np.testing.assert_array_equal(ta.evaluate(mine(), pairs, cache=False).items().scores, expected)
    few = type("Few", (mine,), {method: staticmethod(lambda *inputs: numbers(*inputs)[:-1])})
    with raises(ModelError, "'Few'", "must return an array", "it returned"):
        ta.evaluate(few(), pairs, cache=False)


class Remembering(Prompted):
    """It keeps what it has read, as an object with a memory does."""

    def __init__(self, towers: Towers) -> None:
        super().__init__(towers)
        self._lock, self._memo, self._calls, self._last = threading.Lock(), {}, 0, ""

    @torch.no_grad()
    def encode_texts(self, texts):
        with self._lock:
            self._calls, self._last = self._calls + 1, texts[-1]
            self._memo |= dict.fromkeys(texts, self._calls)
        return super().encode_texts(texts)


def test_what_an_object_remembers_is_no_part_of_it(towers, picture_set, tmp_path):
    model, pairs = Remembering(towers), picture_set(2)
    first = ta.evaluate(model, pairs, cache=tmp_path, out=tmp_path / "run")
    again = ta.evaluate(model, pairs, cache=tmp_path, out=tmp_path / "run")
    assert first.result().model.fingerprint == again.result().model.fingerprint
    assert not any("stored" in note for note in first.result().benchmarks["pictures"].notes)


def test_a_text_that_the_tokenizer_of_clip_refuses_is_cut_and_counted(towers, picture_set):
    def tokenize(texts, truncate=False):
        if len(texts[0]) > 12 and not truncate:
            raise RuntimeError(f"Input {texts[0]} is too long for context length 12")
        return torch.tensor([[ord(letter) % 128 for letter in texts[0].ljust(12)[:12]]])

    held = ta.model(towers, preprocess=preprocess, tokenizer=tokenize)
    assert held.encode_texts(["a red cup", "a red cup left of a bowl"]).shape == (2, 16)
    assert held.truncated == 1


def measure(thing):
    return ta.evaluate(thing, "demo", limit=2, cache=False)


def call_brightness(batched: bool):
    def brightness(image):
        return float(image.width)

    brightness.fingerprint = "brightness-1"
    return ta.evaluate(brightness, "demo", limit=2, cache=False, batched=batched)


class CLIPProcessor:
    image_processor = tokenizer = object()

    def __call__(self, *given) -> None: ...


def elsewhere(_images: list[Any]):
    raise RuntimeError("Expected all tensors to be on the same device, but found at least two devices")


def lacking(_texts: list[str]):
    raise RuntimeError("\"LayerNormKernelImpl\" not implemented for 'Half'")


def generated(given: list[Any]):
    return ([1.0, 2.0] for _ in given)


async def later(*_given) -> float:
    return 1.0


def of(function, texts=None):
    return measure(ta.model(images=function, texts=texts or function, fingerprint="x"))


def prepared_by(towers, preprocess, tokenizer=tokenizer):
    return measure(ta.model(towers, preprocess=preprocess, tokenizer=tokenizer))


def draws() -> Any:
    transforms = transforms_of_torchvision()
    return transforms.Compose([transforms.RandomCrop(4)])


TRIPLE = ("model, _, preprocess =", "tokenizer=open_clip.get_tokenizer")
FILES = ("pairs.jsonl", "folder:PATH")
LATER = "=lambda *given: asyncio.run(later(*given))"
PIXELS = np.zeros((4, 8, 8, 3), np.uint8)

#: A mistake, as it is made with towers, and the facts of its answer.
MISTAKES: list[tuple[Callable[[Any], Any], tuple[str, ...]]] = [
    *((lambda t, call=call: call((t, preprocess, preprocess)), TRIPLE) for call in (measure, ta.model, ta.check)),
    (measure, ("Towers", "preprocess=", "tokenizer=")),
    (lambda t: measure(torch.compile(t, backend="eager")), ("Towers", "preprocess=", "tokenizer=")),
    (lambda t: ta.model(t, preprocess=preprocess), ("preprocess", "tokenizer=")),
    (
        lambda t: ta.evaluate("oracle", "demo", tokenizer=tokenizer),
        ("tokenizer=", "ta.model(model, preprocess=preprocess, tokenizer=tokenizer)"),
    ),
    (lambda t: prepared_by(t, preprocess, CLIPProcessor()), ("CLIPProcessor", "tokenizer=processor.tokenizer")),
    (lambda t: ta.model(t, CLIPProcessor()), ("CLIPProcessor", "encode_image")),
    (lambda t: prepared_by(t, preprocess, lambda texts: {"input_ids": tokenizer(texts)}), ("dict", "['input_ids']")),
    (lambda t: ta.model(t.to("meta"), **PREPARED), ("'meta'", "model.load_state_dict(weights, assign=True)")),
    (lambda t: of(elsewhere), ("model.to(device)",)),
    *((lambda t, call=call: call(["a.png", "b.JPG"]), FILES) for call in (measure, ta.model)),
    (lambda t: ta.evaluate("oracle", ["a.png", "b.JPG"]), FILES),
    (lambda t: ta.model(images=["a.png", "b.JPG"], texts=tokenizer), FILES),
    (lambda t: measure(name for name in ["oracle"]), ("models=[...]",)),
    (lambda t: of(generated, lambda given: np.ones((len(given), 2))), ("generator", "np.stack(list(...))")),
    (lambda t: ta.evaluate("oracle", PIXELS), ("pixels", "ta.load_pairs(FOLDER)")),
    (lambda t: prepared_by(t, np.asarray), ("permute(2, 0, 1)", "uint8")),
    (lambda t: prepared_by(t, lambda image: image.shape), ("PIL", "np.asarray(image)")),
    (lambda t: measure(ta.model(score=lambda *of: of[0][0].shape, fingerprint="x")), ("PIL", "np.asarray(image)")),
    (
        lambda t: ta.evaluate("oracle", torch.zeros(2, 3, 8, 8)),
        ("prepared images", "ta.score_vectors(model.encode_image(images)"),
    ),
    (lambda t: of(lacking), ("float16", "model.float()")),
    (lambda t: measure(later), ("later", f"model{LATER}")),
    (lambda t: ta.model(score=later), ("later", f"score{LATER}")),
    (lambda t: ta.model(images=later, texts=later), ("later", f"images{LATER}")),
    (lambda t: prepared_by(t, preprocess, later), ("later", f"tokenizer{LATER}")),
    (lambda t: of(lambda given: later()), ("coroutine", "asyncio.run")),
    (lambda t: ta.model(), ("images=", "score=")),
    (lambda t: ta.model(images=lambda given: given), ("images=", "texts=")),
    (lambda t: ta.model(score=lambda images, texts: [], kind="cosine"), ("kind='cosine'", "similarity")),
    (lambda t: ta.model(np.zeros((300, 256))), ("(300, 256)", "score_vectors")),
    (
        lambda t: of(lambda given: [[1, 2]] * len(given), lambda given: [[1, 2, 3]] * len(given)),
        ("images have 2 numbers", "texts 3"),
    ),
    (lambda t: prepared_by(t, transforms_of_torchvision().Normalize((0.5,) * 3, (0.5,) * 3)), ("ToTensor()", "PIL")),
    (lambda t: prepared_by(t, transforms_of_torchvision().Resize(4)), ("PIL image", "ToTensor()")),
    (lambda t: ta.model(t, preprocess=draws(), tokenizer=tokenizer), ("RandomCrop", "the third")),
    (lambda t: ta.evaluate(ta.model(t, **PREPARED), "demo", device="cuda"), ("'cuda'", "cpu", "model.to('cuda')")),
    (
        lambda t: ta.evaluate(ta.model(t, **PREPARED), "demo", dtype="bfloat16"),
        ("'bfloat16'", "float32", "model.to(torch.bfloat16)"),
    ),
    (lambda t: call_brightness(False), ("brightness", "too many", "an image and a text")),
    (lambda t: call_brightness(True), ("brightness", "too many", "images and a list of texts")),
]


@pytest.mark.parametrize(("mistake", "facts"), MISTAKES)
def test_a_mistake_is_answered_with_the_line_to_write(towers, mistake, facts):
    with raises(TellapartError, *facts) as caught:
        mistake(towers)
    assert not str(caught.value).endswith("None")


def test_half_precision_on_a_cpu_is_measured_with_a_warning(towers):
    with pytest.warns(TellapartWarning, match=r"Towers.*float16.*model\.float\(\)"):
        held = ta.model(towers.half(), **PREPARED)
    with warnings.catch_warnings(action="ignore", category=TellapartWarning):
        assert measure(held).record("text_score").n == 2


COLOURS = """
import torch
from tellapart.models.memory.identity import of_modules
model = torch.nn.Dropout()
model.colours = {"red", "green", "blue", "black", "white"}
print(of_modules(model, [model], "").fingerprint)
"""


def test_a_set_has_one_fingerprint_in_all_processes():
    variables = ({**os.environ, "PYTHONHASHSEED": seed} for seed in "12")  # it changes the order of a set of texts
    first, second = (run_python("-c", COLOURS, env=env).stdout for env in variables)
    assert first == second


TYPED = """
class Typed(torch.nn.Dropout):
    scale = 1
    def encode_images(self, images, power=2):
        return (lambda image: image * 3)(images) ** power if images not in {"red", "blue"} else None
    @property
    def mean(self): return 4
    @staticmethod
    def add(value): return value + 5
    @functools.cached_property
    def cached(self): return 6
    add_seven = functools.partialmethod(add, 7)
    class Inner:
        def __call__(self): return 8
"""


def test_each_part_of_a_class_without_a_source_is_in_its_fingerprint():
    def fingerprint_of(code):
        namespace = {"torch": torch, "functools": functools, "__name__": "__main__"}
        exec(code, namespace)  # noqa: S102  (as in a notebook, which keeps no source)
        return of_modules(model := namespace["Typed"](), [model], "").fingerprint

    changed = [TYPED.replace(str(number), "9") for number in range(1, 9)]
    assert len({fingerprint_of(code) for code in (TYPED, *changed, TYPED)}) == 9
