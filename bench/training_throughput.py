"""A step of `tellapart train` beside open_clip's training loop and a plain loop of accelerate.

    python bench/training_throughput.py [--device cuda] [--steps 6] [--rounds 3] [--batch 32] [--out FILE]

All three start from the same weights of one small open_clip model and read the same pictures and captions from the disk
in the same batches, in float32, with the same AdamW; their first losses are in the record. open_clip's loop is
`open_clip_train.train.train_one_epoch`; its batches come from a DataLoader without workers that reads as its
`CsvDataset` does (whose module imports libraries for archives, which are not needed here). Tools take turns over
rounds. Seconds are of the processor on one thread, or of the clock with `--device cuda`. A ratio is theirs over ours,
the median over rounds: at 1 or more ours is at least as fast. `negclip@1` is our step with a false caption of each
picture; `extra_caption` is its cost as a share of the plain step.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image
from training_cost import dual_folder, write_rows

from tellapart.models.torch.backend import import_torch
from tellapart.training.config import TrainConfig
from tellapart.training.data.rows import BatchOrder, TrainingRows
from tellapart.training.encoders.load_start import open_dual, write_new_model
from tellapart.training.loop import Training, train
from tellapart.training.ranks import RankGroup, open_accelerator
from tellapart.training.run_files import RunFiles
from tellapart.training.steps import DualStep

RATE, BETAS, EPSILON, DECAY = 1e-5, (0.9, 0.98), 1e-6, 0.1

#: Takes the number of the round; returns the seconds of each step but the first, and the first loss.
Loop = Callable[[int], tuple[list[float], float]]


class Timer:
    """Seconds between calls: of the processor, or of the clock once the GPU is done."""

    def __init__(self, device: str) -> None:
        self.device, self.times = device, list[float]()

    def mark_time(self) -> None:
        """Note the time."""
        if self.device == "cuda":
            import_torch().cuda.synchronize()
        self.times.append(time.perf_counter() if self.device == "cuda" else time.process_time())

    def list_seconds(self) -> list[float]:
        """Return the seconds between calls, without the first, in which a loop prepares itself."""
        return [later - before for before, later in zip(self.times, self.times[1:], strict=False)][1:]


def our_loop(name: str, rows: TrainingRows, given: Namespace, loss: dict[str, Any], folder: Path) -> Loop:
    """Return `tellapart train`'s loop; checkpoints come after the last step."""
    captions = loss.pop("captions", 0)
    config = TrainConfig(
        name="throughput",
        model="m",
        device=given.device,
        data={"train": ["rows.jsonl"], "negative_captions": captions, "negative_images": "none"},
        loss=loss,
        optimiser={"learning_rate": RATE, "betas": BETAS, "epsilon": EPSILON, "weight_decay": DECAY}
        | {"steps": given.steps},
        batch={"size": given.batch},
        validation={"every": given.steps},
    )

    def run_round(number: int) -> tuple[list[float], float]:
        timer, losses = Timer(given.device), []

        def track(_step: int, numbers: Any) -> None:
            timer.mark_time()
            losses.append(numbers["total"])

        files = RunFiles(folder / f"{loss['name']}-{captions}-{number}", [track])
        files.folder.mkdir()
        timer.mark_time()
        ranks = RankGroup(open_accelerator(given.device))
        train(Training(config, open_dual(name, given.device), rows, DualStep, files, None, ranks))
        return timer.list_seconds(), losses[0]

    return run_round


class Pictures:
    """Rows as open_clip's `CsvDataset` reads them."""

    def __init__(self, rows: TrainingRows, prepare: Any, tokenise: Any) -> None:
        self.rows, self.prepare, self.tokenise = rows.rows, prepare, tokenise

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> tuple[Any, Any]:
        row = self.rows[number]
        return self.prepare(Image.open(str(row.image))), self.tokenise([row.caption])[0]


class TimedLoader:
    """A DataLoader that notes the time before each batch and after the last, with the fields that open_clip reads."""

    def __init__(self, loader: Any, timer: Timer, samples: int) -> None:
        self.loader, self.timer, self.num_batches, self.num_samples = loader, timer, len(loader), samples

    def __iter__(self) -> Iterator[Any]:
        self.timer.mark_time()
        for batch in self.loader:
            yield batch
            self.timer.mark_time()


