"""Real captions through an encoder that shares beginnings, beside a loop of open_clip's modules over padded texts.

    python bench/shared_beginnings.py --data ../shared/data

The loop is given tokens, sorted by length, and is a bound. Both take turns over slices of 2,048 captions on one thread;
figures are processor seconds, weights are random.
"""

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from record import run_bench, time_call
from rivals import make_model
from typer import Option

from tellapart.models.find import find_model
from tellapart.models.torch.backend import import_torch, positions_by_key
from tellapart.models.vectors import normalise

BATCH, SLICE = 32, 2048


def measure(data: Annotated[Path, Option()], architecture: str = "ViT-B-32") -> dict[str, Any]:
    """Measure; `data` has valse/*.json and sugarcrepe/data/*.json."""
    torch = import_torch()
    torch.set_num_threads(1)
    model = find_model(f"open_clip:{architecture}@{make_model(architecture)['file']}")
    network, tokenise = model.towers.module, model.towers.reader.token_ids  # type: ignore[attr-defined]
    record: dict[str, Any] = {"architecture": architecture, "threads": 1, "torch": torch.__version__, "sets": {}}
    for name, captions in read_sets(data).items():
        captions.sort(key=lambda caption: (len(caption) // 24, caption))  # as a run hands them over
        loop = shared = difference = 0.0
        for start in range(0, len(captions), SLICE):
            part = captions[start : start + SLICE]
            plain, _, of_loop = time_call(partial(encode_loop, network, torch.tensor(tokenise(part))))
            vectors, _, of_shared = time_call(partial(model.encode_texts, part))  # type: ignore[union-attr]
            loop, shared = loop + of_loop, shared + of_shared
            difference = max(difference, float(np.abs(vectors - normalise(plain)).max()))
        record["sets"][name] = {
            "captions": len(captions),
            "loop_seconds": round(loop, 2),
            "shared_seconds": round(shared, 2),
            "times": round(loop / shared, 2),
            "largest_difference": difference,
        }
        print(name, record["sets"][name], flush=True)
    return record


def read_sets(data: Path) -> dict[str, list[str]]:
    """Return the distinct captions of VALSE, of its counting instruments, of SugarCrepe and of each of its subsets."""
    valse = {path.stem: read_captions(path) for path in sorted((data / "valse").glob("*.json"))}
    crepe = {path.stem: read_captions(path) for path in sorted((data / "sugarcrepe" / "data").glob("*.json"))}
    counting = [captions for name, captions in valse.items() if name.startswith("counting")]
    joined = {"VALSE counting": counting, "VALSE": valse.values(), "SugarCrepe": crepe.values()}
    sets = {name: list(dict.fromkeys(caption for part in parts for caption in part)) for name, parts in joined.items()}
    return sets | {f"SugarCrepe {name}": captions for name, captions in crepe.items()}


def read_captions(path: Path) -> list[str]:
    """Return the distinct captions of a file."""
    rows: Iterable[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")).values()
    keys = ("caption", "foil", "negative_caption")
    return list(dict.fromkeys(row[key] for row in rows for key in keys if row.get(key)))


def encode_loop(network: Any, ids: Any) -> Any:
    """Encode texts in batches of like padded length, as open_clip's modules do."""
    torch = import_torch()
    ends = ids.argmax(dim=-1).tolist()
    vectors = np.empty((len(ids), network.text_projection.shape[1]), np.float32)
    with torch.inference_mode():
        for length, rows in positions_by_key(-(-(end + 1) // 8) * 8 for end in ends).items():
            for start in range(0, len(rows), BATCH):
                batch = rows[start : start + BATCH]
                cut = ids[batch, : min(length, 77)]
                hidden = network.token_embedding(cut) + network.positional_embedding[: cut.shape[1]]
                mask = network.attn_mask[: cut.shape[1], : cut.shape[1]]
                hidden = network.ln_final(network.transformer(hidden, attn_mask=mask))
                read = hidden[torch.arange(len(batch)), cut.argmax(dim=-1)]
                vectors[batch] = (read @ network.text_projection).numpy()
    return vectors


if __name__ == "__main__":
    run_bench(measure, "shared_beginnings")
