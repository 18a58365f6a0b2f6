"""Two ranks measure each family of models as one process does, and no file in a cache ends a run."""

import json
from pathlib import Path

import pytest
from ranks import computed, ended, measured, needs_torch

from tellapart.evaluation.distributed import run_in_ranks
from tellapart.evaluation.run import Settings, run
from tellapart.models.store.embedding_store import EmbeddingStore, kept_preparations
from tellapart.models.torch.backend import import_torch


def save_open_clip(folder: Path) -> str:
    """A folder of open_clip, whose preprocessing keeps pictures beside the store."""
    import_torch()  # first: it makes the torchvision beside it importable
    pytest.importorskip("open_clip", reason="the model is of the extra 'models'")
    import tiny_openclip

    return f"local-dir:{tiny_openclip.save_drawn(folder)}"


@pytest.fixture(scope="module")
def sentence_transformers():
    """The library, whose import changes the environment."""
    import_torch()
    return pytest.importorskip("sentence_transformers", reason="a model is of the extra 'st'")


def save_families(folder: Path, encoder: Path, library) -> list[str]:
    """A tiny model of each family that is measured, but for servers': their numbers are kept in another way."""
    import tiny_files
    import tiny_fusion_encoders
    import tiny_generative
    import tiny_models

    clip = tiny_models.clip(folder / "clip")
    parts = [library.base.modules.Transformer(str(clip))]
    library.SentenceTransformer(modules=parts).save(str(folder / "st"), create_model_card=False)
    tiny_generative.save_qwen(folder / "qwen")
    for name in ("vilt", "blip"):
        tiny_fusion_encoders.save(folder / name, tiny_fusion_encoders.MAKERS[name])
    return [
        *(f"hf:{clip}", f"st:{folder / 'st'}", f"hf:{folder / 'qwen'}", f"hf:{folder / 'vilt'}"),
        *(f"hf:{folder / 'blip'}", f"onnx:{encoder}", tiny_files.save_family(folder / "albef", "albef"), "blind"),
    ]


def expect_numbers_of_one_process(models: list[str], pairs: str, folder: Path) -> None:
    """The run folder `ranks` has what one process measures, and rank 0 computed none of it."""
    torch = import_torch()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        run(Settings(models=tuple(models), benchmarks=(pairs,)), folder / "one", store=EmbeddingStore(None))
    finally:
        torch.set_num_threads(before)
    assert measured(folder / "ranks") == measured(folder / "one")
    assert computed(folder / "ranks") == 0


@pytest.mark.slow
@needs_torch
def test_ranks_share_a_model_that_keeps_pictures_in_a_cache_with_other_files_in_it(made_set, torchrun, tmp_path):
    model, pairs, cache = save_open_clip(tmp_path), f"folder:{made_set(n=3)}", tmp_path / "cache"
    (cache / "store-shards").mkdir(parents=True)
    for name in ("store.sqlite", "prepared.sqlite", "store-shards/prepared.sqlite", "store-shards/rank-1-of-2.sqlite"):
        (cache / name).write_bytes(b"of another program")
    code, _, err = ended(torchrun("-m", model, "-b", pairs, "--out", "ranks", "--cache", cache))
    assert code == 0, err
    for name in ("store.sqlite", "prepared.sqlite", "rank-1-of-2.sqlite"):
        assert err.count(f"{name}.damaged-1") == 1
    expect_numbers_of_one_process([model], pairs, tmp_path)
    # The next run, of one process, finds all that it needs in the cache.
    with EmbeddingStore(cache / "store.sqlite") as store:
        run_in_ranks(Settings(models=(model,), benchmarks=(pairs,)), tmp_path / "again", store=store)
    assert computed(tmp_path / "again") == 0
    assert [kept["pictures"] for kept in kept_preparations(cache / "prepared.sqlite")] == [6]


@pytest.mark.slow
@needs_torch
def test_ranks_give_the_numbers_of_one_process_with_every_family(
    made_set, tiny_encoder, sentence_transformers, torchrun, tmp_path
):
    models = [save_open_clip(tmp_path), *save_families(tmp_path, tiny_encoder.folder, sentence_transformers)]
    pairs = f"folder:{made_set(n=3)}"
    named = [argument for model in (*models, "random", "oracle") for argument in ("-m", model)]
    code, out, err = ended(torchrun(*named, "-b", pairs, "--out", "ranks", "--cache", "cache", "--json"))
    assert code == 0, err
    assert Path(json.loads(out)["out"]) == Path("ranks"), "one object: the other rank prints nothing"
    assert not list((tmp_path / "cache").glob("store-shards/*.sqlite"))
    models += ["random", "oracle"]
    expect_numbers_of_one_process(models, pairs, tmp_path)
    assert not list((tmp_path / "logs").glob("tellapart-*")), "the ranks' temporary folder is gone"
