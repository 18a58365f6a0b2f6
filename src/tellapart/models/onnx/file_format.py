"""A minimal reader of the ONNX file format: how many weights a model has, and which of them lie in other files.

An ONNX file is a protocol buffer. It is read by hand, so that no further Python package is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

#: Message -> field number -> the message that the field holds, for every way from a model to a tensor.
#: Source: onnx.proto of ONNX 1.16 (IR version 10).
_CHILDREN: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
_TENSOR_DIMS, _TENSOR_TYPE, _TENSOR_NAME, _TENSOR_EXTERNAL_DATA, _TENSOR_DATA_LOCATION = 1, 2, 8, 13, 14

#: Types of shapes, axes, positions and masks: int32, int64, string, bool, uint32, uint64. All others hold weights.
_NO_WEIGHTS = frozenset({6, 7, 8, 9, 12, 13})

#: Graphs inside graphs (loops, branches); real models nest two or three.
_MAX_DEPTH = 60


def external_tensors(data: bytes) -> list[str]:
    """Return the names of the tensors whose values an ONNX model keeps in another file."""
    names = []
    for _, tensor in _list_tensors(data):
        fields = list(_read_fields(tensor))
        if any(field[0] == _TENSOR_EXTERNAL_DATA or field == (_TENSOR_DATA_LOCATION, 1) for field in fields):
            texts = [bytes(value) for number, value in fields if number == _TENSOR_NAME and not isinstance(value, int)]
            names.append(texts[-1].decode(errors="replace") if texts else "")
    return names


def weight_count(data: bytes) -> int:
    """Return how many weights an ONNX model has: the elements of its graphs' initializers, save shapes and indexes."""
    return sum(_count_weights(tensor) for holder, tensor in _list_tensors(data) if holder == "graph")


def _list_tensors(data: bytes) -> list[tuple[str, memoryview]]:
    """Return every tensor, after the kind of message that holds it."""
    view = memoryview(data)
    if not any(number == 7 for number, _ in _read_fields(view)):
        raise ValueError("it holds no graph")
    return list(_search_message(view, "model", 0))


def _search_message(message: memoryview, kind: str, depth: int) -> Iterator[tuple[str, memoryview]]:
    if depth > _MAX_DEPTH:
        raise ValueError(f"it nests more than {_MAX_DEPTH} messages")
    for number, value in _read_fields(message):
        child = _CHILDREN[kind].get(number)
        if child == "tensor" and not isinstance(value, int):
            yield kind, value
        elif child is not None and not isinstance(value, int):
            yield from _search_message(value, child, depth + 1)


def _count_weights(tensor: memoryview) -> int:
    sides: list[int] = []
    for number, value in _read_fields(tensor):
        if number == _TENSOR_TYPE and value in _NO_WEIGHTS:
            return 0
        if number == _TENSOR_DIMS and isinstance(value, int):
            sides.append(value)
        elif number == _TENSOR_DIMS and not isinstance(value, int):
            at = 0
            while at < len(value):
                side, at = _read_varint(value, at)
                sides.append(side)
    return prod(sides)


def _read_fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield field number and value: an integer, or the bytes of a string, a packed list or a message."""
    at = 0
    while at < len(message):
        start = at
        key, at = _read_varint(message, at)
        match key & 7:
            case 0:
                value, at = _read_varint(message, at)
                yield key >> 3, value
                continue
            case 1:
                size = 8
            case 2:
                size, at = _read_varint(message, at)
            case 5:
                size = 4
            case wire:
                raise ValueError(f"not a protocol buffer (wire type {wire} at byte {start})")
        if at + size > len(message):
            raise ValueError(f"it ends in the middle of a field ({at + size - len(message)} bytes are missing)")
        yield key >> 3, message[at : at + size]
        at += size


def _read_varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 70:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise ValueError(f"it ends in the middle of a number (byte {at})")
