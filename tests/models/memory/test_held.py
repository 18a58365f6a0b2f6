"""A model in memory: the bytes of the file's scores, left as it was, and known by its parameters."""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from facts import raises
from tellapart.errors import ModelError, TellapartError, TellapartWarning

pytest.importorskip("torch", reason="models in memory need torch, of the extra 'models'")

import tiny_models
from plain_towers import PREPARED, Towers, preprocess, tokenizer

import tellapart as ta
from tellapart.data.pairset import PairSet
from tellapart.models.find import find_model
from tellapart.models.memory.held import HeldModel
from tellapart.models.memory.identity import hash_tensors
from tellapart.models.options import ModelOptions
from tellapart.models.scoring.score import score
from tellapart.models.store.batches import available_cores
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.models.torch.backend import import_torch

torch = import_torch()

pytestmark = pytest.mark.usefixtures("one_thread")


def bytes_of(model: Any, pairs: PairSet) -> bytes:
    return score(model, pairs, store=EmbeddingStore(None)).scores.values.tobytes()


def held_in_memory(folder: Path, architecture: str) -> tuple[Any, Any]:
    transformers = tiny_models.transformers()
    model = getattr(transformers, architecture).from_pretrained(folder)
    return model, transformers.AutoProcessor.from_pretrained(folder)


HELD = {"clip": "CLIPModel", "siglip": "SiglipModel", "blip": "BlipForImageTextRetrieval", "groupvit": "GroupViTModel"}


@pytest.mark.parametrize("family", HELD)
def test_a_model_of_transformers_gives_the_bytes_of_its_folder(family: str, tmp_path: Path, picture_set: Any) -> None:
    pairs, folder = picture_set(4), tiny_models.FAMILIES[family](tmp_path)
    model, processor = held_in_memory(folder, HELD[family])
    model.train()  # as in a loop: dropout would show
    held = ta.model(model, processor)
    assert held.name == HELD[family]
    assert bytes_of(held, pairs) == bytes_of(find_model(f"hf:{folder}"), pairs)
    assert model.training


def test_the_other_reading_is_chosen_where_the_model_is_given(tmp_path: Path, picture_set: Any) -> None:
    pairs, folder = picture_set(3), tiny_models.blip(tmp_path)
    held = ta.model(*held_in_memory(folder, "BlipForImageTextRetrieval"), reading="itc")
    assert bytes_of(held, pairs) == bytes_of(find_model(f"hf:{folder}", ModelOptions(reading="itc")), pairs)
    with raises(ModelError, "reading='itm'", "ta.model"):
        ta.evaluate(held, pairs, reading="itm")


@pytest.fixture
def towers() -> Any:
    torch.manual_seed(0)
    return Towers()


def test_a_plain_module_gives_the_bytes_of_its_weights_read_again(
    tmp_path: Path, towers: Any, picture_set: Any
) -> None:
    from safetensors.torch import load_file, save_file

    save_file(towers.state_dict(), tmp_path / "weights.safetensors")
    again = Towers()
    again.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    pairs = picture_set(4)
    one, other = (ta.model(each, **PREPARED, fingerprint=name) for each, name in ((towers, "a"), (again, "b")))
    assert bytes_of(one, pairs) == bytes_of(other, pairs)
    assert np.ptp(np.frombuffer(bytes_of(one, pairs), np.float32)) > 0.01
    # The same by two functions, and as an object: another order of summation alone.
    by_hand = ta.model(
        images=lambda images: towers.encode_image(torch.stack([preprocess(image) for image in images])),
        texts=lambda texts: towers.encode_text(tokenizer(texts)),
        fingerprint="c",
    )
    numbers = np.frombuffer(bytes_of(by_hand, pairs), np.float32)
    assert np.allclose(numbers, np.frombuffer(bytes_of(one, pairs), np.float32), atol=1e-6)


def state_of(model: Any) -> list[Any]:
    return [
        [(name, part.training) for name, part in model.named_modules()],
        hash_tensors(model),
        [None if each.grad is None else each.grad.clone().tolist() for each in model.parameters()],
        [each.requires_grad for each in model.parameters()],
        random.getstate(),
        [str(each) for each in np.random.get_state()],
        torch.get_rng_state().tolist(),
    ]


