"""Two ranks under torchrun: the numbers of one, and one clear error in both, whichever of them it happened in."""

import json
import os
import re
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import training_sets
from tiny_fusion import MODELS as LIBRARY
from tiny_native import MAKE, native, released_eqsim
from training_sets import RESNET, architecture, squares, table, toml

from facts import check_facts
from scripts import run_python
from tellapart.training.config import TrainConfig, read_config
from tellapart.training.data.rows import BatchOrder, read_rows
from tellapart.training.record import read_record
from tellapart.training.train import over_seeds, train_seeds
from tellapart.training.training_run import FinishedRun, run_training

pytestmark = [
    pytest.mark.slow,  # the two ranks start once for all that is asked here, which takes most of the time
    pytest.mark.skipif(find_spec("transformers") is None, reason="fusion encoders need the extra 'models'"),
]
MODELS = {"blip": LIBRARY["blip"]} | {name: partial(native, family=name) for name in MAKE}
EQSIM = {"name": "eqsim", "variant": "v2-all", "normalise": "none", "alpha": 0.0}
DUAL: dict[str, Any] = {"loss": EQSIM, "data": {"negative_captions": 0, "validation": "folder:train"}}
FUSION: dict[str, Any] = {"loss": {"name": "eqsim-itm", "alpha": 0.0}, "optimiser": {"steps": 3}, "reading": "itm"}
FUSION |= {"matching": {"negatives": 2}}
SEEDS: dict[str, Any] = {"optimiser": {"steps": 2}, "data": {"train": ["folder:seeded"]}, "seed": 7}


