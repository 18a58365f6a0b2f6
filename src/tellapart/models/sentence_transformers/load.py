"""Load a model of sentence-transformers by its hub id or folder; its files name its kind (dual or cross encoder)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import ScoreKind, join_names
from tellapart.data.strict_json import load_json
from tellapart.errors import ModelError, require
from tellapart.models.fusion.scoring import FusionScorer
from tellapart.models.fusion.torch_encoder import TorchState
from tellapart.models.huggingface.files import find_file, import_transformers, loading, refuse_other_shards
from tellapart.models.options import ModelOptions
from tellapart.models.prefix import ModelPrefix, files_below
from tellapart.models.protocols import Model, Pixels, Vectors
from tellapart.models.purpose import MODULES, find_library_file
from tellapart.models.sentence_transformers.library import Features, Library, as_picture, as_text
from tellapart.models.torch.backend import Runtime, import_torch, parameter_count, runtime
from tellapart.models.vectors import dot_products, normalise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentence_transformers import CrossEncoder, SentenceTransformer


def roles(model: SentenceTransformer | CrossEncoder) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the prompt and the task of a query and of a document, as `encode_query` and `encode_document` set them."""
    names = [name for name in ("document", "passage", "corpus") if name in model.prompts]
    default = model.prompts.get(model.default_prompt_name)
    query = {"prompt": model.prompts.get("query", default), "task": "query"}
    return query, {"prompt": model.prompts[names[0]] if names else default, "task": "document"}


class SentenceTransformerDual:
    """A `SentenceTransformer`; a score is the similarity that the model names: the cosine or the dot product.

    The reading `encode` gives images and texts what `encode` gives them, the default prompt included; `retrieval` asks
    for texts as queries and for images as documents. On one device a vector depends on its own image or text alone, bit
    for bit on a CPU.

    Attributes:
        batch_size: samples that are best given at once: some forward passes, so that texts of one length meet.
    """

    kind: ScoreKind = "similarity"

    def __init__(self, library: Library, reading: str = "encode") -> None:
        model = library.model
        if reading not in ("encode", "retrieval"):
            raise ModelError(f"{library.source}: it has no reading {reading!r}; it has encode, retrieval")
        if model.similarity_fn_name not in ("cosine", "dot"):
            raise ModelError(
                f"{library.source}: its similarity is {model.similarity_fn_name!r}; cosine and dot are read here: set "
                "similarity_fn_name in config_sentence_transformers.json to the one it was trained with"
            )
        self.name, self.fingerprint = library.source, library.fingerprint(reading)
        self.parameters, self.batch_size = parameter_count(model), 4 * library.size
        #: Scores rise with the cosine of the vectors, so that a gallery can be ranked by it.
        self.ranks_by_cosine = model.similarity_fn_name == "cosine"
        self._library, self.provenance = library, library.provenance
        default = {"prompt": model.prompts.get(model.default_prompt_name)}
        self._query, self._document = (default, default) if reading == "encode" else roles(model)

    @property
    def truncated(self) -> int:
        """Texts so far that were longer than the model's limit and lost their end."""
        return self._library.truncated

    def prepare_image(self, pixels: Pixels) -> Features:
        """Preprocess one RGB image, uint8 `(height, width, 3)`, for `encode_images`; may be called from many
        threads.
        """
        return self._library.prepare(as_picture(pixels), **self._document)

    def encode_images(self, images: Sequence[Pixels | Features]) -> Vectors:
        """Encode RGB images, raw or prepared, to float32 `(n, dimensions)`."""
        prepared = [image if isinstance(image, Mapping) else self.prepare_image(image) for image in images]
        return self._encode_samples(prepared, self._document)

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Encode texts to float32 `(n, dimensions)`; count the cut ones in `truncated`."""
        return self._encode_samples(
            [self._library.prepare_text(as_text(text), **self._query) for text in texts], self._query
        )

    def similarity(self, images: Vectors, texts: Vectors) -> NDArray[np.float32]:
        """Score vectors: float32 `(images, texts)`; of stacks of vectors, item by item."""
        return dot_products(images, texts)

    similarities = similarity

    def _encode_samples(self, samples: Sequence[Features], role: Mapping[str, Any]) -> Vectors:
        if not samples:
            return np.zeros((0, 0), np.float32)
        width = self._library.model.truncate_dim
        options = {name: value for name, value in role.items() if name == "task"}
        rows = self._library.run_samples(
            samples, lambda outputs: outputs["sentence_embedding"][:, :width].float().cpu().numpy(), **options
        )
        vectors = np.stack(rows)
        return normalise(vectors, self.name) if self.ranks_by_cosine else vectors


class CrossEncoderScorer:
    """A `CrossEncoder`: the text is the query, the image the document, and one number comes out.

    The reading `predict` is the number that `predict` returns, a probability if the model's activation is a sigmoid;
    `logit` is the number before that activation, which separates pairs where the probability is rounded to 0 or 1.

    Attributes:
        batch_size: pairs that are best given at once.
    """

    is_reranker = True

    def __init__(self, library: Library, reading: str = "predict") -> None:
        model = library.model
        if reading not in ("predict", "logit"):
            raise ModelError(f"{library.source}: it has no reading {reading!r}; it has predict, logit")
        if model.num_labels != 1:
            raise ModelError(
                f"{library.source}: it puts out {model.num_labels} numbers for a pair, and nothing names the match "
                "among them; a reranker puts out one"
            )
        self.name, self.fingerprint = library.source, library.fingerprint(reading)
        self.parameters, self.batch_size = parameter_count(model), 4 * library.size
        squashed = reading == "predict" and type(model.activation_fn).__name__ == "Sigmoid"
        self.kind: ScoreKind = "probability" if squashed else "logit"
        self._library, self._raw = library, reading == "logit"
        self._prompt = model.prompts.get(model.default_prompt_name)

    @property
    def truncated(self) -> int:
        """Pairs so far that were longer than the model's limit and lost their end."""
        return self._library.truncated

    def score_pairs(self, images: Sequence[Pixels], texts: Sequence[str]) -> NDArray[np.float32]:
        """Score image `k` against text `k`: float32 `(n,)`."""
        if len(images) != len(texts):
            raise ModelError(f"score_pairs takes as many images as texts; got {len(images)} and {len(texts)}")
        pairs = zip(images, texts, strict=True)
        samples = [
            self._library.prepare_text((as_text(text), as_picture(pixels)), prompt=self._prompt)
            for pixels, text in pairs
        ]
        return np.array(self._library.run_samples(samples, self._read_scores), np.float32)

    def _read_scores(self, outputs: Mapping[str, Any]) -> NDArray[np.float32]:
        scores = outputs["scores"].float()
        if not self._raw and self._library.model.activation_fn is not None:
            scores = self._library.model.activation_fn(scores)
        return scores.reshape(-1).cpu().numpy()


