"""Towers of transformers whose states meet in a score: late interaction (ColPali, ColQwen2, ...), and video towers.

The library pads the samples of a batch to the longest, and a padded vector can be the nearest. Here each sample is
prepared alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

from tellapart.errors import ModelError
from tellapart.models.captions import ControlTokens
from tellapart.models.fusion.family import Tensors
from tellapart.models.fusion.scoring import SIZES, FusionScorer, Meet, StateEncoder, meet_pairs
from tellapart.models.huggingface import files
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Pixels
from tellapart.models.torch import backend
from tellapart.models.torch.dual_encoder import Inputs, Towers, join_samples
from tellapart.models.vectors import late_interaction


def meet_tokens(rule: str) -> Meet:
    """Return a `Meet` of the token vectors of images and of texts by a rule of `late_interaction`."""

    def meet(image: Tensors, text: Tensors) -> float:
        return late_interaction(image[0].double().cpu().numpy(), text[0].double().cpu().numpy(), rule)

    return meet_pairs(meet)


def _prepare_frames(processor: Any, film: Pixels) -> Inputs:
    from PIL import Image

    frames = [Image.fromarray(frame) for frame in film]
    return {"pixel_values": processor.image_processor(frames, return_tensors="pt")["pixel_values"][None]}


def _prepare_film(processor: Any, film: Pixels) -> Inputs:
    tensor = backend.import_torch().from_numpy(film.copy()).permute(0, 3, 1, 2)
    return dict(processor.video_processor([tensor], do_sample_frames=False, return_tensors="pt"))


def _encode_x_clip(model: Any, inputs: Inputs) -> Iterable[Tensors]:
    """Return the vector of each film, and its patches' mean over frames, which change a text's vector."""
    films = inputs["pixel_values"]
    images = model.vision_model(pixel_values=films.flatten(0, 1))
    vectors = model.mit(model.visual_projection(images.pooler_output).unflatten(0, films.shape[:2])).pooler_output
    patches = model.prompts_visual_layernorm(images.last_hidden_state[:, 1:]) @ model.prompts_visual_projection
    return zip(vectors, patches.unflatten(0, films.shape[:2]).mean(dim=1), strict=True)


def _meet_x_clip(model: Any, video: Tensors, text: Tensors) -> float:
    vector, patches = video
    caption = text[0][None, None]
    caption = (caption + model.prompts_generator(caption, patches[None]))[0, 0]
    return _multiply(model, (vector / vector.norm(),), (caption / caption.norm(),))


def _multiply(_model: Any, video: Tensors, text: Tensors) -> float:
    return float((video[0].double() * text[0].double()).sum())


def _encode_pe_text(model: Any, inputs: Inputs) -> Iterable[Tensors]:
    states = model.text_model(**inputs, output_hidden_states=True).hidden_states[-1]
    return zip(model.text_video_head(states[:, 0]))


class VideoFamily(NamedTuple):
    """The video towers of one class of transformers.

    Attributes:
        kind: the class.
        prepare: processor and film -> inputs, a batch of one.
        image, text: model and a batch -> tensors of each sample.
        meet: model and the tensors of a film and of a text -> their number.
        frames: how many frames of a film its configuration asks for; None of any number.
    """

    kind: str
    prepare: Callable[[Any, Pixels], Inputs]
    image: Callable[[Any, Inputs], Iterable[Tensors]]
    text: Callable[[Any, Inputs], Iterable[Tensors]]
    meet: Callable[[Any, Tensors, Tensors], float] = _multiply
    frames: Callable[[Any], int | None] = lambda config: config.vision_config.num_frames


#: `model_type` -> its video towers. A family is one row; its number is the library's logit but for the scale.
VIDEO: Mapping[str, VideoFamily] = MappingProxyType(
    {
        "xclip": VideoFamily(
            "XCLIPModel",
            _prepare_frames,
            _encode_x_clip,
            lambda model, inputs: zip(model.get_text_features(**inputs).pooler_output),
            _meet_x_clip,
        ),
        "videoprism": VideoFamily(
            "VideoPrismClipModel",
            _prepare_film,
            lambda model, inputs: zip(model.get_video_features(**inputs).pooler_output.flatten(1)),
            lambda model, inputs: zip(model.get_text_features(**inputs).pooler_output.flatten(1)),
        ),
        "pe_video": VideoFamily(
            "PeVideoModel",
            _prepare_film,
            lambda model, inputs: zip(model.video_head(model.video_encoder(**inputs).pooler_output)),
            _encode_pe_text,
            frames=lambda _: None,
        ),
    }
)


def load_video(source: str, options: ModelOptions) -> FusionScorer:
    """Load a model with a video tower of transformers from a folder or the hub; a picture is refused."""
    place, family = backend.runtime(options), VIDEO[files.read_config(source)["model_type"]]
    by_frame = family.prepare is _prepare_frames
    processor: Any = files.load_processor(source, pictures=by_frame)
    model = files.load_weights(family.kind, source, place)
    preparer = processor.image_processor if by_frame else processor.video_processor
    frames, control = family.frames(model.config), ControlTokens(processor.tokenizer)
    context: int | None = getattr(model.config.text_config, "max_position_embeddings", None)

    def prepare(film: Pixels) -> Inputs:
        if film.ndim != 4:
            raise ModelError(f"{source} reads films, and this set shows pictures; name a model of pictures")
        if frames not in {None, len(film)}:
            raise ModelError(f"{source} reads {frames} frames of a film and got {len(film)}: write frames={frames}")
        return family.prepare(processor, film)

    def read(texts: Sequence[str]) -> tuple[Sequence[Inputs], Sequence[bool]]:
        limit: dict[str, Any] = {} if context is None else {"truncation": True, "max_length": context}
        samples, cut = [], []
        for text in texts:
            control.refuse_in_prompt(source, text)
            samples.append(dict(processor(text=[text], return_tensors="pt", **limit)))
            cut.append(False)
            if context is not None and samples[-1]["input_ids"].shape[-1] >= context:
                with files.quiet():  # the tokenizer warns of the length that is asked for
                    cut[-1] = len(processor.tokenizer(text)["input_ids"]) > context
        return samples, cut

    facts = ("tellapart:video:1", preparer.to_json_string(), type(model).__name__, place.dtype)
    towers = Towers(
        name=source,
        module=model,
        place=place,
        image=partial(family.image, model),
        text=partial(family.text, model),
        prepare=prepare,
        reader=SimpleNamespace(samples=read),
        facts=(*facts, files.config_facts(model.config), files.tokenizer_facts(processor.tokenizer)),
        offers={"takes_frames": True},
        collate=join_samples,
        sizes=(2, 16),
    )
    return FusionScorer(StateEncoder(towers, meet_pairs(partial(family.meet, model))))


def load_late(source: str, options: ModelOptions) -> FusionScorer:
    """Load a late-interaction model of transformers from a folder or the hub; the text is the query.

    The reading is `retrieval`, the processor's `score_retrieval` (MaxSim); or `filip`, the mean of both directions.
    """
    place, reading = backend.runtime(options), options.reading or "retrieval"
    processor: Any = files.load_processor(source)
    model = files.load_weights(files.read_config(source)["architectures"][0], source, place)
    control = ControlTokens(processor.tokenizer)

    def prepare(pixels: Pixels) -> Inputs:
        from PIL import Image

        return dict(processor.process_images([Image.fromarray(pixels)], return_tensors="pt"))

    def read(texts: Sequence[str]) -> tuple[Sequence[Inputs], Sequence[bool]]:
        for text in texts:
            control.refuse_in_prompt(source, text)
        samples = [dict(processor.process_queries([text], return_tensors="pt")) for text in texts]
        return samples, [False] * len(samples)

    def encode(inputs: Inputs) -> Iterable[Tensors]:
        """Return the vectors of each sample that its mask shows."""
        vectors, shown = model(**inputs).embeddings, inputs["attention_mask"].bool()
        return ((rows[mask],) for rows, mask in zip(vectors, shown, strict=True))

    facts = ("tellapart:late-interaction:1", reading, type(model).__name__, place.dtype)
    towers = Towers(
        name=source,
        module=model,
        place=place,
        image=encode,
        text=encode,
        prepare=prepare,
        reader=SimpleNamespace(samples=read),
        facts=(*facts, files.config_facts(model.config), files.processor_facts(processor)),
        collate=join_samples,
        sizes=SIZES,
    )
    return FusionScorer(StateEncoder(towers, meet_tokens("filip" if reading == "filip" else "maxsim")))
