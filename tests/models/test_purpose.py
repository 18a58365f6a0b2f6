"""A model that only looks like a chat model is not measured as one."""

import json
from pathlib import Path
from typing import Any

import pytest

from facts import raises
from tellapart.errors import ModelError, UnknownNameError
from tellapart.models.find import find_model
from tellapart.models.options import ModelOptions
from tellapart.models.purpose import expect_chat, match_name, reads_instruction

CHAT = {"model_type": "qwen3_vl", "architectures": ["Qwen3VLForConditionalGeneration"]}
CARD = "---\nlicense: mit\n{facts}\n---\n\n{title}\n\nIt writes, reranks and embeds.\n"


@pytest.fixture
def write(tmp_path):
    """Write the files of a repository, without weights."""

    def make(name="model", config=None, **files):
        folder = tmp_path / name
        for file, text in ({"config.json": json.dumps(CHAT | (config or {}))} | files).items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text)
        return folder

    return make


def open_chat(folder: Path, prefix: str = "hf:", reading: str | None = None):
    pytest.importorskip("transformers", reason="needs the extra 'models'")
    return find_model(f"{prefix}{folder}", ModelOptions(reading=reading))


#: Files that leave no doubt, by the fact that the error names.
CERTAIN: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "Qwen3VLForSequenceClassification": ({"architectures": ["Qwen3VLForSequenceClassification"]}, {}),
    "Qwen2VLForRewardModelBT": ({"architectures": ["Qwen2VLForRewardModelBT"]}, {}),
    "JinaVLForRanking": ({"architectures": ["JinaVLForRanking"]}, {}),
    "one label": ({"num_labels": 1}, {}),
    "config.json names one": ({"id2label": {"0": "LABEL_0"}}, {}),
    "'classifier_from_token'": ({"classifier_from_token": ["no", "yes"]}, {}),
    "1_Pooling/config.json": ({}, {"1_Pooling/config.json": "{}"}),
    "sentence_bert_config.json": ({}, {"sentence_bert_config.json": "{}"}),
    "config_sentence_transformers.json": ({}, {"config_sentence_transformers.json": "{}"}),
}


@pytest.mark.parametrize("fact", CERTAIN)
@pytest.mark.parametrize("prefix", ["hf:", ""])
def test_a_model_whose_files_name_another_head_is_refused_in_every_reading(write, fact, prefix):
    config, files = CERTAIN[fact]
    folder = write(config=config, **files)
    for reading in (None, "yes_no"):
        with raises(ModelError, fact, f"st:{folder}", "vectors:DIR", "tellapart score"):
            open_chat(folder, prefix, reading)


@pytest.mark.parametrize(
    ("fact", "name", "config", "card"),
    [
        ("'Rerank'", "Qwen3-VL-Reranker-2B", {}, ""),
        ("'Embed'", "Qwen3-VL-Embedding-2B", {}, ""),
        ("'Reward'", "models--Skywork--Skywork-VL-Reward-7B/snapshots/0", {}, ""),
        ("'rerank'", "model", {"_name_or_path": "jinaai/jina-reranker-m0"}, ""),
        ("'text-ranking'", "model", {}, CARD.format(facts="pipeline_tag: text-ranking", title="# A model")),
        ("'sentence-transformers'", "model", {}, CARD.format(facts="library_name: sentence-transformers", title="")),
        ("'reward'", "model", {}, CARD.format(facts="tags:\n- chat\n- reward-model", title="# A model")),
        ("'Rerank'", "model", {}, CARD.format(facts="language: en", title="# A-Reranker-2B")),
    ],
)
def test_a_name_is_evidence_unless_a_reading_is_asked_for(write, fact, name, config, card):
    folder = write(name, config, **({"README.md": card} if card else {}))
    with raises(ModelError, fact, "reading=vqa"):
        open_chat(folder)
    with raises(ModelError, "processor"):  # the next step: it is opened as what it is asked for
        open_chat(folder, reading="vqa")


@pytest.mark.parametrize("name", ["qwen3_vl_embedding", "Qwen3-VL-2B-Embedding", "E5_V", "jina-embeddings_v4"])
def test_an_embedder_that_reads_an_instruction_is_known_by_other_spellings(name):
    assert reads_instruction(name) and match_name(name)


def test_a_chat_model_is_none_of_these(write):
    facts = "pipeline_tag: image-text-to-text\nbase_model: a/reranker\ntags:\n- chat\ndatasets:\n- b/reward-data"
    folder = write("rewards/Qwen3-VL-2B-Instruct", **{"README.md": CARD.format(facts=facts, title="# Qwen3-VL")})
    expect_chat(str(folder), CHAT | {"id2label": {"0": "a", "1": "b"}}, None)
    names = ("Qwen/Qwen2-VL-7B-Instruct", "llava-hf/llava-1.5-7b-hf", "google/gemma-3-4b-it", "zai-org/GLM-4.1V-9B")
    assert not any(map(match_name, names))
    assert not any(map(reads_instruction, (*names, "openai/clip-vit-base-patch32", "jinaai/jina-clip-v2")))


@pytest.mark.parametrize("prefix", ["local-dir:", ""])
def test_a_folder_of_parts_alone_is_named_with_its_prefix(write, tmp_path, prefix):
    folder = write(**{"modules.json": "[]", "0_CLIPModel/config.json": "{}"})
    (folder / "config.json").unlink()
    with raises((ModelError, UnknownNameError), f"write st:{folder}"):
        open_chat(folder, prefix)
