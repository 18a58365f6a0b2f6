from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import raises
from tellapart.models.onnx.file_format import external_tensors

onnx = pytest.importorskip("onnx", reason="the graphs are built with onnx, of the extra 'train'")


def tensor(name: str, *, external: bool = True) -> Any:
    built = onnx.numpy_helper.from_array(np.arange(3, dtype=np.float32), name)
    if external:
        onnx.external_data_helper.set_external_data(built, location="elsewhere")
    return built


def model(*nodes: Any, initializers: tuple[Any, ...] = (), functions: tuple[Any, ...] = ()) -> Any:
    graph = onnx.helper.make_graph(list(nodes), "g", [], [], list(initializers))
    return onnx.helper.make_model(graph, functions=list(functions))


def test_a_model_in_one_file_has_none() -> None:
    whole = model(onnx.helper.make_node("Constant", [], ["y"], value=tensor("a", external=False)))
    assert external_tensors(whole.SerializeToString()) == []


def constant(name: str) -> Any:
    return onnx.helper.make_node("Constant", [], ["y"], value=tensor(name))


def place_tensor(place: str) -> Any:
    """A model with a tensor `a` of another file in some place."""
    helper, built = onnx.helper, model()
    if place == "an initializer":
        built = model(initializers=(tensor("b", external=False), tensor("a")))
    elif place == "a node's attribute":
        built = model(constant("a"))
    elif place == "a branch":
        inner = helper.make_graph([constant("a")], "inner", [], [])
        built = model(helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner))
    elif place == "a function":
        opset = [helper.make_opsetid("", 17)]
        built = model(functions=(helper.make_function("local", "f", [], ["y"], [constant("a")], opset),))
    elif place == "a sparse tensor":
        indices = onnx.numpy_helper.from_array(np.arange(3), "i")
        built.graph.sparse_initializer.append(helper.make_sparse_tensor(tensor("a"), indices, [9]))
    elif place == "training information":
        built.training_info.add().algorithm.CopyFrom(helper.make_graph([constant("a")], "t", [], []))
    else:
        alone = tensor("a", external=False)
        alone.data_location = onnx.TensorProto.EXTERNAL
        built = model(initializers=(alone,))
    return built


PLACES = ["an initializer", "a node's attribute", "a branch", "a function", "a sparse tensor", "training information"]


@pytest.mark.parametrize("place", [*PLACES, "its location alone"])
def test_a_tensor_in_another_file_is_found_wherever_it_hides(place: str) -> None:
    assert set(external_tensors(place_tensor(place).SerializeToString())) == {"a"}


def test_graphs_nested_without_end_are_refused() -> None:
    graph = onnx.helper.make_graph([constant("a")], "g", [], [])
    for _ in range(30):
        graph = onnx.helper.make_graph([onnx.helper.make_node("Loop", [], ["y"], body=graph)], "g", [], [])
    with raises(ValueError, "60"):
        external_tensors(onnx.helper.make_model(graph).SerializeToString())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "graph"),
        (b"\x08\x07", "graph"),
        (b"\x3a\x05ab", ("field", "3 bytes")),
        (b"\x80", "number"),
        (b"\x3a" + b"\xff" * 12, "number"),
    ],
)
def test_bytes_that_are_no_model_are_refused(data: bytes, message: Any) -> None:
    with raises(ValueError, message):
        external_tensors(data)


@given(st.binary(max_size=200))
def test_any_bytes_give_an_answer_or_a_value_error(data: bytes) -> None:
    try:
        external_tensors(b"\x3a" + bytes([len(data) % 128]) + data)
    except ValueError as error:
        assert str(error)
