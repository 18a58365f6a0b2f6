"""Load a model of sentence-transformers by its hub id or folder; its files name its kind (dual or cross encoder)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind, join_names
from tellapart.data.strict_json import read_json
from tellapart.errors import ModelError, first_sentence, require
from tellapart.models.captions import ControlTokens
from tellapart.models.fusion.scoring import FusionScorer, StateEncoder
from tellapart.models.fusion.state_towers import meet_tokens
from tellapart.models.huggingface import files
from tellapart.models.huggingface.dual_encoder import pool_at_end
from tellapart.models.options import ModelOptions, ModelPrefix, files_below
from tellapart.models.protocols import Model, Pixels
from tellapart.models.purpose import MODULES, find_library_file
from tellapart.models.torch import backend
from tellapart.models.torch.dual_encoder import Inputs, TorchDual, Towers, batch_key, join_samples
from tellapart.models.torch.network import Network, PreTrainedTokenizerBase

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder, SentenceTransformer


#: Samples in every forward pass, on a CPU and elsewhere.
_SIZES = (8, 32)

_CONFIG = "config_sentence_transformers.json"

#: How far a score may lie from the library's: another shape of batch, another order of summation.
_NOISE = {"float32": 1e-4, "bfloat16": 0.1, "float16": 0.02}


class Library:
    """A loaded model of sentence-transformers.

    The library pads the samples of a call to the longest, so that a number's last digits depend on its neighbours.
    Here every sample is prepared alone by the library's preprocessing; those of one shape meet in batches of a
    fixed size, without padding. `provenance` is where a CLIP among its parts reads a text, if transformers would read
    it elsewhere; `identity` that of a caller's model.
    """

    def __init__(
        self,
        source: str,
        model: SentenceTransformer | CrossEncoder,
        place: backend.Runtime,
        identity: str | None = None,
        instruction: str | None = None,
    ) -> None:
        self.source, self.place, self.instruction = source, place, instruction
        self.model: Any = model
        tokenizers = ((part, _tokenizer_of(part)) for part in model.modules())
        # The whole has the tokenizer of its first part: of those with one tokenizer the innermost comes last.
        readers = {id(words): (part, words) for part, words in tokenizers if words is not None}.values()
        sentences = [pool_at_end(source, part, words, held=identity is not None) for part, words in readers]
        self.provenance = "; ".join(filter(None, sentences))
        self._control = [ControlTokens(words, str(getattr(words, "chat_template", ""))) for _, words in readers]
        self._lock = Lock()  # a tokenizer's settings are changed by a call
        self._identity = identity

    def prepare(self, sample: object, **options: Any) -> Inputs:
        """Preprocess one sample, a batch of one; may be called from many threads."""
        try:
            with self._lock:
                return dict(self.model.preprocess([sample], **options))
        except (ValueError, TypeError, AttributeError, RuntimeError, ZeroDivisionError) as error:
            raise ModelError(f"{self.source}: its preprocessing fails: {first_sentence(error)}") from error

    def prepare_texts(
        self, texts: Sequence[str], pictures: Sequence[Pixels] | None = None, **options: Any
    ) -> tuple[list[Inputs], list[bool]]:
        """Preprocess texts, or pairs of a text and a picture; return which of them lost their end, too."""
        samples, cut, limit = [], [], self.model.max_seq_length
        for position, text in enumerate(texts):
            with self._lock:
                for control in self._control:
                    control.refuse_in_prompt(self.source, text)
            # Not bare: the library reads a text that looks like an image's path as an image.
            sample = {"text": text} if pictures is None else ({"text": text}, _as_picture(pictures[position]))
            features, uncut = self.prepare(sample, **options), None
            if limit is not None and "input_ids" in features and features["input_ids"].shape[-1] >= limit:
                with files.quiet():  # it warns of the length that is asked for
                    uncut = self.prepare(sample, **options, processing_kwargs={"text": {"truncation": False}})
            samples.append(features)
            cut.append(uncut is not None and uncut["input_ids"].shape[-1] > features["input_ids"].shape[-1])
        return samples, cut

    def towers(self, reading: str, read: Callable[[Mapping[str, Any]], Any]) -> Towers:
        """Return the row of a query's and a document's tower, of whose outputs `read` takes the vectors.

        The reading `encode` gives images and texts what `encode` of the library gives them, the default prompt
        included; others ask for texts as queries and for images as documents.
        """
        query, document = (self.role("" if reading == "encode" else name) for name in ("query", "document"))

        def encode(role: Mapping[str, Any]) -> Callable[[Inputs], Any]:
            task = {name: value for name, value in role.items() if name == "task"}
            return lambda inputs: read(self.model(inputs, **task))

        return Towers(
            name=self.source,
            module=self.model,
            place=self.place,
            image=encode(document),
            text=encode(query),
            prepare=lambda pixels: self.prepare(_as_picture(pixels), **document),
            reader=SimpleNamespace(samples=lambda texts: self.prepare_texts(texts, **query)),
            provenance=self.provenance,
            unit=self.model.similarity_fn_name == "cosine",
            collate=join_samples,
            sizes=_SIZES,
        )

    def fingerprint(self, reading: str) -> str:
        """Return a hash of the weights, the preprocessing and the reading: the same wherever the files lie."""
        if self._identity is None:
            kept = ("prompts", "default_prompt_name", "similarity_fn_name", "truncate_dim", "max_seq_length")
            settings: dict[str, Any] = {name: getattr(self.model, name, None) for name in kept}
            settings["activation"] = str(getattr(self.model, "activation_fn", None))
            settings["modules"] = [_module_facts(module) for module in self.model.modules()]
            lengths = [getattr(module, "max_seq_length", None) for module in self.model.modules()]
            if {*lengths} - {None, self.model.max_seq_length}:  # of a router's routes; the longest is the model's
                settings["lengths"] = lengths
            facts = json.dumps(settings, sort_keys=True, default=str)
            self._identity = backend.weights_fingerprint(self.model, type(self.model).__name__, self.place.dtype, facts)
        asked = "" if self.instruction is None else f":{self.instruction}"
        return f"tellapart:sentence-transformers:{reading}:1:{self._identity}{asked}"

    def role(self, name: str = "") -> dict[str, Any]:
        """Return the prompt of what `encode` takes; or prompt and task of a `query` or a `document`, as in the library.

        An instruction is the prompt in place of the default; of a query and a document it is the query's.
        """
        prompts = self.model.prompts
        names = {"query": ("query",), "document": ("document", "passage", "corpus"), "": ()}[name]
        names += (self.model.default_prompt_name,)
        prompt = next((prompts[key] for key in names if key in prompts), None)
        if self.instruction is not None and name != "document":
            prompt = self.instruction
        return {"prompt": prompt} | ({"task": name} if name else {})


def _as_picture(pixels: Pixels) -> dict[str, Any]:
    """Return an RGB image, uint8 `(height, width, 3)`, as the library takes it."""
    from PIL import Image

    return {"image": Image.fromarray(pixels)}


def _tokenizer_of(part: Network) -> PreTrainedTokenizerBase | None:
    """Return the tokenizer of a part that reads texts by a network of transformers."""
    tokenizer = getattr(getattr(part, "processor", None), "tokenizer", getattr(part, "tokenizer", None))
    return tokenizer if hasattr(tokenizer, "special_tokens_map") else None


def _module_facts(module: Network) -> object:
    """Describe a part of a model: its class and its settings; of a network of transformers its configuration."""
    facts: dict[str, Any] = {"kind": type(module).__name__}
    if hasattr(module, "get_config_dict"):
        facts["settings"] = files.part_settings(module)
    if hasattr(config := getattr(module, "config", None), "to_dict"):
        facts["config"] = files.config_facts(config)
    processor = getattr(module, "processor", None)
    if hasattr(processor, "image_processor"):
        facts["processor"] = files.processor_facts(processor)
    elif (tokenizer := _tokenizer_of(module)) is not None:
        facts["processor"] = files.tokenizer_facts(tokenizer)
    facts["chat"] = str(getattr(processor, "chat_template", None))
    return facts


def _make_dual(library: Library, reading: str) -> TorchDual:
    """Make a dual encoder of a `SentenceTransformer`; a score is the similarity that the model names: cosine or dot."""
    towers = library.towers(reading, lambda outputs: outputs["sentence_embedding"][:, : library.model.truncate_dim])
    return TorchDual(towers, fingerprint=library.fingerprint(reading))


class CrossEncoderScorer:
    """A `CrossEncoder`: the text is the query, the image the document, and one number comes out.

    The reading `predict` is the number that `predict` returns, a probability if the model's activation is a sigmoid;
    `logit` is the number before that activation, which separates pairs where the probability is rounded to 0 or 1.
    `truncated` counts pairs that were longer than the model's limit and lost their end.
    """

    is_reranker = True

    def __init__(self, library: Library, reading: str) -> None:
        model = library.model
        if model.num_labels != 1:
            raise ModelError(
                f"{library.source}: it puts out {model.num_labels} numbers for a pair, and nothing names the match "
                "among them; a reranker puts out one"
            )
        self.name, self.fingerprint, self.truncated = library.source, library.fingerprint(reading), 0
        self._size = backend.pass_size(library.place.device, *_SIZES)
        self.parameters, self.batch_size = backend.parameter_count(model), 4 * self._size
        squashed = reading == "predict" and type(model.activation_fn).__name__ == "Sigmoid"
        self.kind: ScoreKind = "probability" if squashed else "logit"
        self._library, self._raw = library, reading == "logit"

    def score_pairs(self, images: Sequence[Pixels], texts: Sequence[str]) -> NDArray[np.float32]:
        """Score image `k` against text `k`: float32 `(n,)`."""
        if len(images) != len(texts):
            raise ModelError(f"score_pairs takes as many images as texts; got {len(images)} and {len(texts)}")
        library, model = self._library, self._library.model

        def compute(batch: Sequence[Inputs]) -> NDArray[np.float32]:
            with backend.forward(self.name, model):
                scores = model(join_samples(batch, library.place))["scores"].float()
                return (scores if self._raw else model.activation_fn(scores)).reshape(-1).cpu().numpy()

        samples, cut = library.prepare_texts(texts, images, prompt=library.role()["prompt"])
        self.truncated += sum(cut)
        return np.array(backend.run_grouped(samples, batch_key, self._size, compute), np.float32)


def _make_late(library: Library, reading: str) -> FusionScorer:
    """Make a scorer of a `MultiVectorEncoder`: texts are queries, images documents.

    The reading `retrieval` is the model's similarity, MaxSim or MeanMaxSim; `filip` is FILIP's (`late_interaction`).
    Images differ in their number of vectors, so they cannot be rows of one array: `FusionScorer` keeps them, encodes
    each image and each text once, and asks for the pairs' numbers.
    """

    def read(outputs: Mapping[str, Any]) -> Iterable[tuple[Any]]:
        masks = outputs["attention_mask"].bool()
        return ((vectors[mask],) for vectors, mask in zip(outputs["token_embeddings"], masks, strict=True))

    meet = meet_tokens("filip" if reading == "filip" else library.model.similarity_fn_name)
    return FusionScorer(StateEncoder(library.towers(reading, read), meet, fingerprint=library.fingerprint(reading)))


class _Kind(NamedTuple):
    """A class of the library: its readings, the default first, the similarities that are read, and its adapter."""

    readings: tuple[str, str]
    similarities: tuple[str, ...]
    make: Callable[[Library, str], Any]


#: The library's classes; a configuration that names none is of the first.
_KINDS = {
    "SentenceTransformer": _Kind(("encode", "retrieval"), ("cosine", "dot"), _make_dual),
    "CrossEncoder": _Kind(("predict", "logit"), (), CrossEncoderScorer),
    "MultiVectorEncoder": _Kind(("retrieval", "filip"), ("maxsim", "meanmaxsim"), _make_late),
}


def load(name: str, options: ModelOptions) -> Model:
    """Load a model of sentence-transformers."""
    source, place = name.removeprefix("st:"), backend.runtime(options)
    backend.import_torch()  # first: it makes the torchvision beside it importable
    module = require("sentence_transformers", extra="st")
    kind = _kind_of(source)
    if not hasattr(module, kind):
        raise ModelError(f"{source} is a {kind}, which sentence-transformers {module.__version__} does not know")
    folder = Path(source).expanduser()
    advice = "expected a model as sentence-transformers saves it"
    with files.loading(source, f"cannot be loaded as {kind}", advice), _all_weights(source):
        model = getattr(module, kind)(
            str(folder) if folder.is_dir() else source,
            device=place.device,
            trust_remote_code=False,
            model_kwargs={"dtype": place.torch_dtype},
        )
    model.eval().requires_grad_(False)
    library = Library(source, model, place, instruction=options.instruction)
    with files.loading(source, f"cannot score as {kind}", advice):  # by settings that the library reads later
        return _open_library(library, kind, options.reading)


def hold_library(
    name: str,
    model: SentenceTransformer | CrossEncoder,
    place: backend.Runtime,
    reading: str | None,
    *,
    tested: bool = False,
) -> Model:
    """Return a caller's model, without moving it; its identity is the caller's affair."""
    kind = "SentenceTransformer"
    if hasattr(model, "predict"):
        kind = "CrossEncoder"
    elif model.similarity_fn_name in _KINDS["MultiVectorEncoder"].similarities:
        kind = "MultiVectorEncoder"
    return _open_library(Library(name, model, place, identity="held"), kind, reading, tested=tested)


def _open_library(library: Library, kind: str, reading: str | None, *, tested: bool = False) -> Model:
    model, source, (readings, similarities, make) = library.model, library.source, _KINDS[kind]
    missing = [modality for modality in ("image", "text") if modality not in model.modalities]
    if missing:
        raise ModelError(
            f"{source}: this {kind} takes {join_names(model.modalities, 5)} and no {' and no '.join(missing)}; name "
            "one that takes images and texts, such as st:sentence-transformers/clip-ViT-B-32"
        )
    reading = reading or readings[0]
    if reading not in readings:
        raise ModelError(f"{source}: it has no reading {reading!r}; it has {', '.join(readings)}")
    if similarities and model.similarity_fn_name not in similarities:
        raise ModelError(
            f"{source}: its similarity is {model.similarity_fn_name!r}; {' and '.join(similarities)} are read here: "
            f"set similarity_fn_name in {_CONFIG} to the one it was trained with"
        )
    if not tested:
        # FILIP's states are those of the library's similarity.
        tested_reading = "retrieval" if reading == "filip" else reading
        _compare_scores(make(library, tested_reading), library, kind, tested_reading)
    return make(library, reading)  # one that has seen nothing yet


def _kind_of(source: str) -> str:
    """Return the library's class for a model: a plain model of transformers has no heads that it would not make up."""
    config: Any = {}
    with suppress(ModelError):  # older models have none
        config = read_json(files.find_file(source, _CONFIG, library="sentence-transformers"), error=ModelError)
    model_type = (config.get("model_type") if isinstance(config, dict) else None) or next(iter(_KINDS))
    kind = str({"ColBERT": "MultiVectorEncoder"}.get(model_type, model_type))  # as PyLate named it
    if kind not in _KINDS:
        raise ModelError(f"{source} is a {kind} of sentence-transformers; {', '.join(_KINDS)} are read")
    try:
        files.find_file(source, MODULES, library="sentence-transformers")
    except ModelError as error:
        advice = f"of a plain model of transformers the library would make up the missing parts: write hf:{source}"
        if other := find_library_file(source):
            advice = f"its {other} is of sentence-transformers: copy {MODULES} from the model that it was trained from"
        raise ModelError(f"{error}; {advice}") from error
    return kind