class MultiVectors:
    """A `MultiVectorEncoder`: texts are queries, images documents, and the score is the model's similarity.

    MaxSim finds the nearest of the image's vectors for each vector of the text, and sums their dot products; MeanMaxSim
    takes the mean. Images differ in their number of vectors, so they cannot be rows of one array: `FusionScorer`
    keeps them, encodes each image and each text once, and asks for the pairs' numbers.
    """

    kind: ScoreKind = "similarity"

    def __init__(self, library: Library, reading: str = "retrieval") -> None:
        model = library.model
        if reading != "retrieval":
            raise ModelError(f"{library.source}: it has no reading {reading!r}; it has retrieval")
        if model.similarity_fn_name not in ("maxsim", "meanmaxsim"):
            raise ModelError(
                f"{library.source}: its similarity is {model.similarity_fn_name!r}; maxsim and meanmaxsim are read here"
            )
        self.name, self.fingerprint = library.source, library.fingerprint(reading)
        self.parameters = parameter_count(model)
        self._mean = model.similarity_fn_name == "meanmaxsim"
        self._library = library
        self._query, self._document = roles(model)

    def prepare_image(self, pixels: Pixels) -> Features:
        """Preprocess one RGB image, uint8 `(height, width, 3)`; may be called from many threads."""
        return self._library.prepare(as_picture(pixels), **self._document)

    def encode_images(self, images: Sequence[Pixels | Features]) -> list[TorchState]:
        """Encode RGB images, raw or prepared: one state each, `(vectors, dimensions)`."""
        prepared = [image if isinstance(image, Mapping) else self.prepare_image(image) for image in images]
        return [
            TorchState((vectors,)) for vectors in self._library.run_samples(prepared, _kept_vectors, task="document")
        ]

    def encode_texts(self, texts: Sequence[str]) -> list[TorchState]:
        """Encode texts: one state each, `(vectors, dimensions)`."""
        samples, cut = [], []
        for text in texts:
            before = self._library.truncated
            samples.append(self._library.prepare_text(as_text(text), **self._query))
            cut.append(self._library.truncated > before)
        rows = self._library.run_samples(samples, _kept_vectors, task="query")
        return [TorchState((vectors,), truncated) for vectors, truncated in zip(rows, cut, strict=True)]

    def score_states(self, images: Sequence[TorchState], texts: Sequence[TorchState]) -> NDArray[np.float32]:
        """Score image state `k` against text state `k`: float32 `(n,)`, computed in float64, pair by pair."""
        return np.array([self._score_pair(*pair) for pair in zip(images, texts, strict=True)], np.float32)

    def _score_pair(self, image: TorchState, text: TorchState) -> float:
        document, query = (state.tensors[0].double().cpu().numpy() for state in (image, text))
        nearest = (query @ document.T).max(axis=1)
        return float(nearest.mean() if self._mean else nearest.sum())


