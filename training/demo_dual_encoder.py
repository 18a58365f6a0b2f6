"""Train, check and export the bundled dual encoder.

These commands made the model that ships; its `training_record.json` holds the last but one as it was given, and the
hash of the scenes that it read:

    python -m tellapart.builders.rendered.training_scenes --out train_scenes --quadruples 2304 --seed 1 --workers 2
    python -m tellapart.builders.rendered.training_scenes --out val_scenes --quadruples 192 --seed 2 --workers 2
    python -m training.held_out_scenes --out held_scenes --quadruples 64
    python -m training.demo_dual_encoder --scenes train_scenes --validation val_scenes --validation held_scenes \\
        --steps 2000 --out src/tellapart/models/demo_encoder
    python -m training.measure_demo --model src/tellapart/models/demo_encoder

`--smoke` runs the training command's path in less than a minute on flat drawings; its model only tests the script.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from tellapart.builders.rendered.wordings import SynonymChoice, mirror, reword
from training.captions import tokenizer_json
from training.drawings import draw_quadruples
from training.encoder import Shape, frozen_for_export
from training.folder import write_model, write_record
from training.loop import Recipe, Task, pair_scores, strict_scores, train
from training.quadruples import Quadruples
from training.scenes import read_scenes

__all__ = ["main"]

#: Choices of wording that together use every word the grammar can put in a caption's place.
_WORDINGS = tuple(SynonymChoice(k, k, k % 2 == 0, k % 2) for k in range(3))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(options.threads)
    torch.use_deterministic_algorithms(True)
    started = time.process_time()
    size = 48 if options.smoke else options.size
    if options.smoke:
        data = draw_quadruples(48, seed=1, size=size)
        validation = {"drawings": draw_quadruples(12, seed=2, size=size)}
        recipe = Recipe(steps=8, batch=12, seed=options.seed)
    else:
        data = read_scenes(options.scenes, size, options.shards)
        validation = {path.name: read_scenes(path, size) for path in options.validation}
        recipe = Recipe(steps=options.steps, batch=options.batch, seed=options.seed)
    tokenizer_text = tokenizer_json(_wordings_of(data), 32)
    tokenizer = Tokenizer.from_str(tokenizer_text)
    shape = Shape(vocabulary=tokenizer.get_vocab_size(), image_size=size)
    watched = next(iter(validation.values()))
    trained = train(Task(data, watched, tokenizer, shape), recipe, _print)
    model = frozen_for_export(trained.model)
    worst = write_model(model, shape, tokenizer_text, options.out)
    record: dict[str, Any] = {
        "command": _command(arguments if arguments is not None else sys.argv[1:]),
        "data": _describe(data),
        "shape": asdict(shape),
        "parameters": sum(p.numel() for tower in (model.image, model.text) for p in tower.parameters()),
        "recipe": asdict(recipe),
        "threads": options.threads,
        "seconds": round(trained.seconds, 1),
        "cpu_seconds": round(time.process_time() - started, 1),
        "largest_difference_onnxruntime_torch": worst,
        "versions": _versions(),
        "validation_data": {name: _describe(part) for name, part in validation.items()},
        "validation": {
            name: strict_scores(pair_scores(model, part, tokenizer), part.aspects) for name, part in validation.items()
        },
        "curve": trained.curve,
    }
    write_record(options.out, record)
    _print(validation=record["validation"])


def _command(arguments: Sequence[str]) -> str:
    """Return the command line, folders by their last name: their place on a machine does not matter."""
    words = [Path(word).name if "/" in word else word for word in arguments]
    return " ".join(["python -m training.demo_dual_encoder", *words])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m training.demo_dual_encoder",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, help="folder to write the model to")
    parser.add_argument("--smoke", action="store_true", help="flat drawings, a few steps, less than a minute")
    parser.add_argument("--scenes", type=Path, help="folder of training scenes")
    parser.add_argument("--shards", type=int, help="train on the first so many shards only")
    parser.add_argument("--validation", type=Path, action="append", default=[], help="folder of scenes; repeatable")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=32, help="quadruples in a step")
    parser.add_argument("--size", type=int, default=112, help="of the images, pixels")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    return parser


def _wordings_of(data: Quadruples) -> list[str]:
    """Return every text that training can show, as far as its words go."""
    texts = dict.fromkeys(data.sentences())
    return [side for text in texts for w in _WORDINGS for side in (reword(text, w), reword(mirror(text), w))]


def _describe(data: Quadruples) -> dict[str, Any]:
    aspects = sorted(set(data.aspects))
    return {
        "quadruples": len(data),
        "images": 2 * len(data),
        "aspects": {aspect: data.aspects.count(aspect) for aspect in aspects},
        "sha256": data.fingerprint(),
        "source": data.source,
    }


def _versions() -> dict[str, str]:
    packages = ("torch", "numpy", "onnx", "onnxruntime", "tokenizers", "pillow")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def _print(**values: object) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main()
