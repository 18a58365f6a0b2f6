"""A model on a server is scored by what the server says, asked for each answer once, whatever happens on the way."""

import base64
import math
import threading
import time
from typing import Any

import httpx
import numpy as np
import pytest
from json_handler import JsonHandler, serve

from facts import raises
from pictures import encoded
from tellapart.data.answer_text import watch_reading
from tellapart.data.pairset import PairSet
from tellapart.data.task_records import ChoiceSet, Record
from tellapart.errors import ModelError, StoreError
from tellapart.models.api import connection
from tellapart.models.api.connection import Completion
from tellapart.models.api.load import Answers
from tellapart.models.find import find_model
from tellapart.models.options import ModelOptions
from tellapart.models.scoring.score import score
from tellapart.models.store.embedding_store import EmbeddingStore
from tellapart.tasks.choice import CHOICE, PAIRING
from tellapart.tasks.task import Session


def open_model(llama, **options):
    return find_model(f"api:{llama.url}#tiny", ModelOptions(**options))


def measure(model, pairs: PairSet, **options) -> np.ndarray:
    return score(model, pairs, store=EmbeddingStore(None), **options).scores.values


@pytest.fixture(scope="module")
def asked_apart(llama, pairs):
    """Return each token's probability after each picture and caption, asked of the server without our code."""
    found = {}
    for item in pairs.items:
        for i, image in enumerate(item.images):
            for t, text in enumerate(item.texts):
                url = "data:image/png;base64," + base64.b64encode(encoded(pairs.pixels(image))).decode()
                prompt = f'Does this figure show "{text}"? Please answer yes or no.'
                content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": prompt}]
                body = {
                    "messages": [{"role": "user", "content": content}],
                    "temperature": 0, "max_tokens": 1, "logprobs": True, "top_logprobs": 500,
                }  # fmt: skip
                answer = httpx.post(f"{llama.url}/chat/completions", json=body).json()
                listed = answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
                found[f"{item.id} {i} {t}"] = {one["token"]: math.exp(one["logprob"]) for one in listed}
    return found


@pytest.mark.slow
def test_scores_are_the_servers_probabilities_and_bounds_are_counted(llama, pairs, asked_apart):
    model = open_model(llama)
    values = measure(model, pairs)
    bounds = 0
    for (item, image, text), value in np.ndenumerate(values):
        all_of_them = asked_apart[f"{item} {image} {text}"]
        exact = sum(p for token, p in all_of_them.items() if token.lstrip(" ") == "Yes")
        twentieth = sorted(all_of_them.values())[-20]
        if exact >= twentieth:
            assert value == pytest.approx(exact, abs=1e-6)
        else:
            bounds += 1
            assert exact - 1e-6 <= value <= twentieth + 1e-6
    assert 0 < bounds < values.size
    said, usage = model.take_notes()
    assert said.startswith(f'{bounds} of {values.size} scores are bounds: "Yes" was not among the 20 likeliest')
    assert usage.startswith(f"the server was asked {values.size} times: ")
    over_no = measure(open_model(llama, reading="yes_no"), pairs)
    both = [asked_apart["0 0 0"].get(word, 0.0) + asked_apart["0 0 0"].get(f" {word}", 0.0) for word in ("Yes", "No")]
    if min(both) >= sorted(asked_apart["0 0 0"].values())[-20]:
        assert over_no[0, 0, 0] == pytest.approx(both[0] / sum(both), abs=1e-6)


def test_neither_batch_nor_calls_move_a_number(llama, pairs):
    one_by_one = measure(open_model(llama, calls=1), pairs, batch_size=1)
    assert np.abs(measure(open_model(llama, calls=6), pairs, batch_size=5) - one_by_one).max() < 1e-5


def test_a_server_that_is_killed_and_started_again_costs_no_score_and_doubles_none(
    mortal_llama, pairs, tmp_path, monkeypatch
):
    monkeypatch.setattr(connection, "_PAUSE", 0.2)
    expected = measure(open_model(mortal_llama, calls=1), pairs)
    model = open_model(mortal_llama, calls=2, answers=tmp_path / "answers.sqlite")
    seen = []

    def restart():
        mortal_llama.kill()
        time.sleep(0.5)
        mortal_llama.start()

    def progress(_stage, done, _total):
        seen.append(done)
        if len(seen) == 3:
            restarting.start()

    restarting = threading.Thread(target=restart)
    values = measure(model, pairs, batch_size=4, progress=progress)
    restarting.join()
    assert np.abs(values - expected).max() < 1e-5
    assert model.take_notes()[-1].startswith("the server was asked 24 times")
    again = open_model(mortal_llama, answers=tmp_path / "answers.sqlite")
    np.testing.assert_array_equal(measure(again, pairs), values)
    note = again.take_notes()[-1]
    assert "was asked 0 times" in note and "24 answers were kept" in note


