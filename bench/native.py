"""Memory and time of a family at its published size, with random weights, on the CPU.

    python bench/native.py meter:clip16_384_irtr fiber:pretrain_384
    python bench/native.py --pairs 10 ofa:large

Shapes come from the lists of published tensors (`../shared/data/native/FAMILY_layout.json`); those of OFA (`ofa:base`,
`ofa:large`) and Open CapPa (`cappa:large`) from the tests. Each variant has a process of its own. Measured is the
processor's time for 50 images (36 regions each, where a detector's are read), 50 texts of 16 tokens, and their 50
pairs, in tellapart's batches of four; with `--pairs`, of another number. Memory is the most that the process held,
weights included. `bench/records/native.json` keeps the last run of each variant.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "bench" / "records" / "native.json"
BATCH, TOKENS, REGIONS = 4, 16, 36


def main() -> None:
    """Measure each variant in a process of its own, print and record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variants", nargs="+", help="FAMILY:VARIANT, or FAMILY/LISTED:VARIANT of another list's name")
    parser.add_argument("--reading", help="measure this one; by default the first that the variant has")
    parser.add_argument("--pairs", type=int, default=50, help="how many are measured")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options.variants[0], options.reading, options.pairs)))
        return
    record = json.loads(RECORD.read_text()) if RECORD.is_file() else {}
    for variant in options.variants:
        command = [sys.executable, __file__, variant, "--here", "--pairs", str(options.pairs)]
        command += ["--reading", options.reading] if options.reading else []
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        measured = json.loads(done.stdout)
        print(variant, json.dumps(measured))
        record[f"{variant} {measured['reading']}"] = measured
    RECORD.write_text(json.dumps(dict(sorted(record.items())), indent=1) + "\n")


def measure(variant: str, wanted: str | None, pairs: int) -> dict[str, Any]:
    """Build one variant with random weights and time it."""
    import torch

    from tellapart_native.family import Layout
    from tellapart_native.heads.decoding import Writer
    from tellapart_native.prefix import find_family

    name, _, kind = variant.partition(":")
    name, _, listed = name.partition("/")
    family = find_family(name)
    shapes = family.keep_tensors(read_shapes(listed or name, kind))
    with torch.device("meta"):
        module = family.build(Layout(variant, shapes)).eval().requires_grad_(False)
    module = module.to_empty(device="cpu")
    for key, tensor in module.state_dict().items():
        torch.nn.init.ones_(tensor) if key.endswith("running_var") else torch.nn.init.normal_(tensor, std=0.02)
    held = module.state_dict()
    reading = wanted or next(key for key, one in family.readings.items() if one.needs in held)
    halves, size = family.readings[reading].halves(module), module.config.image_size
    if isinstance(halves, Writer):
        halves.question = list(range(9))  # tokens of OFA's, its beginning and end included
    if (width := module.config.region_width) is None:
        inputs = {"pixel_values": torch.rand(BATCH, 3, size, size)}
    else:
        inputs = {"features": torch.rand(BATCH, REGIONS, width), "boxes": torch.rand(BATCH, REGIONS, 4)}
        inputs["mask"] = torch.ones(BATCH, REGIONS, dtype=torch.bool)
    ids, mask = torch.randint(5, 1000, (BATCH, TOKENS)), torch.ones(BATCH, TOKENS, dtype=torch.bool)
    with torch.inference_mode():
        images, image_seconds = _time(lambda: halves.images(**inputs), pairs)
        texts, text_seconds = _time(lambda: halves.texts(ids, mask), pairs)
        cosine = family.readings[reading].read == "cosine"
        _, pair_seconds = (None, 0.0) if cosine else _time(lambda: halves.join(images, texts), pairs)
    seconds = {"images": image_seconds, "texts": text_seconds, "pairs": pair_seconds}
    return {
        "reading": reading,
        **({"image size": size} if size else {"regions": REGIONS}),
        "parameters": sum(parameter.numel() for parameter in module.parameters()),
        "CPU seconds": {f"{pairs} {what}": taken for what, taken in seconds.items()},
        "state of an image in MB": round(sum(tensor[0].nbytes for tensor in images) / 1e6, 2),
        "peak memory in GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
    }


def read_shapes(family: str, kind: str) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a published variant's tensors, by name."""
    sys.path.append(str(ROOT / "tests" / "native"))
    if family == "ofa":
        from tiny_captioners import PUBLISHED, ofa_shapes

        return ofa_shapes(PUBLISHED[kind])
    if family == "cappa":
        from tiny_files import cappa_shapes

        return cappa_shapes(1024, (24, 12), 3072, 64, 65536)
    from golden import published

    keys: dict[str, tuple[int, ...]] = dict(published(family))[kind]["keys"]
    return keys


def _time(compute: Callable[[], Any], pairs: int) -> tuple[Any, float]:
    """Return the outcome, and the processor's seconds for so many samples by batches of four."""
    compute()  # memory is claimed, kernels are chosen
    began = time.process_time()
    for _ in range(-(-pairs // BATCH)):
        result = compute()
    return result, round(time.process_time() - began, 2)


if __name__ == "__main__":
    main()
