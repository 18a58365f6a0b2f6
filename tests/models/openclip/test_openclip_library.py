"""open_clip is imported without transformers, timm and torch's compiler, and has them when it calls them."""

import json
import os
import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from scripts import run_python
from tellapart.models.openclip.library import VERSIONS, import_open_clip

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="each program runs in a fork")]

if any(find_spec(name) is None for name in ("torch", "open_clip", "timm", "transformers")):
    pytest.skip("open_clip, timm and transformers are not all installed", allow_module_level=True)


#: A tower of each library, of random weights.
TIMM = """
open_clip = import_open_clip()
text = {"context_length": 8, "vocab_size": 64, "width": 32, "heads": 2, "layers": 1}
open_clip.factory._MODEL_CONFIGS["timm"] = {"embed_dim": 16, "text_cfg": text, "vision_cfg": {
    "timm_model_name": "test_vit", "timm_model_pretrained": False, "image_size": 160, "timm_pool": "token"}}
model = open_clip.create_model("timm")
print(type(model.visual.trunk).__module__.split(".")[0], "timm" in here())
"""

# There is no configuration of it on this machine: that transformers looked for one is enough.
TRANSFORMERS = """
open_clip = import_open_clip()
try:
    open_clip.model.HFTextEncoder("roberta-base", 16, pretrained=False)
except (OSError, ValueError) as error:
    print("transformers" in here(), open_clip.hf_model.transformers.__name__)
"""

ALONE = """
open_clip = import_open_clip()
print(here(), open_clip is import_open_clip(), open_clip.model.TimmModel is open_clip.timm_model.TimmModel)
"""

# Where no compiled operator can be had torchvision asks; here it is asked in its place.
TORCHVISION = """
import torch
from torchvision.ops import roi_align
boxes = torch.tensor([[0.0, 0, 0, 3, 3]])
print(here(), roi_align(torch.ones(1, 1, 4, 4), boxes, 1).flatten().tolist())
print(roi_align.__globals__["is_compile_supported"]("cpu") in (True, False), "torch._dynamo" in here())
"""

#: Programs, and the lines that they print. The first has torch alone, the others open_clip as the models import it.
PROGRAMS = {
    "libraries first": (
        f"import transformers, timm\n{ALONE}print(open_clip.hf_model.transformers is transformers)",
        ["['transformers', 'timm', 'torch._dynamo'] True True", "True"],
    ),
    "alone": (ALONE, ["[] True False"]),
    "timm": (TIMM, ["timm True"]),
    "transformers": (TRANSFORMERS, ["True transformers"]),
    "torchvision": (TORCHVISION, ["[] [1.0]", "True True"]),
}

#: Runs each program of its input in a fork: torch, and open_clip after the first, are imported once for all.
FORK = """
import json, os, sys, traceback
from tellapart.models.openclip.library import import_open_clip
from tellapart.models.torch.backend import import_torch
def here(): return [name for name in ("transformers", "timm", "torch._dynamo") if name in sys.modules]
import_torch()
for program in json.load(sys.stdin):
    child = os.fork()
    if child == 0:
        try:
            exec(program)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        sys.stdout.flush()
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(1)
    print("end", flush=True)
    import_open_clip()
"""


def test_open_clip_comes_alone_and_each_library_with_the_first_call_that_needs_it():
    programs = json.dumps([program for program, _ in PROGRAMS.values()])
    # What TorchDynamo compiles takes 26 s.
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "TORCHDYNAMO_DISABLE": "1"}
    done = run_python("-W", "ignore", "-c", FORK, input=programs, env=environment)
    printed = [text.splitlines() for text in done.stdout.split("end\n")[:-1]]
    assert dict(zip(PROGRAMS, printed, strict=True)) == {name: lines for name, (_, lines) in PROGRAMS.items()}


def test_the_bound_is_that_of_pyproject():
    content = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))
    extra = content["project"]["optional-dependencies"]["models"]
    stated = next(Requirement(line) for line in extra if re.match("open_clip_torch", line)).specifier
    assert stated == SpecifierSet(VERSIONS)
    assert import_open_clip().__version__ in stated and "4.0.0" not in stated


REFUSED = """
import sys
sys.path.insert(0, sys.argv[1])
from tellapart.errors import MissingDependencyError
from tellapart.models.openclip.library import import_open_clip
for _ in range(2):
    try:
        import_open_clip()
    except MissingDependencyError as error:
        print(error)
"""


@pytest.mark.parametrize("version", ["4.2.1", "3.2.0"])
def test_another_version_is_refused_each_time(version, tmp_path):
    """Another version's number in place of the installed one's, as a package that another program brought."""
    (tmp_path / "open_clip").mkdir()
    (tmp_path / "open_clip" / "__init__.py").write_text(f"__version__ = {version!r}\n")
    done = run_python("-c", REFUSED, tmp_path).stdout
    assert done.count(f"open_clip_torch {version}") == done.count(f'pip install "open_clip_torch{VERSIONS}"') == 2
