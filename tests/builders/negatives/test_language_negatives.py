"""A language model's false captions become a pair set: the same however often the build was killed, and audited."""

import json
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentences import words_apart

from facts import check_facts, raises
from published import published
from tellapart.auditing.audit import Options, audit
from tellapart.builders.builder import Rejected
from tellapart.builders.negatives.language_negatives import (
    NONE,
    TASKS,
    ChatOptions,
    RewriteReply,
    check,
    conversation,
    open_chat,
    parse,
    write_answer,
)
from tellapart.builders.negatives.lexicon import uniform, words
from tellapart.builders.negatives.negatives import KINDS, rewrites
from tellapart.builders.pipeline import Funnel, build
from tellapart.data.folder import read_pair_set
from tellapart.errors import DataError, ModelError, RunError
from tellapart.models.api import connection
from tellapart.models.api.connection import HOST, KEY
from tellapart.models.torch.backend import import_torch

ELSEWHERE = "http://models.example/v1"
ROWS = [
    ("a.png", "A man riding a horse"),
    ("a.png", "a man is on a horse in front of a house."),
    ("b.png", "a red cup and a blue bowl on a table"),
    ("c.png", "nothing that is known"),
]


def written(home: Path, source: str, options: str = "", model: str = 'name = "small"') -> Path:
    path = home / "recipe.toml"
    path.write_text(
        'name = "few"\nbuilder = "language-negatives"\nseed = 5\n'
        f'[options]\ncaptions = "captions.jsonl"\nimages = "photos"\n{options}\n'
        f'[options.model]\nsource = "{source}"\n{model}\n'
    )
    return path


def test_captions_become_pairs_in_one_form_and_the_audit_reads_them(server, captions):
    home = captions(ROWS)
    built = build(written(home, server.url), home / "set")
    pairs = read_pair_set(built.folder)
    by_id = {item.id: item for item in pairs.items}
    assert (pairs.shape, built.funnel.candidates, len(server.asked)) == ((1, 2), 28, 28)
    assert by_id["3-swap_att"].texts[1] == "A blue cup and a red bowl on a table."
    swapped = by_id["1-swap_obj"]
    assert swapped.texts == ("A man riding a horse.", "A horse riding a man.")
    assert (swapped.provenance["change"], swapped.tags["bag_of_words"]) == ("man <-> horse", "same")
    assert swapped.provenance["models"] == {"small": f"as served by {server.url}"}
    assert swapped.cluster == by_id["2-swap_obj"].cluster == "a.png"
    assert all(text[0].isupper() and text[-1] == "." for item in pairs.items for text in item.texts)
    assert built.funnel.rejected["model", "no such change, it says"] == 28 - len(pairs)
    found = audit(pairs, Options())
    assert (found.items, found.tags["subset"]["swap_obj"]) == (len(pairs), 3)
    identity = next(finding for finding in found.findings if "bag" in finding.name or "words" in finding.title)
    assert identity.n == len(pairs)


def test_answers_that_will_not_do_are_counted_by_why(server, captions):
    home = captions([*ROWS[:1], ("a.png", "A man on a zebra"), ("b.png", "A DOG ON A BED")])
    answers = {
        ROWS[0][1]: "CHANGE: horse -> zebra\nCAPTION: A man riding a zebra",
        "A man on a zebra": "Of course! A man on a bus.",
        "A DOG ON A BED": "CHANGE: dog -> cat\nCAPTION: A cat on a rug",
    }
    server.write = lambda body: answers[body["messages"][-1]["content"]]
    recipe = written(home, server.url, 'kinds = ["replace_obj"]')
    with raises(DataError, "3", "candidates", "'Of course! A man on a bus.'"):
        build(recipe, home / "none")
    answers["A DOG ON A BED"] = "CHANGE: dog -> cat\nCAPTION: A cat on a bed"
    built = build(written(home, server.url, 'kinds = ["replace_obj"]\nuniform = false'), home / "set")
    reasons = [("other-captions", "names what another caption names"), ("parse", "not of the form")]
    assert built.funnel.rejected == Counter(reasons)
    assert read_pair_set(built.folder).items[0].texts == ("A DOG ON A BED", "A CAT ON A BED")
    server.finish = "length"
    with raises(DataError, "3", "max_tokens"):
        build(recipe, home / "other")


