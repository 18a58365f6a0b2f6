"""Forged, shortened and mislabelled files at every door: refused, or read without the false number.

`gates.py` tries them with its other attacks, and `docs/trust.md` has the table of what came of each.
"""

from __future__ import annotations

import io
import json
import struct
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parent))

from attacks import Attack, try_attack

import tellapart as ta
from tellapart.data.images import decode
from tellapart.evaluation.verified import read_result
from tellapart.models.memory.external import read_scores
from tellapart.records.run_folder import write_result

__all__ = ["FALSE_INPUTS", "false_inputs_table"]

_FORGED = 0.98765


def _forge(folder: Path, *, signed: bool = False) -> Path:
    """Write a run of random scores whose group score says 98.77."""
    run = folder / "run"
    ta.evaluate("random", "demo", limit=40, out=run)
    result = read_result(run)
    demo = result.benchmarks["demo"]
    high = demo.metrics["group_score"].model_copy(update={"value": _FORGED, "low": 0.97, "high": 0.99})
    demo = demo.model_copy(update={"metrics": {**demo.metrics, "group_score": high}})
    write_result(run, result.model_copy(update={"benchmarks": {"demo": demo}}))
    if not signed:
        record = json.loads((run / "results.json").read_text())
        del record["sha256"]
        (run / "results.json").write_text(json.dumps(record))
    return run


def _forged(show: Callable[[Path], object]) -> Attack:
    """A forged record without its checksum at a door that prints numbers."""

    def make(folder: Path) -> Callable[[], object]:
        run = _forge(folder)

        def read() -> None:
            text = str(show(run))
            if "98.77" in text or "98765" in text or len(text) < 40:
                raise AssertionError(f"the forged number is shown: {text[:200]}")

        return read

    return Attack(make)


def _verify(run: Path) -> None:
    found = [row["fact"] for row in ta.verify(run).rows() if row["state"] == "different"]
    if found != ["group_score"]:
        raise AssertionError(f"verify names {found}")


def _change_samples(folder: Path) -> Callable[[], object]:
    run = folder / "run"
    ta.evaluate("random", "demo", limit=10, out=run)
    path = run / "samples" / "demo.jsonl"
    path.write_text(path.read_text().replace('"group_score":0.0', '"group_score":1.0'))
    return lambda: ta.compare(run, run, gate=True).model_dump() if ta.open_run(run).items() else None


def _wrong_checksum(folder: Path) -> Callable[[], object]:
    run = _forge(folder, signed=True)
    path = run / "results.json"
    path.write_text(path.read_text().replace("0.98765", "0.98764"))
    return lambda: ta.read_result(run)


def _zip(folder: Path, name: str, data: bytes) -> Path:
    with zipfile.ZipFile(folder / "run.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("results.json", b"{}")
        archive.writestr(name, data)
    return folder / "run.zip"


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _short_png() -> bytes:
    head = _chunk(b"IHDR", struct.pack(">IIBBBBB", 8000, 7900, 8, 2, 0, 0, 0))
    rows = _chunk(b"IDAT", zlib.compress((b"\0" + b"\7" * 24000) * 10))
    return b"\x89PNG\r\n\x1a\n" + head + rows + _chunk(b"IEND", b"")


def _picture(kind: str, *, cut: float, **options: bool) -> bytes:
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 255, (96, 64, 3), np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind, **options)
    data = stream.getvalue()
    return data[: int(cut * len(data))].rstrip(b"\xff") + (b"\xff\xd9" if kind == "JPEG" else b"")


def _decode(name: str, data: Callable[[], bytes], *facts: str) -> Attack:
    return Attack(lambda _folder: lambda: decode(data(), name), (name, *facts))


def _short_scores(folder: Path) -> Callable[[], object]:
    path = folder / "mine.npy"
    np.save(path, np.zeros((9, 2, 2), np.float32))
    path.write_bytes(path.read_bytes()[:-16])
    return lambda: read_scores(path, ids=[f"i{k}" for k in range(9)], shape=(2, 2))


#: What, and at which door -> the attack. The doors of one kind of file read it through one function.
FALSE_INPUTS: dict[str, Attack] = {
    "record with a forged number: show": _forged(ta.open_run),
    "record with a forged number: table": _forged(ta.table),
    "record with a forged number: plot": _forged(
        lambda run: ta.plot("heatmap", run, run / "a.svg", metrics="group_score", tag="aspect").read_text()
    ),
    "record with a forged number: convert": _forged(lambda run: ta.convert(run, to="lm-eval")),
    "record with a forged number: gate": _forged(lambda run: ta.compare(run, run, gate=True).model_dump_json()),
    "record with a forged number: Python": _forged(lambda run: ta.read_result(run).model_dump_json()),
    "record with a forged number and a fitting checksum: verify": Attack(
        lambda folder: partial(_verify, _forge(folder, signed=True))
    ),
    "record with a wrong checksum: every command": Attack(_wrong_checksum, ("results.json", "tellapart verify")),
    "samples with forged outcomes: show, compare": Attack(_change_samples, ("demo.jsonl", "SHA-256")),
    "zipped run that leaves its folder: every command": Attack(
        lambda folder: partial(ta.open_run, _zip(folder, "../out.json", b"x")), ("run.zip", "leaves")
    ),
    "zipped run that is a bomb: every command": Attack(
        lambda folder: partial(ta.open_run, _zip(folder, "samples/demo.jsonl", bytes(80 << 20))), ("run.zip", "bytes")
    ),
    "PNG of 10 of its 7,900 rows: images": _decode("a.png", _short_png, "ends early"),
    "JPEG that ends in its scan: images": _decode("a.jpg", partial(_picture, "JPEG", cut=0.5)),
    "JPEG without its last scans: images": _decode(
        "a.jpg", partial(_picture, "JPEG", cut=0.3, progressive=True), "ends early"
    ),
    "WebP that ends early: images": _decode("a.webp", partial(_picture, "WEBP", cut=0.6)),
    "TIFF called a PNG: images": _decode("a.png", partial(_picture, "TIFF", cut=1.0), "identify"),
    "array without its last row: scores": Attack(_short_scores, ("mine.npy",)),
}


def false_inputs_table() -> str:
    """Try each, and return what came of it as a table."""
    rows = ["| input | door | outcome |", "|---|---|---|"]
    for name, attack in FALSE_INPUTS.items():
        with tempfile.TemporaryDirectory() as folder:
            outcome, _ = try_attack(attack, Path(folder))
        made, _, door = name.partition(": ")
        shown = {"read": "read without the forged number", "refused": "refused by name"}.get(outcome, outcome)
        if door == "verify" and outcome == "read":
            shown = "named, with both values"
        rows.append(f"| {made} | {door} | {shown} |")
    return "\n".join(rows) + "\n"
