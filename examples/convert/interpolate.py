"""Make the weights between a model and its fine-tuned form: the patch that CLoVe and WiSE-FT measure.

    python examples/convert/interpolate.py BASE_FILE TUNED_FILE OUTPUT.safetensors --share 0.6
    tellapart run -m open_clip:ViT-B-32-quickgelu/openai@OUTPUT.safetensors -b sugarcrepe

Both are checkpoints of one architecture with the same names (a state dict, or a training checkpoint that nests one).
CLoVe's share of the fine-tuned weights is 0.6. Nothing in the files is run. It was run on tiny models with random
numbers, never on the published files.
"""

from pathlib import Path

import typer

from tellapart.models.torch.backend import import_torch
from tellapart.models.torch.checkpoint import read_state_dict
from tellapart.models.torch.network import describe_misfit


def interpolate(base: Path, tuned: Path, output: Path, share: float = 0.6) -> Path:
    """Write `share` of the fine-tuned weights and the rest of the base's, computed in float32."""
    from safetensors.torch import save_file

    import_torch()
    ends = [read_state_dict(path) for path in (base, tuned)]
    shapes = [{name: tuple(tensor.shape) for name, tensor in end.items()} for end in ends]
    if misfit := describe_misfit(*shapes):
        raise SystemExit(f"{tuned} is no fine-tune of {base}: {misfit}")
    if not 0 <= share <= 1:
        raise SystemExit(f"--share {share} is no share; give a number from 0 to 1")
    mixed = {
        name: ((1 - share) * one.float() + share * ends[1][name].float()).to(one.dtype)
        if one.is_floating_point()
        else one
        for name, one in ends[0].items()
    }
    save_file({name: tensor.contiguous() for name, tensor in mixed.items()}, output)
    return output


if __name__ == "__main__":
    typer.run(interpolate)
