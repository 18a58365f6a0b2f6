"""How long `tellapart score eqben` takes for all 251,048 quadruples, and how large its report is."""

import json
import tempfile
from pathlib import Path

import numpy as np
from record import run_bench, run_python

from tellapart.benchmarks.minimal_pairs import EQBEN

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


def measure() -> None:
    """Print CPU seconds, and the report's size."""
    with tempfile.TemporaryDirectory() as scratch:
        folder, out = Path(scratch), Path(scratch) / "run"
        write_benchmark(folder)
        command = ["-m", "tellapart", "score", "eqben", "--data", folder, "--scores", folder / "scores.npz", "--out"]
        used, _ = run_python(*command, out, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
        megabytes = (out / "report.html").stat().st_size / 1e6
    print(f"{used['processor_seconds']:.1f} CPU-s, report {megabytes:.1f} MB")


if __name__ == "__main__":
    run_bench(measure)
