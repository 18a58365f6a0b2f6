"""Right and wrong uses of the Python interface, for type checkers; nobody runs this file.

A line that must be an error ends in `# wrong`; every other line must be none. `test_typed_uses.py` holds mypy and
pyright to it.
"""

from pathlib import Path

import numpy as np

import tellapart as ta
from tellapart import Item, PairSet, Run, evaluate
from tellapart.data.scores import Scores
from tellapart.metrics import GroupScore


def brightness(image: object, text: str) -> float:
    return float(len(text))


class Lengths:
    def encode_images(self, images: object) -> object: ...

    def encode_texts(self, texts: object) -> object: ...


PAIRS = PairSet("mine", (Item(id="1", images=("a.png", "b.png"), texts=("a", "b")),), Path())


def measure() -> None:
    run: Run = ta.evaluate("oracle", "demo", limit=20, seed=1, device="cpu")
    ta.evaluate()
    ta.evaluate(["oracle", brightness, Lengths(), Lengths], ["demo", PAIRS, Path("pairs")], limit=0.1, out=Path("runs"))
    ta.evaluate(lambda image, text: 1.0, limit="5%", batched=True, cache=False, progress=False)
    ta.evaluate("oracle", PAIRS, names=["mine"], regions="regions.npz", strict=True)
    ta.evalute("oracle", "demo")  # wrong
    ta.evaluate("oracle", "demo", sed=1)  # wrong
    ta.evaluate("oracle", "demo", limt=20)  # wrong
    ta.evaluate("oracle", "demo", limit=[20])  # wrong
    ta.evaluate("oracle", "demo", limit=Path("20"))  # wrong
    ta.evaluate(7, "demo")  # wrong
    ta.evaluate(ta.model(object(), preprocess=len, tokenizer=len), "demo")
    ta.evaluate([ta.model(images=len, texts=len), ta.model(score=lambda images, texts: [], kind="logit")], "demo")
    ta.model(score=lambda images, texts: [], kind="cosine")  # wrong
    ta.model(images=7, texts=len)  # wrong
    ta.score_vectors(np.zeros((800, 8)), "texts.npz", PAIRS, image_ids=["a"], name="mine")
    ta.score_vectors(np.zeros((800, 8)))  # wrong
    ta.evaluate("oracle", 7)  # wrong
    ta.evaluate("oracle", "demo", batch_size="8")  # wrong
    ta.evaluate("oracle", "demo", as_json=True)  # wrong
    evaluate("oracle", "demo", outside=True)  # wrong
    number: float = run.value("group_score")
    word: str = run.value("group_score")  # wrong
    run.valeu("group_score")  # wrong
    print(number, word)


def score() -> None:
    run = ta.score("demo", np.zeros((400, 2, 2)), name="mine", kind="probability")
    ta.score("demo", {"1": np.zeros((2, 2))})
    ta.score(None, {"demo": "scores.npz"})
    ta.score("demo", "scores.csv", strict=True)
    ta.score("demo", "scores.csv", kind="logits")  # wrong
    ta.score("demo")  # wrong
    models: list[str] = run.models
    print(models)


def compare() -> None:
    run = ta.open_run("runs/mine")
    compared = ta.compare(run, "runs/other", by="subset", baseline="oracle")
    names: list[str] = compared.models
    passed: bool = ta.compare(run, "runs/other", gate=True, max_drop=1.0).passed
    ta.compare(run, by=7)  # wrong
    ta.compare(run, max_drop=1.0)  # wrong
    ta.compare(run, basline="oracle")  # wrong
    ta.compare(7)  # wrong
    verified: bool = ta.verify(run, "runs/other.zip").passed
    ta.verify(run, strict=True)  # wrong
    print(names, passed, verified)


def items() -> None:
    found = ta.items("runs/mine", scores=["a.npz"], benchmark="demo", family={"a": "b"}, without="c", short=10)
    alpha: float | None = found.record.alpha
    ta.items("runs/mine", kind="logits")  # wrong
    ta.items(7)  # wrong
    print(alpha, found.to_csv())


def files() -> None:
    run = ta.open_run("runs/mine")
    text: str = ta.table(run, "latex", average=True, benchmarks=["demo"])
    drawn: Path = ta.plot("bars", [run, "runs/other"], "bars.pdf", metrics=["group_score"])
    ta.export("demo", "pairs.csv", data="files")
    ta.table(run, "latex", averge=True)  # wrong
    ta.plot("bars", run, "bars.pdf", metric="group_score")  # wrong
    ta.plot("bars", run)  # wrong
    print(text, drawn)


def build_audit_train() -> None:
    pairs: PairSet = ta.build("recipe.toml", workers=2).pairs
    written: int = ta.build("recipe.toml", pairs="pairs.jsonl").pairs
    findings = ta.audit(pairs, against="other", read_images=False).record.findings
    trained = ta.train("config.toml", seeds=3, resume=True)
    ta.train("config.toml", seed=3)  # wrong
    ta.train(config="config.toml", limit="3")  # wrong
    ta.audit(pairs, no_images=True)  # wrong
    ta.audit(7)  # wrong
    ta.build("recipe.toml", worker=2)  # wrong
    print(findings, trained.records, written)


def metrics() -> None:
    metric: GroupScore = ta.metrics.GroupScore(kind="probability", seed=1)
    metric.update([[[0.9, 0.1], [0.2, 0.8]]], clusters=["a"])
    metric.update(np.zeros((4, 2, 2), np.float32))
    value: float = metric.compute().value
    ta.metrics.GroupScor()  # wrong
    ta.metrics.GroupScore(kind="probabilities")  # wrong
    ta.metrics.GroupScore(sed=1)  # wrong
    print(value, ta.METRICS["group_score"].title)


def commands() -> None:
    run: Run = ta.run("oracle", limit=5)
    rows = ta.mine("rows.jsonl", "demo-encoder", "out.jsonl", scorer="oracle", seed=1).rows
    ta.convert(run, to="lm-eval", out="scores.json")
    ta.annotate_export("i2t", "demo", "study", annotators="ann")
    ta.cache_prune(models=["oracle"])
    ta.ls(7)  # wrong
    ta.mine("rows.jsonl", "demo-encoder", "out.jsonl", scoerer="oracle")  # wrong
    ta.serve(prot=8421)  # wrong
    ta.import_result("a.json", "runs/a")  # wrong
    print(rows)


def objects() -> None:
    scores = Scores(("1",), np.zeros((1, 2, 2), np.float32), "similarity")
    ta.score("demo", scores)
    settings = ta.Settings(limit="20")
    ta.Settings(limits="20")  # wrong
    ta.PairProbe("demo", every="100")  # wrong
    print(settings, ta.PairProbe("demo", every=100), ta.__version__)
