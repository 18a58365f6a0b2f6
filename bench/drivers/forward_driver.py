"""The bound: the model alone over prepared tensors, each distinct image and text once, in batches of 32.

Texts are padded to the next multiple of 8 tokens, as their causal tower allows. It prints the seconds of images and of
texts, and the processor seconds of both.
"""

import time
from pathlib import Path
from typing import Any

from job import Job, carry_out

BATCH = 32


def main(job: Job) -> None:
    """Load, prepare, warm up, and time."""
    from tellapart.models.torch.backend import import_torch, positions_by_key

    torch = import_torch()
    import open_clip
    from PIL import Image

    architecture, device = job["model"]["architecture"], job["device"]
    model, _, transform = open_clip.create_model_and_transforms(architecture, pretrained=job["model"]["file"])
    model = model.eval().to(device)
    images = [transform(Image.open(Path(job["sets"]) / name)) for name in job["images"]]
    ids = open_clip.get_tokenizer(architecture)(job["texts"])
    lengths = positions_by_key(-(-(end + 1) // 8) * 8 for end in ids.argmax(dim=-1).tolist())

    def encode_text(batch: Any, length: int) -> Any:
        hidden = model.token_embedding(batch) + model.positional_embedding[:length]
        hidden = model.ln_final(model.transformer(hidden, attn_mask=model.attn_mask[:length, :length]))
        return hidden[torch.arange(len(batch), device=device), batch.argmax(dim=-1)] @ model.text_projection

    def batches(rows: Any) -> Any:
        return [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]

    with torch.inference_mode():
        pictures = [torch.stack(batch).to(device) for batch in batches(images)]
        captions = [(ids[batch, :n].to(device), n) for n, rows in lengths.items() for batch in batches(rows)]
        first = batches(next(iter(lengths.values())))[0]
        if not torch.allclose(encode_text(*captions[0]), model.encode_text(ids[first].to(device)), atol=1e-4):
            raise SystemExit("shortened texts give other vectors: no bound")
        for repeat in ("warm-up", "measured"):
            began, before = time.perf_counter(), time.process_time()
            for batch in pictures[: 2 if repeat == "warm-up" else None]:
                model.encode_image(batch).cpu()
            middle = time.perf_counter()
            for batch, length in captions[: 2 if repeat == "warm-up" else None]:
                encode_text(batch, length).cpu()
            ended, after = time.perf_counter(), time.process_time()
    print("FORWARD", middle - began, ended - middle, after - before)


if __name__ == "__main__":
    carry_out(run=main)
