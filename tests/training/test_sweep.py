"""Interpolated weights equal a float64 reference, keep both ends to the bit, and refuse what is no line."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from facts import raises
from tellapart.errors import MetricError, ModelError
from tellapart.training.sweep import best_alpha, interpolate

ALPHAS = tuple(k / 10 for k in range(11))


def network(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(4, 2)
    )
    net(torch.randn(5, 3, 3, 3) * (seed + 1))  # moves the running statistics and the counter
    for _ in range(seed):
        net(torch.randn(5, 3, 3, 3))
    return net.eval()


@pytest.fixture
def ends(tmp_path: Path) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    for name, seed in (("before", 0), ("after", 3)):
        save_file(network(seed).state_dict(), tmp_path / f"{name}.safetensors")
    return load_file(tmp_path / "before.safetensors"), load_file(tmp_path / "after.safetensors")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@given(alpha=st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_every_tensor_equals_the_float64_reference(dtype: torch.dtype, alpha: float) -> None:
    before, after = torch.randn(2, 7, 5, generator=torch.Generator().manual_seed(0)).to(dtype)
    result = interpolate({"w": before}, {"w": after}, alpha)["w"]
    exact = (1 - alpha) * before.double().numpy() + alpha * after.double().numpy()
    assert result.dtype == dtype
    assert torch.equal(result, torch.from_numpy(exact).to(dtype))


def test_the_ends_are_kept_to_the_bit_also_where_a_weight_is_infinite() -> None:
    before, after = {"w": torch.tensor([1.0, math.inf])}, {"w": torch.tensor([math.inf, 2.0])}
    assert torch.equal(interpolate(before, after, 0)["w"], before["w"])
    assert torch.equal(interpolate(before, after, 1)["w"], after["w"])


def test_counters_are_copied_from_the_nearer_end_and_statistics_lie_between(ends) -> None:
    before, after = ends
    counter, mean = "1.num_batches_tracked", "1.running_mean"
    assert (before[counter].item(), after[counter].item()) == (1, 4)
    for alpha in ALPHAS:
        state = interpolate(before, after, alpha)
        assert state.keys() == before.keys()
        assert state[counter].dtype == torch.int64
        assert state[counter].item() == (1 if alpha < 0.5 else 4)
        expected = (1 - alpha) * before[mean].double() + alpha * after[mean].double()
        assert torch.equal(state[mean], expected.float())


def test_a_sweep_goes_from_one_end_to_the_other_and_the_network_takes_every_step(ends) -> None:
    before, after = ends
    net, image = network(0), torch.randn(1, 3, 3, 3)
    outputs = []
    for alpha in ALPHAS:
        net.load_state_dict(interpolate(before, after, alpha), strict=True)
        outputs.append(net(image).detach())
    assert len(outputs) == len(ALPHAS)
    for place, end in ((0, before), (-1, after)):
        net.load_state_dict(end)
        assert torch.equal(outputs[place], net(image))
    assert len({tuple(one.flatten().tolist()) for one in outputs}) == len(ALPHAS)


def test_neither_end_is_changed_nor_shared(ends) -> None:
    before, after = ends
    copies = [{name: one.clone() for name, one in end.items()} for end in ends]
    for alpha in (0.0, 0.3, 1.0):
        for one in interpolate(before, after, alpha).values():
            one.zero_()
    for end, copy in zip(ends, copies, strict=True):
        assert all(torch.equal(end[name], copy[name]) for name in copy)


@pytest.mark.parametrize(
    ("after", "alpha", "said"),
    [
        ({"w": torch.zeros(2)}, 1.5, ("0", "1", "1.5")),
        ({"w": torch.zeros(2)}, math.nan, "got nan"),
        ({}, 0.5, ("1", "w", "weights")),
        ({"w": torch.zeros(2), "lora_A": torch.zeros(1)}, 0.5, ("1", "lora_A")),
        ({"w": torch.zeros(3)}, 0.5, ("'w'", "(2,)", "(3,)")),
        ({"w": torch.zeros(2).half()}, 0.5, ("'w'", "torch.float32", "torch.float16")),
    ],
)
def test_what_is_no_line_between_two_states_is_refused(after, alpha: float, said: str | tuple[str, ...]) -> None:
    with raises(ModelError, said):
        interpolate({"w": torch.zeros(2)}, after, alpha)


def test_the_best_alpha_is_the_one_with_the_greatest_mean_of_the_front() -> None:
    gain = np.linspace(0.2, 0.5, 11)
    kept = 0.6 - 0.4 * np.array(ALPHAS) ** 4
    curve = {alpha: (g, k) for alpha, g, k in zip(ALPHAS, gain, kept, strict=True)}
    assert best_alpha(curve) == ALPHAS[int(np.argmax(gain + kept))] == 0.6
    assert best_alpha(dict(reversed(curve.items()))) == 0.6  # whatever the order


def test_of_equally_good_alphas_the_nearest_to_the_start_is_taken_and_an_unmeasured_one_never() -> None:
    assert best_alpha({1.0: (0.5, 0.5), 0.5: (0.5, 0.5), 0.0: (0.25, 0.25)}) == 0.5
    assert best_alpha({0.0: (0.2, 0.2), 0.5: (0.9, math.nan), 1.0: (0.3, 0.1)}) == 0.0


@pytest.mark.parametrize(
    ("curve", "said"),
    [
        ({}, ("alphas", "needed")),
        ({math.nan: (0.1,)}, ("alphas", "needed")),
        ({0.0: (0.1,), 1.0: (0.1, 0.2)}, ("1", "2", "objective")),
        ({0.0: (math.nan,)}, ("1", "finite")),
    ],
)
def test_a_curve_without_a_best_is_refused(curve: dict[float, tuple[float, ...]], said: str | tuple[str, ...]) -> None:
    with raises(MetricError, said):
        best_alpha(curve)