def test_an_answer_takes_the_capitals_of_a_title(server, captions):
    home = captions([("a.png", "A Dog On A Man's Bed")])
    server.write = lambda _: "CHANGE: dog -> cat\nCAPTION: A cat on a man's bed"
    built = build(written(home, server.url, 'kinds = ["replace_obj"]'), home / "set")
    assert read_pair_set(built.folder).items[0].texts == ("A Dog On A Man's Bed.", "A Cat On A Man's Bed.")


def test_more_answers_are_drawn_each_with_a_seed_of_its_own(server, captions):
    home = captions(ROWS[:1])
    right = server.write
    server.write = lambda body: "Hm." if len(server.asked) < 3 else right(body)
    options = 'kinds = ["swap_obj"]\nattempts = 4'
    drawing = 'name = "small"\ntemperature = 0.7'
    built = build(written(home, server.url, options, drawing), home / "set")
    assert built.funnel.redrawn == {"parse: not of the form": 2}
    assert len({asked["seed"] for asked in server.asked}) == len(server.asked) == 3
    assert read_pair_set(built.folder).items[0].provenance["attempts"] == 3
    with raises(DataError, "1", "model.temperature", "0"):
        build(written(home, server.url, options), home / "other")


def test_a_server_that_fails_leaves_what_it_answered(server, captions, monkeypatch):
    monkeypatch.setattr(connection, "_PAUSE", 0.01)
    home = captions(ROWS)
    recipe = written(home, server.url, 'kinds = ["swap_obj"]', 'name = "small"\ntries = 1')
    server.statuses = [200, 500, 500, 500]
    recipe.write_text(f"retries = 0\n{recipe.read_text()}")
    with raises(RunError, "3", "4", "HTTP", "500"):
        build(recipe, home / "set")
    assert len(server.asked) == 4
    build(recipe, home / "set")
    assert len(server.asked) == 7  # the one that was answered is not asked again


@pytest.mark.slow
def test_a_build_that_stops_asks_for_the_rest_and_ends_in_the_same_bytes(server, captions, check_resumed):
    check_resumed(written(captions(ROWS), server.url), 12)
    assert len(server.asked) == 2 * 28  # of both builds: nothing is asked twice


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_another_machine_is_asked_over_plain_http_only_where_the_command_line_says_so(
    server, captions, command, monkeypatch, workers
):
    monkeypatch.setenv("http_proxy", server.url.removesuffix("/v1"))  # stands in for the way to that machine
    home = captions(ROWS[:1])
    recipe = written(home, ELSEWHERE, 'kinds = ["swap_obj"]')
    refused = command("build", recipe, "--out", home / "set", "--workers", workers)
    assert (refused.code, server.asked) == (2, [])
    check_facts(refused.err, "models.example")
    assert not (home / "set").exists()
    assert command("build", recipe, "--out", home / "set", "--workers", workers, "--insecure").code == 0
    assert len(server.asked) == 1


def reason(outcome: RewriteReply | Rejected | None) -> str:
    assert isinstance(outcome, Rejected), outcome
    return f"{outcome.step}: {outcome.reason}"


def test_every_example_that_the_model_is_shown_passes_its_own_checks():
    assert tuple(TASKS) == KINDS
    for kind, task in TASKS.items():
        shown = [message["content"] for message in conversation(kind, "A dog.")]
        assert task["form"] in shown[0]
        for true, *changed in task["examples"]:
            said = write_answer(*changed)
            found = parse(said, kind)
            assert said in shown
            if said == NONE:
                assert reason(found) == "model: no such change, it says"
            else:
                assert isinstance(found, RewriteReply)
                assert check(kind, true, found) is None
        assert sum(len(example) == 1 for example in task["examples"]) == 1


