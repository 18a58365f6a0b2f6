"""A causal model of transformers answers: the same for one seed, by its chat template, and within its context."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from facts import raises
from tellapart.builders.negatives.language_negatives import ChatOptions, Message, conversation, open_chat
from tellapart.builders.pipeline import build
from tellapart.data.folder import read_pair_set
from tellapart.errors import ModelError
from tellapart.models.torch.backend import import_torch

CAPTION = "A dog sits on a red chair."
ANSWER = "CHANGE: dog -> cat\nCAPTION: A cat sits on a red chair."
TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.fixture(scope="module")
def chat_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of one layer that has learnt one answer to one conversation by heart, with the tokenizer of its words."""
    torch = import_torch()
    transformers = pytest.importorskip("transformers", reason="needs the models extra: transformers")
    from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
    from tokenizers.models import BPE

    messages = conversation("replace_obj", CAPTION)
    words = Tokenizer(BPE())
    words.pre_tokenizer, words.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet, show_progress=False
    )
    words.train_from_iterator([*(message.content for message in messages), ANSWER], trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words,
        chat_template=TEMPLATE,
        model_max_length=1024,
        **{"bos_token": "<s>", "eos_token": "</s>"},
    )
    prompt = tokenizer.apply_chat_template(
        [message._asdict() for message in messages], tokenize=False, add_generation_prompt=True
    )
    before = tokenizer(prompt, add_special_tokens=False).input_ids
    after = tokenizer(f"{ANSWER}</s>", add_special_tokens=False).input_ids
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=4,
        max_position_embeddings=1024, bos_token_id=0, eos_token_id=1, pad_token_id=1,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    ids = torch.tensor([before + after])
    labels = torch.tensor([[-100] * len(before) + after])
    for _ in range(1000):  # some 30 steps; as many as it takes, for the vocabulary is not always in one order
        loss = model(input_ids=ids, labels=labels).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if (left := float(loss.detach())) < 0.02:
            break
    assert left < 0.02
    folder = tmp_path_factory.mktemp("chat")
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def options(folder: Path, **changes: Any) -> ChatOptions:
    return ChatOptions(**{"source": str(folder), "max_tokens": 40, **changes})


@pytest.mark.slow
def test_the_answer_that_a_model_learnt_becomes_an_item(
    chat_model: Path, captions: Callable[[list[tuple[str, str]]], Path]
) -> None:
    home = captions([("a.png", CAPTION)])
    (home / "model").symlink_to(chat_model)
    recipe = home / "recipe.toml"
    recipe.write_text(
        'name = "few"\nbuilder = "language-negatives"\n[options]\ncaptions = "captions.jsonl"\nimages = "photos"\n'
        'kinds = ["replace_obj"]\n[options.model]\nsource = "model"\nmax_tokens = 40\n'
    )
    (item,) = read_pair_set(build(recipe, home / "set").folder).items
    assert item.texts == (CAPTION, "A cat sits on a red chair.")
    assert item.provenance["change"] == "dog -> cat"
    assert list(json.loads((home / "set/card.json").read_text())["models"]) == ["LlamaForCausalLM"]


@pytest.mark.slow
def test_a_greedy_answer_needs_no_seed_and_a_drawn_one_has_its_own(chat_model: Path) -> None:
    torch = import_torch()
    messages = conversation("replace_obj", CAPTION)
    greedy = open_chat(options(chat_model))
    assert {greedy(messages, seed).text for seed in (1, 2)} == {ANSWER}
    drawing = open_chat(options(chat_model, temperature=2.0, max_tokens=30))
    torch.manual_seed(11)
    state = torch.random.get_rng_state()
    other = [Message("user", "Hello")]
    first = [drawing(other, seed) for seed in (1, 2, 3, 4, 5, 6, 1)]
    assert first[0] == first[-1]
    assert len({reply.text for reply in first}) > 1  # some may be empty: the end is a token, too
    assert torch.equal(torch.random.get_rng_state(), state)  # nobody else's draws are touched


def test_a_reply_is_cut_off_at_the_limit_and_says_so(chat_model: Path) -> None:
    messages = conversation("replace_obj", CAPTION)
    assert open_chat(options(chat_model, max_tokens=3))(messages, 0).cut
    assert not open_chat(options(chat_model))(messages, 0).cut


def test_a_conversation_beyond_the_context_is_refused(chat_model: Path) -> None:
    with raises(ModelError, "1000", "1024", "tokens"):
        open_chat(options(chat_model, max_tokens=1000))(conversation("replace_obj", CAPTION), 0)


def test_a_model_without_a_chat_template_reads_plain_turns(chat_model: Path, tmp_path: Path) -> None:
    import shutil

    folder = shutil.copytree(chat_model, tmp_path / "base")
    (folder / "chat_template.jinja").unlink()
    plain, templated = (open_chat(options(place, max_tokens=8)) for place in (folder, chat_model))
    said = [Message("user", "A dog.")]
    assert isinstance(plain(said, 0).text, str)
    assert plain.models != templated.models  # it is asked in other words


def test_a_folder_that_holds_no_causal_model_is_named(tmp_path: Path) -> None:
    with raises(ModelError, "tokenizer"):
        open_chat(options(tmp_path))