@contextmanager
def _all_weights(source: str) -> Iterator[None]:
    """Refuse weights that are missing or of another shape, which the library would draw at random.

    So are those left over in a part that the model has, as of a layer too many; other parts are heads of another task.
    """
    base = files.import_transformers().PreTrainedModel
    original = base.__dict__["from_pretrained"]

    def load_checked(kind: type[Any], /, *arguments: object, **options: object) -> Any:
        asked = options.pop("output_loading_info", False)
        files.refuse_other_shards(str(arguments[0]))
        model, report = original.__func__(kind, *arguments, output_loading_info=True, **options)
        parts, prefix = dict(model.named_children()), f"{model.base_model_prefix}."
        left = {key for key in report["unexpected_keys"] if key.removeprefix(prefix).partition(".")[0] in parts}
        left = {key for key in left if ".pooler." not in key}  # a head, too, which some classes are made without
        lost = sorted({*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"]), *left})
        if lost := [key for key in lost if not files.COUNTERS.search(key)]:
            raise ModelError(
                f"{source}: {len(lost)} weights of {kind.__name__} are missing, left over or of another shape "
                f"({join_names(lost, 3)}); check that config.json and the checkpoint belong together"
            )
        return (model, report) if asked else model

    base.from_pretrained = classmethod(load_checked)
    try:
        yield
    finally:
        base.from_pretrained = original


def _compare_scores(scorer: Any, library: Library, kind: str, reading: str) -> None:
    """Compare the adapter with the library's call, on two pictures and two texts of different sizes."""
    pictures = [np.full(shape, grey, np.uint8) for shape, grey in (((48, 64, 3), 60), ((64, 40, 3), 190))]
    texts = ["a cat", "two dogs on a red mat, beside a cat"]
    if kind == "SentenceTransformer":
        ours = scorer.similarity(scorer.encode_images(pictures), scorer.encode_texts(texts))
    else:
        ours = scorer.score_pairs([picture for picture in pictures for _ in texts], texts * 2).reshape(2, 2)
    with backend.inference():
        theirs = _score_by_library(library, kind, reading, pictures, texts)
    moved = float(np.abs(ours - theirs).max() / max(1.0, float(np.abs(theirs).max())))
    if not moved <= _NOISE[library.place.dtype]:
        raise ModelError(
            f"{library.source}: the library's own call on two images and two texts gives scores that differ by "
            f"{moved:.2g} from those of each alone: padding or batching moves its numbers, so none of them can be "
            "measured"
        )


def _score_by_library(
    library: Library, kind: str, reading: str, pictures: Sequence[Pixels], texts: Sequence[str]
) -> NDArray[np.float32]:
    """Score pictures against texts by the library's calls: `(images, texts)`."""
    model = library.model
    images, captions = [_as_picture(picture) for picture in pictures], [{"text": text} for text in texts]
    options: dict[str, Any] = {"show_progress_bar": False}
    asked = {} if library.instruction is None else {"prompt": library.instruction}
    if kind == "CrossEncoder":
        if reading == "logit":
            options["activation_fn"] = backend.import_torch().nn.Identity()
        scores = model.predict([(caption, image) for image in images for caption in captions], **options, **asked)
        return np.asarray(scores, np.float32).reshape(len(images), len(texts))
    if reading == "encode":
        vectors = (model.encode(side, **options, **asked) for side in (images, captions))
        return model.similarity(*vectors).cpu().numpy()
    documents, queries = model.encode_document(images, **options), model.encode_query(captions, **options, **asked)
    return model.similarity(queries, documents).T.float().cpu().numpy()


ST = ModelPrefix(
    {"st:PATH or ORG/REPO": "a model of sentence-transformers: a dual, cross or multi-vector encoder of images"},
    load,
    files=lambda name: files_below(name.removeprefix("st:")),
    takes=frozenset({"device", "dtype", "reading", "instruction"}),
)