#: Why a reply is refused, and replies.
OTHER_FORMS = {
    "parse: empty": ("",),
    "model: no such change, it says": ("NONE.",),
    "parse: not of the form": (
        "A cat on a bed.", "Sure!\nCHANGE: dog -> cat\nCAPTION: A cat.", "CAPTION: A cat.\nCHANGE: dog -> cat",
        "CHANGE: dog -> cat\nCAPTION: A cat.\nI hope this helps.", "change: dog -> cat\ncaption: A cat.",
    ),
    "parse: the change is not noted in its form": (
        "CHANGE: dog, cat\nCAPTION: A cat.", "CHANGE: dog <-> cat\nCAPTION: A cat.",
        "CHANGE: dog -> cat -> cow\nCAPTION: A cow.", "CHANGE: dog -> !\nCAPTION: A !.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("why", "reply"), [(why, reply) for why, replies in OTHER_FORMS.items() for reply in replies])
def test_a_reply_of_another_form_is_rejected(why, reply):
    assert reason(parse(reply, "replace_obj")) == why


@pytest.mark.parametrize(
    "reply",
    [
        "<think>CHANGE: dog -> owl\nCAPTION: An owl.</think>\nCHANGE: dog -> cat\nCAPTION: A cat.",
        "It is a dog, so a cat.</think>CHANGE: dog -> cat\nCAPTION: A cat.",
        "```\nCHANGE: dog -> cat\nCAPTION: A cat.\n```",
        "<think></think>\n```text\nCHANGE: dog -> cat\n\nCAPTION: A cat.\n```\n",
        "\n CHANGE: dog -> cat \r\n\n CAPTION: A cat. \n",
    ],
)
def test_neither_a_thought_nor_a_fence_nor_a_blank_is_part_of_a_reply(reply):
    assert parse(reply, "replace_obj") == RewriteReply(("dog", "cat"), "A cat.")


def test_a_refused_reply_is_kept_and_one_of_each_reason_is_shown():
    funnel = Funnel()
    for reply in ("Sure!\nHere.", "Sure! Another.", "CHANGE: dog\nCAPTION: A cat.", ""):
        outcome = parse(reply, "replace_obj")
        assert isinstance(outcome, Rejected)
        funnel.count(outcome)
    form, note = "not of the form", "the change is not noted in its form"
    examples = {form: ", such as 'Sure!\\nHere.'", note: ", such as 'CHANGE: dog\\nCAPTION: A cat.'", "empty": ""}
    shown = {reason: number for step, reason, number in funnel.rows() if step == "rejected by parse"}
    assert shown == {f"{why}{examples[why]}": number for why, number in ((form, 2), (note, 1), ("empty", 1))}
    # The card of a set holds numbers alone.
    assert funnel.to_record()["rejected"] == {"parse: empty": 1, f"parse: {form}": 2, f"parse: {note}": 1}


#: Why an answer is refused, and answers: the kind, the caption, the change that was noted, and the false caption.
ANSWERS = {
    "": [
        ("replace_obj", "A dog on a bed", ("dog", "owl"), "An owl on a bed."),
        ("replace_obj", "A man holds his hat.", ("man", "woman"), "A woman holds her hat."),
        ("replace_rel", "Men look on.", ("look on", "walk away"), "Men walk away."),
        ("swap_obj", "A man is waving at two men.", ("A man", "two men"), "Two men are waving at a man."),
        ("swap_obj", "A boy near a woman's head.", ("boy", "woman"), "A woman near a boy's head."),
        ("swap_att", "A red cup, a blue bowl", ("red", "blue"), "A blue cup, a red bowl"),
        ("swap_obj", "A big cat and a dog.", ("cat", "dog"), "A big dog and a cat."),
        ("swap_obj", "A boy near a woman who sits", ("boy", "woman"), "A woman near a boy who sits"),
        ("swap_obj", "Two cats and three dogs", ("cats", "dogs"), "Two dogs and three cats"),
        ("swap_obj", "Two dogs and a cat", ("dogs", "cat"), "Two cats and a dog"),
        ("swap_obj", "His dog and her cat", ("dog", "cat"), "His cat and her dog"),
        ("replace_obj", "A dog on a cat", ("dog on a cat", "cat on a dog"), "A cat on a dog"),
        ("add_obj", "A dog is here.", ("and a cat",), "A dog and a cat are here."),
        ("replace_obj", "A nose.", ("nose", "notebook"), "A notebook."),
        ("add_att", "A dog sits.", ("old",), "An old dog sits."),
    ],
    "the caption itself": [
        ("replace_obj", "A dog.", ("dog", "cat"), "a Dog"),
        ("replace_att", "A grey dog.", ("grey", "gray"), "A gray dog."),
        ("add_att", "A dog on bed.", ("the",), "A dog on the bed."),
    ],
    "another change than the one noted": [
        ("replace_obj", "A dog on a bed.", ("dog", "cat"), "A cat on a big bed."),
        ("replace_obj", "A dog on a bed.", ("cow", "cat"), "A cat on a bed."),
        ("swap_obj", "A dog on a bed.", ("dog", "bed"), "A dog on a dog."),
        ("swap_obj", "A dog on a bed.", ("dog", "cat"), "A cat on a bed."),
        ("add_obj", "A dog on a bed.", ("and a cat",), "A dog and a cat."),
        ("add_att", "A dog sits.", ("old",), "An old cat sits."),
    ],
    "denies": [
        ("replace_obj", "A dog sits.", ("dog", "no dog"), "No dog sits."),
        ("replace_obj", "a bed with no dog", ("dog", "cat"), "A bed with no cat."),
        ("add_obj", "A bed without a dog.", ("and a cat",), "A bed without a dog and a cat."),
    ],
    # As true as the caption, or so if it is more exact.
    "one phrase holds the other": [
        ("replace_obj", "A brown dog sits.", ("brown dog", "dog"), "A dog sits."),
        ("replace_obj", "A dog sits.", ("dog", "old dog"), "An old dog sits."),
        ("replace_rel", "A cup on a bed.", ("on", "on top of"), "A cup on top of a bed."),
        ("replace_obj", "Cat and dog", ("cat and dog", "dog and cat"), "Dog and cat"),
        ("replace_obj", "A dog sits.", ("a dog", "the dog"), "The dog sits."),
        ("replace_obj", "The dog sits.", ("the dog", "an old dog"), "An old dog sits."),
    ],
    "exchanges equals": [
        ("swap_obj", "A cat and two dogs.", ("a cat", "two dogs"), "Two dogs and a cat."),
        ("swap_obj", "A cup next to a fork.", ("cup", "fork"), "A fork next to a cup."),
        ("swap_obj", "A cat and a dog sit on a bed", ("cat", "dog"), "A dog and a cat sit on a bed"),
        ("swap_obj", "Two cats and two dogs", ("cats", "dogs"), "Two dogs and two cats"),
        ("swap_obj", "His dog and her cat", ("dog", "cat"), "Her cat and his dog"),
        ("swap_obj", "His cat and dog", ("cat", "dog"), "His dog and cat"),
        ("swap_att", "A red and blue kite.", ("red", "blue"), "A blue and red kite."),
        ("replace_rel", "A cat on top of a cat.", ("on top of", "underneath"), "A cat underneath a cat."),
        ("replace_rel", "Two cats behind each other.", ("behind", "in front of"), "Two cats in front of each other."),
    ],
    "a phrase of more than 6 words": [("replace_rel", "A dog.", ("dog", "b c d e f g h"), "A b c d e f g h.")],
}


@pytest.mark.parametrize(("why", "answer"), [(why, answer) for why, answers in ANSWERS.items() for answer in answers])
def test_the_change_that_was_noted_is_found_and_any_other_caption_is_rejected(why, answer):
    kind, caption, change, false = answer
    outcome = check(kind, caption, RewriteReply(change, false))
    assert reason(outcome).startswith(f"check: {why}") if why else outcome is None


SOME = ("a", "the", "red", "blue", "big", "dog", "cat", "cup", "bed", "two", "on", "behind", "sits", "is", "man")
WORDS = st.sampled_from(SOME)
SENTENCES = st.lists(WORDS, min_size=1, max_size=10)


@given(st.lists(WORDS, min_size=1, max_size=12).map(" ".join), st.sampled_from(KINDS))
def test_whatever_a_rule_changes_passes_as_an_answer(caption, kind):
    for each in rewrites(caption, kind):
        change = " ".join(each.change.split()[:2]) if kind == "add_att" else each.change  # its noun is noted, too
        answer = parse(f"CHANGE: {change}\nCAPTION: {each.text}", kind)
        assert isinstance(answer, RewriteReply)
        assert check(kind, caption, answer) is None


@given(SENTENCES, SENTENCES, st.sampled_from(KINDS), st.data())
def test_an_answer_that_passes_is_never_the_caption_and_shares_all_but_the_phrases(before, after, kind, data):
    phrases = tuple(" ".join(data.draw(st.lists(WORDS, min_size=1, max_size=3))) for _ in range(1 + (kind[0] != "a")))
    if check(kind, " ".join(before), RewriteReply(phrases, " ".join(after))) is None:
        one, other = words(" ".join(before)), words(" ".join(after))
        assert one != other
        grown = {"add": len(words(phrases[0])), "swap": 0}.get(kind.partition("_")[0])
        assert len(other) - len(one) == (len(words(phrases[1])) - len(words(phrases[0])) if grown is None else grown)


@given(st.text(alphabet="aB .,?\n!:;", min_size=1).filter(lambda text: any(c.isalpha() for c in text)))
def test_one_form_of_a_caption_is_kept_by_another_round(text):
    once = uniform(text)
    assert uniform(once) == once
    assert once[-1] in ".!?"
    assert words(once) == words(text)


def test_most_of_sugarcrepe_s_replacements_are_one_phrase_for_another():
    # 0.93 to 0.97 of them are, as the paper's templates ask; the check would be wrong if it refused those.
    for kind in ("replace_obj", "replace_att", "replace_rel"):
        rows = json.loads(published("sugarcrepe", "data", f"{kind}.json").read_text()).values()
        good = 0
        for row in rows:
            one, other = words(row["caption"]), words(row["negative_caption"])
            phrases = tuple(map(" ".join, words_apart(one, other)))
            good += all(phrases) and check(kind, row["caption"], RewriteReply(phrases, row["negative_caption"])) is None
        assert good / len(rows) > 0.9


CAPTION = "A dog sits on a red chair."
ANSWER = "CHANGE: dog -> cat\nCAPTION: A cat sits on a red chair."
TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.fixture(scope="module")
def chat_model(tmp_path_factory):
    """A Llama of one layer that has learnt one answer to one conversation by heart, with the tokenizer of its words."""
    torch = import_torch()
    transformers = pytest.importorskip("transformers", reason="needs the models extra: transformers")
    from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
    from tokenizers.models import BPE

    messages = conversation("replace_obj", CAPTION)
    words = Tokenizer(BPE())
    words.pre_tokenizer, words.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    marks = ["<s>", "</s>"]
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=marks, initial_alphabet=alphabet, show_progress=False)
    words.train_from_iterator([*(message["content"] for message in messages), ANSWER], trainer)
    ends = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": TEMPLATE}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, model_max_length=1024, **ends)
    prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
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


def options(folder: Path, **changes) -> ChatOptions:
    return ChatOptions(**{"source": str(folder), "max_tokens": 40, **changes})


@pytest.mark.slow
def test_the_answer_that_a_model_learnt_becomes_an_item(chat_model, captions):
    home = captions([("a.png", CAPTION)])
    (home / "model").symlink_to(chat_model)
    recipe = written(home, "model", 'kinds = ["replace_obj"]', "max_tokens = 40")
    (item,) = read_pair_set(build(recipe, home / "set").folder).items
    assert item.texts == (CAPTION, "A cat sits on a red chair.")
    assert item.provenance["change"] == "dog -> cat"
    assert list(json.loads((home / "set/card.json").read_text())["models"]) == ["LlamaForCausalLM"]


@pytest.mark.slow
def test_a_greedy_answer_needs_no_seed_and_a_drawn_one_has_its_own(chat_model):
    torch = import_torch()
    messages = conversation("replace_obj", CAPTION)
    greedy = open_chat(options(chat_model))
    assert {greedy(messages, seed).text for seed in (1, 2)} == {ANSWER}
    drawing = open_chat(options(chat_model, temperature=2.0, max_tokens=30))
    torch.manual_seed(11)
    state = torch.random.get_rng_state()
    first = [drawing([{"role": "user", "content": "Hello"}], seed) for seed in (1, 2, 3, 4, 5, 6, 1)]
    assert first[0] == first[-1]
    assert len({reply.text for reply in first}) > 1  # some may be empty: the end is a token, too
    assert torch.equal(torch.random.get_rng_state(), state)  # nobody else's draws are touched


def test_a_reply_is_cut_off_at_the_limit_and_says_so_and_beyond_the_context_none_is_made(chat_model):
    messages = conversation("replace_obj", CAPTION)
    assert open_chat(options(chat_model, max_tokens=3))(messages, 0).cut
    assert not open_chat(options(chat_model))(messages, 0).cut
    with raises(ModelError, "1000", "1024", "tokens"):
        open_chat(options(chat_model, max_tokens=1000))(messages, 0)


def test_a_model_without_a_chat_template_reads_plain_turns_and_no_model_is_named(chat_model, tmp_path):
    folder = shutil.copytree(chat_model, tmp_path / "base")
    (folder / "chat_template.jinja").unlink()
    plain, templated = (open_chat(options(place, max_tokens=8)) for place in (folder, chat_model))
    said = [{"role": "user", "content": "A dog."}]
    assert isinstance(plain(said, 0).text, str) and plain.models != templated.models  # it is asked in other words
    with raises(ModelError, "tokenizer"):
        open_chat(options(tmp_path))


#: Nothing that the rules change: the server's answer is NONE.
HELLO = [{"role": "system", "content": TASKS["replace_obj"]["what"]}, {"role": "user", "content": "a dog — é"}]


@pytest.fixture(autouse=True)
def own_surroundings(monkeypatch):
    monkeypatch.setattr(connection, "_PAUSE", 0.01)
    for name in (KEY, HOST, "http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


def ask(server, seed: int = 1, *, insecure: bool = False, **changes):
    """Open the served model and ask it once."""
    given = {"source": server.url, "name": "small", "tries": 3, "timeout": 5.0, **changes}
    return open_chat(ChatOptions(**given), insecure=insecure)(HELLO, seed)


def test_a_request_says_all_that_the_recipe_says(server, monkeypatch):
    monkeypatch.setenv(KEY, "secret-1")
    server.write = lambda body: body["messages"][-1]["content"].upper()
    chat = open_chat(ChatOptions(source=server.url, name="small", temperature=0.5, max_tokens=7))
    assert chat(HELLO, 2**40 + 5).text == "A DOG — É"
    said = {"model": "small", "messages": HELLO, "temperature": 0.5, "max_tokens": 7, "seed": 5}
    assert server.asked == [{"path": "/v1/chat/completions", **said}]
    assert server.keys == ["Bearer secret-1"] and "secret-1" not in repr(chat.models)


def test_a_newer_model_gets_the_limit_by_its_other_name_at_once_from_then_on(server):
    server.newer = True
    chat = open_chat(ChatOptions(source=server.url, name="small", max_tokens=7))
    assert [chat(HELLO, seed).text for seed in (1, 2)] == ["NONE", "NONE"]
    limits = [(body.get("max_tokens"), body.get("max_completion_tokens")) for body in server.asked]
    assert limits == [(7, None), (None, 7), (None, 7)]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again_and_fails_the_candidate_after_its_tries(server, status):
    server.statuses = [status] * 2
    assert ask(server).text == "NONE"
    assert server.keys == [None] * 3
    server.statuses = [status] * 9
    with raises(ModelError, "/v1", "3", "HTTP", status):
        ask(server)
    assert len(server.asked) == 6


def test_the_wait_that_a_server_asks_for_is_kept_and_one_too_slow_or_away_is_named(server):
    server.statuses, server.headers = [429], {"Retry-After": "1"}
    began = time.monotonic()
    ask(server)
    assert time.monotonic() - began >= 1
    server.seconds = 0.5
    with raises(ModelError, "timed out", "reply"):
        ask(server, tries=1, timeout=0.1)
    with raises(ModelError, "127.0.0.1:9/v1", "2"):
        ask(server, source="http://127.0.0.1:9/v1", tries=2)


@pytest.mark.parametrize(("status", "asked"), [(400, 2), (401, 1), (404, 1), (302, 2)])
def test_a_refusal_is_told_and_one_that_all_would_get_is_asked_for_once(server, status, asked):
    """A redirect is one: it would take the key elsewhere."""
    server.statuses, server.headers = [status] * 9, {"Location": f"{server.url}/elsewhere"}
    chat = open_chat(ChatOptions(source=server.url, name="small"))
    for _ in range(2):
        with raises(ModelError, f"HTTP {status}", "not now", "'small'", KEY):
            chat(HELLO, 1)
    assert [body["path"] for body in server.asked] == ["/v1/chat/completions"] * asked


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"<html>", ("JSON", "b'<html>'", "answers")),
        (b"[" * 9_000, ("JSON", "b'[[", "answers")),
        (b'{"choices": [], "choices": [1]}', ("JSON", "answers")),
        (b'{"choices": []}', ("{", "answers")),
        (b"[1]", ("[1]", "answers")),
        (b'{"choices": [{"message": {"content": 3}}]}', ("3", "answers", "text")),
    ],
)
def test_an_answer_that_is_no_chat_completion_is_shown(server, body, says):
    server.body = body
    with raises(ModelError, says):
        ask(server)


