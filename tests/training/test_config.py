"""A wrong configuration is refused before anything is computed.

The message names file, key and the nearest known one.
"""

import copy
import re
import tomllib
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel, ValidationError
from training_sets import toml

from facts import raises
from tellapart.catalog import LOSSES, names
from tellapart.errors import DataError, UnknownNameError
from tellapart.training.config import DataConfig, TrainConfig, config_tables, list_presets, merge_preset, read_config

ROOT = Path(__file__).parents[2]
PAGE = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("training.md", "training_file.md"))
EXAMPLES = sorted((ROOT / "examples" / "training").glob("*.toml"))
VALUES: dict[str, Any] = {
    "name": "run", "model": "new:arch", "data": {"train": ["rows.jsonl"]}, "loss": {"name": "eqsim", "k": 4},
    "optimiser": {"learning_rate": 1e-3, "steps": 4}, "batch": {"size": 8},
}  # fmt: skip


def written(folder: Path, **changes) -> Path:
    path = folder / "run.toml"
    values = VALUES | {
        key: {**VALUES.get(key, {}), **value} if isinstance(value, dict) else value for key, value in changes.items()
    }
    path.write_text(toml(values), encoding="utf-8")
    return path


def test_a_file_says_all_that_it_says_and_defaults_stand_for_the_rest(tmp_path):
    settings = read_config(written(tmp_path, optimiser={"betas": [0.9, 0.999], "learning_rate": 1}))
    assert (settings.optimiser.betas, settings.optimiser.learning_rate, settings.batch.size) == ((0.9, 0.999), 1.0, 8)
    assert (settings.seed, settings.precision, settings.data.share) == (0, "float32", 1.0)
    assert settings.validation.every is None
    assert settings.loss_terms()[0].options["k"] == 4


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"modle": "x"}, ("run.toml", "'modle'", "'model'")),
        ({"data": {"trian": []}}, ("run.toml", "[data]", "'trian'", "'train'")),
        ({"optimiser": {"warmup": 3}}, ("[optimiser]", "'warmup'", "'warm_up'")),
        ({"batch": {"size": "many"}}, ("[batch]", "'size'", "'many'")),
        ({"batch": {"size": 1}}, ("[batch]", "'size'", "2", "1")),
        ({"optimiser": {"epochs": 2}}, ("[optimiser]", "epochs", "steps")),
        ({"optimiser": {"steps": None}}, ("[optimiser]", "epochs", "steps")),
        ({"data": {"take": [0.5, 1.5]}}, ("[data]", "'take[1]'", "1", "1.5")),
        ({"report": {"alphas": [2.0]}}, ("[report]", "'alphas[0]'")),
        ({"report": {"licence": "Not One"}}, ("[report]", "'licence'")),
        ({"report": {"alphas": [0.5], "benchmarks": []}}, ("[report]", "alphas", "benchmarks")),
        ({"report": {"benchmarks": ["demo", "demo"]}}, ("[report]", "benchmarks", "'demo'", "twice")),
        ({"device": "tpu"}, ("'device'", "'cpu'", "'cuda'", "'mps'", "'tpu'")), ({"name": "a/b"}, ("'name'", "field")),
        ({"seed": -1}, ("'seed'", "field")), ({"preset": "eqsim"}, ("'eqsim'", "'eqsim-f30k'", "coco-cf-base")),
        ({"loss": {"margin": 1}}, ("[loss]", "'eqsim'", "'margin'", "k")),
        ({"loss": {"name": "itc"}}, ("[loss]", "'itc'", "'k'")), ({"loss": {"name": 3}}, ("[loss]", "field 'name'")),
        ({"loss": {"k": "four"}}, ("[loss]", "'eqsim'", "'k'", "'four'")),
        ({"loss": {"alpha": -1.0}}, ("[loss]", "'alpha'", "-1.0", "0")),
        ({"optimiser": {"betas": [1.0, 0.9]}}, ("[optimiser]", "'betas[0]'", "1.0")),
        ({"optimiser": {"betas": [0.9, -0.1]}}, ("[optimiser]", "'betas[1]'", "-0.1")),
        ({"optimiser": {"weight_decay": -0.1}}, ("[optimiser]", "'weight_decay'", "-0.1")),
        ({"optimiser": {"steps": 2**63 - 1}}, ("[optimiser]", "'steps'", 2**63 - 1, 2**31 - 1)),
        ({"lora": {"rank": 2**31}}, ("[lora]", "'rank'", 2**31)),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(tmp_path, changes, said):
    with raises(DataError, said):
        read_config(written(tmp_path, **changes))


