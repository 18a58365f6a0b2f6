"""Files of open_clip's models: one fingerprint wherever they lie, and what does not fit is refused."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_openclip import CLIP, MEAN, PREPROCESSING, TEXT, library_vectors, pictures, saved_folder, spoilt, tagged

import tellapart as ta
from facts import check_facts, raises
from tellapart.errors import ModelError, TellapartWarning, UnknownNameError
from tellapart.evaluation.verified import read_result
from tellapart.models.find import find_model, source_key
from tellapart.models.openclip.library import build_model
from tellapart.models.openclip.weights import fitting_architectures
from tellapart.models.options import ModelOptions
from tellapart.training.encoders import open_dual

pytestmark = pytest.mark.usefixtures("open_clip")


#: A tower of timm, which takes images of 224 pixels whatever open_clip's configuration says.
TIMM = {"timm_model_name": "vit_tiny_patch16_224", "timm_model_pretrained": False, "image_size": 32}


def with_text(**changes: Any) -> dict[str, Any]:
    """The configuration of a text tower with changes."""
    return {"model_cfg": CLIP | {"text_cfg": TEXT | changes}}


@pytest.mark.slow
def test_one_set_of_weights_has_one_fingerprint_wherever_it_lies(checkpoints, tmp_path):
    from safetensors.torch import save_file

    file = checkpoints("tiny")
    state = torch.load(file, weights_only=True)
    wrapped = {f"module.{key}": value for key, value in state.items()}
    torch.save({"epoch": 5, "name": "run", "state_dict": wrapped}, tmp_path / "epoch_5.pt")
    # As BiVLC's and GNM's authors save theirs.
    torch.save({"epoch": 9, "model_state_dict": state, "optimizer_state_dict": {}, "loss": 0.1}, tmp_path / "best_9.pt")
    save_file(state, tmp_path / "a.safetensors")
    files = (*(tmp_path / name for name in ("epoch_5.pt", "best_9.pt", "a.safetensors")), file)
    names = [*(f"open_clip:tiny-gelu@{path}" for path in files), f"local-dir:{saved_folder(tmp_path / 'one', file)}"]
    models = [find_model(name) for name in names]
    assert len({model.fingerprint for model in models}) == 1
    assert [model.name for model in models] == names


@pytest.mark.slow
def test_the_fingerprint_changes_with_preprocessing_and_with_what_no_weight_shows(checkpoints, tmp_path):
    changes = [{}, {"preprocess_cfg": PREPROCESSING | {"interpolation": "bilinear"}}, with_text(heads=1)]
    changes += [{"model_cfg": CLIP | {"quick_gelu": True}}, with_text(tokenizer_kwargs={"clean": "canonicalize"})]
    folders = [saved_folder(tmp_path / str(k), checkpoints("tiny"), **change) for k, change in enumerate(changes)]
    assert len({find_model(f"local-dir:{folder}").fingerprint for folder in folders}) == len(folders)


def test_a_folders_preferred_file_is_taken_and_one_of_several_is_not_guessed(checkpoints, tmp_path):
    from safetensors.torch import save_file

    folder = saved_folder(tmp_path / "a", checkpoints("tiny"), file="first.pt")
    first = find_model(f"local-dir:{folder}").fingerprint
    saved_folder(folder, checkpoints("tiny"), file="second.pt")
    with raises(ModelError, "open_clip_model.safetensors", "first.pt", "second.pt"):
        find_model(f"local-dir:{folder}")
    saved_folder(folder, checkpoints("tiny"))
    assert find_model(f"local-dir:{folder}").fingerprint == first
    tensors = {name: 2 * tensor for name, tensor in torch.load(checkpoints("tiny")).items()}
    save_file(tensors, folder / "open_clip_pytorch_model.safetensors")  # which open_clip takes first
    assert find_model(f"local-dir:{folder}").fingerprint != first


def fill_bias(number: float) -> Callable[[dict[str, Any]], Any]:
    return lambda state: state["ln_final.bias"].fill_(number)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("ln_final.bias"), ("1", "ln_final.bias")),
        (lambda state: [state.pop(key) for key in list(state)[:5]], ("5", "2", "missing")),
        (lambda state: state.update(head=torch.ones(2)), ("1", "unexpected", "-m", "without an architecture")),
        (lambda it: it.update(positional_embedding=torch.ones(64, 32)), ("1", "(64, 32)", "(77, 32)")),
        (fill_bias(float("nan")), ("NaN", "ln_final.bias")),
        (lambda state: state.update({"vision_model.a": torch.ones(1)}), "checkpoint"),
    ],
)
def test_a_checkpoint_that_does_not_fit_names_what_is_wrong(checkpoints, tmp_path, change, message):
    file = spoilt(tmp_path, checkpoints("tiny"), change)
    with raises(ModelError, message) as caught:
        find_model(f"open_clip:tiny-gelu@{file}")
    assert "\n" not in str(caught.value) and "did you mean" not in str(caught.value)  # its own architecture


def test_another_architectures_checkpoint_is_answered_with_that_one_and_a_bias_is_not_filled_in(checkpoints, tmp_path):
    for other in ("tiny-wide", "tiny-40"):
        with raises(ModelError, f"'{other}'", "shape"):
            find_model(f"open_clip:tiny-gelu@{checkpoints(other)}")
    file = spoilt(tmp_path, checkpoints("tiny-bidirectional"), lambda state: state.pop("logit_bias"))
    with raises(ModelError, "1", "logit_bias"):
        find_model(f"open_clip:tiny-bidirectional@{file}")


@pytest.mark.slow
def test_numbers_whose_sum_is_infinite_are_finite_and_another_reading_is_refused(checkpoints, tmp_path):
    name = f"open_clip:tiny-gelu@{spoilt(tmp_path, checkpoints('tiny'), fill_bias(3e38))}"
    find_model(name)
    with raises(ModelError, "'itm'", "open_clip", "'itc'"):
        find_model(name, ModelOptions(reading="itm"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "asked", "answer"),
    [
        ("ViT-B-32", "ViT-B-16", ["ViT-B-32", "ViT-B-32-quickgelu"]),
        ("ViT-B-32", "ViT-B-16-quickgelu", ["ViT-B-32-quickgelu", "ViT-B-32"]),
        ("coca_ViT-B-32", "ViT-B-32", ["coca_ViT-B-32"]),
        ("RN50", "RN101", ["RN50", "RN50-quickgelu"]),
        ("MobileCLIP-B", "MobileCLIP-S1", ["MobileCLIP-B", "MobileCLIP2-B"]),
    ],
)
def test_architectures_that_fit_come_with_the_one_first_that_is_named_like_the_one_asked_for(file, asked, answer):
    tensors = build_model(file, meta=True).state_dict()  # shapes, without hundreds of megabytes
    fits = fitting_architectures({name: tuple(tensor.shape) for name, tensor in tensors.items()}, like=asked)
    assert [architecture for architecture, odd in fits.items() if odd == 0] == answer


@pytest.mark.parametrize(
    ("content", "error", "facts"),
    [
        ({"head": torch.ones(2, 3)}, UnknownNameError, ("no architecture of open_clip", "local-dir:FOLDER")),
        ({"vision_model.a": torch.ones(2, 3)}, UnknownNameError, ("hf:FOLDER", "checkpoint")),
        ({"epoch": 3}, ModelError, ("dict", "open_clip")),
        ({}, UnknownNameError, ("open_clip:tiny-quickgelu@a.pt", "OpenAI", "open_clip:tiny-gelu@a.pt", "LAION")),
    ],
)
def test_a_bare_file_that_nothing_or_two_activations_fit_is_told_so(
    content, error, facts, checkpoints, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    torch.save(content or torch.load(checkpoints("tiny")), "a.pt")
    with raises(error, "a.pt", facts):
        find_model("a.pt")


def test_names_and_shapes_that_open_clip_itself_renames_are_read(checkpoints, tmp_path):
    def as_older_versions_did(state):
        for key in [key for key in state if key.startswith("text.")]:
            state[key.removeprefix("text.")] = state.pop(key)
        state["logit_scale"] = state["logit_scale"].reshape(1)

    file = spoilt(tmp_path, checkpoints("tiny-custom"), as_older_versions_did)
    models = [find_model(f"open_clip:tiny-custom@{path}") for path in (file, checkpoints("tiny-custom"))]
    assert models[0].fingerprint == models[1].fingerprint


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_cfg": None}, "'model_cfg'"),
        ({"preprocess_cfg": {"mean": MEAN}}, "resize_mode"),
        ({"preprocess_cfg": PREPROCESSING | {"size": 224}}, ("(224, 224)", "(32, 32)")),
        ({"model_cfg": CLIP | {"vision_cfg": TIMM}}, ("(32, 32)", "(224, 224)")),
        ({"preprocess_cfg": PREPROCESSING | {"resize_mode": "crop"}}, ("open_clip", "build")),
        ({"preprocess_cfg": PREPROCESSING | {"std": [None, 0.5, 0.5]}}, ("mean", "std", "number")),
        ({"model_cfg": CLIP | {"wings": 2}}, ("open_clip", "build")),
        (with_text(vocab_size=500), ("token_embedding.weight", "(49408, 32)", "(500, 32)")),
        (with_text(tokenizer_kwargs={"reduction_mask": "random"}), ("words", "texts")),
        (with_text(tokenizer_kwargs={"additional_special_tokens": ["<x>"]}), ("49409", "49408", "tokenizer")),
        (with_text(pool_type="eos", eos_id=2), ("2", "49407", "text")),
        (with_text(hf_tokenizer_name="x"), ("open_clip", "load")),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused_in_one_line(checkpoints, tmp_path, config, message):
    folder = saved_folder(tmp_path / "model", checkpoints("tiny"), **config)
    with raises(ModelError, message) as caught:
        find_model(f"local-dir:{folder}")
    assert "\n" not in str(caught.value)


def test_a_folder_without_a_configuration_and_a_file_that_is_none_are_refused(tmp_path):
    for content, facts in ((None, ()), ("{", ("JSON",)), ("\ufeff{}", ("byte order mark",))):
        if content:
            (tmp_path / "open_clip_config.json").write_text(content)
        with raises(ModelError, "open_clip_config.json", facts):
            find_model(f"local-dir:{tmp_path}")
    with raises(ModelError, "gone.pt", "checkpoint"):
        find_model(f"open_clip:ViT-B-32-quickgelu@{tmp_path / 'gone.pt'}")


def test_of_plain_and_averaged_weights_a_record_names_those_that_were_read(checkpoints, tmp_path):
    file, alone = tmp_path / "epoch_2.pt", tmp_path / "mean.pt"
    weights = torch.load(checkpoints("tiny"), weights_only=True)
    averaged = {name: tensor * 0.9 if tensor.ndim > 1 else tensor for name, tensor in weights.items()}
    torch.save({"epoch": 2, "state_dict": weights, "ema_state_dict": averaged}, file)
    torch.save(averaged, alone)
    plain, mean = f"open_clip:tiny-gelu@{file}", f"open_clip:tiny-gelu@{file}#ema"
    fingerprints = [find_model(f"open_clip:tiny-gelu@{path}").fingerprint for path in (checkpoints("tiny"), alone)]
    for name, taken, fingerprint in zip((plain, mean), ("'state_dict'", "'ema_state_dict'"), fingerprints, strict=True):
        assert find_model(name).fingerprint == fingerprint
        for cache in ("cold", "warm"):
            out = tmp_path / f"{cache} {taken}"
            ta.run(name, "demo", limit=6, out=out, cache=tmp_path / "store.sqlite")
            measured = read_result(out)
            (note,) = (each for each in measured.benchmarks["demo"].notes if "epoch_2.pt" in each)
            check_facts(note, taken, "epoch_2.pt")
            assert measured.model.provenance == note, cache
    with raises(ModelError, "'teacher'", "state_dict", "ema_state_dict"):
        find_model(f"open_clip:tiny-gelu@{file}#teacher")
    # Training begins with weights that are named.
    with raises(ModelError, f"{file}#state_dict", f"{file}#ema_state_dict"):
        open_dual(plain, "cpu")
    assert open_dual(mean, "cpu").model().fingerprint == fingerprints[1]
    # A folder has parts, too.
    folder = saved_folder(tmp_path / "model", file)
    name = f"local-dir:{folder}#ema_state_dict"
    assert find_model(name).fingerprint == fingerprints[1]
    assert source_key(name, ModelOptions()) != source_key(f"local-dir:{folder}", ModelOptions())


def test_a_whole_model_is_not_run_and_the_line_that_saves_its_weights_works(open_clip, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = open_clip.create_model("tiny")
    for content in (model, {"epoch": 3, "model": model}):
        torch.save(content, "whole.pt")
        with raises(ModelError, "whole.pt", "state_dict()") as caught:
            find_model("open_clip:tiny-gelu@whole.pt")
        line = str(caught.value).partition("trust the file: ")[2]
        exec(line, {"torch": torch})  # noqa: S102  (as a reader does who trusts the file)
        find_model("open_clip:tiny-gelu@weights.pt")
        Path("weights.pt").unlink()


def test_a_bias_of_siglips_loss_is_answered_with_the_folder_that_reads_it(checkpoints, tmp_path):
    file = spoilt(tmp_path, checkpoints("tiny"), lambda state: state.update(logit_bias=torch.tensor(-9.0)))
    with raises(ModelError, "logit_bias", "local-dir:FOLDER", '"init_logit_bias": -10'):
        find_model(f"open_clip:tiny-gelu@{file}")
    folder = saved_folder(tmp_path / "folder", file, model_cfg=CLIP | {"init_logit_bias": -10})
    assert find_model(f"local-dir:{folder}").fingerprint


def test_a_bare_file_of_one_architecture_is_opened_as_that_with_a_warning(checkpoints, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("base.pt").write_bytes(checkpoints("tiny-wide").read_bytes())
    for typed in ("base.pt", "open_clip:base.pt"):
        with pytest.warns(TellapartWarning, match="base.pt fits one architecture.*open_clip:tiny-wide@base.pt"):
            assert find_model(typed).name == "open_clip:tiny-wide@base.pt"
    with pytest.warns(TellapartWarning, match="tiny-wide"):
        open_dual("open_clip:base.pt", "cpu")
    torch.save(dict(list(torch.load("base.pt").items())[1:]), "less.pt")
    with raises(UnknownNameError, "1 of", "open_clip:tiny-wide@less.pt"):
        find_model("less.pt")


def test_a_file_of_open_clips_trainer_has_the_architectures_activation(checkpoints, tmp_path):
    state = {f"module.{name}": tensor for name, tensor in torch.load(checkpoints("tiny"), weights_only=True).items()}
    trained = {"epoch": 3, "name": "run", "state_dict": state, "optimizer": {"state": {}, "param_groups": []}}
    file, other = tmp_path / "run" / "checkpoints" / "epoch_3.pt", tmp_path / "other.pt"
    file.parent.mkdir(parents=True)
    torch.save(trained, file)
    with pytest.warns(TellapartWarning, match="trainer.*GELU.*open_clip:tiny-quickgelu@"):
        assert find_model(f"open_clip:tiny@{file}").traits["activation"] == "GELU"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert find_model(f"open_clip:tiny-quickgelu@{file}").traits["activation"] == "QuickGELU"
    del trained["optimizer"]
    torch.save(trained, other)
    # open_clip 2 trained it with QuickGELU, open_clip 3 with GELU.
    (file.parents[1] / "params.txt").write_text("model: tiny\npretrained: openai\nforce_quick_gelu: False\n")
    for path, facts in ((file, (f"open_clip:tiny@{file}", "unknown")), (other, ())):
        with raises(ModelError, f"write open_clip:tiny-quickgelu@{path}", facts):
            find_model(f"open_clip:tiny@{path}")


def test_an_adapter_in_a_folder_of_a_folder_is_named(tmp_path):
    adapter = tmp_path / "run" / "adapter"
    adapter.mkdir(parents=True)
    (adapter / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "base_model_name_or_path": "x/y"}))
    torch.save({}, adapter / "adapter_model.bin")
    with raises(UnknownNameError, f"hf:{adapter}", "peft"):
        find_model(str(tmp_path / "run"))
    with raises(ModelError, f"open_clip:ARCH/TAG@{adapter}"):
        find_model(f"local-dir:{adapter}")


def test_vectors_that_overflow_in_float16_are_answered_with_the_dtypes_that_hold_them(checkpoints, tmp_path):
    file = spoilt(tmp_path, checkpoints("tiny"), lambda state: state["text_projection"].mul_(1e6))
    model = find_model(f"open_clip:tiny-gelu@{file}", ModelOptions(dtype="float16"))
    with raises(ModelError, "not finite", "65,504", "dtype='bfloat16'", "'float32'"):
        model.encode_texts(["a cat"])
    assert np.isfinite(find_model(f"open_clip:tiny-gelu@{file}").encode_texts(["a cat"])).all()


@pytest.mark.parametrize("form", ["tag", "file"])
def test_a_tag_has_its_preprocessing_and_lends_it_to_files_if_published_weights_agree(
    form, open_clip, checkpoints, monkeypatch
):
    file, half = checkpoints("tiny"), {"mean": (0.5,) * 3, "std": (0.5,) * 3, "resize_mode": "squash"}
    mine = half | {"file": str(file)}
    tagged(open_clip, monkeypatch, "tiny", mine=mine, other=mine, openai={"quick_gelu": True})
    model = find_model("open_clip:tiny/mine" if form == "tag" else f"open_clip:tiny-gelu@{file}")
    options = {"image_mean": half["mean"], "image_std": half["std"], "image_resize_mode": "squash"}
    images, _ = library_vectors(open_clip, "tiny", file, **options)
    np.testing.assert_allclose(model.encode_images(pictures()), images, atol=1e-5)
    assert find_model("open_clip:tiny/MINE").fingerprint == model.fingerprint


def test_a_tag_of_the_other_activation_is_refused_with_the_architecture_that_fits(open_clip, checkpoints, monkeypatch):
    tags = {"openai": {"file": str(checkpoints("tiny")), "quick_gelu": True}}
    tagged(open_clip, monkeypatch, "tiny", laion={"file": str(checkpoints("tiny"))}, **tags)
    tagged(open_clip, monkeypatch, "tiny-quickgelu", **tags)
    with raises(ModelError, "QuickGELU", "tiny", "GELU", "'open_clip:tiny-quickgelu/openai'"):
        find_model("open_clip:tiny/openai")
    with raises(UnknownNameError, "'laion'", "'tiny-quickgelu'", "'open_clip:tiny/laion'"):
        find_model("open_clip:tiny-quickgelu/laion")
    assert find_model("open_clip:tiny-quickgelu/openai").traits["activation"] == "QuickGELU"
    assert find_model("open_clip:tiny-gelu/laion").fingerprint == find_model("open_clip:tiny/laion").fingerprint


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *((f"ViT-B-23{part}", ("'ViT-B-23'", "'ViT-B-32'")) for part in ("/openai", "@a.pt")),
        ("ours@a.pt", ("'ours'", "local-dir:FOLDER", "open_clip_config.json")),
        ("ViT-B-32/laion2b_s34b", ("'laion2b_s34b'", "'ViT-B-32'", "'laion2b_s34b_b79k'")),
        ("ViT-B-32/zzz", ("'zzz'", "'ViT-B-32'", "laion400m_e31")),
        ("ViT-S-32/openai", ("'openai'", "'ViT-S-32'")),
        *((name, ("open_clip:ViT-B-32/TAG", "laion400m_e31")) for name in ("ViT-B-32", "ViT-B/32")),
    ],
)
def test_an_unknown_or_incomplete_name_is_answered_with_the_nearest(name, message):
    with raises(ModelError if "TAG" in message[0] else UnknownNameError, message):
        find_model(f"open_clip:{name}")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("model", "pretrained", "force", "activation"),
    [
        ("tiny", "", False, "GELU"),
        ("tiny", "laion2b_s34b_b79k", False, "GELU"),
        ("tiny", "", True, "QuickGELU"),
        ("tiny-quickgelu", "openai", False, "QuickGELU"),
        ("tiny", "openai", False, None),  # open_clip 2 switched to QuickGELU here, open_clip 3 does not
        ("another", "", False, None),
    ],
)
def test_what_open_clips_trainer_wrote_decides_the_activation(
    checkpoints, tmp_path, model, pretrained, force, activation
):
    file = tmp_path / "run" / "checkpoints" / "epoch_5.pt"
    file.parent.mkdir(parents=True)
    file.write_bytes(checkpoints("tiny").read_bytes())
    settings = f"force_quick_gelu: {force}\nmodel: {model}\npretrained: {pretrained}\n"
    (tmp_path / "run" / "params.txt").write_text(settings)
    right, wrong = ("tiny-quickgelu", "tiny-gelu") if activation == "QuickGELU" else ("tiny-gelu", "tiny-quickgelu")
    assert find_model(f"open_clip:{right}@{file}").traits["activation"] == (activation or "GELU")
    if activation is None:
        assert find_model(f"open_clip:{wrong}@{file}").traits["activation"] == "QuickGELU"
        with raises(ModelError, "GELU", "QuickGELU", "nothing"):
            find_model(f"open_clip:tiny@{file}")
        return
    with raises(ModelError, "params.txt", activation, "open_clip:tiny"):
        find_model(f"open_clip:{wrong}@{file}")
    if activation == "GELU":
        assert find_model(f"open_clip:tiny@{file}").traits["activation"] == "GELU"


def test_a_fine_tune_has_activation_and_preprocessing_of_the_tag_it_came_from(open_clip, checkpoints, monkeypatch):
    tagged(open_clip, monkeypatch, "tiny", a={}, b={"mean": (0.5,) * 3, "resize_mode": "squash"})
    file = checkpoints("tiny")
    with raises(ModelError, "2", f"open_clip:tiny-gelu/a@{file}"):
        find_model(f"open_clip:tiny-gelu@{file}")
    models = [find_model(f"open_clip:tiny/{tag}@{file}") for tag in "ab"]
    assert models[0].fingerprint != models[1].fingerprint
    assert find_model(f"open_clip:tiny-gelu/a@{file}").fingerprint == models[0].fingerprint


def test_a_configuration_beside_the_file_and_openais_own_state_dict_decide_the_activation(checkpoints, tmp_path):
    stated, quick = PREPROCESSING | {"mean": [0.1, 0.2, 0.3]}, CLIP | {"quick_gelu": True}
    folder = saved_folder(tmp_path / "f", checkpoints("tiny"), model_cfg=quick, preprocess_cfg=stated)
    numbers = {"input_resolution": 32, "context_length": 77, "vocab_size": 49408}
    sizes = {key: torch.tensor(value) for key, value in numbers.items()}
    files = {
        folder / "open_clip_pytorch_model.bin": ("open_clip_config.json", "tiny-quickgelu@"),
        spoilt(tmp_path, checkpoints("tiny"), lambda state: state.update(sizes)): ("OpenAI", "weights"),
    }
    for file, facts in files.items():
        with raises(ModelError, "QuickGELU", facts):
            find_model(f"open_clip:tiny-gelu@{file}")
    beside, openai = (find_model(f"open_clip:tiny-quickgelu@{file}") for file in files)
    assert beside.fingerprint == find_model(f"local-dir:{folder}").fingerprint
    assert openai.traits["activation"] == "QuickGELU"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """An offline hub, whose cache is filled from folders."""
    import huggingface_hub.constants as constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)

    def put(repository, folder):
        place = tmp_path / "hub" / f"models--{repository.replace('/', '--')}"
        for name in ("refs", "snapshots"):
            (place / name).mkdir(parents=True)
        (place / "refs" / "main").write_text("0" * 40)
        folder.rename(place / "snapshots" / ("0" * 40))

    return put


def test_hub_models_and_published_models_in_the_cache_are_loaded_offline(
    hub, open_clip, checkpoints, tmp_path, monkeypatch
):
    local = find_model(f"local-dir:{saved_folder(tmp_path / 'a', checkpoints('tiny'))}")
    tagged(open_clip, monkeypatch, "tiny", whole={"hf_hub": "org/whole/"}, part={"hf_hub": "org/part/weights.bin"})
    hub("org/whole", tmp_path / "a")
    hub("org/part", saved_folder(tmp_path / "b", checkpoints("tiny"), file="weights.bin"))
    model = find_model("hf-hub:org/whole")
    assert (model.name, model.fingerprint) == ("hf-hub:org/whole", local.fingerprint)
    assert find_model("open_clip:tiny/whole").fingerprint == find_model("open_clip:tiny/part").fingerprint


@pytest.mark.parametrize("name", ["hf-hub:org/absent", "open_clip:ViT-B-32/laion2b_s34b_b79k"])
def test_what_is_not_in_the_cache_is_not_fetched_offline(hub, name):
    with raises(ModelError, "HF_HUB_OFFLINE", "hub") as caught:
        find_model(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        ("RemoteEntryNotFoundError", ("org/repo", "open_clip_config.json", "model", "open_clip")),
        ("HfHubHTTPError", ("org/repo", "hub", "line")),
    ],
)
def test_what_the_hub_refuses_is_told_in_one_line(monkeypatch, failure, message):
    from huggingface_hub import errors

    def refuse(*_):
        kind = getattr(errors, failure)
        error = kind.__new__(kind)  # its own constructor wants a response of the hub's
        error.args = ("a first line\na second",)
        raise error

    monkeypatch.setattr("huggingface_hub.hf_hub_download", refuse)
    with raises(ModelError, message):
        find_model("hf-hub:org/repo")
