"""Sources of a run's training rows: files and sets, in the configuration's folder or the data's, and recipes.

A recipe among the sources is built first, as `tellapart build` builds it: into `sets/NAME` of the working folder, and
    stays there for the next run. The paths in its options are relative to the folder of the data, if one is named.
"""

from __future__ import annotations

import os
from pathlib import Path

from tellapart.builders.pipeline import build
from tellapart.builders.recipe_file import read_recipe_file
from tellapart.data.progress import Progress
from tellapart.errors import DataError
from tellapart.training.config import DataConfig

RECIPE = "recipe:"
_HUB = "hf:"
#: Saves a data set of the hub, with `image` and `caption` columns, as rows.jsonl.
_SAVE = (
    "python -c \"import datasets, json; [(row['image'].save(f'{{n}}.png'), print(json.dumps({{'image': f'{{n}}.png', "
    "'caption': row['caption']}}))) for n, row in enumerate(datasets.load_dataset('{}', split='train'))]\" > rows.jsonl"
)


def data_folder(config: DataConfig, home: Path) -> Path | None:
    """Return the folder of the data that `data.folder` or `--data` names, or None."""
    if config.folder is None:
        return None
    folder = home / Path(config.folder).expanduser()
    if not folder.is_dir():
        raise DataError(f"data=, or data.folder: missing folder {folder}")
    return folder


def build_recipes(config: DataConfig, home: Path, progress: Progress | None = None) -> None:
    """Build the set of every recipe among the sources; one that is built is left as it is."""
    for source in config.train:
        if source.startswith(RECIPE):
            recipe = _recipe_path(source, home)
            folder, workers = data_folder(config, home), os.cpu_count() or 1
            build(recipe, _set_of(recipe), workers=workers, progress=progress, paths=folder)


def find_sources(config: DataConfig, home: Path) -> list[str]:
    """Return the sources as `read_rows` takes them: a recipe as its set, a path as the file or folder found.

    A path is relative to the configuration's folder; if nothing is there, to the folder of the data.
    """
    data = data_folder(config, home)
    sources = []
    for source in config.train:
        if source.startswith(RECIPE):
            sources.append(f"folder:{_set_of(_recipe_path(source, home)).absolute()}")
            continue
        if source.startswith(_HUB):
            raise DataError(
                f"data.train: {source} is a data set of the hub, and training reads files; save its pictures and write "
                f"the file's name in their place: {_SAVE.format(source.removeprefix(_HUB))}"
            )
        path = source.removeprefix("folder:")
        elsewhere = data is not None and not (home / Path(path).expanduser()).exists()
        sources.append(f"{source.removesuffix(path)}{(data / path).absolute()}" if elsewhere and data else source)
    return sources


def _recipe_path(source: str, home: Path) -> Path:
    return home / Path(source.removeprefix(RECIPE)).expanduser()


def _set_of(recipe: Path) -> Path:
    return Path("sets") / read_recipe_file(recipe).name
