import argparse
import os
import pickle
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from facts import check_facts, raises
from tellapart.errors import ModelError
from tellapart.models.torch.checkpoint import InertObject, read_checkpoint, read_state_dict, split_part

BOTH = pytest.mark.parametrize("legacy", [False, True], ids=["archive", "older"])


class Callback:
    """A class that no reader knows."""


class Planted:
    """Unpickled by the standard reader, it writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


class PlantedState(Planted):
    def __reduce__(self) -> tuple[Any, ...]:
        return Callback, (), None, None, iter([(Planted(self.path), 1)]), None


def tensors() -> dict[str, Any]:
    whole = torch.arange(12.0)
    return {
        "half": torch.randn(2).half(), "brain": torch.randn(2).bfloat16(), "count": torch.arange(4),
        "matrix": torch.randn(3, 4), "turned": torch.randn(4, 3).t(), "none": torch.zeros(0, 5),
        "number": torch.tensor(3.5), "view": whole[2:5], "other view": whole[4:9],
        "parameter": torch.nn.Parameter(torch.randn(2)),
    }  # fmt: skip


def save(content, path: Path, legacy: bool) -> Path:
    torch.save(content, path, _use_new_zipfile_serialization=not legacy)
    return path


@BOTH
@pytest.mark.parametrize("prefix", ["", "module.", "module._orig_mod.", "model.", "clip_model."])
@pytest.mark.parametrize("nesting", ["", "state_dict", "model", "model_state_dict"])
def test_tensors_are_those_that_were_saved(tmp_path, legacy, nesting, prefix):
    saved = tensors()
    named = {prefix + name: tensor for name, tensor in saved.items()}
    path = save({nesting: named, "epoch": 3} if nesting else named, tmp_path / "x.pth", legacy)
    read = read_checkpoint(path)
    assert (list(read.tensors), list(read.saved)) == (list(saved), list(named))
    for name, tensor in saved.items():
        torch.testing.assert_close(read.tensors[name], tensor.detach(), rtol=0, atol=0, msg=name)
    assert read.beside == ({"epoch": 3} if nesting else {})
    check_facts(read.weights, *([repr(prefix), "x.pth"] if prefix else []))
    assert bool(read.weights) == bool(prefix)
    shapes = {
        name: (t.shape, t.dtype, t.device.type) for name, t in read_checkpoint(path, shapes_only=True).tensors.items()
    }
    assert shapes == {name: (t.shape, t.dtype, "meta") for name, t in saved.items()}


@BOTH
def test_a_planted_pickle_runs_nothing_alone_or_among_tensors(tmp_path, legacy):
    trace, tensor = tmp_path / "ran", torch.ones(2)
    content = {
        "state_dict": {"a": tensor},
        "callbacks": {Callback: {"best": 1.0}},
        "hyper_parameters": argparse.Namespace(config={"image_size": 288}),
        "planted": [Planted(trace), PlantedState(trace)],
    }
    read = read_checkpoint(save(content, tmp_path / "x.ckpt", legacy))
    assert torch.equal(read.tensors["a"], tensor)
    assert read.beside["hyper_parameters"] == {"config": {"image_size": 288}}
    assert isinstance(read.beside["planted"][0], InertObject)
    path = save({"a": tensor, "b": Planted(trace)}, tmp_path / "x.pth", legacy)
    with raises(ModelError, "x.pth", "dict", "1", "2", "'b'"):
        read_checkpoint(path)
    assert not trace.exists()


@BOTH
def test_a_tensor_may_not_reach_beyond_its_numbers(tmp_path, legacy):
    path = save({"a": torch.zeros(4)}, tmp_path / "x.pth", legacy)
    parts = {"": path.read_bytes()}
    if not legacy:
        with zipfile.ZipFile(path) as archive:
            parts = {info.filename: archive.read(info) for info in archive.infolist()}
    name = next(name for name in parts if legacy or name.endswith("data.pkl"))
    assert parts[name].count(b"K\x04\x85") == 1  # the shape (4,)
    parts[name] = parts[name].replace(b"K\x04\x85", b"K\x63\x85")
    if legacy:
        path.write_bytes(parts[name])
    else:
        write_archive(path, parts)
    with raises(ModelError, "(99,)", "4"):
        read_checkpoint(path)


def write_archive(path: Path, parts: dict[str, bytes | str], compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


@BOTH
def test_a_cut_file_is_one_line(tmp_path, legacy):
    data = save({"a": torch.randn(100)}, tmp_path / "x.pth", legacy).read_bytes()
    cut = tmp_path / "cut.pth"
    for length in (0, 1, 20, len(data) // 2, len(data) - 1):
        cut.write_bytes(data[:length])
        with raises(ModelError, cut):
            read_checkpoint(cut)


@pytest.mark.parametrize("shapes_only", [False, True])
def test_safetensors_are_read(tmp_path, shapes_only):
    from safetensors.torch import save_file

    saved = {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.ones(2, dtype=torch.bfloat16)}
    save_file(saved, tmp_path / "a.safetensors")
    read = read_state_dict(tmp_path / "a.safetensors", shapes_only=shapes_only)
    assert {name: t.shape for name, t in read.items()} == {name: t.shape for name, t in saved.items()}
    assert shapes_only or all(torch.equal(read[name], tensor) for name, tensor in saved.items())


def write_script(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated; such archives are still about
        torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), path)


def crafted(instructions: bytes) -> Callable[[Path], None]:
    return lambda path: write_archive(path, {"x/data.pkl": instructions, "x/version": "3", "x/data/0": bytes(8)})


def write_compressed(path: Path) -> None:
    write_archive(path, {"x/data.pkl": b"]" + bytes(2**20), "x/version": "3"}, zipfile.ZIP_DEFLATED)


def write_twice(path: Path) -> None:
    torch.save({"w": torch.zeros(2)}, path)
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(path, "a") as archive:
        name = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
        archive.writestr(name, archive.read(name))


def saver(content) -> Callable[[Path], Any]:
    return lambda path: torch.save(content, path)


@pytest.mark.parametrize(
    ("make", "name", "message"),
    [
        (write_script, "a.pt", ("TorchScript", "torch.jit.load", "archive")),
        (write_compressed, "a.pt", "compressed"),
        (write_twice, "a.pt", ("data.pkl", "members")),
        (lambda path: path.write_text("hello"), "a.safetensors", "safetensors"),
        (lambda path: path.write_bytes(b""), "a.bin", ("torch.save", "checkpoint")),
        (lambda path: path.write_bytes(pickle.dumps([1, 2])), "a.pt", "number"),
        (Path.mkdir, "a.pt", ("folder", "checkpoint")),
        (id, "a.pt", ("checkpoint", "file")),
        (saver([torch.ones(1)]), "a.pt", ("dict", "state")),
        (saver({"lr": 0.1, "b": torch.ones(1)}), "a.pt", ("1", "2", "'lr'")),
        (saver({}), "a.pt", ("dict", "state")),
        (crafted(b"cos\nsystem\n(S'touch ran'\ntR."), "x.pth", ("dict", "state")),
        (crafted(b"cbuiltins\neval\n(S'1/0'\ntR."), "x.pth", ("dict", "state")),
        (crafted(b"ctorch._utils\n_rebuild_tensor_v2\n((lI0\n(I9\nt(I1\ntI00\nNtR."), "x.pth", "without a storage"),
        (crafted(b"\x80\x02]r\xff\xff\xff\x7f."), "x.pth", ("place", "2147483647")),
        (crafted(b"\x80\x02c__main__\nX\n"), "x.pth", ("torch.save", "checkpoint")),
        (crafted(b""), "x.pth", ("torch.save", "checkpoint")),
    ],
)  # fmt: skip
def test_what_is_no_state_dict_is_refused_in_one_line(make, name, message, tmp_path):
    make(tmp_path / name)
    with raises(ModelError, message, name) as caught:
        read_state_dict(tmp_path / name)
    assert "\n" not in str(caught.value)


def twice() -> dict[str, dict[str, Any]]:
    """Training checkpoints with plain weights and their average, by the names of the code that writes them."""
    plain = {"a": torch.ones(2), "b": torch.zeros(3)}
    mean = {"a": torch.full((2,), 5.0), "b": torch.full((3,), 7.0)}
    wrapped = {"n_averaged": torch.tensor(9), **{f"module.{name}": tensor for name, tensor in mean.items()}}
    return {
        "open_clip": {"epoch": 3, "state_dict": plain, "ema_state_dict": mean},
        "timm": {"state_dict": plain, "state_dict_ema": mean, "optimizer": {"state": {0: {"exp_avg": mean["a"]}}}},
        "moco": {"model": plain, "model_ema": {"decay": 0.99, "module": mean}},
        "yolo": {"model": plain, "ema": mean, "updates": 10},
        "torch": {"model_state_dict": plain, "averaged_model": wrapped},
        "fairseq": {"model": plain, "args": argparse.Namespace(arch="x"), "extra_state": {"epoch": 1, "ema": mean}},
        "lightning": {"state_dict": plain, "callbacks": {"EMA": {"decay": 0.9, "ema_state_dict": mean}}},
    }


@BOTH
@pytest.mark.parametrize("kind", twice())
def test_weights_that_are_there_twice_are_named_and_each_can_be_taken(tmp_path, kind, legacy):
    path = save(twice()[kind], tmp_path / "x.pt", legacy)
    read, mean = read_checkpoint(path), read_checkpoint(path, part="ema")
    assert (read.tensors["a"].tolist(), mean.tensors["a"].tolist()) == ([1, 1], [5, 5])
    assert list(mean.tensors) == ["a", "b"]
    assert (read.others, mean.others) == ((mean.part,), (read.part,))
    check_facts(read.weights, repr(read.part), mean.part, f"x.pt#{mean.part}")
    for held in (read, mean):
        assert torch.equal(read_checkpoint(path, part=held.part).tensors["b"], held.tensors["b"])
    with raises(ModelError, "'best'", read.part, mean.part, path):
        read_checkpoint(path, part="best")
    with raises(ModelError, f"{path}#{read.part}", f"{path}#{mean.part}"):
        read.expect_one(str(path))
    read.expect_one(f"{path}#ema")


def test_an_average_alone_is_named_and_not_taken_and_weights_that_are_there_once_have_no_part(tmp_path):
    path = save({"ema_state_dict": {"a": torch.ones(2)}, "epoch": 1}, tmp_path / "x.pt", legacy=False)
    with raises(ModelError, path, "ema_state_dict", "x.pt#ema_state_dict"):
        read_checkpoint(path)
    assert read_checkpoint(path, part="ema").tensors["a"].tolist() == [1, 1]
    weights = {"module.a": torch.ones(2), "b": torch.ones(2)}  # a prefix that only some have is part of the names
    once = save({"state_dict": weights, "optimizer": {"state": {0: weights}}}, tmp_path / "y.pt", legacy=False)
    read = read_checkpoint(once)
    assert (read.weights, read.others, list(read.tensors)) == ("", (), list(weights))
    with raises(ModelError, "'ema'", "state_dict", once):
        read_checkpoint(once, part="ema")


def test_a_part_follows_the_file_unless_the_file_has_that_name(tmp_path):
    odd = tmp_path / "run#3.pt"
    assert split_part(str(odd)) == (str(tmp_path / "run"), "3.pt")
    odd.touch()
    assert split_part(str(odd)) == (str(odd), "")
    assert split_part(f"{odd}#ema") == (str(odd), "ema")
