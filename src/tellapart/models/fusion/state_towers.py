"""Towers of transformers whose states meet in a score: late interaction (ColPali, ColQwen2, ...), and video towers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.control_tokens import ControlTokens
from tellapart.models.fusion.family import Tensors
from tellapart.models.fusion.scoring import FusionScorer
from tellapart.models.fusion.torch_encoder import SIZES, TorchState, encode_states
from tellapart.models.huggingface import files
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import Pixels
from tellapart.models.torch import backend
from tellapart.models.torch.dual_encoder import Inputs
from tellapart.models.torch.network import PreTrainedModel
from tellapart.models.vectors import late_interaction

Tower = Callable[[Any, Inputs], Iterable[Tensors]]


@dataclass(frozen=True, slots=True)
class TowerFamily:
    """The towers of one family.

    Attributes:
        prepare: processor and pixels -> inputs, a batch of one.
        read: processor, a text and the context's options -> inputs, a batch of one.
        image, text: model and a batch -> tensors of each sample.
        meet: model and the tensors of an image and of a text -> their number.
        kind: the class of transformers; the one that its configuration names if empty.
        films: whether films are read, and no pictures.
        frames: how many frames of a film its configuration asks for; None of any number.
        sizes: samples of a forward, as of `pass_size`.
    """

    prepare: Callable[[Any, Pixels], Inputs]
    read: Callable[..., Inputs]
    image: Tower
    text: Tower
    meet: Callable[[Any, Tensors, Tensors], float]
    kind: str = ""
    films: bool = True
    frames: Callable[[Any], int | None] = lambda config: config.vision_config.num_frames
    sizes: tuple[int, int] = (2, 16)


class StateTowers:
    """A model of one of the families, with a state for each image, or film, and for each text.

    The library pads the samples of a batch to the longest, and a padded vector can be the nearest. Here each sample is
    prepared alone. States stay in memory; the store keeps the pairs' scores.
    """

    kind: ScoreKind = "similarity"

    def __init__(
        self,
        name: str,
        model: PreTrainedModel,
        processor: Any,
        family: TowerFamily,
        place: backend.Runtime,
        *facts: str,
    ) -> None:
        self.name, self.parameters, self.takes_frames = name, backend.parameter_count(model), family.films
        self.fingerprint = backend.weights_fingerprint(model, *facts)
        self._model, self._processor, self._family, self._place = model, processor, family, place
        self._control = ControlTokens(processor.tokenizer)
        self._frames = family.frames(model.config) if family.films else None
        text = model.config.text_config if family.films else None
        self._context: int | None = getattr(text, "max_position_embeddings", None)

    def prepare_image(self, pixels: Pixels) -> Inputs:
        """Preprocess one image, uint8 `(height, width, 3)`, or film, `(frames, height, width, 3)`; in any thread."""
        if self._family.films and pixels.ndim != 4:
            raise ModelError(f"{self.name} reads films, and this set shows pictures; name a model of pictures")
        if self._frames not in {None, len(pixels)}:
            raise ModelError(
                f"{self.name} reads {self._frames} frames of a film and got {len(pixels)}: write frames={self._frames}"
            )
        return self._family.prepare(self._processor, pixels)

    def encode_images(self, images: Sequence[Pixels | Inputs]) -> list[TorchState]:
        """Encode images or films, raw or prepared: one state each."""
        prepared = [image if isinstance(image, Mapping) else self.prepare_image(image) for image in images]
        return self._encode(self._family.image, prepared, [False] * len(prepared))

    def encode_texts(self, texts: Sequence[str]) -> list[TorchState]:
        """Encode texts: one state each."""
        limit: dict[str, Any] = {} if self._context is None else {"truncation": True, "max_length": self._context}
        samples, cut = [], []
        for text in texts:
            self._control.refuse_in_prompt(self.name, text)
            samples.append(self._family.read(self._processor, text, **limit))
            cut.append(False)
            if self._context is not None and samples[-1]["input_ids"].shape[-1] >= self._context:
                with files.quiet():  # the tokenizer warns of the length that is asked for
                    cut[-1] = len(self._processor.tokenizer(text)["input_ids"]) > self._context
        return self._encode(self._family.text, samples, cut)

    def score_states(self, images: Sequence[TorchState], texts: Sequence[TorchState]) -> NDArray[np.float32]:
        """Score image state `k` against text state `k`: float32 `(n,)`, computed in float64, pair by pair."""
        pairs = zip(images, texts, strict=True)
        with backend.forward(self.name, self._model):
            scores = [self._family.meet(self._model, image.tensors, text.tensors) for image, text in pairs]
        return np.array(scores, np.float32)

    def _encode(self, tower: Tower, samples: Sequence[Inputs], cut: Sequence[bool]) -> list[TorchState]:
        read = partial(tower, self._model)
        states = encode_states(self.name, self._model, self._place, samples, read, self._family.sizes)
        return [TorchState(state.tensors, short) for state, short in zip(states, cut, strict=True)]


def score_tokens(images: Sequence[TorchState], texts: Sequence[TorchState], rule: str) -> NDArray[np.float32]:
    """Score the token vectors of image `k` against those of text `k` by a rule: float32 `(n,)`."""
    pairs = zip(images, texts, strict=True)
    return np.array([_meet_tokens(None, image.tensors, text.tensors, rule) for image, text in pairs], np.float32)


def _meet_tokens(_model: Any, image: Tensors, text: Tensors, rule: str) -> float:
    return late_interaction(image[0].double().cpu().numpy(), text[0].double().cpu().numpy(), rule)


def _encode_tokens(model: Any, inputs: Inputs) -> Iterable[Tensors]:
    """Return the vectors of each sample that its mask shows."""
    vectors, shown = model(**inputs).embeddings, inputs["attention_mask"].bool()
    return ((rows[mask],) for rows, mask in zip(vectors, shown, strict=True))


def _prepare_pictures(processor: Any, pixels: Pixels) -> Inputs:
    from PIL import Image

    return dict(processor.process_images([Image.fromarray(pixels)], return_tensors="pt"))


def _prepare_frames(processor: Any, film: Pixels) -> Inputs:
    from PIL import Image

    frames = [Image.fromarray(frame) for frame in film]
    return {"pixel_values": processor.image_processor(frames, return_tensors="pt")["pixel_values"][None]}


def _prepare_film(processor: Any, film: Pixels) -> Inputs:
    tensor = backend.import_torch().from_numpy(film.copy()).permute(0, 3, 1, 2)
    return dict(processor.video_processor([tensor], do_sample_frames=False, return_tensors="pt"))


def _read_text(processor: Any, text: str, **limit: Any) -> Inputs:
    return dict(processor(text=[text], return_tensors="pt", **limit))


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


#: `model_type` -> its video towers. A family is one row; its number is the library's logit but for the scale.
VIDEO: Mapping[str, TowerFamily] = MappingProxyType(
    {
        "xclip": TowerFamily(
            _prepare_frames,
            _read_text,
            _encode_x_clip,
            lambda model, inputs: zip(model.get_text_features(**inputs).pooler_output),
            _meet_x_clip,
            "XCLIPModel",
        ),
        "videoprism": TowerFamily(
            _prepare_film,
            _read_text,
            lambda model, inputs: zip(model.get_video_features(**inputs).pooler_output.flatten(1)),
            lambda model, inputs: zip(model.get_text_features(**inputs).pooler_output.flatten(1)),
            _multiply,
            "VideoPrismClipModel",
        ),
        "pe_video": TowerFamily(
            _prepare_film,
            _read_text,
            lambda model, inputs: zip(model.video_head(model.video_encoder(**inputs).pooler_output)),
            _encode_pe_text,
            _multiply,
            "PeVideoModel",
            frames=lambda _: None,
        ),
    }
)


def load_video(source: str, options: ModelOptions) -> FusionScorer:
    """Load a model with a video tower of transformers from a folder or the hub; a picture is refused."""
    place, family = backend.runtime(options), VIDEO[files.read_config(source)["model_type"]]
    processor = files.load_processor(source, pictures=family.prepare is _prepare_frames)
    model = files.load_weights(family.kind, source, place)
    preparer = processor.image_processor if family.prepare is _prepare_frames else processor.video_processor
    facts = (
        type(model).__name__,
        place.dtype,
        files.config_facts(model.config),
        files.tokenizer_facts(processor.tokenizer),
    )
    identity = ("tellapart:video:1", preparer.to_json_string(), *facts)
    return FusionScorer(StateTowers(source, model, processor, family, place, *identity))


def load_late(source: str, options: ModelOptions) -> FusionScorer:
    """Load a late-interaction model of transformers from a folder or the hub; the text is the query.

    The reading is `retrieval`, the processor's `score_retrieval` (MaxSim); or `filip`, the mean of both directions.
    """
    place, reading = backend.runtime(options), options.reading or "retrieval"
    processor = files.load_processor(source)
    model = files.load_weights(files.read_config(source)["architectures"][0], source, place)
    family = TowerFamily(
        _prepare_pictures,
        lambda words, text: dict(words.process_queries([text], return_tensors="pt")),
        _encode_tokens,
        _encode_tokens,
        partial(_meet_tokens, rule={"retrieval": "maxsim", "filip": "filip"}[reading]),
        films=False,
        sizes=SIZES,
    )
    facts = (type(model).__name__, place.dtype, files.config_facts(model.config), files.processor_facts(processor))
    return FusionScorer(
        StateTowers(source, model, processor, family, place, "tellapart:late-interaction:1", reading, *facts)
    )