def _kept_vectors(outputs: Mapping[str, Any]) -> list[Any]:
    """Return the vectors of each sample that its mask keeps."""
    masks = outputs["attention_mask"].bool()
    # A copy: a view would keep all of its batch in memory.
    return [vectors[mask].clone() for vectors, mask in zip(outputs["token_embeddings"], masks, strict=True)]


_CONFIG = "config_sentence_transformers.json"

#: A configuration's name of a model -> the library's class. Without a name it is the first.
_KINDS = {
    "SentenceTransformer": "SentenceTransformer",
    "CrossEncoder": "CrossEncoder",
    "MultiVectorEncoder": "MultiVectorEncoder",
    "ColBERT": "MultiVectorEncoder",  # as PyLate named it
}

#: How far a score may lie from the library's own: another shape of batch, another order of summation.
_NOISE = {"float32": 1e-4, "bfloat16": 0.1, "float16": 0.02}


def load(name: str, options: ModelOptions) -> Model:
    """Load a model of sentence-transformers."""
    source, place = name.removeprefix("st:"), runtime(options)
    import_torch()  # first: it makes the torchvision beside it importable
    module = require("sentence_transformers", extra="st")
    kind = _kind_of(source)
    if not hasattr(module, kind):
        raise ModelError(f"{source} is a {kind}, which sentence-transformers {module.__version__} does not know")
    folder = Path(source).expanduser()
    advice = "expected a model as sentence-transformers saves it"
    with loading(source, f"cannot be loaded as {kind}", advice), _all_weights(source):
        model = getattr(module, kind)(
            str(folder) if folder.is_dir() else source,
            device=place.device,
            trust_remote_code=False,
            model_kwargs={"dtype": place.torch_dtype},
        )
    model.eval().requires_grad_(False)
    return _open_library(Library(source, model, place), kind, options.reading)


def hold_library(
    name: str, model: SentenceTransformer | CrossEncoder, place: Runtime, reading: str | None, *, tested: bool = False
) -> Model:
    """Return a caller's model, without moving it; its identity is the caller's affair."""
    kind = "SentenceTransformer"
    if hasattr(model, "predict"):
        kind = "CrossEncoder"
    elif model.similarity_fn_name in ("maxsim", "meanmaxsim"):
        kind = "MultiVectorEncoder"
    return _open_library(Library(name, model, place, identity="held"), kind, reading, tested=tested)


def _open_library(library: Library, kind: str, reading: str | None, *, tested: bool = False) -> Model:
    model, source = library.model, library.source
    missing = [modality for modality in ("image", "text") if modality not in model.modalities]
    if missing:
        raise ModelError(
            f"{source}: this {kind} takes {join_names(model.modalities, 5)} and no {' and no '.join(missing)}; name "
            "one that takes images and texts, such as st:sentence-transformers/clip-ViT-B-32"
        )
    if not tested:
        _compare_scores(_make_scorer(kind, library, reading), library, kind, reading, library.where)
        library.truncated = 0
    return _make_scorer(kind, library, reading)  # one that has seen nothing yet


def _make_scorer(
    kind: str, library: Library, reading: str | None
) -> SentenceTransformerDual | CrossEncoderScorer | FusionScorer:
    reading_option = {} if reading is None else {"reading": reading}
    if kind == "CrossEncoder":
        return CrossEncoderScorer(library, **reading_option)
    if kind == "MultiVectorEncoder":
        return FusionScorer(MultiVectors(library, **reading_option))
    return SentenceTransformerDual(library, **reading_option)


