from __future__ import annotations

import argparse
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tellapart.errors import ModelError
from tellapart.models.native.checkpoint import InertObject, read_checkpoint
from tellapart.models.torch_backend import import_torch

torch = import_torch()

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
        "matrix": torch.randn(3, 4),
        "turned": torch.randn(4, 3).t(),
        "half": torch.randn(2).half(),
        "brain": torch.randn(2).bfloat16(),
        "number": torch.tensor(3.5),
        "count": torch.arange(4),
        "none": torch.zeros(0, 5),
        "view": whole[2:5],
        "other view": whole[4:9],
        "parameter": torch.nn.Parameter(torch.randn(2)),
    }


def save(content: Any, path: Path, legacy: bool) -> Path:
    torch.save(content, path, _use_new_zipfile_serialization=not legacy)
    return path


@BOTH
@pytest.mark.parametrize("nesting", ["", "state_dict", "model", "model_state_dict"])
def test_tensors_are_those_that_were_saved(tmp_path: Path, legacy: bool, nesting: str) -> None:
    saved = tensors()
    path = save({nesting: saved, "epoch": 3} if nesting else saved, tmp_path / "x.pth", legacy)
    read = read_checkpoint(path)
    assert list(read.tensors) == list(saved)
    for name, tensor in saved.items():
        assert read.tensors[name].dtype == tensor.dtype
        assert torch.equal(read.tensors[name], tensor.detach()), name
    assert read.beside == ({"epoch": 3} if nesting else {})
    shapes = read_checkpoint(path, shapes_only=True).tensors
    assert {name: (t.shape, t.dtype, t.device.type) for name, t in shapes.items()} == {
        name: (t.shape, t.dtype, "meta") for name, t in saved.items()
    }


@BOTH
def test_a_planted_pickle_runs_nothing(tmp_path: Path, legacy: bool) -> None:
    trace = tmp_path / "ran"
    content = {
        "state_dict": {"a": torch.ones(2)},
        "callbacks": {Callback: {"best": 1.0}},
        "hyper_parameters": argparse.Namespace(config={"image_size": 288}),
        "planted": [Planted(trace), PlantedState(trace)],
    }
    read = read_checkpoint(save(content, tmp_path / "x.ckpt", legacy))
    assert not trace.exists()
    assert torch.equal(read.tensors["a"], torch.ones(2))
    assert read.beside["hyper_parameters"] == {"config": {"image_size": 288}}
    assert isinstance(read.beside["planted"][0], InertObject)


@BOTH
def test_planted_among_the_tensors_it_is_refused(tmp_path: Path, legacy: bool) -> None:
    trace = tmp_path / "ran"
    path = save({"a": torch.ones(2), "b": Planted(trace)}, tmp_path / "x.pth", legacy)
    with pytest.raises(ModelError, match=r"x.pth holds no state dict: 1 of its 2 entries are no tensors, first 'b'"):
        read_checkpoint(path)
    assert not trace.exists()


@pytest.mark.parametrize(
    ("instructions", "reason"),
    [
        (b"cos\nsystem\n(S'touch ran'\ntR.", "x.pth holds no state dict"),
        (b"cbuiltins\neval\n(S'1/0'\ntR.", "x.pth holds no state dict"),
        (b"ctorch._utils\n_rebuild_tensor_v2\n((lI0\n(I9\nt(I1\ntI00\nNtR.", "without a storage of numbers"),
        (b"\x80\x02]r\xff\xff\xff\x7f.", "no checkpoint of torch.save"),
        (b"\x80\x02c__main__\nX\n", "no checkpoint of torch.save"),
        (b"", "no checkpoint of torch.save"),
    ],
)
def test_crafted_pickles_are_one_line(tmp_path: Path, instructions: bytes, reason: str) -> None:
    path = tmp_path / "x.pth"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", instructions)
        archive.writestr("x/data/0", bytes(8))
    with pytest.raises(ModelError, match=reason) as caught:
        read_checkpoint(path)
    assert "\n" not in str(caught.value)


def test_a_tensor_may_not_reach_beyond_its_numbers(tmp_path: Path) -> None:
    path = save({"a": torch.zeros(4)}, tmp_path / "x.pth", legacy=False)
    with zipfile.ZipFile(path) as archive:
        parts = {info.filename: archive.read(info) for info in archive.infolist()}
    name = next(name for name in parts if name.endswith("data.pkl"))
    assert parts[name].count(b"K\x04\x85") == 1  # the shape (4,)
    parts[name] = parts[name].replace(b"K\x04\x85", b"K\x63\x85")
    with zipfile.ZipFile(path, "w") as archive:
        for key, data in parts.items():
            archive.writestr(key, data)
    with pytest.raises(ModelError, match=r"a tensor of shape \(99,\) reaches beyond its 4 numbers"):
        read_checkpoint(path)


@BOTH
def test_a_cut_file_is_one_line(tmp_path: Path, legacy: bool) -> None:
    data = save({"a": torch.randn(100)}, tmp_path / "x.pth", legacy).read_bytes()
    for length in (0, 1, 20, len(data) // 2, len(data) - 1):
        cut = tmp_path / "cut.pth"
        cut.write_bytes(data[:length])
        with pytest.raises(ModelError, match=r"cut.pth (is no checkpoint of torch.save|holds no state dict)"):
            read_checkpoint(cut)


def test_a_pickle_of_something_else_is_none(tmp_path: Path) -> None:
    (tmp_path / "x.pth").write_bytes(pickle.dumps([1, 2]))
    with pytest.raises(ModelError, match="neither an archive nor the number that older files begin with"):
        read_checkpoint(tmp_path / "x.pth")
    with pytest.raises(ModelError, match=r"is no file; name a checkpoint file"):
        read_checkpoint(tmp_path / "none.pth")
