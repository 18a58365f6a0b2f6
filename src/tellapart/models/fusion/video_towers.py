"""Video towers of transformers: X-CLIP, VideoPrism and PE-Video read a film as the tensor of its frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind
from tellapart.errors import ModelError
from tellapart.models.control_tokens import ControlTokens
from tellapart.models.fusion.family import Tensors
from tellapart.models.fusion.scoring import FusionScorer
from tellapart.models.fusion.torch_encoder import TorchState, encode_states
from tellapart.models.huggingface.files import (
    config_facts,
    load_processor,
    load_weights,
    quiet,
    read_config,
    tokenizer_facts,
)
from tellapart.models.protocols import Pixels
from tellapart.models.torch.backend import (
    Runtime,
    forward,
    import_torch,
    parameter_count,
    runtime,
    weights_fingerprint,
)
from tellapart.models.torch.dual_encoder import Inputs

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from tellapart.models.options import ModelOptions


@dataclass(frozen=True, slots=True)
class VideoFamily:
    """The towers of one family; a score is the product of its vectors, as the library's logits but for their scale.

    Attributes:
        kind: its class.
        pictures: whether its processor prepares the frames as pictures; others prepare films.
        frames: how many frames of a film its configuration asks for; None of any number.
        video, text: model and a batch -> tensors of each sample.
        meet: model and the tensors of a film and of a text -> their two vectors.
    """

    kind: str
    pictures: bool
    frames: Callable[[Any], int | None]
    video: Callable[[Any, Inputs], tuple[Tensor, ...]]
    text: Callable[[Any, Inputs], tuple[Tensor, ...]]
    meet: Callable[[Any, Sequence[Tensor], Sequence[Tensor]], tuple[Tensor, Tensor]]


def _x_clip_video(model: Any, inputs: Inputs) -> tuple[Tensor, ...]:
    """Return the vector of each film, and its patches' mean over frames, which change a text's vector."""
    films = inputs["pixel_values"]
    images = model.vision_model(pixel_values=films.flatten(0, 1))
    vectors = model.mit(model.visual_projection(images.pooler_output).unflatten(0, films.shape[:2])).pooler_output
    patches = model.prompts_visual_layernorm(images.last_hidden_state[:, 1:]) @ model.prompts_visual_projection
    return vectors, patches.unflatten(0, films.shape[:2]).mean(dim=1)


def _x_clip_meet(model: Any, video: Sequence[Tensor], text: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    vector, patches = video
    caption = text[0][None, None]
    caption = (caption + model.prompts_generator(caption, patches[None]))[0, 0]
    return vector / vector.norm(), caption / caption.norm()


def _pe_text(model: Any, inputs: Inputs) -> tuple[Tensor, ...]:
    states = model.text_model(**inputs, output_hidden_states=True).hidden_states[-1]
    return (model.text_video_head(states[:, 0]),)


#: `model_type` -> its towers. A family is one row.
VIDEO: Mapping[str, VideoFamily] = MappingProxyType(
    {
        "xclip": VideoFamily(
            "XCLIPModel",
            True,
            lambda config: config.vision_config.num_frames,
            _x_clip_video,
            lambda model, inputs: (model.get_text_features(**inputs).pooler_output,),
            _x_clip_meet,
        ),
        "videoprism": VideoFamily(
            "VideoPrismClipModel",
            False,
            lambda config: config.vision_config.num_frames,
            lambda model, inputs: (model.get_video_features(**inputs).pooler_output.flatten(1),),
            lambda model, inputs: (model.get_text_features(**inputs).pooler_output.flatten(1),),
            lambda _, video, text: (video[0], text[0]),
        ),
        "pe_video": VideoFamily(
            "PeVideoModel",
            False,
            lambda _: None,
            lambda model, inputs: (model.video_head(model.video_encoder(**inputs).pooler_output),),
            _pe_text,
            lambda _, video, text: (video[0], text[0]),
        ),
    }
)


class VideoTowers:
    """A model of one of the families; an image in the place of a film is refused."""

    kind: ScoreKind = "similarity"
    #: A film comes as its frames, `(frames, height, width, 3)`, in their order.
    takes_frames = True

    def __init__(self, name: str, model: PreTrainedModel, processor: Any, family: VideoFamily, place: Runtime) -> None:
        self.name, self.parameters = name, parameter_count(model)
        preparer = processor.image_processor if family.pictures else processor.video_processor
        facts = (type(model).__name__, place.dtype, config_facts(model.config), tokenizer_facts(processor.tokenizer))
        self.fingerprint = weights_fingerprint(model, "tellapart:video:1", preparer.to_json_string(), *facts)
        self._model, self._processor, self._family, self._place = model, processor, family, place
        self._frames, self._control = family.frames(model.config), ControlTokens(processor.tokenizer)
        self._context = getattr(model.config.text_config, "max_position_embeddings", None)

    def prepare_image(self, pixels: Pixels) -> Inputs:
        """Preprocess one film, RGB uint8 `(frames, height, width, 3)`; may be called from many threads."""
        if pixels.ndim != 4:
            raise ModelError(f"{self.name} reads films, and this set shows pictures; name a model of pictures")
        if self._frames not in {None, len(pixels)}:
            raise ModelError(
                f"{self.name} reads {self._frames} frames of a film and got {len(pixels)}: write frames={self._frames}"
            )
        if self._family.pictures:
            from PIL import Image

            frames = [Image.fromarray(frame) for frame in pixels]
            return {"pixel_values": self._processor.image_processor(frames, return_tensors="pt")["pixel_values"][None]}
        film = import_torch().from_numpy(pixels.copy()).permute(0, 3, 1, 2)
        return dict(self._processor.video_processor([film], do_sample_frames=False, return_tensors="pt"))

    def encode_images(self, images: Sequence[Pixels | Inputs]) -> list[TorchState]:
        """Encode films, raw or prepared: one state each."""
        prepared = [image if isinstance(image, Mapping) else self.prepare_image(image) for image in images]
        return self._encode(self._family.video, prepared)

    def encode_texts(self, texts: Sequence[str]) -> list[TorchState]:
        """Encode texts: one state each."""
        for text in texts:
            self._control.refuse_in_prompt(self.name, text)
        limit: dict[str, Any] = {} if self._context is None else {"truncation": True, "max_length": self._context}
        samples = [dict(self._processor(text=[text], return_tensors="pt", **limit)) for text in texts]
        states = self._encode(self._family.text, samples)
        cut = [self._is_cut(text, sample) for text, sample in zip(texts, samples, strict=True)]
        return [TorchState(state.tensors, lost) for state, lost in zip(states, cut, strict=True)]

    def _is_cut(self, text: str, sample: Inputs) -> bool:
        """Return whether a text is longer than the context; only one that fills it is read again."""
        if self._context is None or sample["input_ids"].shape[-1] < self._context:
            return False
        with quiet():  # the tokenizer warns of the length that is asked for
            return len(self._processor.tokenizer(text)["input_ids"]) > self._context

    def score_states(self, images: Sequence[TorchState], texts: Sequence[TorchState]) -> NDArray[np.float32]:
        """Score the state of film `k` against that of text `k`: float32 `(n,)`, pair by pair."""
        scores = []
        with forward(self.name, self._model):
            for video, text in zip(images, texts, strict=True):
                vectors = self._family.meet(self._model, video.tensors, text.tensors)
                scores.append(float((vectors[0].double() * vectors[1].double()).sum()))
        return np.array(scores, np.float32)

    def _encode(
        self, tower: Callable[[Any, Inputs], tuple[Tensor, ...]], samples: Sequence[Inputs]
    ) -> list[TorchState]:
        def read(inputs: Inputs) -> Iterable[Tensors]:
            return zip(*tower(self._model, inputs), strict=True)

        return encode_states(self.name, self._model, self._place, samples, read, (2, 16))


def load_video(source: str, options: ModelOptions) -> FusionScorer:
    """Load a model with a video tower of transformers from a folder or the hub."""
    place, family = runtime(options), VIDEO[read_config(source)["model_type"]]
    processor = load_processor(source, pictures=family.pictures)
    return FusionScorer(VideoTowers(source, load_weights(family.kind, source, place), processor, family, place))
