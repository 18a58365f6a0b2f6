"""Load a model of sentence-transformers by its hub id or folder; its files name its kind (dual or cross encoder)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tellapart.data.scores import join_names
from tellapart.data.strict_json import load_json
from tellapart.errors import ModelError, require
from tellapart.models.fusion.scoring import FusionScorer
from tellapart.models.huggingface.files import find_file, import_transformers, loading, refuse_other_shards
from tellapart.models.options import ModelOptions
from tellapart.models.prefix import ModelPrefix, files_below
from tellapart.models.protocols import Model, Pixels
from tellapart.models.purpose import MODULES, find_library_file
from tellapart.models.sentence_transformers.cross_encoder import CrossEncoderScorer
from tellapart.models.sentence_transformers.dual_encoder import SentenceTransformerDual
from tellapart.models.sentence_transformers.library import Library, as_picture, as_text
from tellapart.models.sentence_transformers.multi_vector import MultiVectors
from tellapart.models.torch.backend import Runtime, import_torch, runtime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentence_transformers import CrossEncoder, SentenceTransformer

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
    chosen = {} if reading is None else {"reading": reading}
    if kind == "CrossEncoder":
        return CrossEncoderScorer(library, **chosen)
    if kind == "MultiVectorEncoder":
        return FusionScorer(MultiVectors(library, **chosen))
    return SentenceTransformerDual(library, **chosen)


def _kind_of(source: str) -> str:
    """Return the library's class for a model: a plain model of transformers has no heads that it would not make up."""
    config: Any = {}
    with suppress(ModelError):  # older models have none
        config = load_json(find_file(source, _CONFIG, library="sentence-transformers"), error=ModelError)
    named = config.get("model_type") or "SentenceTransformer" if isinstance(config, dict) else "SentenceTransformer"
    if named not in _KINDS:
        raise ModelError(f"{source} is a {named} of sentence-transformers; {', '.join(dict.fromkeys(_KINDS))} are read")
    try:
        find_file(source, MODULES, library="sentence-transformers")
    except ModelError as error:
        advice = f"of a plain model of transformers the library would make up the missing parts: write hf:{source}"
        if other := find_library_file(source):
            advice = f"its {other} is of sentence-transformers: copy {MODULES} from the model that it was trained from"
        raise ModelError(f"{error}; {advice}") from error
    return _KINDS[named]


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
