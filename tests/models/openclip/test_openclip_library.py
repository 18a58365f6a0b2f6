"""open_clip is imported without transformers, timm and torch's compiler, and has them when it calls them."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

pytestmark = [pytest.mark.slow]
if any(find_spec(name) is None for name in ("torch", "open_clip", "timm", "transformers")):
    pytest.skip("open_clip, timm and transformers are not all installed", allow_module_level=True)

LATE = ("transformers", "timm", "torch._dynamo")

#: Builds an architecture with a tower of each library, of random weights.
BUILD = """
import open_clip
from open_clip.factory import _MODEL_CONFIGS
text = {"context_length": 8, "vocab_size": 64, "width": 32, "heads": 2, "layers": 1}
_MODEL_CONFIGS["timm"] = {"embed_dim": 16, "text_cfg": text, "vision_cfg": {
    "timm_model_name": "test_vit", "timm_model_pretrained": False, "image_size": 160, "timm_pool": "token"}}
"""


def run(*lines: str) -> list[str]:
    """Return what a fresh interpreter prints that imports open_clip as the models do, and then runs these lines."""
    before = [
        "import sys",
        "from tellapart.models.openclip.library import import_open_clip, import_towers",
        f"def here(): return [name for name in {LATE} if name in sys.modules]",
    ]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "\n".join([*before, *lines])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_open_clip_comes_alone_and_is_the_same_module_again() -> None:
    alone = (
        "a = import_open_clip(); print(here(), a is import_open_clip(), a.model.TimmModel is a.timm_model.TimmModel)"
    )
    assert run(alone) == ["[] True False"]
    assert run(
        "from tellapart.models.torch.backend import import_torch; import_torch()",
        "import transformers, timm",
        alone,
        "print(a.hf_model.transformers is transformers)",
    ) == [
        "['transformers', 'timm', 'torch._dynamo'] True True",
        "True",
    ]


def test_a_tower_of_timm_is_built_with_timm() -> None:
    built = "model = open_clip.create_model('timm'); print(type(model.visual.trunk).__module__.split('.')[0])"
    assert run("import_open_clip()", BUILD, built, "print('timm' in here())") == ["timm", "True"]
    before = "import_towers(_MODEL_CONFIGS['timm']); print('timm' in here())"
    assert run("import_open_clip()", BUILD, before, built) == ["True", "timm"]


def test_a_text_tower_of_transformers_is_built_with_transformers() -> None:
    built = "text = open_clip.model.HFTextEncoder('roberta-base', 16, pretrained=False)"
    offline = "import os; os.environ['HF_HUB_OFFLINE'] = '1'"
    # There is no configuration of it on this machine: that transformers looked for one is enough.
    caught = f"""
try:
    {built}
except (OSError, ValueError) as error:
    print("transformers" in here(), open_clip.hf_model.transformers.__name__)
"""
    assert run(offline, "import_open_clip()", BUILD, caught) == ["True transformers"]


def test_torchvision_asks_the_compiler_when_it_needs_it() -> None:
    asked = """
import torch
from torchvision.ops import roi_align
import_open_clip()
boxes = torch.tensor([[0.0, 0, 0, 3, 3]])
print(here(), roi_align(torch.ones(1, 1, 4, 4), boxes, 1).flatten().tolist(), here())
"""
    # Where no compiled operator can be had torchvision asks; here it is asked in its place.
    by_hand = "print(roi_align.__globals__['is_compile_supported']('cpu') in (True, False), 'torch._dynamo' in here())"
    lines = run("import_open_clip()", asked, by_hand)
    assert lines[0].startswith("[] [1.0]")
    assert lines[1] == "True True"
