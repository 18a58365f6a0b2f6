"""Load a model that writes text about images, with the reading that turns its text probabilities into scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellapart.errors import ModelError
from tellapart.models.generative.blip import BlipAnswerer, BlipCaptioner
from tellapart.models.generative.chat import ChatModel
from tellapart.models.generative.choice import ChoiceModel
from tellapart.models.generative.encoder_decoder import EncoderDecoderModel
from tellapart.models.generative.reader import Reader, Task
from tellapart.models.generative.readings import CaptionLikelihood, Generative, YesProbability
from tellapart.models.huggingface.files import (
    import_transformers,
    is_clip_flan_t5,
    load_processor,
    load_weights,
    read_config,
)
from tellapart.models.torch.backend import runtime

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from tellapart.models.options import ModelOptions

#: Reading -> the task that the model must be trained for, and the error message if it is not.
_TASKS: dict[str, tuple[Task, str]] = {
    "vqa": ("vqa", "answers no questions; score it by the reading 'likelihood'"),
    "vqa_end": ("vqa", "answers no questions; score it by the reading 'likelihood'"),
    "yes_no": ("vqa", "answers no questions; score it by the reading 'likelihood'"),
    "choice": ("nlvr2", "follows no instructions"),
}


def load_generative(source: str, options: ModelOptions) -> Generative:
    """Load a model that writes text about images, from a folder or the hub.

    The readings: `vqa` (the default), P("Yes") as in VQAScore's paper; `vqa_end`, the geometric mean of P("Yes") and
    P(end of text after it), as in VQAScore's code with CLIP-FlanT5; `yes_no`, P("Yes") / (P("Yes") + P("No"));
    `likelihood`, log P(caption | image); `mean_likelihood`, the same per token; `choice`, EqBen's question which
    caption belongs to which image.
    """
    reader = _load_reader(source, options)
    reading = options.reading or "vqa"
    if reading in _TASKS and _TASKS[reading][0] not in reader.tasks:
        raise ModelError(f"{source}, a {type(reader.model).__name__}, {_TASKS[reading][1]}")
    if reading == "choice":
        return ChoiceModel(reader, dtype=options.dtype)
    if reading in {"likelihood", "mean_likelihood"}:
        return CaptionLikelihood(reader, mean=reading == "mean_likelihood", dtype=options.dtype)
    over_no, with_end = reading == "yes_no", reading == "vqa_end"
    return YesProbability(reader, over_no=over_no, with_end=with_end, dtype=options.dtype)


def _reader_of(model: PreTrainedModel) -> type[ChatModel] | type[EncoderDecoderModel]:
    has_encoder = getattr(model.config.get_text_config(), "is_encoder_decoder", False)
    return EncoderDecoderModel if has_encoder else ChatModel


def _load_reader(source: str, options: ModelOptions) -> Reader:
    place = runtime(options)
    config = read_config(source)
    if is_clip_flan_t5(config):
        from tellapart.models.generative.clip_flan_t5 import load_clip_flan_t5

        return load_clip_flan_t5(source, config, place)
    processor = load_processor(source)
    if config["model_type"] != "blip":
        auto = import_transformers().models.auto.modeling_auto
        supported = config["model_type"] in auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
        # The second class also covers models that take audio.
        kind = "AutoModelForImageTextToText" if supported else "AutoModelForMultimodalLM"
        model = load_weights(kind, source, place)
        return _reader_of(model)(source, model, processor, place)
    if config.get("architectures") == ["BlipForQuestionAnswering"]:
        return BlipAnswerer(source, load_weights("BlipForQuestionAnswering", source, place), processor, place)
    return BlipCaptioner(source, load_weights("BlipForConditionalGeneration", source, place), processor, place)