def _kind_of(source: str) -> str:
    """Return the library's class for a model: a plain model of transformers has no heads that it would not make up."""
    config: Any = {}
    with suppress(ModelError):  # older models have none
        config = load_json(find_file(source, _CONFIG, library="sentence-transformers"), error=ModelError)
    model_type = (
        config.get("model_type") or "SentenceTransformer" if isinstance(config, dict) else "SentenceTransformer"
    )
    if model_type not in _KINDS:
        raise ModelError(
            f"{source} is a {model_type} of sentence-transformers; {', '.join(dict.fromkeys(_KINDS))} are read"
        )
    try:
        find_file(source, MODULES, library="sentence-transformers")
    except ModelError as error:
        advice = f"of a plain model of transformers the library would make up the missing parts: write hf:{source}"
        if other := find_library_file(source):
            advice = f"its {other} is of sentence-transformers: copy {MODULES} from the model that it was trained from"
        raise ModelError(f"{error}; {advice}") from error
    return _KINDS[model_type]


@contextmanager
def _all_weights(source: str) -> Iterator[None]:
    """Refuse weights that are missing or of another shape, which the library would draw at random."""
    base = import_transformers().PreTrainedModel
    original = base.__dict__["from_pretrained"]

    def load_checked(kind: type[Any], /, *arguments: object, **options: object) -> Any:
        asked = options.pop("output_loading_info", False)
        refuse_other_shards(str(arguments[0]))
        model, report = original.__func__(kind, *arguments, output_loading_info=True, **options)
        lost = sorted({*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])})
        if lost:
            raise ModelError(
                f"{source}: {len(lost)} weights of {kind.__name__} are missing or of another shape "
                f"({join_names(lost, 3)}); check that config.json and the checkpoint belong together"
            )
        return (model, report) if asked else model

    base.from_pretrained = classmethod(load_checked)
    try:
        yield
    finally:
        base.from_pretrained = original


def _compare_scores(scorer: Any, library: Library, kind: str, reading: str | None, place: Runtime) -> None:
    """Compare the adapter with the library's call, on two pictures and two texts of different sizes."""
    pictures = [np.full(shape, grey, np.uint8) for shape, grey in (((48, 64, 3), 60), ((64, 40, 3), 190))]
    texts = ["a cat", "two dogs on a red mat, beside a cat"]
    if kind == "SentenceTransformer":
        ours = scorer.similarity(scorer.encode_images(pictures), scorer.encode_texts(texts))
    else:
        ours = scorer.score_pairs([picture for picture in pictures for _ in texts], texts * 2).reshape(2, 2)
    theirs = _by_the_library(library.model, kind, reading, pictures, texts)
    moved = float(np.abs(ours - theirs).max() / max(1.0, float(np.abs(theirs).max())))
    if not moved <= _NOISE[place.dtype]:
        raise ModelError(
            f"{library.source}: the library's own call on two images and two texts gives scores that differ by "
            f"{moved:.2g} from those of each alone: padding or batching moves its numbers, so none of them can be "
            "measured"
        )


def _by_the_library(
    model: SentenceTransformer | CrossEncoder,
    kind: str,
    reading: str | None,
    pictures: Sequence[Pixels],
    texts: Sequence[str],
) -> NDArray[np.float32]:
    """Score pictures against texts by the library's calls: `(images, texts)`."""
    images, captions = [as_picture(picture) for picture in pictures], [as_text(text) for text in texts]
    options = {"show_progress_bar": False}
    if kind == "CrossEncoder":
        if reading == "logit":
            options["activation_fn"] = import_torch().nn.Identity()
        scores = model.predict([(caption, image) for image in images for caption in captions], **options)
        return np.asarray(scores, np.float32).reshape(len(images), len(texts))
    if kind == "SentenceTransformer" and reading != "retrieval":
        return model.similarity(model.encode(images, **options), model.encode(captions, **options)).cpu().numpy()
    documents, queries = model.encode_document(images, **options), model.encode_query(captions, **options)
    return model.similarity(queries, documents).T.float().cpu().numpy()


ST = ModelPrefix(
    {"st:PATH or ORG/REPO": "a model of sentence-transformers: a dual, cross or multi-vector encoder of images"},
    load,
    files=lambda name: files_below(name.removeprefix("st:")),
    takes=frozenset({"device", "dtype", "reading"}),
)
