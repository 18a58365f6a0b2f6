"""Every line of the interface's first page that needs no torch; prints what it saw as JSON. A test runs it."""

import json
import sys
from pathlib import Path

import numpy as np

import tellapart as ta


def light(image, text):
    """Score a bright picture high."""
    return float(np.asarray(image).mean())


light.fingerprint = "light-1"

demo = ta.load_pairs("demo").select(range(60))
ta.write_pair_set("my_pairs", demo.items, {k: demo.read_bytes(k) for i in demo.items for k in i.images}, {})
captions = [json.dumps({"image": item.images[0], "caption": item.texts[0]}) for item in demo.items]
Path("captions.jsonl").write_text("\n".join(captions))
options = '[options]\ncaptions = "captions.jsonl"\nimages = "my_pairs"\nkinds = ["replace_obj"]\n'
Path("recipe.toml").write_text(f'name = "mine"\nbuilder = "negatives"\n{options}')

ta.evaluate(light, "demo", limit=10)
run = ta.evaluate([light, "random"], ["folder:my_pairs", "demo"], out="runs/mine", limit=20)
run.table(), run.to_dict(), run.items("demo")
ta.compare(run, baseline="random")
scored = ta.score("folder:my_pairs", np.random.default_rng(0).random((60, 2, 2)), name="mine")
ta.load_pairs("my_pairs"), ta.open_run("runs/mine")
built = ta.build("recipe.toml")
ta.audit("folder:my_pairs")
metric = ta.metrics.GroupScore()
metric.update([[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.2, 0.8]], [[0.7, 0.1], [0.2, 0.6]]])

print(
    json.dumps(
        {
            "torch": "torch" in sys.modules,
            "models": run.models,
            "group_score": metric.compute().value,
            "scored": scored.record("group_score").n,
            "built": len(built.pairs.items),
            "from": ta.__file__,
        }
    )
)