def their_loop(name: str, rows: TrainingRows, given: Namespace, *, accelerated: bool) -> Loop:
    """Return open_clip's loop, or a plain one of accelerate over the same loader."""
    import open_clip
    from open_clip_train.train import train_one_epoch

    torch = import_torch()
    order = BatchOrder(rows, given.batch, 0)
    batches = [order.batch(step) for step in range(given.steps)]

    def run_round(_number: int) -> tuple[list[float], float]:
        timer, losses = Timer(given.device), list[float]()
        model, _, prepare = open_clip.create_model_and_transforms(name, output_dict=True, device=given.device)
        tokenise = open_clip.get_tokenizer(name)
        loader = torch.utils.data.DataLoader(Pictures(rows, prepare, tokenise), batch_sampler=batches, num_workers=0)
        named = list(model.named_parameters())
        flat = [parameter for _, parameter in named if parameter.ndim < 2]
        matrices = [parameter for _, parameter in named if parameter.ndim >= 2]
        groups = [{"params": matrices, "weight_decay": DECAY}, {"params": flat, "weight_decay": 0.0}]
        optimiser = torch.optim.AdamW(groups, lr=RATE, betas=BETAS, eps=EPSILON)
        contrast = open_clip.ClipLoss()

        def take_loss(**features: Any) -> Any:
            found = contrast(**features)
            value = found["contrastive_loss"] if isinstance(found, dict) else found
            if not losses:
                losses.append(float(value.detach()))
            return found

        if accelerated:
            accelerator = open_accelerator(given.device)
            model, optimiser, loader = accelerator.prepare(model, optimiser, loader)
            model.train()
            for images, texts in TimedLoader(loader, timer, len(rows)):
                optimiser.zero_grad()
                accelerator.backward(take_loss(**model(images, texts)))
                optimiser.step()
            return timer.list_seconds(), losses[0]
        args = Namespace(
            device=given.device, precision="fp32", distill=False, accum_freq=1, skip_scheduler=True, horovod=False,
            grad_clip_norm=None, log_every_n_steps=1000, world_size=1, rank=0, wandb=False, save_logs=False,
            batch_size=given.batch,
        )  # fmt: skip
        data = {"train": Namespace(dataloader=TimedLoader(loader, timer, len(rows)), set_epoch=lambda _epoch: None)}
        train_one_epoch(model, data, take_loss, 0, optimiser, None, None, None, args)
        return timer.list_seconds(), losses[0]

    return run_round


def main() -> None:
    """Let the loops take turns, print a table, and write the record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--out", type=Path, help="the record; bench/records/training_throughput.json is the CPU's")
    given = parser.parse_args()
    torch = import_torch()
    torch.set_num_threads(1)
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        rows = write_rows(folder, given.batch * 4)
        name = write_new_model(dual_folder(folder / "arch"), folder / "start", 0)
        loops = {
            "tellapart": our_loop(name, rows, given, {"name": "itc"}, folder),
            "open_clip": their_loop(name, rows, given, accelerated=False),
            "accelerate": their_loop(name, rows, given, accelerated=True),
            "negclip@1": our_loop(name, rows, given, {"name": "negclip", "captions": 1}, folder),
        }
        seconds: dict[str, list[float]] = {tool: [] for tool in loops}
        first: dict[str, float] = {}
        for number in range(given.rounds):
            for tool in [*loops][number % len(loops) :] + [*loops][: number % len(loops)]:
                took, first[tool] = loops[tool](number)
                seconds[tool].append(median(took))
                print(f"round {number + 1}: {tool} {seconds[tool][-1]:.4f} s a step", flush=True)
    ours = seconds["tellapart"]
    ratios = {tool: [one / own for one, own in zip(seconds[tool], ours, strict=True)] for tool in loops}
    record = {
        "command": f"python bench/training_throughput.py --device {given.device} --steps {given.steps} "
        f"--rounds {given.rounds} --batch {given.batch}",
        "machine": {"cpu": platform.machine(), "threads": 1, "torch": torch.__version__, "device": given.device},
        "seconds are": "of the clock" if given.device == "cuda" else "of the processor",
        "model": "width 192, 6 layers a tower, 112 pixels, patches of 16, context 32",
        "first_loss": {tool: first[tool] for tool in ("tellapart", "open_clip", "accelerate")},
        "seconds_a_step": {tool: round(median(took), 4) for tool, took in seconds.items()},
        "times": {
            tool: {"median": round(median(ratios[tool]), 3), "rounds": [round(one, 3) for one in ratios[tool]]}
            for tool in ("open_clip", "accelerate")
        },
        "extra_caption": round(median(ratios["negclip@1"]) - 1, 3),
    }
    print(json.dumps(record, indent=1))
    if given.out:
        given.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