def test_a_model_is_left_as_it_was_after_a_run_an_error_and_an_interruption(towers: Any, picture_set: Any) -> None:
    pairs = picture_set(3)
    towers.train()
    towers.frozen.eval()
    towers.encode_text(tokenizer(["a"])).sum().backward()
    before = state_of(towers)
    seen: list[bool] = []

    def watch(module: Any, _given: Any, _output: Any) -> None:
        seen.append(module.training or torch.is_grad_enabled())
        random.random(), np.random.rand(), torch.rand(1)

    handle = towers.visual.register_forward_hook(watch)
    ta.evaluate(ta.model(towers, **PREPARED), pairs, cache=False)
    assert seen and not any(seen)
    handle.remove()
    assert state_of(towers) == before
    for error in (KeyboardInterrupt, RuntimeError("a fault of its own")):

        def fail(_module: Any, _given: Any, error: Any = error) -> None:
            raise error

        handle = towers.text.register_forward_pre_hook(fail)
        with pytest.raises((KeyboardInterrupt, ModelError)):
            ta.evaluate(ta.model(towers, **PREPARED), pairs, cache=False)
        handle.remove()
        assert state_of(towers) == before
    loss = towers.encode_image(torch.rand(2, 3, 4, 4)).sum()
    loss.backward()  # it trains on


def test_a_hook_counts_and_turns_the_store_off(towers: Any, picture_set: Any, tmp_path: Path) -> None:
    pairs, prepared = picture_set(2), {"preprocess": preprocess, "tokenizer": tokenizer}
    known = {name: _with_fingerprint(function, name) for name, function in prepared.items()}
    plain = ta.evaluate(ta.model(towers, **known), pairs, cache=tmp_path)
    assert plain.result().benchmarks["pictures"].notes == ()
    handle = towers.visual.register_forward_hook(lambda _module, _given, output: -output)
    hooked = ta.evaluate(ta.model(towers, **known), pairs, cache=tmp_path)
    handle.remove()
    assert np.allclose(hooked.items().scores, -plain.items().scores, atol=1e-6)
    (note,) = hooked.result().benchmarks["pictures"].notes
    assert "hook" in note and "visual" in note and "stored" in note


def _with_fingerprint(function: Any, name: str) -> Any:
    def call(given: Any) -> Any:
        return function(given)

    call.fingerprint = name  # type: ignore[attr-defined]
    return call


def test_the_fingerprint_is_that_of_the_weights_as_they_are_at_each_measurement(
    towers: Any, picture_set: Any, tmp_path: Path
) -> None:
    known = {name: _with_fingerprint(function, name) for name, function in PREPARED.items()}
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
    assert (
        ta.evaluate(ta.model(towers, **PREPARED, fingerprint="mine-3"), pairs, cache=tmp_path)
        .result()
        .model.fingerprint
        == "mine-3"
    )


@pytest.mark.slow
def test_a_fingerprint_takes_a_second_for_a_gigabyte_of_parameters() -> None:
    layers = torch.nn.ParameterList([torch.randn(8_000_000) for _ in range(8)])
    rates = []
    for _ in range(3):
        start = time.process_time()
        hash_tensors(layers)
        rates.append(8 * 32e6 / (time.process_time() - start))
    assert max(rates) * available_cores() >= 1e9, rates  # each core hashes pieces of its own


def test_an_unknown_preparation_turns_the_store_off_and_the_record_names_it(
    towers: Any, picture_set: Any, tmp_path: Path
) -> None:
    record = ta.evaluate(ta.model(towers, **PREPARED), picture_set(2), cache=tmp_path).result()
    (note,) = record.benchmarks["pictures"].notes
    assert "preprocess" in note and "tokenizer" in note and "fingerprint=" in note
    with EmbeddingStore(tmp_path / "store.sqlite") as store:
        assert store.models() == []


def test_a_compiled_module_is_measured(towers: Any, picture_set: Any) -> None:
    pairs = picture_set(2)
    expected = bytes_of(ta.model(towers, **PREPARED), pairs)
    towers.visual = torch.compile(towers.visual, backend="eager")
    for module in (towers, torch.compile(towers, backend="eager"), torch.nn.DataParallel(towers)):
        assert bytes_of(ta.model(module, **PREPARED), pairs) == expected


def test_settings_of_named_models_do_not_move_one_in_memory(towers: Any, picture_set: Any) -> None:
    pairs, held = picture_set(2), ta.model(towers, **PREPARED)
    with raises(ModelError, "'cuda'", "cpu", "model.to('cuda')"):
        ta.evaluate(held, pairs, device="cuda")
    with raises(ModelError, "'bfloat16'", "float32", "model.to(torch.bfloat16)"):
        ta.evaluate(held, pairs, dtype="bfloat16")
    towers.to(torch.bfloat16)
    run = ta.evaluate(ta.model(towers, **PREPARED), pairs, cache=False).result()
    assert (run.model.dtype, run.run.device) == ("bfloat16", "cpu")
    assert next(towers.parameters()).dtype == torch.bfloat16


