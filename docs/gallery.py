"""Make the gallery's pictures: run each command that the page shows, and keep a small picture of its output.

`make pictures` calls it with the demo's run. Names of entries after the run make these again alone; `--board` names an
exported board of the run: then the README's pictures of both are taken, too, and `docs/pictures.json` keeps the numbers
in them.
"""

import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from PIL import Image
from typer import Argument

from tellapart.api.run import open_run

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PICTURES = DOCS / "gallery"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]

#: Pixels of a picture's longer side, and its quality as WebP.
SIDE, QUALITY = 800, 78

DESKTOP = (1180, 1130)


#: A picture: file name, heading, sentence, the commands that make it, and their output: an image, a page or a folder.
#: A page may have a screen and a fragment of its address.
Entry = dict[str, Any]

RUN = "tellapart run --out runs/demo"
ENTRIES: list[Entry] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["entries"]


def prepare_folder(folder: Path, run: Path) -> None:
    """Lay out the folder in which the commands run: the demo's run, a training's files, and scores of ten systems."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "small").mkdir(parents=True)
    shutil.copytree(run, folder / "runs" / "demo")
    for name in ("docs", "examples"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copy(DOCS / "gallery_training.toml", folder / "train.toml")
    shutil.copy(DOCS / "gallery_model.json", folder / "small" / "config.json")
    shutil.copy(ROOT / "src" / "tellapart" / "models" / "demo_encoder" / "tokenizer.json", folder / "small")
    rows = [json.loads(line) for line in (run / "samples" / "demo.jsonl").read_text(encoding="utf-8").splitlines()]
    scores, draw = np.array([row["scores"] for row in rows]), np.random.default_rng(0)
    (folder / "score_files").mkdir()
    for system in range(10):
        noisy = scores + 0.03 * (system + 1) * draw.normal(size=scores.shape)
        lines = [
            json.dumps({"label": f"{row['id']}_c{text}_i{image}", "score": float(value)})
            for row, of in zip(rows, noisy, strict=True)
            for (image, text), value in np.ndenumerate(of)
        ]
        (folder / "score_files" / f"noise-{system + 1}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def run_commands(folder: Path, entries: Sequence[Entry]) -> None:
    """Run every command of the entries once; the demo's run is there."""
    for command in dict.fromkeys(line for entry in entries for line in entry["commands"] if line != RUN):
        print(f"$ {command}", flush=True)
        arguments = [sys.executable, "-m", "tellapart", *shlex.split(command)[1:]]
        subprocess.run(
            arguments, cwd=folder, env={**os.environ, "NO_COLOR": "1"}, check=True, stdout=subprocess.DEVNULL
        )


@contextmanager
def open_browser() -> Iterator[Any]:
    """Start Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield browser
        browser.close()


def open_page(browser: Any, screen: tuple[int, int], address: str) -> Any:
    """Open a page in a window of so many pixels."""
    page = browser.new_page(viewport={"width": screen[0], "height": screen[1]}, color_scheme="light")
    page.set_default_timeout(300_000)
    page.goto(address)
    return page


def photograph(browser: Any, entry: Entry, page_file: Path) -> Image.Image:
    """Return what a window shows of a page."""
    page = open_page(browser, entry.get("screen", DESKTOP), page_file.resolve().as_uri() + entry.get("fragment", ""))
    drawn = Image.open(io.BytesIO(page.screenshot()))
    page.close()
    return drawn.convert("RGB")


def photograph_run(run: Path, board: Path) -> None:
    """Take the README's pictures: the head of a run's report, its first items, and a leaderboard of its board."""
    with open_browser() as browser:
        page = open_page(browser, DESKTOP, (run / "report.html").resolve().as_uri())
        page.screenshot(path=DOCS / "report.png")
        page.get_by_role("heading", name="Items", exact=True).first.evaluate("heading => heading.scrollIntoView()")
        page.screenshot(path=DOCS / "report-items.png")
        page.goto((board / "benchmarks" / "demo" / "index.html").resolve().as_uri())
        page.screenshot(path=DOCS / "board.png")


def keep_numbers(run: Path) -> None:
    """Write each model's metrics of the first look, in percent, and the fingerprint of the items."""
    records = {system.label: system.record("demo") for system in open_run(run).systems}
    names = ("group_score", "text_score", "image_score")
    percent = {
        label: {name: f"{100 * record.metrics[name].value:.2f}" for name in names} for label, record in records.items()
    }
    (fingerprint,) = {record.fingerprint for record in records.values()}
    text = json.dumps({"benchmark": "demo", "fingerprint": fingerprint, "percent": percent}, indent=1)
    (DOCS / "pictures.json").write_text(text + "\n", encoding="utf-8")


def join_pair(folder: Path) -> Image.Image:
    """Return the two images of a set's first item side by side."""
    item = json.loads((folder / "pairs.jsonl").read_text(encoding="utf-8").splitlines()[0])
    images = [Image.open(folder / name).convert("RGB") for name in item["images"]]
    joined = Image.new("RGB", (sum(image.width for image in images) + 8, images[0].height), "white")
    joined.paste(images[0], (0, 0))
    joined.paste(images[1], (images[0].width + 8, 0))
    return joined


def make_pictures(folder: Path, entries: Sequence[Entry]) -> None:
    """Write a small picture for each entry."""
    PICTURES.mkdir(exist_ok=True)
    with open_browser() as browser:
        for entry in entries:
            output = folder / entry["output"]
            if output.is_dir():
                picture = join_pair(output)
            elif output.suffix == ".html":
                picture = photograph(browser, entry, output)
            else:
                picture = Image.open(output).convert("RGB")
            picture.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
            picture.save(PICTURES / f"{entry['name']}.webp", quality=QUALITY, method=6)


def main(run: Path, names: Annotated[list[str] | None, Argument()] = None, board: Path | None = None) -> None:
    """Make the pictures of a run of the demo."""
    if board is not None:
        photograph_run(run, board)
        keep_numbers(run)
    folder = ROOT / "scratch" / "gallery"
    entries = [entry for entry in ENTRIES if not names or entry["name"] in names]
    if not names or not folder.exists():
        prepare_folder(folder, run)
    else:
        shutil.copytree(run, folder / "runs" / "demo", dirs_exist_ok=True)
    if not names:
        shutil.rmtree(PICTURES, ignore_errors=True)
    for entry in entries if names else ():  # a training and a site refuse a folder that is there
        if (top := Path(entry["output"]).parts[0]) != "runs":
            shutil.rmtree(folder / top, ignore_errors=True)
    run_commands(folder, entries)
    make_pictures(folder, entries)


if __name__ == "__main__":
    typer.run(main)
