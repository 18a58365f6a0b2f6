"""Convert Open CapPa's checkpoint (orbax, of jax) to the safetensors file that `-m cappa:FILE` reads.

It needs orbax-checkpoint and safetensors, in an environment of its own, and not tellapart:

    pip install orbax-checkpoint safetensors
    python examples/convert/cappa.py CHECKPOINT_FOLDER cappa/model.safetensors --list
    python examples/convert/cappa.py CHECKPOINT_FOLDER cappa/model.safetensors --name PATH=NAME ...

and then the tokenizer's files copied beside the output. It was run on made weights only: on a small checkpoint that was
written here with orbax 0.12, never on the published one, which could not be had. Of that one the names of the linear
layers are known; they are in PARTS. What the modules around them are called is not known, so paths are read by their
words (a tower by "vision" or "text", a layer by its number, attention to the image by "cross"), and nothing is guessed:
a path that no rule knows stops the conversion, which lists it with its shape; `--name` says what it is. `--list` prints
every path and its name.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

#: Part of a layer, by the last words of its path; its axes; and which of them are what torch keeps first, (out, in).
PARTS = {
    r"norm_(query|key)/scale": (r"{attention}.norm_\1.weight", 1, "as it is"),
    r"(query|key|value)/kernel": (r"{attention}.\1.weight", 3, "last axes out"),
    r"out/kernel": (r"{attention}.out.weight", 3, "last axis out"),
    r"(wi_0|wi_1|wo)/kernel": (r"mlp.\1.weight", 2, "last axis out"),
}
#: The ends of the text tower's.
WHOLE = {
    "logits/kernel": "text.logits.weight",
    "logits/bias": "text.logits.bias",
    "/embedding": "text.embedding.weight",
}


def flatten(tree: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Array]]:
    """List the arrays of a nested dictionary with their paths, `a/b/c`."""
    for key, value in tree.items():
        path = f"{before}/{key}" if before else str(key)
        if isinstance(value, Mapping):
            yield from flatten(value, path)
        elif value is not None:
            yield path, np.asarray(value)


def convert(path: str, array: Array, named: Mapping[str, str]) -> dict[str, Array] | None:
    """Return an array's tensors under tellapart's names, several where layers are stacked; None if it is not known.

    Example: of 24 stacked layers, `vision/layers/mlp/wo/kernel` with shape (24, 3072, 1024) becomes 24 tensors
    `vision.blocks.0.mlp.wo.weight`, ... with shape (1024, 3072).
    """
    if path in named:
        return {named[path]: _turn_by_name(named[path], array)}
    tower = next((tower for tower in ("vision", "text") if tower in path.lower()), None)
    if tower == "text":
        for end, name in WHOLE.items():
            if path.endswith(end):
                return {name: array.T if end.endswith("kernel") else array}
    found = next(((match, rule) for end, rule in PARTS.items() if (match := re.search(rf"(?:^|/){end}$", path))), None)
    if tower is None or found is None:
        return None
    match, (name, axes, turn) = found
    part = match.expand(name).format(attention="cross_attention" if "cross" in path.lower() else "attention")
    numbers = re.findall(r"(?<![^/_])\d+(?=/|$)", path[: match.start()])
    if array.ndim == axes and len(numbers) == 1:
        return {f"{tower}.blocks.{numbers[0]}.{part}": _turn(array, turn)}
    stacked = enumerate(array) if array.ndim == axes + 1 and not numbers else ()
    return {f"{tower}.blocks.{k}.{part}": _turn(layer, turn) for k, layer in stacked} or None


def _turn(array: Array, turn: str) -> Array:
    """Turn a kernel of flax to torch's (out, in); heads may have an axis of their own."""
    if turn == "as it is":
        return array
    return (array.reshape(len(array), -1) if turn == "last axes out" else array.reshape(-1, array.shape[-1])).T


def _turn_by_name(name: str, array: Array) -> Array:
    """Turn an array that the user named: the patch projection, a table of positions, the registers, a matrix."""
    if name == "vision.patch.weight":
        return array.transpose(3, 2, 0, 1)  # (height, width, colours, out)
    if name.startswith("vision.") and ".blocks." not in name:
        return array.reshape(-1, array.shape[-1])  # without axes of length 1
    return array.T if name.endswith(".weight") and array.ndim == 2 and "embedding" not in name else array


def convert_all(tree: Mapping[str, Any], named: Mapping[str, str]) -> tuple[dict[str, Array], list[str]]:
    """Return every tensor by its name, and a line for each path that is not known, or whose name another has."""
    tensors: dict[str, Array] = {}
    unknown = []
    for path, array in flatten(tree):
        found = convert(path, array, named)
        if found is None or tensors.keys() & found.keys():
            unknown.append(f"{path} {array.shape} {'is not known' if found is None else 'has the name of another'}")
        else:
            tensors |= {name: np.ascontiguousarray(tensor, np.float32) for name, tensor in found.items()}
    return tensors, unknown


def read_checkpoint(folder: Path) -> Mapping[str, Any]:
    """Read an orbax checkpoint's arrays as numpy, wherever they lay when it was written."""
    import jax
    import orbax.checkpoint as orbax

    reader = orbax.PyTreeCheckpointer()
    described = reader.metadata(folder.absolute()).item_metadata.tree
    as_numpy = jax.tree.map(lambda _: orbax.RestoreArgs(restore_type=np.ndarray), described)
    tree = reader.restore(folder.absolute(), restore_args=as_numpy)
    params: Mapping[str, Any] = tree.get("params", tree)
    return params


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--name", action="append", default=[], metavar="PATH=NAME")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    named = dict(pair.split("=", 1) for pair in options.name)
    tree = read_checkpoint(options.checkpoint)
    if options.list:
        for path, array in flatten(tree):
            names = ", ".join(convert(path, array, named) or ["not known"])
            sys.stdout.write(f"{path} {array.shape} -> {names}\n")
        raise SystemExit
    tensors, unknown = convert_all(tree, named)
    if unknown:
        raise SystemExit("nothing was written; say with --name what these are:\n" + "\n".join(unknown))
    from safetensors.numpy import save_file

    options.output.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, options.output)
    numbers = sum(tensor.size for tensor in tensors.values())
    sys.stdout.write(f"{options.output}: {len(tensors)} tensors, {numbers:,} numbers\n")
