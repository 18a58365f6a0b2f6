"""A generative model is found by its folder; files that are missing or cannot be read are named in the error."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tiny_generative import LANGUAGE, LLAVA_CHAT, MARKS, SAVERS, VISION, read_as, save, save_llava, tokenizer

from facts import raises
from tellapart.errors import ModelError
from tellapart.models.find import find_model
from tellapart.models.generative.chat import ChatFormat
from tellapart.models.huggingface.files import import_transformers, load_processor
from tellapart.models.options import ModelOptions
from tellapart.models.torch.backend import import_torch

torch, transformers = import_torch(), import_transformers()


@pytest.mark.parametrize("reading", ["vqa", "yes_no", "likelihood", "mean_likelihood", "choice", None])
def test_a_folder_is_found_by_its_name_and_read_as_asked(folders: Any, reading: str | None) -> None:
    model = find_model(str(folders["qwen2_vl"]), ModelOptions(reading=reading))
    direct = read_as(reading, folders["qwen2_vl"])
    assert type(model) is type(direct) and model.fingerprint == direct.fingerprint
    assert model.name == str(folders["qwen2_vl"])


@pytest.mark.parametrize("family", list(SAVERS))
def test_pictures_are_prepared_by_pillow(folders: Any, family: str) -> None:
    processor = load_processor(str(folders[family]))
    assert type(processor.image_processor).__name__.endswith("Pil")


@pytest.mark.parametrize(("reading", "said"), [("vqa", ("answers", "questions")), ("choice", "follows")])
def test_blips_captioner_is_not_asked_questions(folders: Any, reading: str, said: Any) -> None:
    with raises(ModelError, "BlipForConditionalGeneration", said):
        read_as(reading, folders["blip"])


def test_a_known_family_without_a_template_is_prompted_as_it_was_trained(folders: Any, tmp_path: Path) -> None:
    save_llava(tmp_path / "bare", chat=None)
    prompted = [read_as("vqa", folder) for folder in (folders["llava"], tmp_path / "bare")]
    # The template writes one blank more, and what is read is another prompt.
    assert {model._reader.format.render_prompt(1, "is it?") for model in prompted} == {
        "USER: <image>\nis it? ASSISTANT:"
    }
    assert prompted[0].fingerprint != prompted[1].fingerprint


def test_blip_2_is_prompted_as_its_paper_prompts_it() -> None:
    config = SimpleNamespace(model_type="blip-2", get_text_config=SimpleNamespace)
    processor = SimpleNamespace(tokenizer=None)
    assert ChatFormat("m", processor, config).render_prompt(1, "is it?") == "Question: is it? Answer:"


def test_another_family_without_a_template_is_an_error_that_says_what_to_add(folders: Any, tmp_path: Path) -> None:
    shutil.copytree(folders["qwen2_vl"], tmp_path / "bare")
    (tmp_path / "bare/chat_template.jinja").unlink()
    with raises(ModelError, "format", "'qwen2_vl'", "chat_template"):
        read_as("vqa", tmp_path / "bare")


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of PaliGemma's processor
def test_a_family_that_looks_ahead_in_its_answer_is_refused(tmp_path: Path) -> None:
    words = tokenizer(MARKS, "bos_token eos_token pad_token")
    images = transformers.SiglipImageProcessor(size={"height": 16, "width": 16})
    images.image_seq_length = 16
    chat = "{% for c in messages[0]['content'] %}{{ '<image>' if c['type'] == 'image' else c['text'] }}{% endfor %}"
    processor = transformers.PaliGemmaProcessor(images, words, chat_template=chat)
    language = LANGUAGE | {"model_type": "gemma", "vocab_size": len(words), "num_key_value_heads": 1, "head_dim": 8}
    config = transformers.PaliGemmaConfig(
        vision_config=VISION | {"model_type": "siglip_vision_model", "projection_dim": 32},
        text_config=language | {"max_position_embeddings": 256},
        image_token_id=words.convert_tokens_to_ids("<image>"),
        projection_dim=32,
    )
    save(tmp_path, transformers.PaliGemmaForConditionalGeneration(config), processor)
    with raises(ModelError, "'paligemma'", "answer"):
        read_as("likelihood", tmp_path)


def test_the_fingerprint_follows_what_is_computed_and_not_where_it_lies(folders: Any, tmp_path: Path) -> None:
    def of(folder: Path, reading: str = "vqa", **options: Any) -> str:
        return str(read_as(reading, folder, **options).fingerprint)

    shutil.copytree(folders["llava"], tmp_path / "copy")
    shutil.copytree(folders["llava"], tmp_path / "chatty")
    (tmp_path / "chatty/chat_template.jinja").write_text(LLAVA_CHAT.replace("'ASSISTANT:'", "'assistant:'"))
    own = of(folders["llava"])
    others = [of(folders["llava"], dtype="bfloat16"), of(tmp_path / "chatty"), of(folders["llava_next"])]
    others += [of(folders["llava"], reading) for reading in ("yes_no", "likelihood", "mean_likelihood", "choice")]
    assert own == of(tmp_path / "copy")
    assert len({own, *others}) == len(others) + 1
