"""Tiny pipelines on disk, made once; one of them loaded."""

from pathlib import Path

import pytest

from scripts import import_script


@pytest.fixture(autouse=True)
def one_thread():
    """Models this small are no faster for threads, and far slower where other processes want the cores."""
    torch = pytest.importorskip("torch", reason="diffusion pipelines need the extra 'diffusion': torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """A folder with the pipelines `sd` and `xl`."""
    for package in ("torch", "diffusers", "transformers"):
        pytest.importorskip(package, reason=f"diffusion pipelines need the extra 'diffusion': {package}")
    from tellapart_render.diffusion.sampling import quiet_diffusion

    tiny_pipelines = import_script(Path(__file__).with_name("tiny_pipelines.py"))
    home = tmp_path_factory.mktemp("pipelines")
    with quiet_diffusion():
        tiny_pipelines.save(home / "sd")
        tiny_pipelines.save(home / "xl", xl=True)
    return home


def _load(folders, name):
    """Load a pipeline as builders do."""
    from tellapart_render.diffusion.sampling import DiffusionModel, open_checkpoint

    return open_checkpoint(DiffusionModel(name=name, device="cpu"), folders).load()


@pytest.fixture(scope="session")
def stable_diffusion(folders):
    return _load(folders, "sd")


@pytest.fixture(scope="session")
def stable_diffusion_xl(folders):
    return _load(folders, "xl")
