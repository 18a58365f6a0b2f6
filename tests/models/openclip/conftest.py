"""open_clip with tiny architectures, and their checkpoints."""

import functools

import pytest
from tiny_openclip import ARCHITECTURES, added


@pytest.fixture(scope="module")
def open_clip(tmp_path_factory):
    """open_clip, with the tiny architectures among its own and without the hub."""
    with added(tmp_path_factory.mktemp("architectures"), ARCHITECTURES) as open_clip:
        yield open_clip


@pytest.fixture(scope="module")
def checkpoints(open_clip, tmp_path_factory):
    """Make a checkpoint of random weights of an architecture, large enough that every step shows."""
    import torch

    @functools.cache
    def make(architecture):
        torch.manual_seed(0)  # whichever test asks first
        model = open_clip.create_model(architecture)
        for parameter in model.parameters():  # CoCa leaves one as the memory was: NaN now and then
            if not parameter.isfinite().all() or parameter.abs().max() > 1e3:
                torch.nn.init.normal_(parameter, std=0.02)
        state = {key: value * 4 if value.ndim > 1 else value for key, value in model.state_dict().items()}
        file = tmp_path_factory.mktemp("weights") / f"{architecture}.pt"
        torch.save(state, file)
        return file

    return make
