"""open_clip's own loop, as a careful engineer writes it: each distinct image and text once, in batches of 64."""

import json
from pathlib import Path
from typing import Any

from job import Job, carry_out

BATCH = 64


def main(job: Job) -> None:
    """Encode, compare, print."""
    from tellapart.models.torch.backend import import_torch

    torch = import_torch()
    import open_clip
    from PIL import Image

    architecture, precision = job["model"]["architecture"], {"float32": "fp32", "bfloat16": "bf16"}[job["dtype"]]
    model, _, transform = open_clip.create_model_and_transforms(
        architecture, pretrained=job["model"]["file"], precision=precision, device=job["device"]
    )
    model.eval()
    dtype = open_clip.get_input_dtype(precision)
    sets = Path(job["sets"])

    class Pictures(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
        """The distinct pictures, prepared."""

        def __len__(self) -> int:
            return len(job["images"])

        def __getitem__(self, k: int) -> Any:
            return transform(Image.open(sets / job["images"][k]))

    loader = torch.utils.data.DataLoader(Pictures(), batch_size=BATCH, num_workers=job["cores"])
    ids = open_clip.get_tokenizer(architecture)(job["texts"])
    with torch.inference_mode():
        images = [model.encode_image(batch.to(job["device"], dtype), normalize=True) for batch in loader]
        texts = [model.encode_text(batch.to(job["device"]), normalize=True) for batch in ids.split(BATCH)]
    scores = torch.cat(images).float().cpu() @ torch.cat(texts).float().cpu().T
    row, column = ({name: k for k, name in enumerate(job[kind])} for kind in ("images", "texts"))
    for name in job["names"]:
        right = []
        for line in (sets / name / "pairs.jsonl").read_text().splitlines():
            item = json.loads(line)
            rows = [row[f"{name}/{image}"] for image in item["images"]]
            own = scores[rows][:, [column[text] for text in item["texts"]]]
            if len(rows) == 1:
                right.append(bool((own[0, 0] > own[0, 1:]).all()))
            else:
                best = (own[0, 0], own[1, 1])
                right.append(all(true > max(own[0, 1], own[1, 0]) for true in best))
        print("RESULT", name, sum(right) / len(right))


if __name__ == "__main__":
    carry_out(cold=main)
