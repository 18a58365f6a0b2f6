"""Answers drawn at a temperature: each by its seed, and what several draws share."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from json_handler import JsonHandler, serve
from tiny_generative import IMAGES, TEXTS, asked, load

import tellapart as ta
from facts import raises
from tellapart.diagnosis.samples import samples_rows
from tellapart.errors import ModelError, RunError
from tellapart.evaluation.systems import choose_models
from tellapart.models.api import connection
from tellapart.models.find import find_model
from tellapart.models.generative.sampling import Sampling, with_samples
from tellapart.records.samples import read_samples


def drawn(folder: Path, number: int):
    return find_model(f"sampled:{number}@1.5:hf:{folder}")


def test_a_draw_is_the_librarys_by_the_same_seed_and_depends_on_no_neighbour(folders):
    from PIL import Image

    folder, prompt = folders["qwen2_vl"], "what is this?"
    model, processor = load(folder)
    inputs = processor(text=[asked(processor, prompt)], images=[Image.fromarray(IMAGES[0])], return_tensors="pt")
    torch.manual_seed(Sampling(2, 1.5).seed(prompt, [IMAGES[0]]))
    out = model.generate(**inputs, max_new_tokens=8, do_sample=True, temperature=1.5, top_k=0, top_p=1.0)
    expected = processor.tokenizer.decode(out[0][inputs["input_ids"].shape[1] :], skip_special_tokens=True).strip()
    first, second, greedy = drawn(folder, 1), drawn(folder, 2), find_model(str(folder))
    assert second.answer([[IMAGES[0]]], [prompt], max_new_tokens=8) == [expected]
    images, prompts = [[image] for image in IMAGES], list(TEXTS)
    together = first.answer(images, prompts, max_new_tokens=6)
    alone = [drawn(folder, 1).answer([images[k]], [prompts[k]], max_new_tokens=6)[0] for k in (2, 1, 0)]
    assert together == alone[::-1] != second.answer(images, prompts, max_new_tokens=6)
    assert len({model.fingerprint for model in (first, second, greedy)}) == 3


def test_a_model_that_draws_nothing_is_refused(folders):
    refused = {
        f"sampled:1@1.5:hf:{folders['blip_vqa']}": ("blip", "likeliest answer"),
        "sampled:1@1:demo-encoder": ("demo-encoder", "writes none"),
        "sampled:0@1:demo-encoder": ("sampled:NUMBER@TEMPERATURE:MODEL",),
    }
    for name, facts in refused.items():
        with raises(ModelError, facts):
            find_model(name)
    with raises(ModelError, "scores", "samples="):
        drawn(folders["qwen2_vl"], 1).score_pairs([IMAGES[0]], [TEXTS[0]])


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"samples": 1}, ("samples=1", "2 to 1000")),
        ({"samples": 3, "temperature": 0}, ("temperature=0", "above 0")),
        ({"samples": 3, "temperature": 0.12345678}, ("temperature=0.12345678", "six digits")),
        ({"samples": 3, "temperature": 1e-7}, ("temperature=1e-07", "six digits")),
        ({"temperature": 0.5}, ("temperature", "without samples=K")),
        ({"samples": 3, "names": ["a"]}, ("samples=3", "names=")),
    ],
)
def test_options_of_draws_are_checked(options, facts):
    with raises(RunError, *facts):
        ta.evaluate("api:http://localhost:1/v1#m", "choice:demo", **options)
    with raises(RunError, "no name"):
        with_samples([lambda image, text: 0.0], 3, 1.0)


class Coin(JsonHandler):
    """Answers A or B by the seed, the temperature and the question."""

    def answer_get(self) -> None:
        self.reply(200, {"data": [{"id": "coin"}]})

    def answer_post(self, body: dict[str, Any]) -> None:
        facts = json.dumps([body["temperature"], body["seed"], body["messages"]])
        text = "AB"[hashlib.sha256(facts.encode()).digest()[0] % 2]
        self.reply(200, {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]})


@pytest.fixture
def coin(monkeypatch):
    for name in (connection.KEY, connection.HOST):
        monkeypatch.delenv(name, raising=False)
    with serve(Coin) as address:
        yield f"api:{address}/v1#coin"


@pytest.fixture
def choice(tmp_path):
    """The name of a set of 30 choices between two captions."""
    from PIL import Image

    for k in range(30):
        Image.new("RGB", (8, 8), (8 * k, 0, 0)).save(tmp_path / f"{k}.png")
    rows = "".join(f"{k}.png,{k} cats,{k} dogs\n" for k in range(30))
    (tmp_path / "pairs.csv").write_text("image,caption,foil\n" + rows)
    return f"choice:table:{tmp_path / 'pairs.csv'}"


@pytest.fixture
def questions(tmp_path, choice):
    """The name of a set of 60 questions in 15 groups, with the pictures of the choices."""
    head = 'name = "asked"\ntitle = "Asked"\nsource = "made"\nfiles = ["asked.csv"]\nfolders = ["."]\n'
    fields = 'id = "{row}"\nimages = "{image}"\nquestion = "{question}"\nanswer = "{answer}"\ngroup = "{group}"\n'
    (tmp_path / "asked.toml").write_text(f"{head}[[question]]\n{fields}")
    rows = "".join(f"{k // 2}.png,Is it {k % 2} of {k // 4}?,{'AB'[k % 2 ^ k // 2 % 2]},{k // 4}\n" for k in range(60))
    (tmp_path / "asked.csv").write_text("image,question,answer,group\n" + rows)
    return str(tmp_path / "asked.toml")


@pytest.mark.parametrize(
    ("made", "counts", "options", "temperature"),
    [
        ("choice", {"both_orders": 30}, {}, 1),
        ("questions", {"g_acc": 15, "q_acc": 30, "i_acc": 30, "a_acc": 60}, {"temperature": 0.7}, 0.7),
    ],
)
def test_rows_are_made_of_the_draws_outcomes(made, counts, options, temperature, coin, tmp_path, request, capsys):
    subject = request.getfixturevalue(made)
    run = ta.evaluate(coin, subject, samples=4, **options, out=tmp_path / "run", cache=False)
    [name] = run.benchmarks
    assert run.models == [coin, *(f"sampled:{k}@{temperature}:{coin}" for k in range(1, 5))]
    assert [system.label for system in choose_models([tmp_path / "run"]).runs] == [coin]
    rows = samples_rows(run.systems)
    assert counts.items() <= {row.metric: row.n for row in rows}.items()
    assert {(row.model, row.draws, row.temperature) for row in rows} == {(coin, 4, temperature)}
    of_runs = [read_samples(system.folders[name], name, system.record(name)) for system in run.systems]
    for row in rows:
        greedy, *draws = [[sample for sample in samples if row.metric in sample.outcomes] for samples in of_runs]
        values = np.array([[sample.outcomes[row.metric] for sample in samples] for samples in draws])
        # Of a group its outcomes, for it has no answer.
        outputs = [{str(one.output or one.outcomes) for one in item} for item in zip(*draws, strict=True)]
        expected = {
            "greedy": np.mean([sample.outcomes[row.metric] for sample in greedy]),
            "expected": values.mean(),
            "all_right": (values == 1).all(axis=0).mean(),
            "any_right": (values == 1).any(axis=0).mean(),
            "changed": np.mean([len(answers) > 1 for answers in outputs]),
        }
        shares = {key: getattr(getattr(row, key), "value", row.greedy) for key in expected}
        assert row.n == values.shape[1] and shares == pytest.approx(expected)
        assert row.all_right.value <= row.expected.value <= row.any_right.value
        assert row.expected.low is None or row.expected.low < row.expected.value < row.expected.high
    assert 0 < rows[0].changed.value <= 1 and any(row.expected.low is not None for row in rows)
    assert len(run.to_json()["samples"]) == len(rows)
    run.show()
    out = " ".join(capsys.readouterr().out.split())
    assert all(part in out for part in ("of drawn answers", "answer changes", f"4 at {temperature}"))
    assert "is first of" not in out  # a draw is no further model
