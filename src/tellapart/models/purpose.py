"""The purpose of a model with a chat model's architecture: it may be an embedder, a reranker or a reward model.

Such a model gives P("Yes") for any pair, and that number means nothing. Its files or its name are the evidence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tellapart.errors import ModelError
from tellapart.models.hub import fetch_file

#: The list of a model's parts, as sentence-transformers saves it; with one of the others it is that library's, too.
MODULES = "modules.json"
_LIBRARY_FILES = (MODULES, "config_sentence_transformers.json", "sentence_bert_config.json", "1_Pooling/config.json")

_NAMES = re.compile(
    "re-?rank|ranker|embed|reward|retriev|visualprm|vlm2vec|mme5|unime|lamra|bge-vl|colpali|colqwen|"
    "(^|[^a-z])(gme|e5-v)([^a-z]|$)",
    re.IGNORECASE,
)

#: Embedders that read an instruction and marks around it, which a message with an image or a text alone lacks.
_INSTRUCTED = re.compile(
    r"qwen3-?(vl|omni).*embed|(^|[^a-z])(gme|e5-v)([^a-z]|$)|vlm2vec|mme5|unime|lamra|bge-vl-mllm|"
    "jina-embeddings-v4|ops-mm-embed",
    re.IGNORECASE,
)

#: The end of an architecture that has another head than a chat model's.
_HEADS = re.compile("Classification|Rank|Reward|Embed|Retriev|Score", re.IGNORECASE)
#: Settings by which a server makes a reranker of a chat model.
_SETTINGS = ("classifier_from_token", "is_original_qwen3_reranker")
#: Tasks on a model's card.
_TASKS = re.compile(
    r"^(?:pipeline_tag|library_name): *(text-ranking|sentence-similarity|feature-extraction|text-classification|"
    r"visual-document-retrieval|sentence-transformers) *$",
    re.MULTILINE,
)
_CARD = re.compile(r"---\n(?P<facts>.*?)\n---\n\s*(?P<title># [^\n]*)?", re.DOTALL)
_TAGS = re.compile(r"^tags:\n((?:\s*- .*\n?)*)", re.MULTILINE)


def find_library_file(source: str, files: Sequence[str] = _LIBRARY_FILES) -> str:
    """Return the first of the library's files in a folder or on the hub; empty if there is none, or no answer."""
    folder = Path(source).expanduser()
    if folder.is_dir():
        return next((name for name in files if (folder / name).is_file()), "")
    with suppress(ModelError):
        file = fetch_file(source, source, files, library="sentence-transformers", instead="its folder")
        return next(name for name in files if file.as_posix().endswith(name))
    return ""


def match_name(name: str) -> str:
    """Return the part of a name that only embedders, rerankers and reward models have; empty if there is none."""
    return _find_word(_last_part(name))


def reads_instruction(name: str) -> bool:
    """Return whether the embedder of a name reads an instruction and marks around an image or a text."""
    return _INSTRUCTED.search(_last_part(name)) is not None


def _last_part(name: str) -> str:
    parts = [part for part in Path(name).parts if part.startswith("models--")]  # a snapshot in the hub's cache
    return re.sub(r"[_.\s]", "-", (parts or [Path(name).name])[-1].rpartition("--")[2])


def expect_chat(source: str, config: Mapping[str, Any], reading: str | None) -> None:
    """Refuse a model that is no chat model by its files; by its name alone, too, if no reading is asked for."""
    certain = _read_settings(source, config)
    evidence = certain or ("" if reading else _read_names(source, config))
    if evidence:
        raise ModelError(
            f'{source}: {evidence}: an embedder, a reranker or a reward model, and P("Yes") of one means nothing. '
            f"Write st:{source} if it has a {MODULES}; or measure its vectors by vectors:DIR, its scores by "
            "tellapart score BENCHMARK --scores FILE"
            + ("" if certain else ". If it is a chat model nevertheless, name its reading: reading=vqa")
        )


def _read_settings(source: str, config: Mapping[str, Any]) -> str:
    if name := find_library_file(source):
        return f"it has a {name} of sentence-transformers"
    for architecture in config.get("architectures") or ():
        if isinstance(architecture, str) and _HEADS.search(architecture.rpartition("For")[2]):
            return f"config.json names the architecture {architecture}"
    labels = config.get("id2label")
    if config.get("num_labels") == 1 or (isinstance(labels, Mapping) and len(labels) == 1):
        return "config.json names one label"
    setting = next((name for name in _SETTINGS if config.get(name)), "")
    return setting and f"config.json has the setting {setting!r}"


def _read_names(source: str, config: Mapping[str, Any]) -> str:
    for name in (source, str(config.get("_name_or_path") or "")):
        if part := match_name(name):
            return f"its name has {part!r}"
    try:
        with (Path(source).expanduser() / "README.md").open(encoding="utf-8") as file:
            card = _CARD.match(file.read(100_000))
    except (OSError, ValueError):
        card = None
    if card is None:
        return ""
    task, tags = _TASKS.search(card["facts"]), _TAGS.search(card["facts"] + "\n")
    words = (task[1] if task else "", _find_word(tags[1] if tags else ""), _find_word(card["title"] or ""))
    return next((f"its README.md has {word!r}" for word in words if word), "")


def _find_word(text: str) -> str:
    match = _NAMES.search(text)
    return match[0].strip("-_. ") if match else ""
