"""The models that come with tellapart, each made from a run's options."""

from __future__ import annotations

from pathlib import Path

from tellapart.models.onnx.dual_encoder import OnnxDualEncoder
from tellapart.models.options import ModelOptions
from tellapart.models.reference import BagOfWords, Blind, Constant, Oracle, Random

DEMO_ENCODER_FOLDER = Path(__file__).parent / "demo_encoder"


def demo_encoder(options: ModelOptions) -> OnnxDualEncoder:
    """Load the small dual encoder that was trained on rendered scenes (see its `MODEL_CARD.md`)."""
    return OnnxDualEncoder.load(DEMO_ENCODER_FOLDER, device=options.device)


def random(options: ModelOptions) -> Random:
    """Make the model that draws its scores."""
    return Random(options.seed)


def constant(_options: ModelOptions) -> Constant:
    """Make the model that ties everywhere."""
    return Constant()


def blind(_options: ModelOptions) -> Blind:
    """Make the model that reads the text alone."""
    return Blind()


def bag_of_words(_options: ModelOptions) -> BagOfWords:
    """Make the best model that ignores word order."""
    return BagOfWords()


def oracle(_options: ModelOptions) -> Oracle:
    """Make the model that knows the answers."""
    return Oracle()