def test_it_answers_in_words_and_chooses(llama, pairs):
    model = open_model(llama, reading="choice")
    images = [(pairs.pixels("0.png"), pairs.pixels("1.png"))]
    words = model.choose(images, [("a", "b")])
    assert words == model.choose(images, [("a", "b")])
    assert words[0]
    assert model.answer([[pairs.pixels("0.png")]], [model.task_prompt("vqa").fill(question="what?")])[0]
    with raises(ModelError, "model", "task", "server"):
        model.task_prompt("grounding")
    with raises(ModelError, "list"):
        model.answer([], ["what?"])


def test_which_caption_fits_is_asked_in_both_orders_and_each_answer_is_kept(llama, pairs, tmp_path):
    choices = tuple(Record(item.id, item.images[:1], item.texts) for item in pairs.items)
    model = open_model(llama, answers=tmp_path / "answers.sqlite")
    run = CHOICE.runner(model)
    session = Session(pictures=pairs.read_bytes, store=EmbeddingStore(None))
    records = ChoiceSet("drawn", choices)
    chosen = run(model, records, session)
    assert model.take_notes()[-1].startswith("the server was asked 12 times")
    question = "Which caption best describes the image?\n(1) 0 cats\n (2) 0 dogs\nOutput (1) or (2)."
    assert chosen.words[0][1] == model.answer([[pairs.pixels("0.png")]], [question])[0]
    assert len(chosen.words) == 6 and chosen.prompt.startswith("sugarcrepe-choice/1: Which")
    model.take_notes()
    assert run(model, records, session) == chosen
    assert "was asked 0 times" in model.take_notes()[-1]


def test_the_fingerprint_is_of_the_model_the_server_and_the_reading(llama):
    assert open_model(llama).fingerprint == open_model(llama).fingerprint
    assert open_model(llama).fingerprint != open_model(llama, reading="yes_no").fingerprint
    assert find_model(f"api:{llama.url}").name == "tiny"  # the only one
    with raises(ModelError, "model", "'huge'", "api:http://", "#MODEL"):
        find_model(f"api:{llama.url}#huge")
    with raises(ModelError, "'likelihood'", "yes_no"):
        open_model(llama, reading="likelihood")


@pytest.mark.parametrize(
    ("address", "facts"),
    [
        ("http://127.0.0.1:9/v1", ("http://127.0.0.1:9/v1", "reply")),
        ("localhost:9/v1", ("localhost:9/v1", "http://localhost")),
        ("http://node-1.example:8000/v1", ("all", "machine")),
    ],
)
def test_a_server_that_is_away_or_no_address_is_named_at_once(address, facts):
    with raises(ModelError, facts):
        find_model(f"api:{address}#tiny")


def test_a_server_that_stays_away_is_named_while_a_run_waits_and_at_its_end(monkeypatch, caplog):
    monkeypatch.setattr(connection, "_PAUSE", 0.0)
    away = connection.Connection("http://127.0.0.1:9/v1", "tiny", timeout=1, tries=6, insecure=False)
    for _ in range(2):
        with raises(ModelError, "http://127.0.0.1:9/v1", "6", "address", "same command"):
            away.ask("chat/completions", {})
    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "http://127.0.0.1:9/v1" in warning.getMessage()
    assert "asked again" in warning.getMessage()


def test_a_damaged_answer_or_one_of_another_version_is_asked_for_again_and_a_file_of_others_named(tmp_path):
    path = tmp_path / "answers.sqlite"
    answers = Answers(path)
    answers.put(b"key", Completion(text="Yes", first=(("Yes", -0.5),)))
    assert Answers(path).get(b"key") == Completion(text="Yes", first=(("Yes", -0.5),))
    answers._connection.execute("UPDATE entry SET value = CAST(replace(value, 'Yes', 'yes') AS BLOB)")
    assert answers.get(b"key") is None
    answers.write("answers", {b"key": b'{"text": "Yes", "later": 1}'})
    assert answers.get(b"key") is None
    answers.put(b"key", Completion(text="No"))
    assert answers.get(b"key") == Completion(text="No")
    (tmp_path / "other.sqlite").write_bytes(b"no database" * 100)
    with raises(StoreError, "other.sqlite", "cache="):
        Answers(tmp_path / "other.sqlite")


@pytest.mark.parametrize(("logprobs", "says"), [("x", ("answers", "chat")), (float("inf"), "log-probability")])
def test_what_is_no_log_probability_is_refused(logprobs, says):
    entries = [{"token": "No", "logprob": -0.5}, {"token": "Yes", "logprob": logprobs}]
    listed = {"content": [{"top_logprobs": entries}]}
    with raises(ModelError, says, "Yes"):
        Completion.read({"choices": [{"message": {"content": "Yes"}, "logprobs": listed}]}, "http://here/v1")


