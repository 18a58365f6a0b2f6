"""Small real videos whose every frame says its own number, as grey blocks that survive any codec."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("av", reason="needs the video extra: av")

BLOCK, COLUMNS, ROWS = 16, 4, 3  # 12 bits in 64 x 48 pixels


def drawn(number: int, block: int = BLOCK) -> NDArray[np.uint8]:
    """Draw a number: a bright block for a 1, a dark one for a 0."""
    bits = np.array([number >> bit & 1 for bit in range(ROWS * COLUMNS)], np.uint8).reshape(ROWS, COLUMNS)
    grey = np.kron(bits * 160 + 48, np.ones((block, block), np.uint8))
    return np.repeat(grey[:, :, None], 3, axis=2).astype(np.uint8)


def number_in(pixels: NDArray[Any]) -> int:
    """Read the number that a frame, of any size, shows."""
    height, width = pixels.shape[0] // ROWS, pixels.shape[1] // COLUMNS
    blocks = pixels[: height * ROWS, : width * COLUMNS].astype(float).mean(axis=2)
    bits = blocks.reshape(ROWS, height, COLUMNS, width).mean(axis=(1, 3)) > 128
    return int(sum(1 << k for k, bit in enumerate(bits.ravel()) if bit))


@pytest.fixture(scope="session")
def numbered():
    return number_in


@pytest.fixture(scope="session")
def large():
    """Draw a number three times as large."""
    return lambda number: drawn(number, 3 * BLOCK)


@pytest.fixture(scope="session")
def film():
    """Write a video with frame k on the screen from the k-th of these milliseconds on."""
    import av

    def write(path, milliseconds, *, codec="libx264", paint=drawn, **options):
        base = Fraction(1, 1000)
        path.parent.mkdir(parents=True, exist_ok=True)
        with av.open(str(path), "w") as container:
            stream = container.add_stream(codec, rate=25)
            height, width = paint(0).shape[:2]
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            stream.time_base = stream.codec_context.time_base = base
            stream.codec_context.thread_count = 1
            stream.options = options
            for number, time in enumerate(milliseconds):
                frame = av.VideoFrame.from_ndarray(paint(number), format="rgb24")
                frame.pts, frame.time_base = time, base
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
        return path

    return write


@pytest.fixture
def recipe(tmp_path):
    """Write a recipe beside the folder `videos`."""

    def write(builder, options="", extra=""):
        (tmp_path / "videos").mkdir(exist_ok=True)
        path = tmp_path / f"{builder}.toml"
        path.write_text(
            f'name = "few"\nbuilder = "{builder}"\nseed = 3\n[options]\nvideos = "videos"\n{options}\n{extra}\n'
        )
        return path

    return write


def yunet_of_magenta(path: Path) -> Path:
    """Write a network with YuNet's inputs and outputs that takes magenta for a face."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    # Blue + red - green - 1, of pixels 0..255: 1 of pure magenta, 0 or less of greys.
    weights = np.array([1, -1, 1], np.float32).reshape(1, 3, 1, 1) / 255
    constants = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.array([-1], np.float32), "b")]
    nodes = [helper.make_node("Conv", ["input", "w", "b"], ["sum"]), helper.make_node("Relu", ["sum"], ["magenta"])]
    for stride in (8, 16, 32):
        window = {"kernel_shape": [stride, stride], "strides": [stride, stride]}
        nodes.append(helper.make_node("AveragePool", ["magenta"], [f"mean{stride}"], **window))
        constants.append(numpy_helper.from_array(np.array([1, -1, 1]), f"column{stride}"))
        nodes += [
            helper.make_node("Reshape", [f"mean{stride}", f"column{stride}"], [f"{name}_{stride}"])
            for name in ("cls", "obj")
        ]
        for name, width in (("bbox", 4), ("kps", 10)):
            constants.append(numpy_helper.from_array(np.zeros((1, 1, width), np.float32), f"no_{name}{stride}"))
            nodes.append(helper.make_node("Mul", [f"cls_{stride}", f"no_{name}{stride}"], [f"{name}_{stride}"]))
    outputs = [
        helper.make_tensor_value_info(f"{name}_{stride}", TensorProto.FLOAT, [1, None, width])
        for name, width in (("cls", 1), ("obj", 1), ("bbox", 4), ("kps", 10))
        for stride in (8, 16, 32)
    ]
    taken = helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 3, None, None])
    graph = helper.make_graph(nodes, "magenta", [taken], outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, path)
    return path


@pytest.fixture(scope="session")
def magenta_model():
    pytest.importorskip("cv2", reason="needs the video extra: opencv-python-headless")
    pytest.importorskip("onnx", reason="needs onnx, to make a network in YuNet's format")
    return yunet_of_magenta