def test_a_reply_that_was_cut_off_says_so_and_none_is_empty(server):
    server.finish, server.write = "length", lambda body: "CHANGE: a"
    assert ask(server).cut
    server.finish, server.write = "stop", lambda body: None
    assert ask(server).text == ""


FORM, INSECURE = ("server", "https://HOST"), ("https://", "insecure=True")
SECRET = ("server", "http(s)://HOST", KEY)
#: What is no address, would be recorded with a secret, or lacks a name; and another machine over plain http.
REFUSED_ADDRESSES = {
    **{f"http:{rest}": FORM for rest in ("///v1", "//[::1/v1", "//127.0.0.1:a/v1", "//local\thost/v1")},
    "http://a\\@127.0.0.1/v1": FORM,
    **dict.fromkeys(("http://me:secret@127.0.0.1/v1", "http://127.0.0.1/v1?key=secret"), SECRET),
    "https://models.example/v1#secret": SECRET,
    "models/chat": ("models/chat", "model", "'name'"),
    **{
        f"{scheme}://{host}/v1": (host, *INSECURE)
        for scheme in ("http", "HTTP")
        for host in ("models.example", "192.168.0.7", "localhost.example", "10.0.0.1", "127.0.0.1.example")
    },
}
HERE = ("localhost", "LOCALHOST:9", "127.0.0.1", "127.8.9.10:9", "[::1]:9")
ASKED_ADDRESSES = [f"http://{host}/v1" for host in HERE] + ["https://models.example/v1", "HTTPS://10.0.0.1:8443/v1"]


