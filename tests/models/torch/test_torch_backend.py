"""The torch backend: devices, fixed batches, the guard before pickles, fingerprints."""

import os
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import raises
from scripts import run_python
from tellapart.errors import ModelError
from tellapart.models.options import ModelOptions
from tellapart.models.torch import backend

torch = backend.import_torch()


@pytest.mark.slow
def test_torchvision_and_open_clip_import_after_torch_was_imported_through_the_backend():
    code = "from tellapart.models.torch.backend import import_torch; import_torch(); import torchvision, open_clip"
    run_python("-W", "ignore", "-c", code, timeout=120)


def test_importing_the_backend_imports_no_torch():
    code = "import sys, tellapart.models.torch.backend, tellapart.models.find; sys.exit('torch' in sys.modules)"
    run_python("-c", code, timeout=60)


def test_a_runtime_has_the_device_and_the_dtype_of_the_options():
    runtime = backend.runtime(ModelOptions(dtype="float16"))
    assert runtime == backend.Runtime("cpu", "float16") and runtime.torch_dtype is torch.float16


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_device_that_is_not_there_is_refused_in_one_line(monkeypatch, device):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with raises(ModelError, f"'{device}'", "'cpu'"):
        backend.runtime(ModelOptions(device=device))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_dtype_that_the_processor_imitates_is_warned_of(monkeypatch, dtype):
    for facts in ({"avx2": True}, {"avx2": True, "avx512_bf16": True, "avx512_fp16": True}, {}):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda facts=facts: facts, raising=False)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for options in (ModelOptions(dtype=dtype), ModelOptions()):
                backend.runtime(options)
        texts = [str(warning.message) for warning in caught]
        assert len(texts) == (facts == {"avx2": True})
        assert all(dtype in text and "float32" in text and "dtype='auto'" in text for text in texts)


@pytest.mark.parametrize(("dtype", "rounds"), [("float32", False), ("bfloat16", True)])
def test_float32_on_a_gpu_is_not_rounded_in_convolutions(monkeypatch, dtype, rounds):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    backend.runtime(ModelOptions(device="cuda", dtype=dtype))
    assert torch.backends.cudnn.allow_tf32 is rounds


@given(st.lists(st.integers(), max_size=40), st.integers(1, 12))
def test_fixed_batches_are_all_full_and_their_real_samples_are_what_was_given(samples, size):
    batches = list(backend.fixed_batches(samples, size))
    assert all(len(batch) == size for batch, _ in batches)
    assert [sample for batch, real in batches for sample in batch[:real]] == samples
    assert all(set(batch[real:]) <= {batch[real - 1]} for batch, real in batches)


def test_batches_of_no_samples_are_refused():
    with raises(ValueError, "size", "1", "0"):
        list(backend.fixed_batches([1], 0))


HOLES = ["2.4.0", "2.5.1+cu121", "2.6.0", "2.9.1", "2.10.0a0+b4e4ee8", "2.10.0rc1", "unknown"]
SAFE = ["2.10.0", "2.10.1+cpu", "2.13.0+cu130", "3.0.0"]


@pytest.mark.parametrize("version", [*HOLES, *SAFE])
def test_a_library_opens_no_pickle_with_a_torch_that_may_run_it(tmp_path, monkeypatch, version):
    torch.save({"a": torch.ones(2)}, path := tmp_path / "shard.bin")
    load = torch.load
    monkeypatch.setattr(torch, "__version__", version)
    if version in SAFE:
        with backend.guard_torch_load("a/model"):
            assert torch.equal(torch.load(path, weights_only=True)["a"], torch.ones(2))
        assert torch.load is load
        return
    monkeypatch.setattr(torch, "load", lambda *given, **more: pytest.fail("the pickle was opened"))
    with backend.guard_torch_load("a/model"), raises(ModelError, "a/model", f"torch {version}", "torch 2.10"):
        torch.load(path, weights_only=True)