def test_an_object_with_two_methods_is_a_dual_encoder_of_cosines_and_gets_pil_images(picture_set: Any) -> None:
    modes: set[tuple[str, str]] = set()

    class Mine:
        fingerprint = "mine-1"

        def encode_images(self, images: list[Any]) -> list[list[float]]:
            modes.update((type(image).__module__.partition(".")[0], image.mode) for image in images)
            return [[*np.asarray(image).reshape(-1, 3).mean(axis=0)] for image in images]

        def encode_texts(self, texts: list[str]) -> Any:
            return torch.tensor([[len(text), text.count("e") + 1, 3.0] for text in texts], requires_grad=True)

    pairs = picture_set(3)
    run = ta.evaluate(Mine(), pairs, cache=False)
    scores = run.items().scores
    assert (run.models, modes) == (["Mine"], {("PIL", "RGB")})
    item = pairs.items[0]
    image = pairs.pixels(item.images[1]).reshape(-1, 3).mean(axis=0)
    text = np.array([len(item.texts[0]), item.texts[0].count("e") + 1, 3.0])
    cosine = image @ text / np.linalg.norm(image) / np.linalg.norm(text)
    assert scores[0, 1, 0] == pytest.approx(cosine, abs=1e-6)


def test_a_module_with_two_methods_is_known_by_its_parameters(picture_set: Any, tmp_path: Path) -> None:
    class Both(Towers):
        def encode_images(self, images: list[Any]) -> Any:
            return self.encode_image(torch.stack([preprocess(image) for image in images]))

        def encode_texts(self, texts: list[str]) -> Any:
            return self.encode_text(tokenizer(texts))

    model, pairs = Both().train(), picture_set(2)
    first = ta.evaluate(model, pairs, cache=tmp_path)
    again = ta.evaluate(model, pairs, cache=tmp_path)
    assert model.training and first.items().scores.tobytes() == again.items().scores.tobytes()
    assert again.result().benchmarks["pictures"].images_encoded == 0
    with torch.no_grad():
        model.visual[0].bias.add_(1)
    assert ta.evaluate(model, pairs, cache=tmp_path).result().model.fingerprint != first.result().model.fingerprint


def test_a_text_that_the_tokenizer_of_clip_refuses_is_cut_and_counted(towers: Any, picture_set: Any) -> None:
    def tokenize(texts: list[str], truncate: bool = False) -> Any:
        if len(texts[0]) > 12 and not truncate:
            raise RuntimeError(f"Input {texts[0]} is too long for context length 12")
        return torch.tensor([[ord(letter) % 128 for letter in texts[0].ljust(12)[:12]]])

    held = ta.model(towers, preprocess=preprocess, tokenizer=tokenize)
    assert held.encode_texts(["a red cup", "a red cup left of a bowl"]).shape == (2, 16)
    assert held.truncated == 1


def test_a_model_may_be_checked_and_copied_nowhere(towers: Any) -> None:
    held = ta.model(towers, **PREPARED)
    assert isinstance(held, HeldModel) and held.parts.module is towers
    assert all(gate.passed for gate in ta.check(held))


def measure(thing: Any) -> Any:
    return ta.evaluate(thing, "demo", limit=2, cache=False)


@pytest.mark.parametrize(("batched", "taken"), [(False, "an image and a text"), (True, "images and a list of texts")])
def test_a_function_of_another_number_of_arguments_is_named_with_these(batched: bool, taken: str) -> None:
    def brightness(image: Any) -> float:
        return float(image.width)

    brightness.fingerprint = "brightness-1"  # type: ignore[attr-defined]
    with raises(ModelError, "brightness", "too many", taken):
        ta.evaluate(brightness, "demo", limit=2, cache=False, batched=batched)


def test_1_the_triple_of_open_clip(towers: Any) -> None:
    triple = (towers, preprocess, preprocess)
    for call in (measure, ta.model, ta.check):
        with raises(TellapartError, "model, _, preprocess =", "tokenizer=open_clip.get_tokenizer"):
            call(triple)
    for alone in (towers, torch.compile(towers, backend="eager")):
        with raises(TellapartError, "Towers", "preprocess=", "tokenizer="):
            measure(alone)
    with raises(ModelError, "preprocess", "tokenizer="):
        ta.model(towers, preprocess=preprocess)
    with raises(TellapartError, "tokenizer=", "ta.model(model, preprocess=preprocess, tokenizer=tokenizer)"):
        ta.evaluate("oracle", "demo", tokenizer=tokenizer)


def test_2_a_processor_in_place_of_a_tokenizer(towers: Any) -> None:
    class CLIPProcessor:
        image_processor = tokenizer = object()

        def __call__(self, *given: Any) -> None: ...

    with raises(ModelError, "CLIPProcessor", "tokenizer=processor.tokenizer"):
        ta.model(towers, preprocess=preprocess, tokenizer=CLIPProcessor())
    with raises(ModelError, "CLIPProcessor", "encode_image"):
        ta.model(towers, CLIPProcessor())

    def mapping(texts: list[str]) -> dict[str, Any]:
        return {"input_ids": tokenizer(texts)}

    with raises(ModelError, "dict", "['input_ids']"):
        measure(ta.model(towers, preprocess=preprocess, tokenizer=mapping))