@pytest.mark.parametrize("address", REFUSED_ADDRESSES)
def test_an_address_that_may_not_be_asked_is_refused(address):
    with raises(ModelError, REFUSED_ADDRESSES[address]) as refused:
        open_chat(ChatOptions(source=address, name="small"))
    assert "secret" not in str(refused.value)


def test_another_machine_is_asked_over_https_alone_this_one_over_http_too_and_a_model_needs_its_name(server):
    for source in ASKED_ADDRESSES:
        assert open_chat(ChatOptions(source=source, name="small")).models == {"small": f"as served by {source}"}
    with raises(ModelError, "'name'", "server"):
        ask(server, name="")
    assert server.asked == []


def test_a_key_goes_to_no_host_that_only_the_recipe_names_and_holds_no_end_of_a_line(monkeypatch, server):
    for key, source, facts in (
        ("secret-1", "https://models.example/v1", ("models.example", f"{HOST}=models.example")),
        ("secret-1\nX-Other: 1", server.url, ("key",)),
    ):
        monkeypatch.setenv(KEY, key)
        with raises(ModelError, KEY, facts) as refused:
            ask(server, source=source)
        assert "secret-1" not in str(refused.value)


@pytest.mark.parametrize(("owner", "sent"), [("models.example", "Bearer secret-1"), ("other.example", None)])
def test_a_key_goes_to_the_host_that_the_user_names(server, monkeypatch, owner, sent):
    monkeypatch.setenv(KEY, "secret-1")
    monkeypatch.setenv(HOST, owner)
    monkeypatch.setenv("http_proxy", server.url.removesuffix("/v1"))  # stands in for the way to that host
    server.statuses = [200, 401]
    assert ask(server, source=ELSEWHERE, insecure=True).text == "NONE"
    with raises(ModelError, KEY, "sent" if sent else owner):
        ask(server, source=ELSEWHERE, insecure=True)
    assert server.keys == [sent, sent]
    assert server.asked[0]["path"] == f"{ELSEWHERE}/chat/completions"
    server.keys.clear()
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # this machine gets no key of another, through no proxy
    assert ask(server, tries=1).text == "NONE"
    assert server.keys == [None]
