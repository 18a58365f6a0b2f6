"""The family that reads a model of transformers, and the errors where its files are missing or do not fit."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tiny_models
import torch
from tiny_fusion_encoders import change_weights
from tiny_models import TEXTS, changed, edit, loaded, pictures

from facts import raises
from scripts import run_python
from tellapart.errors import ModelError
from tellapart.models.fusion.family import FusionFamily
from tellapart.models.huggingface.dual_encoder import TOWERS, context_length
from tellapart.models.huggingface.files import load_weights
from tellapart.models.huggingface.inputs import check_images
from tellapart.models.huggingface.load import FAMILIES, FUSION, GENERATIVE, import_target, load, readings_of
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import Runtime

SOURCE = Path(__file__).parents[3] / "src"


def written(folder: Path, **config) -> str:
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


@pytest.mark.parametrize(
    ("family", "architecture", "loader"),
    [
        ("clip", "CLIPModel", "load_dual itc"),
        ("siglip2", None, "load_dual itc"),
        ("blip", "BlipForImageTextRetrieval", "load_itm itm"),
        ("blip", "BlipModel", "load_dual itc"),
        ("blip", "BlipForConditionalGeneration", "load_generative likelihood"),
        ("blip", "BlipForQuestionAnswering", "load_generative vqa"),
        ("blip-2", "Blip2ForImageTextRetrieval", "load_itm itm"),
        ("blip-2", "Blip2ForConditionalGeneration", "load_generative vqa"),
        ("flava", "FlavaForPreTraining", "load_dual itc"),
        ("bridgetower", "BridgeTowerForContrastiveLearning", "load_dual itc"),
        ("bridgetower", "BridgeTowerForImageAndTextRetrieval", "load_itm itm"),
        ("vilt", "ViltForImageAndTextRetrieval", "load_itm itm"),
        ("lxmert", "LxmertForPreTraining", "load_itm itm"),
        ("instructblip", "InstructBlipForConditionalGeneration", "load_generative vqa"),
        ("llava", "LlavaForConditionalGeneration", "load_generative vqa"),
        ("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", "load_generative vqa"),
        ("phi4_multimodal", "Phi4MultimodalForCausalLM", "load_generative vqa"),  # it hears, too
    ],
)
def test_the_architecture_chooses_the_reading_unless_one_is_asked_for(
    family, architecture, loader, tmp_path, monkeypatch
):
    loaders = []  # what would have loaded the model, and for which reading; nothing is loaded
    monkeypatch.setattr(
        "tellapart.models.huggingface.load.import_target",
        lambda target: lambda _, options: loaders.append(f"{target.partition(':')[2]} {options.reading}"),
    )
    name = written(tmp_path, model_type=family, architectures=architecture and [architecture])
    load(name, ModelOptions())
    if family == "blip":
        load(f"hf:{name}", ModelOptions(reading="itc"))
        loader += ",load_dual itc"
    assert loaders == loader.split(",")


@pytest.mark.parametrize("target", sorted({t for f in (*FAMILIES.values(), GENERATIVE) for t in f.values()}))
def test_every_loader_can_be_imported(target):
    assert callable(import_target(target))
    for model_type, declaration in FUSION.items():  # with a matching head
        assert isinstance(import_target(declaration), FusionFamily)
        assert {"itm", "itm_logit"} <= FAMILIES[model_type].keys()


@pytest.mark.parametrize(
    ("model_type", "architecture", "reading", "facts"),
    [
        ("bert", "BertModel", None, ("'bert'", "type")),
        ("siglip", "SiglipModel", "itm", ("'siglip'", "'itm'")),
        ("blip", "BlipForConditionalGeneration", "itc", ("BlipForConditionalGeneration", "'itc'")),
    ],
)
def test_a_reading_that_a_model_lacks_is_refused(model_type, architecture, reading, facts, tmp_path):
    name = written(tmp_path, model_type=model_type, architectures=[architecture])
    with raises(ModelError, facts):
        load(name, ModelOptions(reading=reading))
    assert readings_of({"model_type": "llava"}, "x") is GENERATIVE


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", ("config.json", "JSON")),
        ("[" * 100_000, ("config.json", "JSON", "100")),
        ("[1]", "model_type"),
        ('{"hidden_size": 3}', "model_type"),
        ('{"model_type": "clip", "architectures": [null]}', ("architectures", "[None]")),
        ('{"model_type": "clip", "architectures": "CLIPModel"}', ("architectures", "'CLIPModel'")),
        (None, ("config.json", "model", "folder")),
        ("nowhere", ("nowhere/at/all", "id", "OWNER/NAME")),
    ],
)
def test_a_configuration_that_is_none_is_refused(content, message, tmp_path):
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with raises(ModelError, message):
        load("nowhere/at/all" if content == "nowhere" else str(tmp_path), ModelOptions())


@pytest.fixture(scope="module")
def clip(saved):
    return saved("clip")  # the very one that `encoders` opens: some of its numbers are drawn without a seed


@pytest.fixture
def copy(clip, tmp_path):
    return Path(shutil.copytree(clip, tmp_path / "copy"))


#: Changes the folder of a model.
Change = Callable[[Path], object]


def tensors_changed(change) -> Change:
    return lambda folder: change_weights(folder, change)


def change_images(**changes: object) -> Change:
    """Change the settings of the image processor."""
    path = "processor_config.json"
    return lambda folder: edit(folder / path, lambda content: content["image_processor"].update(changes))


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        (tensors_changed(lambda t: t.pop("visual_projection.weight")), ("CLIPModel", "1", "visual_projection.weight")),
        (tensors_changed(lambda t: t.update(adapter=t["logit_scale"] + 1)), ("1", "adapter")),
        (
            tensors_changed(lambda t: t.update({"visual_projection.weight": t["visual_projection.weight"][:5] + 0})),
            ("1", "visual_projection.weight", "(5, 32)", "(24, 32)"),
        ),
        (lambda folder: (folder / "model.safetensors").unlink(), ("CLIPModel", "Error", "model.safetensors")),
        (lambda folder: (folder / "processor_config.json").unlink(), ("Can't", "preprocessor_config.json")),
        (change_images(crop_size={"height": 24, "width": 24}), ("24", "x", "24", "32", "x", "32")),
        (change_images(do_center_crop=False), ("3", "32", "42", "(3, 42, 32)")),
    ],
    ids=["missing", "unexpected", "shape", "no weights", "no processor", "other size", "several sizes"],
)
def test_files_that_do_not_fit_are_refused_in_one_line(copy, change, facts):
    change(copy)
    with raises(ModelError, facts) as refusal:
        load(str(copy), ModelOptions())
    assert "\n" not in str(refusal.value)


def test_heads_of_other_readings_and_counters_of_older_versions_are_no_weights(copy, encoders, tmp_path):
    positions = {"text_model.embeddings.position_ids": torch.arange(24)[None]}
    change_weights(copy, lambda tensors: tensors.update(positions))
    assert loaded(copy).fingerprint == encoders("clip").fingerprint
    folder = tiny_models.bridgetower(tmp_path / "bridgetower")
    change_weights(folder, lambda tensors: tensors.update({"itm_score.fc.bias": torch.zeros(2)}))
    assert load(str(folder), ModelOptions()).kind == "similarity"


@pytest.mark.parametrize("present", [True, False])
def test_a_part_that_is_not_used_is_dropped_whether_the_checkpoint_holds_it_or_not(copy, present):
    if not present:
        change_weights(copy, lambda tensors: tensors.pop("visual_projection.weight"))
        with raises(ModelError, "1", "missing"):  # by its whole name alone
            load_weights("CLIPModel", str(copy), Runtime("cpu"), unused=("visual",))
    for kind in ("CLIPModel", tiny_models.transformers().CLIPModel):
        model = load_weights(kind, str(copy), Runtime("cpu"), unused=("visual_projection", "absent_head"))
        assert model.visual_projection is None and model.text_projection is not None
        assert not model.training and not any(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize(
    ("family", "message"),
    [
        ("clip", ("tokenizer.json", "vocab.json", "merges.txt")),
        ("chinese_clip", ("tokenizer.json", "vocab.txt", "vocabulary")),
        ("siglip", ("Either", "model_file", "model_proto")),
    ],
)
def test_a_model_without_its_vocabulary_is_refused(family, message, tmp_path):
    folder = tiny_models.FAMILIES[family](tmp_path)
    for name in ("tokenizer.json", "spiece.model"):
        (folder / name).unlink(missing_ok=True)
    with raises(ModelError, message):
        load(str(folder), ModelOptions())


def test_an_image_tower_of_any_size_takes_what_its_processor_makes():
    tower = SimpleNamespace(model_type="align", vision_config=SimpleNamespace(image_size=600))
    check_images("m", tower, lambda pixels: {"pixel_values": np.zeros((3, 289, 289))})


def tokenizer(**changes) -> SimpleNamespace:
    facts = {"vocab_size": 9, "model_max_length": 77, "pad_token_id": 1, "eos_token_id": 8, "padding_side": "right"}
    return SimpleNamespace(**facts | changes)


def text_tower(**changes) -> SimpleNamespace:
    facts = {"vocab_size": 9, "max_position_embeddings": 514, "pad_token_id": 1, "eos_token_id": 8}
    return SimpleNamespace(text_config=SimpleNamespace(**facts | changes))


@pytest.mark.parametrize(
    ("architecture", "length", "context"),
    [("CLIPModel", 77, 77), ("AlignModel", 77, 64), ("CLIPModel", 10**30, 514), ("AltCLIPModel", 10**30, 512)],
)
def test_the_context_is_the_shortest_of_what_tokenizer_tower_and_processor_say(architecture, length, context):
    reader = tokenizer(model_max_length=length)
    assert context_length("m", text_tower(), reader, TOWERS[architecture]) == context


@pytest.mark.parametrize(
    ("architecture", "tokens", "tower", "message"),
    [
        ("CLIPModel", {"vocab_size": 10}, {}, ("10", "9", "tokenizer")),
        ("CLIPModel", {"pad_token_id": None}, {}, ("m", "tokenizer", "token")),
        ("AltCLIPModel", {"pad_token_id": 0}, {}, ("0", "1", "tokenizer")),
        ("CLIPModel", {"padding_side": "left"}, {}, ("tokenizer", "pads")),
        ("CLIPModel", {}, {"eos_token_id": 7}, ("8", "7", "text")),
    ],
)
def test_a_tokenizer_of_another_model_is_refused(architecture, tokens, tower, message):
    with raises(ModelError, message):
        context_length("m", text_tower(**tower), tokenizer(**tokens), TOWERS[architecture])


def test_pictures_and_vectors_that_do_not_fit_are_refused(copy, tmp_path):
    model = load(str(tiny_models.bridgetower(tmp_path / "bridgetower")), ModelOptions())
    with raises(ModelError, "BridgeTowerImageProcessorPil", "400", "x", "4"):
        model.encode_images([np.zeros((4, 400, 3), np.uint8)])
    with raises(ModelError, "5", "3", "images"):
        model.similarity(np.zeros((1, 5), np.float32), np.zeros((1, 3), np.float32))
    change_weights(copy, lambda tensors: tensors["text_projection.weight"].zero_())
    with raises(ModelError, "1", "1", "vectors"):  # without a direction
        load(str(copy), ModelOptions()).encode_texts(["a cup"])


@pytest.mark.few(2)
@pytest.mark.parametrize("family", tiny_models.FAMILIES)
def test_a_fingerprint_stays_where_only_the_place_changes(family, saved, encoders, tmp_path):
    places = {"transformers_version": "4.0.0", "_name_or_path": "/there"}
    elsewhere = changed(saved(family), tmp_path / "elsewhere", "config.json", **places)
    assert loaded(elsewhere).fingerprint == encoders(family).fingerprint


CHANGES: dict[str, Change] = {
    "preprocessing": change_images(image_mean=[0.5, 0.5, 0.5]),
    "activation": lambda folder: edit(folder / "config.json", lambda c: c["vision_config"].update(hidden_act="gelu")),
    "tokenizer": lambda folder: edit(folder / "tokenizer.json", lambda c: c["model"]["merges"].pop()),
    "context": lambda folder: edit(folder / "tokenizer_config.json", model_max_length=20),
    "side of a cut": lambda folder: edit(folder / "tokenizer_config.json", truncation_side="left"),
    "weights": tensors_changed(lambda tensors: tensors["logit_scale"].add_(1)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_fingerprint_moves_with_all_that_moves_a_number(change, copy, encoders):
    CHANGES[change](copy)
    assert loaded(copy).fingerprint != encoders("clip").fingerprint


def to_torch(folder: Path, tensors: Mapping[str, Any] | None = None) -> list[str]:
    """Replace the weights by a checkpoint of torch, of the same tensors or of others; return their names."""
    from safetensors.torch import load_file

    held = load_file(folder / "model.safetensors")
    torch.save(tensors or held, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return list(held)


def test_a_checkpoint_of_torch_loads_like_one_of_safetensors(copy, encoders):
    to_torch(copy)
    assert loaded(copy).fingerprint == encoders("clip").fingerprint


@pytest.mark.parametrize("indexed", [False, True])
def test_a_checkpoint_of_torch_is_not_opened_by_an_older_torch(copy, tmp_path, monkeypatch, indexed):
    ran = tmp_path / "ran"
    names = to_torch(copy, {"logit_scale": Payload(ran)})
    if indexed:  # an index of safetensors may name any file
        index = {"metadata": {}, "weight_map": dict.fromkeys(names, "pytorch_model.bin")}
        (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    monkeypatch.setattr(torch, "__version__", "2.9.1+cpu")
    with raises(ModelError, "2.9.1+cpu", "weights", "run"):
        loaded(copy)
    assert not ran.exists()


def test_files_laid_out_as_openai_s_are_on_the_hub_give_the_same_numbers(copy, encoders):
    images = json.loads((copy / "processor_config.json").read_text())["image_processor"]
    tokens = json.loads((copy / "tokenizer.json").read_text())["model"]
    for name in ("processor_config.json", "tokenizer.json", "tokenizer_config.json"):
        (copy / name).unlink()
    old = {"feature_extractor_type": "CLIPFeatureExtractor", "size": 32, "crop_size": 32, "resample": 3}
    old |= dict.fromkeys(("do_center_crop", "do_normalize", "do_resize"), True)
    old |= {name: images[name] for name in ("image_mean", "image_std")}
    (copy / "preprocessor_config.json").write_text(json.dumps(old))
    (copy / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 24, "do_lower_case": True}))
    (copy / "vocab.json").write_text(json.dumps(tokens["vocab"]))
    (copy / "merges.txt").write_text("\n".join(["#version: 0.2", *map(" ".join, tokens["merges"])]) + "\n")
    model = loaded(copy)
    np.testing.assert_array_equal(model.encode_images(pictures()), encoders("clip").encode_images(pictures()))
    np.testing.assert_array_equal(model.encode_texts(TEXTS), encoders("clip").encode_texts(TEXTS))
    (copy / "merges.txt").unlink()
    with raises(ModelError, "processor", "vocab"):
        loaded(copy)


class Payload:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.target,)


def test_no_code_of_a_model_is_run(copy, encoders, tmp_path):
    ran = tmp_path / "ran"
    (copy / "evil.py").write_text(f"open({str(ran)!r}, 'w')\nclass Evil: pass\n")
    classes = {"AutoModel": "evil.Evil", "AutoProcessor": "evil.Evil", "AutoConfig": "evil.Evil"}
    for name in ("config.json", "processor_config.json", "tokenizer_config.json"):
        edit(copy / name, auto_map=classes)
    assert loaded(copy).fingerprint == encoders("clip").fingerprint
    to_torch(copy, {"logit_scale": Payload(ran)})
    with raises(ModelError, "CLIPModel", "weights"):
        loaded(copy)
    assert not ran.exists()


def test_a_single_file_beside_other_shards_is_refused(copy, clip, tmp_path):
    model = tiny_models.transformers().CLIPModel.from_pretrained(copy)
    model.save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    for file in (tmp_path / "shards").glob("model*"):
        shutil.copy(file, copy)
    vectors = loaded(clip).encode_texts(TEXTS)
    np.testing.assert_array_equal(loaded(copy).encode_texts(TEXTS), vectors)  # equal numbers, whichever is read
    change_weights(copy, lambda tensors: tensors["logit_scale"].add_(1))
    with raises(ModelError, copy, "model.safetensors", "model.safetensors.index.json", "logit_scale"):
        loaded(copy)
    next(copy.glob("model-00001-of-*")).unlink()  # what is left of the shards is no model
    loaded(copy)
    (copy / "model.safetensors").unlink()
    with raises(ModelError, copy):
        loaded(copy)


WITHOUT_TORCHVISION = """
import hashlib, importlib.util, sys
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name.split(".")[0] == "torchvision" else find_spec(name, *rest)
import numpy, torch
torch.set_num_threads(1)
sys.path.append(sys.argv[1])
from tiny_models import TEXTS, pictures
from tellapart.models.options import ModelOptions
from tellapart.models.huggingface.load import load
model = load("owner/tiny", ModelOptions())
assert "torchvision" not in sys.modules
vectors = [model.encode_images(pictures()), model.encode_texts(TEXTS)]
print(model.fingerprint, *[hashlib.sha256(side.tobytes()).hexdigest() for side in vectors])
"""


@pytest.mark.slow
def test_a_hub_id_from_the_cache_offline_and_without_torchvision_says_what_the_folder_says(clip, tmp_path):
    repository = tmp_path / "hub" / "models--owner--tiny"
    shutil.copytree(clip, repository / "snapshots" / ("a" * 40))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("a" * 40)
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(SOURCE)}
    done = run_python("-c", WITHOUT_TORCHVISION, Path(__file__).parent, env=environment)
    model = load(str(clip), ModelOptions())
    vectors = [model.encode_images(pictures()), model.encode_texts(TEXTS)]
    expected = [model.fingerprint, *(hashlib.sha256(side.tobytes()).hexdigest() for side in vectors)]
    assert done.stdout.split() == expected
