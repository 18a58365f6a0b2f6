"""How long `tellapart score eqben` takes for all 251,048 quadruples, and how large its report is.

With --against, a folder of another version's `src`, that version scores the same file, and the records must be equal
but for the time.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from record import run_bench, run_python

from tellapart.benchmarks.minimal_pairs import EQBEN

HERE = Path(__file__).resolve().parents[1] / "src"
WORDS = "a the two red blue small man woman dog cat child table street cup stands sits holds opens near under on of"
VIDEOS = {"eqbenyoucook2", "eqbengebc", "eqbenag"}


def write_benchmark(folder: Path) -> None:
    """Write EqBen's flat list, and scores for it as `scores.npz`; some of them tie."""
    draw = np.random.default_rng(0)
    rows, ids = [], []
    for dataset, (_, quadruples) in EQBEN.items():
        for k in range(quadruples):
            where = f"{dataset}/video{k // 25:05d}" if dataset in VIDEOS else dataset
            images = [f"{where}/{k}{side}.png" for side in "ab"]
            words = draw.choice(WORDS.split(), 10)
            captions = [" ".join(words), " ".join([*words[:5], "not", *words[5:]])]
            for name in ("c0i0", "c0i1", "c1i0", "c1i1"):
                info = {"dataset": dataset, "name": name, "sample_cnt": len(ids)}
                pair = {"image": images[int(name[3])], "caption": captions[int(name[1])]}
                rows.append({**pair, "private_info": info})
            ids.append(f"{dataset}/{len(ids)}")
    (folder / "ann_json_finegrained_random.json").write_text(json.dumps([rows[k] for k in draw.permutation(len(rows))]))
    scores = draw.random((len(ids), 2, 2)).astype(np.float32)
    scores[draw.random(scores.shape) < 0.05] = 0.5
    np.savez(folder / "scores.npz", ids=np.array(ids), scores=scores)


def numbers_of(out: Path) -> tuple[object, bytes]:
    """Return what must not differ between versions: the samples, and the record but for its circumstances.

    A field without a value is left out, for an older version may lack it.
    """
    record = json.loads((out / "results.json").read_text(encoding="utf-8"))["benchmarks"]["eqben"]
    facts = {name: value for name, value in record.items() if value is not None and name not in {"seconds", "origin"}}
    return facts, (out / "samples" / "eqben.jsonl").read_bytes()


def measure(against: Path | None = None) -> None:
    """Print CPU seconds and the report's size, of one version or of two: `against` is the src of the other."""
    numbers = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_benchmark(folder)
        command = ["-m", "tellapart", "score", "eqben", "--data", folder, "--scores", folder / "scores.npz", "--out"]
        for name, source in (("this version", HERE), *([("the other", against.resolve())] if against else [])):
            environment = {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            used, _ = run_python(*command, folder / name, **environment)
            megabytes = (folder / name / "report.html").stat().st_size / 1e6
            print(f"{name:14}{used['processor_seconds']:8.1f} CPU-s  report {megabytes:6.1f} MB", flush=True)
            numbers.append(numbers_of(folder / name))
    if against:
        if numbers[0] != numbers[1]:
            sys.exit("the two versions' records or samples differ")
        print("records and samples are the same")


if __name__ == "__main__":
    run_bench(measure)