def test_3_a_model_on_another_device() -> None:
    with raises(ModelError, "'meta'", "model.load_state_dict(weights, assign=True)"):
        ta.model(Towers().to("meta"), **PREPARED)

    def elsewhere(_images: list[Any]) -> Any:
        raise RuntimeError("Expected all tensors to be on the same device, but found at least two devices")

    with raises(ModelError, "model.to(device)"):
        measure(ta.model(images=elsewhere, texts=elsewhere, fingerprint="x"))


def test_4_a_list_of_file_names() -> None:
    names = ["a.png", "b.JPG"]
    for call in (
        measure,
        ta.model,
        lambda given: ta.evaluate("oracle", given),
        lambda given: ta.model(images=given, texts=tokenizer),
    ):
        with raises(TellapartError, "pairs.jsonl", "folder:PATH"):
            call(names)


def test_5_a_generator() -> None:
    with raises(TellapartError, "models=[...]"):
        measure(name for name in ["oracle"])

    def images(given: list[Any]) -> Any:
        return ([1.0, 2.0] for _ in given)

    held = ta.model(images=images, texts=lambda given: np.ones((len(given), 2)), fingerprint="x")
    with raises(ModelError, "generator", "np.stack(list(...))"):
        measure(held)


def test_6_numpy_of_height_width_and_channels(towers: Any) -> None:
    pixels = np.zeros((4, 8, 8, 3), np.uint8)
    with raises(TellapartError, "pixels", "ta.load_pairs(FOLDER)"):
        ta.evaluate("oracle", pixels)
    with raises(ModelError, "permute(2, 0, 1)", "uint8"):
        measure(ta.model(towers, preprocess=np.asarray, tokenizer=tokenizer))
    with raises(ModelError, "PIL", "np.asarray(image)"):
        measure(ta.model(towers, preprocess=lambda image: image.shape, tokenizer=tokenizer))
    with raises(ModelError, "PIL", "np.asarray(image)"):
        measure(ta.model(score=lambda images, texts: images[0].shape, fingerprint="x"))


def test_7_a_tensor_that_is_normalised_already(towers: Any) -> None:
    transforms = pytest.importorskip("torchvision.transforms")
    with raises(TellapartError, "prepared images", "ta.score_vectors(model.encode_image(images)"):
        ta.evaluate("oracle", torch.zeros(2, 3, 8, 8))
    late = transforms.Normalize((0.5,) * 3, (0.5,) * 3)
    with raises(ModelError, "ToTensor()", "PIL"):
        measure(ta.model(towers, preprocess=late, tokenizer=tokenizer))
    with raises(ModelError, "PIL image", "ToTensor()"):
        measure(ta.model(towers, preprocess=transforms.Resize(4), tokenizer=tokenizer))
    with raises(ModelError, "RandomCrop", "the third"):
        ta.model(towers, preprocess=transforms.Compose([transforms.RandomCrop(4)]), tokenizer=tokenizer)


def test_8_half_precision_on_a_cpu(towers: Any) -> None:
    towers.half()
    with pytest.warns(TellapartWarning, match=r"Towers.*float16.*model\.float\(\)"):
        held = ta.model(towers, **PREPARED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TellapartWarning)
        assert measure(held).record("text_score").n == 2

    def lacking(_texts: list[str]) -> Any:
        raise RuntimeError("\"LayerNormKernelImpl\" not implemented for 'Half'")

    with raises(ModelError, "float16", "model.float()"):
        measure(ta.model(images=lacking, texts=lacking, fingerprint="x"))


def test_9_an_async_function(towers: Any) -> None:
    async def later(*_given: Any) -> float:
        return 1.0

    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: measure(later), "model"),
        (lambda: ta.model(score=later), "score"),
        (lambda: ta.model(images=later, texts=later), "images"),
        (lambda: ta.model(towers, preprocess=preprocess, tokenizer=later), "tokenizer"),
    ]
    for call, parameter in calls:
        with raises(ModelError, "later", f"{parameter}=lambda *given: asyncio.run(later(*given))"):
            call()
    with raises(ModelError, "coroutine", "asyncio.run"):
        measure(ta.model(images=lambda given: later(), texts=lambda given: later(), fingerprint="x"))


def test_what_is_left_out_is_named() -> None:
    with raises(ModelError, "images=", "score="):
        ta.model()
    with raises(ModelError, "images=", "texts="):
        ta.model(images=lambda given: given)
    with raises(ModelError, "kind='cosine'", "similarity"):
        ta.model(score=lambda images, texts: [], kind="cosine")  # type: ignore[arg-type]
    with raises(ModelError, "(300, 256)", "score_vectors"):
        ta.model(np.zeros((300, 256)))
