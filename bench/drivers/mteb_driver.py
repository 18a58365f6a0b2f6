"""MTEB's own tasks on the sets, from local files, in its own environment.

For VALSE, which it lacks, its `AROVisualRelation` stands. Its wrapper of open_clip loads from the hub alone, so
open_clip's two functions are wrapped to take `local-dir:FOLDER`; its pin of open_clip is not asked for.
"""

from pathlib import Path
from typing import Any

from job import Job, carry_out

#: Set -> its task, and the columns of its images and texts.
TASKS = {
    "winoground": ("Winoground", ("image_0", "image_1"), ("caption_0", "caption_1")),
    "sugarcrepe": ("SugarCrepe", ("images",), ("caption", "negative_caption")),
    "valse": ("AROVisualRelation", ("image",), ("true_caption", "false_caption")),
    "aro": ("AROCocoOrder", ("images",), ("correct_caption", *(f"hard_text_{k}" for k in range(1, 5)))),
}
NAME = "bench/local"


def tasks(job: Job) -> list[Any]:
    """Return its tasks, reading local folders."""
    import mteb

    made = []
    for name in job["names"]:
        task = mteb.get_task(TASKS[name][0])
        task.metadata = task.metadata.model_copy(
            update={"dataset": {"path": str(Path(job["home"]) / name), "revision": "main"}}
        )
        made.append(task)
    return made


def prepare(job: Job) -> None:
    """Write the tables and let `datasets` convert them: what a download would have left behind."""
    from tables import table

    there = [name for name in TASKS if (Path(job["sets"]) / name).is_dir()]
    for name in there:
        _, images, texts = TASKS[name]
        folder = Path(job["home"]) / name / "data"
        folder.mkdir(parents=True, exist_ok=True)
        split = "train" if name == "sugarcrepe" else "test"  # as on the hub
        table(Path(job["sets"]), name, images, texts).to_parquet(folder / f"{split}-00000-of-00001.parquet")
    for task in tasks({**job, "names": there}):
        task.load_data()


def run(job: Job) -> None:
    """Evaluate."""
    import mteb
    import open_clip
    from mteb.models.model_implementations.openclip_models import CLIP_ViT_L_14_DataComp_XL_s13B_b90K as published

    folder = f"local-dir:{job['model']['folder']}"
    create, get_tokenizer = open_clip.create_model_and_transforms, open_clip.get_tokenizer

    def local(name: str) -> str:
        return folder if name == f"hf-hub:{NAME}" else name

    open_clip.create_model_and_transforms = lambda name, *rest, **options: create(local(name), *rest, **options)
    open_clip.get_tokenizer = lambda name, *rest, **options: get_tokenizer(local(name), *rest, **options)
    meta = published.model_copy(update={"name": NAME, "revision": "1", "extra_requirements_groups": None})
    cache = mteb.ResultCache(cache_path=job["state"])
    found = mteb.evaluate(meta, tasks=tasks(job), cache=cache)
    for name, result in zip(job["names"], found.task_results, strict=True):
        print("RESULT", name, result.scores["test"][0]["accuracy" if name == "winoground" else "text_acc"])


if __name__ == "__main__":
    carry_out(prepare=prepare, cold=run, warm=run)