def read_by_the_second(folder: Path) -> Path:
    """The image that the second of two ranks reads first."""
    rows = read_rows([str(folder)], Path())
    return rows.rows[BatchOrder(rows, 8, 0).batch(0, 1, 2)[0]].image


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Configurations, and what they name."""
    folder = tmp_path_factory.mktemp("ranks")
    SEEDS["report"] = {"benchmarks": [f"folder:{squares(folder / 'test', seed=1)}"]}
    for name in ("seeded", "broken", "second/broken"):  # a disk that the second rank sees otherwise
        squares(folder / name)
    architecture(folder / "second" / "arch")
    image = read_by_the_second(folder / "second" / "broken")
    image.write_bytes(image.read_bytes()[:-60])
    settings = {
        "dual": DUAL, "seeds": SEEDS, "leak": {"report": {"benchmarks": [f"folder:{squares(folder / 'leak-test')}"]}},
        "image": {"data": {"train": ["folder:broken"]}}, "full": {},
        "lora": {"lora": {"rank": 2}, "batch": {"size": 8, "micro": 3}},
        "bias": {"loss": {"name": "siglip"}, "batch": {"size": 8, "micro": 3}},
        "norms": {"model": architecture(folder / "resnet", **RESNET)},
        "frozen": {"model": f"new:{folder / 'resnet'}", "batch_norm": "frozen"}, "unforeseen": {},
        "diverged": {"optimiser": {"learning_rate": 1e30}},
    }  # fmt: skip
    settings |= {name: {**FUSION, "model": made(folder / f"{name}-model")} for name, made in MODELS.items()}
    for name, changes in settings.items():
        (folder / f"{name}.toml").write_text(toml(table(folder, **changes)), encoding="utf-8")
    for family in MAKE:
        values = released_eqsim(folder, family) | {"name": f"{family}-eqsim"}
        (folder / f"{family}-eqsim.toml").write_text(toml(values), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def said(folder):
    """What both ranks say of everything, in one go: most of the time goes into starting them."""
    program = Path(__file__).with_name("several_ranks_program.py")
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", 2, program, folder]
    run_python(*command, timeout=600, env={**os.environ, "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"})
    first, second = (json.loads((folder / f"said-{rank}.json").read_text()) for rank in (0, 1))
    return first, second


near = partial(training_sets.near, floor=1e-5)


def test_two_ranks_train_a_dual_encoder_as_one_does(said, folder):
    run_training(read_config(folder / "dual.toml"), folder, folder / "dual-alone")
    near(folder / "dual-alone", folder / "dual")
    assert [each["dual"]["out"].count("measure with:") for each in said] == [1, 0]
    assert ([each["dual"]["code"] for each in said], read_record(folder / "dual").ranks) == ([0, 0], 2)


@pytest.mark.parametrize("name", ["frozen", "lora", "bias"])
def test_two_ranks_normalise_by_frozen_statistics_and_train_updates_or_a_bias_as_one_does(said, folder, name):
    run_training(read_config(folder / f"{name}.toml"), folder, folder / f"{name}-alone")
    near(folder / f"{name}-alone", folder / name)
    assert [each[name] for each in said] == ["", ""]
    for each in said:
        check_facts(each["norms"], "DataError", "2 ranks", "batch_norm", "model.visual.bn1")


@pytest.mark.parametrize("name", [*MODELS, *(f"{family}-eqsim" for family in MAKE)])
@pytest.mark.filterwarnings("ignore:data.augment:tellapart.errors.TellapartWarning")
def test_two_ranks_cross_the_same_pairs_as_one(said, folder, name):
    run_training(read_config(folder / f"{name}.toml"), folder, folder / f"{name}-alone")
    # Over 20 seeds a last bit of FIBER's weights moves a logged number by 2.3e-3 of it, and a weight by 6e-5, at most.
    rounding = (2e-2, 1e-4) if name.startswith("fiber") else ()
    near(folder / f"{name}-alone", folder / name, *rounding)
    assert [each[name] for each in said] == ["", ""]


def test_two_ranks_train_every_seed_keep_what_is_done_and_one_of_them_says_it(said, folder):
    first, second = (each["seeds"] for each in said)
    assert [call["code"] for call in (*first, *second)] == [0] * 4, first + second
    assert [call["out"] for call in second] == ["", ""]
    result, again = (json.loads(call["out"]) for call in first)
    assert result["seeds"] == [7, 8] and again == result

    def train_alone(settings: TrainConfig, out: Path) -> FinishedRun:
        return run_training(settings, folder, out, allow_leak=True)

    records = train_seeds(read_config(folder / "seeds.toml"), folder / "seeds-alone", 2, train_alone)
    for row, alone in zip(result["start"], over_seeds(records), strict=True):
        assert (row["metric"], row["seeds"]) == (alone.metric, 2)
        assert (row["mean"], row["other"]) == pytest.approx((alone.mean, alone.other))
    for seed in ("seed-007", "seed-008"):
        near(folder / "seeds" / seed, folder / "seeds-alone" / seed)


@pytest.mark.parametrize(
    ("what", "code", "message"),
    [
        ("leak", 2, r"error: folder:.*leak-test: 24 training images are its pictures to the pixel .*--allow-leak\n"),
        ("odd", 2, r"error: .*seed-007 is of other data or of another start: rows .* -> .*--out.*\n"),
    ],
)
def test_a_command_that_is_refused_on_the_first_rank_ends_alike_on_both(said, what, code, message):
    first, second = (each[what] for each in said)
    assert (first, first["code"], first["out"]) == (second, code, "")
    assert re.fullmatch(message, first["err"])


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("image", r"DataError: rank 1: .*/broken/images/.*\.png.*"),
        ("elsewhere", r"DataError: rank 1: .*nowhere/train.*"),
        ("full", r"RunError: .*full/start: cannot be written \(.*[Ff]ile too large.*resume=True"),
        ("claimed", r"RunError: .*dual holds this run already; add resume=True.*"),
        ("unseen", r"RunError: rank 1: .*unseen/checkpoints: the last .* is None here and step-0*4 for rank 0; .*"),
        ("diverged", r"RunError: .*training has diverged; lower optimiser.learning_rate.*"),
    ],
)
def test_an_error_of_one_rank_is_raised_in_both(said, what, message):
    first, second = (each[what] for each in said)
    assert first == second
    assert re.fullmatch(message, first)


def test_a_rank_that_is_gone_is_said_and_none_waits_too_short_or_leaves_a_thread(said):
    gone = "RunError: another rank ended, and says why itself; go on with resume=True once that is mended"
    assert said[0]["lost"] == gone
    # An error that nobody foresaw keeps its class in the rank where it happened.
    assert [each["unforeseen"] for each in said] == ["ValueError: steps 1/4", "RunError: ValueError: steps 1/4"]
    if Path("/proc/self/task").exists():  # the system lists threads: none but those of the gradients
        assert [each["exchanging"] for each in said] == [2, 2]
    for work, gradient in (each["patience"] for each in said):  # the others wait longer for the first rank's work
        assert work >= 7 * 86_400 > 3600 >= gradient
