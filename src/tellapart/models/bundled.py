"""The models that come with tellapart, each made from a run's options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tellapart.models.onnx.dual_encoder import OnnxDualEncoder
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Model
from tellapart.models.reference import BagOfWords, Blind, Constant, Oracle, Random

DEMO_ENCODER_FOLDER = Path(__file__).parent / "demo_encoder"


def demo_encoder(options: ModelOptions) -> OnnxDualEncoder:
    """Load the small dual encoder that was trained on rendered scenes (see its `MODEL_CARD.md`)."""
    return OnnxDualEncoder.load(DEMO_ENCODER_FOLDER, device=options.device)


def random(options: ModelOptions) -> Random:
    """Make the model that draws its scores."""
    return Random(options.seed)


def _without_options(kind: Callable[[], Model]) -> Callable[[ModelOptions], Model]:
    return lambda _options: kind()


_KINDS: tuple[Callable[[], Model], ...] = (Constant, Blind, BagOfWords, Oracle)
constant, blind, bag_of_words, oracle = map(_without_options, _KINDS)
