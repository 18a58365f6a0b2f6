"""UniBench's own `Evaluator` on the sets, from local files, in its own environment.

Its datasets lie where it would have saved them. It is given the model, an empty file of past results, and the number of
workers, which by default is 96.
"""

from functools import partial
from pathlib import Path
from typing import Any

from job import Job, carry_out

#: Set -> its name and folder there, and the columns of its images.
DATASETS = {
    "winoground": ("winoground", "wds_winoground", ("0.webp", "1.webp")),
    "sugarcrepe": ("sugarcrepe", "wds_sugarcrepe", ("0.webp",)),
    "valse": ("vg_relation", "wds_vg_relation", ("0.webp",)),
    "aro": ("coco_order", "wds_coco_order", ("0.webp",)),
}


def prepare(job: Job) -> None:
    """Save the tables where a download would have left them."""
    from tables import table

    for name, (_, folder, images) in DATASETS.items():
        if not (Path(job["sets"]) / name).is_dir():
            continue
        table(Path(job["sets"]), name, images, "npy").save_to_disk(Path(job["home"]) / folder)


def run(job: Job) -> None:
    """Evaluate, as its command does."""
    import pandas as pd

    state = Path(job["state"])
    state.mkdir(parents=True, exist_ok=True)
    columns = ("model_name", "benchmark_name", "correctness")
    if not (state / "aggregate.f").exists():
        pd.DataFrame({column: pd.Series(dtype=object) for column in columns}).to_feather(state / "aggregate.f")

    import open_clip
    from unibench import Evaluator
    from unibench.models_zoo.wrappers.clip import ClipModel

    architecture = job["model"]["architecture"]

    class Local(ClipModel):
        """Its wrapper of open_clip's models, loaded when it is asked for, as its own are."""

        def __init__(self, **options: Any) -> None:
            model, _, _ = open_clip.create_model_and_transforms(architecture, pretrained=job["model"]["file"])
            tokenizer = open_clip.get_tokenizer(architecture)
            super().__init__(model, tokenizer=tokenizer, logit_scale=model.logit_scale, **options)

    evaluator = Evaluator(
        models=["unused"],
        benchmarks=[DATASETS[name][0] for name in job["names"]],
        num_workers=job["cores"],
        output_dir=str(state),
        benchmarks_dir=job["home"],
        download_aggregate_precomputed=False,
    )
    evaluator.models = []
    evaluator.add_model(partial(Local, model_name="local"))
    evaluator.evaluate(device="cpu" if job["device"] == "cpu" else "cuda")
    found = pd.read_feather(state / "aggregate.f")
    for name in job["names"]:
        print("RESULT", name, float(found[found.benchmark_name == DATASETS[name][0]].correctness.iloc[0]))


if __name__ == "__main__":
    carry_out(prepare=prepare, cold=run, warm=run)