def numbers_of(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """The name and annotation of each numeric field."""
    for name, field in model.model_fields.items():
        if re.search(r"\b(int|float)\b", str(field.annotation)):
            yield name, str(field.annotation)


@pytest.mark.parametrize(
    ("table", "name", "annotation"),
    [(table, *number) for table, model in {"": TrainConfig, **config_tables()}.items() for number in numbers_of(model)],
)
def test_no_number_of_a_training_file_is_infinite_or_of_64_bits(table, name, annotation):
    model = config_tables().get(table, TrainConfig)
    plain = {"LoraConfig": {"rank": 4}, "OptimiserConfig": VALUES["optimiser"], "BatchConfig": VALUES["batch"]}
    for value in (float("inf"), float("nan"), 2**63 - 1):
        given = {"dict": {"*": value}, "list": [value], "tuple": [value, value]}
        kind = next((kind for kind in given if kind in annotation), "")
        if "float" in annotation and value == 2**63 - 1:
            continue
        with pytest.raises(ValidationError) as caught:
            model.model_validate({**plain.get(model.__name__, {}), name: given.get(kind, value)})
        assert name in {error["loc"][0] for error in caught.value.errors()}


@pytest.mark.parametrize(
    ("line", "table", "name"), [("k = 4", "loss", "weight"), ("learning_rate = 0.001", "optimiser", "learning_rate")]
)
def test_a_toml_file_holds_finite_numbers_alone(tmp_path, line, table, name):
    text = written(tmp_path).read_text()
    for number in ("inf", "nan", "-inf"):
        (tmp_path / "run.toml").write_text(text.replace(line, f"{name} = {number}"))
        with raises(DataError, "run.toml", f"'{table}.{name}'", "finite", number):
            read_config(tmp_path / "run.toml")


def test_an_unknown_loss_is_named(tmp_path):
    with raises(UnknownNameError, "[loss]", "loss", "'eqsin'", "'eqsim'"):
        read_config(written(tmp_path, loss={"name": "eqsin"}))


def test_the_fingerprint_is_of_what_decides_the_weights_alone():
    settings = TrainConfig(**VALUES)

    def changed(**changes):
        return TrainConfig(**(VALUES | changes)).fingerprint("data")

    beside = {"name": "other", "report": {"benchmarks": ["demo"]}, "log": {"tensorboard": True}}
    for changes in (beside, {"data": VALUES["data"] | {"outside_images": True}}):
        assert settings.fingerprint("data") == changed(**changes)
    others = {changed(seed=1), changed(loss={"name": "eqsim", "k": 5}), changed(batch={"size": 10})}
    assert len({settings.fingerprint("data"), settings.fingerprint("other"), *others}) == 5


def keys(model: type[BaseModel] = TrainConfig, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every key of a configuration, as `table.key`, with its default; tables themselves are left out."""
    for name, field in model.model_fields.items():
        kinds = [kind for kind in (field.annotation, *get_args(field.annotation)) if isinstance(kind, type)]
        inner = next((kind for kind in kinds if issubclass(kind, BaseModel)), None)
        if inner is not None:
            yield from keys(inner, f"{name}.")
        else:
            yield prefix + name, "needed" if field.is_required() else field.default


def test_the_page_names_every_key_with_its_default():
    rows = dict(re.findall(r"^\| `([a-z_.]+)` \| ([^|]*) \| [^|]+ \|$", PAGE.split("## Keys")[1], re.MULTILINE))
    said = {
        name: tomllib.loads(f"x = {value.strip('`')}")["x"] if "`" in value else value for name, value in rows.items()
    }
    settings = {name: list(value) if isinstance(value, tuple) else value for name, value in keys()}
    assert said == {name: "" if value in (None, []) else value for name, value in settings.items()}


def test_the_page_names_every_preset_loss_and_example():
    matching = {name for name in LOSSES if f"`{name}`" in PAGE and name.startswith(("itm", "ranking", "eqsim-"))}
    assert matching == {"itm", "ranking", "eqsim-itm", "eqsim-ranking"}
    assert {name for name in list_presets() if f"| `{name}` |" not in PAGE} == set()
    assert {path.name for path in EXAMPLES if f"../examples/training/{path.name}" not in PAGE} == set()


def test_the_configuration_on_the_page_is_one(tmp_path):
    (tmp_path / "run.toml").write_text(re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0], encoding="utf-8")
    settings = read_config(tmp_path / "run.toml")
    assert (settings.name, settings.batch.micro, settings.report.alphas) == ("mine", 64, [0.0, 0.5, 1.0])


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_a_configuration_of_benchmarks_that_exist(path):
    settings = read_config(path)
    assert settings.preset is not None or settings.test_time_matching is not None
    assert {*settings.report.benchmarks} <= {*names("benchmark")}
    chosen = settings.data.validation
    assert chosen is None or chosen.startswith("folder:") or chosen in names("benchmark")
    assert not settings.data.take or len(settings.data.take) == len(settings.data.train)


def test_a_reported_folder_is_beside_the_configuration_or_in_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "home" / "sets" / "a").mkdir(parents=True)
    (tmp_path / "work" / "sets" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    too_long = f"folder:{'v' * 5_000}"
    path = written(tmp_path / "home", report={"benchmarks": ["demo", "folder:sets/a", "folder:sets/b", too_long]})
    resolved = f"folder:{tmp_path / 'home' / 'sets' / 'a'}"
    assert read_config(path).report.benchmarks == ["demo", resolved, "folder:sets/b", too_long]


@pytest.mark.parametrize("also", [False, True])
def test_an_option_out_of_range_names_the_file_and_the_loss(also, tmp_path):
    path, values = tmp_path / "train.toml", {key: value for key, value in VALUES.items() if key != "loss"}
    table = '[loss]\nname = "itc"\n[loss.also.eqsim]\n' if also else '[loss]\nname = "eqsim"\n'
    path.write_text(f"{toml(values)}\n{table}k = 4.0\n", encoding="utf-8")
    with raises(DataError, "[loss]", "'eqsim'", "'k'", "4.0", "integer", path=str(path)):
        read_config(path)


def settings(folder: Path, preset: str, **more) -> TrainConfig:
    path = folder / "run.toml"
    values = {"name": "run", "model": "new:arch", "preset": preset, "data": {"train": ["a.jsonl"]}} | more
    path.write_text(toml(values), encoding="utf-8")
    return read_config(path)


#: What no paper says, and a configuration must.
UNKNOWN: dict[str, dict[str, Any]] = {"negbench": {"optimiser": {"epochs": 1}, "batch": {"size": 8}}}


@pytest.mark.parametrize("preset", list_presets())
def test_every_preset_needs_a_model_and_data_alone_and_takes_duplicates_for_negatives(tmp_path, preset):
    if preset in UNKNOWN:
        with raises(DataError, "epochs", "steps", path="run.toml"):
            settings(tmp_path, preset)
    result = settings(tmp_path, preset, **UNKNOWN.get(preset, {}))
    assert result.data.train == ["a.jsonl"] and result.optimiser.epochs is not None
    assert result.data.duplicates == "negatives"  # as the released code has it; the file may mask them
    result.loss_terms()


#: What papers and released commands say. EqSim: 10 epochs of 29,000 x 5 captions, a tenth of them warm-up, 8 pairs on
#: each of 8 GPUs, 16 times. TripletCLIP, CS-CLIP and CLIC clamp no scale. CE-CLIP: two GPUs of 256.
RELEASED = {"alpha": 0.1, "beta": 0.5, "k": 8, "as_released": True}
FIVE = {"*cross_modal*": 5.0, "*i2t*": 5.0, "*t2i*": 5.0, "*itm_score*": 5.0}
COCO_CF = {"seed": 107, "batch.size": 128, "data.share": 0.8, "optimiser.learning_rate": 5e-7}
COCO_CF |= {"optimiser.weight_decay": 0.001, "optimiser.decay": "linear"}
BIVLC = {"batch.size": 200, "optimiser.learning_rate": 1e-6, "optimiser.warm_up": 50, "optimiser.weight_decay": 0.1}
FSC = {"batch.size": 256, "optimiser.learning_rate": 5e-6, "optimiser.weight_decay": 0.1, "optimiser.epochs": 5}
FOCAL = {"weight": 0.5, "gamma": 2.0, "smoothing": 0.02}
PUBLISHED: dict[str, dict[str, Any]] = {
    "eqsim-f30k": {"loss.alpha": 0.1, "loss.beta": 0.5, "loss.k": 8, "batch.size": 1024, "batch.accumulate": 16,
        "optimiser.epochs": 10, "optimiser.learning_rate": 2e-5, "optimiser.warm_up": 29_000 * 5 // 1024},
    "eqsim-fiber-f30k": {"loss": {"name": "itm", "also": {"eqsim": RELEASED}}, "batch.part": 64, "image_size": 288,
        "data.augment": "fiber", "reading": "itm", "optimiser.groups": FIVE},
    "eqsim-meter-f30k": {"loss.name": "eqsim-ranking", "loss.also.itm": {"reading": "itm"}, "batch.size": 512,
        "optimiser.learning_rate": 5e-6, "image_size": 288, "optimiser.warm_up": 29_000 * 5 // 512,
        "matching.negatives": 15, "matching.close": 8},
    "trohn-text": BIVLC | {"optimiser.max_scale": None, "data.negative_images": "none"},
    "trohn-img": BIVLC | {"optimiser.max_scale": None, "data.negative_images": "mate"},
    "tripletclip": {"optimiser.learning_rate": 5e-4, "optimiser.epochs": 10, "optimiser.decayed": "all",
        "optimiser.max_scale": None, "batch.size": 1024, "optimiser.weight_decay": 0.5},
    "tripletclip-paper": {"optimiser.learning_rate": 5e-5, "optimiser.epochs": 30, "optimiser.max_scale": None},
    "ce-clip": FSC | {"batch.size": 512, "optimiser.epochs": 10},
    "cs-clip": {"optimiser.learning_rate": 5e-6, "batch.size": 1024, "optimiser.weight_decay": 0.01,
        "optimiser.epochs": 25, "optimiser.max_scale": None, "loss.foils": "own"},
    "fsc-clip": FSC | {"loss": {"name": "fsc-clip", "local": 0.2, **FOCAL}},
    "fsc-global": FSC | {"loss": {"name": "fsc-global", **FOCAL}},
    "clic": {"optimiser.learning_rate": 1e-6, "batch.size": 4 * 200, "optimiser.tower": "text",
        "optimiser.max_scale": None, "optimiser.warm_up": round(0.2 * 1_000_000 / 800)},
    "negbench": {"optimiser.learning_rate": 1e-8, "loss.contrast": 0.99, "loss.choice": 0.01},
    "coco-cf-base": COCO_CF | {"data.take": [0.5, 0.25]},
    "coco-cf-medium": COCO_CF | {"data.take": [1.0, 0.75]},
    "coco-cf-all": COCO_CF | {"data.take": [1.0, 1.0]},
}  # fmt: skip


@pytest.mark.parametrize("preset", PUBLISHED)
def test_a_preset_says_what_the_paper_says(tmp_path, preset):
    result = settings(tmp_path, preset, **UNKNOWN.get(preset, {}))

    def look(value, part):
        return value[part] if isinstance(value, dict) else getattr(value, part)

    assert {key: reduce(look, key.split("."), result) for key in PUBLISHED[preset]} == PUBLISHED[preset]


def test_a_preset_names_its_source_and_a_reason_for_each_value_that_is_not_released():
    named = {name for name, _ in keys()}
    for name, preset in list_presets().items():
        assert preset.source and preset.values.get("preset") is None, name
        for of, reason in preset.ours.items():
            assert "." not in of or of in named or of.startswith("loss."), of
            assert len(reason.split()) > 3, (name, of)
    assert "a row without a false caption" in list_presets()["cs-clip"].ours
    assert {"data.join", "words that change places"} <= list_presets()["clic"].ours.keys()


def test_the_file_has_the_last_word_and_changes_no_preset(tmp_path):
    result = settings(tmp_path, "negclip", optimiser={"steps": 3, "weight_decay": 0.0}, batch={"size": 16})
    assert (result.optimiser.steps, result.optimiser.epochs, result.optimiser.weight_decay) == (3, None, 0.0)
    assert (result.optimiser.learning_rate, result.batch.size) == (1e-6, 16)
    assert settings(tmp_path, "negclip", data={"train": ["a"], "duplicates": "masked"}).data.duplicates == "masked"
    assert DataConfig(train=["a"]).duplicates == "masked"
    assert settings(tmp_path, "eqsim-f30k", loss={"name": "itc"}).loss == {"name": "itc"}
    assert settings(tmp_path, "eqsim-f30k", loss={"alpha": 0.04}).loss["k"] == 8
    changed = settings(tmp_path, "eqsim-fiber-f30k", loss={"also.eqsim.alpha": 0.04}).loss_terms()[1].options
    assert (changed["alpha"], changed["k"], changed["as_released"]) == (0.04, 8, True)
    before = copy.deepcopy(list_presets()["negclip"].values)
    merge_preset(list_presets()["negclip"].values, {"optimiser": {"steps": 1}, "batch": {"size": 2}, "seed": 9})
    assert before == list_presets()["negclip"].values