def _layer(change=lambda layer: layer, **buffers):
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 2)
    for name, value in buffers.items():
        layer.register_buffer(name, torch.tensor(value))
    return change(layer) or layer


def _nudge(layer) -> None:
    layer.weight.data[0, 0] = torch.nextafter(layer.weight.data[0, 0], torch.tensor(9.0))


def _reshape(layer) -> None:
    layer.weight.data = layer.weight.data.reshape(3, 2)


def test_a_fingerprint_changes_with_a_bit_a_type_a_name_a_shape_and_a_fact():
    changes = (_nudge, _reshape, lambda one: one.to(torch.bfloat16), lambda one: one.half(), torch.nn.Sequential)
    models = [_layer(), *map(_layer, changes)]
    models += [_layer(scale=1.0), _layer(scale=2.0), _layer(steps=1), _layer(steps=2), _layer(none=[])]
    facts = [("a", "b"), ("ab",), ("b", "a")]
    numbers = [backend.weights_fingerprint(model) for model in models]
    numbers += [backend.weights_fingerprint(_layer(), *extra) for extra in facts]
    assert len(set(numbers)) == len(numbers)
    assert backend.weights_fingerprint(_layer(), "a", "b") == numbers[len(models)]


@pytest.mark.parametrize(
    ("own", "found"), [({}, "10000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")]
)
def test_threads_of_torch_wait_for_each_other_briefly_unless_the_user_says_otherwise(own, found):
    required = "require('json', extra='models')"  # accelerate imports torch itself
    code = f"import os; from tellapart.errors import require; {required}; print(os.environ.get('GOMP_SPINCOUNT'))"
    others = {name: value for name, value in os.environ.items() if name not in {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}}
    assert run_python("-c", code, env=others | own).stdout.splitlines()[-1] == found


@pytest.mark.parametrize(("rows", "inner", "columns"), [(5, 32, 48), (7, 32, 32), (18, 48, 32), (33, 64, 64)])
def test_a_row_has_the_same_product_wherever_it_is_in_the_matrix_and_in_memory(rows, inner, columns):
    if torch.backends.mkl.is_available():
        assert os.environ["MKL_CBWR"]  # the default of `import_torch`, or the user's own
    left, right = torch.randn(rows, inner), torch.randn(columns, inner)
    product = left @ right.T
    order = torch.randperm(rows)
    assert torch.equal((left[order] @ right.T)[torch.argsort(order)], product)
    for offset in range(1, 9):
        moved = torch.empty(rows * inner + offset)[offset:].view(rows, inner).copy_(left)
        assert torch.equal(moved @ right.T, product)


@given(st.integers(0, 10_000), st.integers(1, 64), st.none() | st.integers(1, 600))
def test_a_bucket_is_the_next_multiple_or_the_limit(length, step, limit):
    up = backend.bucket(length, limit, step=step)
    if limit is None or up < limit:
        assert up % step == 0 and length <= up < length + step
    else:
        assert up == limit <= length + step


@given(st.lists(st.sampled_from("abc")))
def test_every_position_is_in_the_group_of_its_key_in_order(keys):
    groups = backend.positions_by_key(keys)
    assert sorted(position for own in groups.values() for position in own) == list(range(len(keys)))
    assert all(own == sorted(own) and {keys[k] for k in own} == {key} for key, own in groups.items())
    assert list(groups) == list(dict.fromkeys(keys))


def test_a_model_that_fails_is_named_and_one_that_fills_the_memory_is_left_to_the_caller():
    model = torch.nn.Linear(3, 1)
    with raises(ModelError, "m", "Linear", "mat1", "mat2"), backend.forward("m", model):
        model(torch.ones(2, 2))
    with pytest.raises(torch.cuda.OutOfMemoryError), backend.forward("m", model):
        raise torch.cuda.OutOfMemoryError("full")
    with backend.forward("m", model):
        assert not model(torch.ones(2, 3)).requires_grad
