"""The bench of ten mistakes: those that somebody makes first with an object, each with the line to write."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from facts import raises
from tellapart.errors import ModelError, TellapartError, TellapartWarning

pytest.importorskip("torch", reason="models in memory need torch, of the extra 'models'")

from plain_towers import PREPARED, Towers, preprocess, tokenizer

import tellapart as ta
from tellapart.models.torch.backend import import_torch

torch = import_torch()

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def towers() -> Any:
    return Towers()


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
    with raises(TellapartError, "Towers", "preprocess=", "tokenizer="):
        measure(towers)  # the model alone
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


def test_3_a_model_on_another_device(towers: Any) -> None:
    with raises(ModelError, "cpu", "model.to('cuda')"):
        ta.evaluate(ta.model(towers, **PREPARED), "demo", device="cuda")
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


def test_8_a_compiled_module(towers: Any) -> None:
    compiled = torch.compile(towers, backend="eager")
    with raises(TellapartError, "Towers", "preprocess=", "tokenizer="):
        measure(compiled)
    assert measure(ta.model(compiled, **PREPARED)).record("text_score").n == 2


def test_9_half_precision_on_a_cpu(towers: Any) -> None:
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


def test_10_an_async_function(towers: Any) -> None:
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
