"""What a constant model gets on one item of SugarCrepe's shape in other tools, by their own scoring code.

It fetches three wheels (13 MB) without their dependencies. Of each the one function that turns scores into right and
wrong is taken and called: one image, two captions, the same score for both.
"""

import ast
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from record import command_line, run_bench


def function_of(wheel: Path, module: str, name: str, **known: Any) -> Callable[..., Any]:
    """Return a function or method of a module in a wheel, with nothing around it but what is given by name."""
    with zipfile.ZipFile(wheel) as archive:
        tree = ast.parse(archive.read(module))
    # The last of that name: before it stands the one that it overrides.
    node = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name][-1]
    node.returns, node.decorator_list = None, []
    for argument in [*node.args.args, *node.args.kwonlyargs]:
        argument.annotation = None
    exec(compile(ast.fix_missing_locations(ast.Module([node], [])), module, "exec"), known)
    return known[name]


def clip_benchmark(wheel: Path) -> float:
    """CLIP_benchmark: `evaluate` on a model whose vectors are all alike."""
    alike = SimpleNamespace(encode_image=lambda x: torch.ones(len(x), 4), encode_text=lambda x: torch.ones(len(x), 4))
    evaluate = function_of(
        wheel, "clip_benchmark/metrics/image_caption_selection.py", "evaluate",
        torch=torch, F=torch.nn.functional, tqdm=list,
    )  # fmt: skip
    items = [(torch.zeros(1, 3, 8, 8), [["true", "false"]])]
    return evaluate(alike, items, lambda texts: torch.zeros(len(texts), 7), "cpu", amp=False)["text_acc"]


def unibench(wheel: Path) -> float:
    """UniBench: `eval_batch` of its relation benchmarks."""
    distribution = lambda **_: SimpleNamespace(entropy=lambda: None)  # noqa: E731
    evaluate = function_of(
        wheel, "unibench/benchmarks_zoo/wrappers/bechmark_handler.py", "eval_batch",
        torch=torch, softmax=torch.nn.functional.softmax, Categorical=distribution,
    )  # fmt: skip
    handler = SimpleNamespace(benchmark_name="sugarcrepe", get_similarity=lambda *_: torch.ones(2, 1, 2))
    batch = (torch.zeros(2, 3, 8, 8), [["true", "false"]] * 2, ["0", "1"])
    return evaluate(handler, None, batch)["correctness"].float().mean().item()


def mteb(wheel: Path) -> float:
    """MTEB: `_compute_metrics` of its image-text pairs."""
    compute = function_of(
        wheel, "mteb/abstasks/image/image_text_pair_classification.py", "_compute_metrics",
        ImageTextPairClassificationMetrics=dict,
    )  # fmt: skip
    return compute(None, torch.ones(1, 1, 2), num_images_per_sample=1, num_texts_per_sample=2)["text_acc"]


TOOLS = {"clip-benchmark==1.6.2": clip_benchmark, "unibench==0.4.0": unibench, "mteb==2.26.24": mteb}


def ask_tools() -> dict[str, Any]:
    """Ask every tool, and return what it said."""
    found = {}
    for requirement, ask in TOOLS.items():
        with tempfile.TemporaryDirectory() as folder:
            download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, requirement]
            subprocess.run(download, check=True)
            found[requirement] = ask(next(Path(folder).glob("*.whl")))
    return {"command": command_line(), "item": "one image, two captions, equal scores", "right": found}


if __name__ == "__main__":
    run_bench(ask_tools, "ties")