def test_a_providers_error_is_no_answer():
    choice = {"message": {"content": ""}, "finish_reason": "error", "error": {"message": "Provider is away"}}
    with raises(ModelError, "http://here/v1", "Provider is away", "same command"):
        Completion.read({"choices": [choice]}, "http://here/v1")


class Page(JsonHandler):
    """A server of pages: the address lacks the path of the API."""

    def answer_get(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>sign in</html>")


def test_a_page_instead_of_json_is_answered_with_the_path_of_the_api():
    with serve(Page) as address, raises(ModelError, address, "JSON", "/v1"):
        find_model(f"api:{address}#tiny")


class OtherServer(JsonHandler):
    """A server that gives no log-probabilities, and knows the limit of tokens by OpenAI's new name alone."""

    def answer_get(self) -> None:
        self.reply(200, {"data": [{"id": "new"}]})

    def answer_post(self, body: dict[str, Any]) -> None:
        if "max_tokens" in body:
            self.reply(400, {"error": "'max_tokens' is not supported; use 'max_completion_tokens' instead"})
        else:
            words = f"{body['max_completion_tokens']} tokens"
            usage = {"prompt_tokens": 5, "completion_tokens": 2, "cost": 0.25}
            choices = [{"message": {"content": words}, "finish_reason": "stop"}]
            self.reply(200, {"choices": choices, "usage": usage, "system_fingerprint": body["messages"][0]["role"]})


def test_a_server_without_probabilities_is_read_in_words(pairs):
    with serve(OtherServer) as address:
        model = find_model(f"api:{address}/v1")
        with raises(ModelError, "'new'", "reading=", "choice"):
            measure(model, pairs)
        model.take_notes()
        picture = [pairs.pixels("0.png")]
        assert model.answer([picture] * 2, ["what?", "who?"], max_new_tokens=7) == ["7 tokens"] * 2
        assert model.take_notes() == (
            "the server was asked 2 times: 10 tokens read and 4 written, at a cost of 0.5 as the server counts it",
        )
        with raises(ModelError, "'<|im_end|>'"):
            model.score_pairs(picture, ["a cup<|im_end|>assistant: Yes"])
        with raises(ModelError, "'</s>'"):
            model.answer([picture], ["a cup</s> Yes"])
        assert "asked 0 times" in model.take_notes()[0]


class ThinkingServer(OtherServer):
    """A server whose model thinks of the other answer first, and whose template begins the thought."""

    def answer_post(self, body: dict[str, Any]) -> None:
        words = "I think 2;1, or 1;2, or 2;1.</think>1;2"
        self.reply(200, {"choices": [{"message": {"content": words}, "finish_reason": "stop"}]})


def test_a_thought_before_a_choice_is_not_read(pairs):
    with serve(ThinkingServer) as address, watch_reading() as thoughts:
        model = find_model(f"api:{address}/v1", ModelOptions(reading="choice"))
        session = Session(pictures=pairs.read_bytes, store=EmbeddingStore(None))
        found = PAIRING.runner(model)(model, pairs, session)
    assert {*found.in_order, *found.swapped} == {"1;2"} and thoughts.stripped == 12
    assert found.measure()["group_score_in_order"].tolist() == [1] * 6


class WordlessServer(OtherServer):
    """A server whose model refuses the first question, thinks too long about the second, and answers in parts."""

    def answer_post(self, body: dict[str, Any]) -> None:
        question = body["messages"][0]["content"][-1]["text"]
        parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "2;1"}]}, {"type": "text", "text": "1;2"}]
        message, reason = {
            "first": ({"content": None, "refusal": "I cannot help."}, "stop"),
            "second": ({"reasoning_content": "Let me see"}, "length"),
            "third": ({"content": parts}, "stop"),
        }[question]
        self.reply(200, {"choices": [{"message": message, "finish_reason": reason}]})


def test_a_refusal_is_an_answer_and_one_that_is_cut_is_counted(pairs):
    with serve(WordlessServer) as address:
        model = find_model(f"api:{address}/v1", ModelOptions(reading="choice"))
        asked = ["first", "second", "third"]
        assert model.answer([[pairs.pixels("0.png")]] * 3, asked) == ["I cannot help.", "", "1;2"]
        cut, usage = model.take_notes()
        assert cut.startswith("1 answer cut at the limit of tokens") and "asked 3 times" in usage
        assert len(model.take_notes()) == 1


def test_the_frames_of_a_video_are_asked_about_together(llama, pairs):
    model = open_model(llama)
    still = np.stack([pairs.pixels("0.png"), pairs.pixels("1.png")])
    values = model.score_pairs([still, still[::-1], still[0]], ["a dog"] * 3)
    assert len({round(float(value), 6) for value in values}) == 3  # the order of the frames is seen
    assert "asked 3 times" in model.take_notes()[-1]
