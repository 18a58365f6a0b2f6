"""The builder end to end with small real models: its changes, its rejections, and the same bytes always."""

from __future__ import annotations

import json
import pickle
import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from facts import check_facts, raises
from tellapart.auditing.audit import audit
from tellapart.builders.builder import Rejected
from tellapart.builders.caption_files import read_captions
from tellapart.builders.captions import pairs_file
from tellapart.builders.captions.counterfactuals import Counterfactual, CounterfactualCaptions, counterfactuals
from tellapart.builders.captions.pairs_file import write_caption_pairs
from tellapart.builders.captions.stages import CaptionOptions, Stages, open_stages
from tellapart.builders.executor import Lost
from tellapart.builders.journal import count_decided, journal_of
from tellapart.builders.pipeline import build
from tellapart.builders.recipe_file import read_recipe_file
from tellapart.data.folder import read_pair_set
from tellapart.errors import DataError, RunError

NOUNS = {"dog", "dogs", "cat", "cats", "poodle", "man", "men", "horse", "table"}
Write = Callable[..., Path]


def words(text: str) -> list[str]:
    return text.lower().replace(",", " ,").replace(".", " .").split()


def counterfactual(text: str, stages: Stages, options: CaptionOptions) -> Counterfactual | Rejected:
    return counterfactuals([text], stages, options)[0]


def opened(recipe: Path) -> tuple[Stages, CaptionOptions]:
    options = CaptionOptions.model_validate(read_recipe_file(recipe).options)
    return open_stages(options, recipe.parent), options


def test_a_set_is_built_and_each_caption_differs_from_its_own_in_one_noun(recipe: Write, tmp_path: Path) -> None:
    built = build(recipe(), tmp_path / "set")
    pairs = read_pair_set(built.folder)
    assert pairs.shape == (1, 2)
    assert {item.cluster for item in pairs.items} == {"a.png", "b.png", "c.png"}
    assert built.funnel.rejected == {("nouns", "the caption has no noun"): 1}
    for item in pairs.items:
        changed = [(a, b) for a, b in zip(*map(words, item.texts), strict=True) if a != b]
        assert len(changed) == 1
        assert set(changed[0]) <= NOUNS
        assert item.provenance["change"].lower() == " -> ".join(changed[0])
        assert -1 < item.provenance["similarity"] <= 0.999
        assert item.texts[0][0].isupper() == item.texts[1][0].isupper()
        assert set(item.provenance["models"]) == {"tagger", "masked_lm", "similarity", "language_model"}
    assert {item.tags["noun"] for item in pairs.items} == {"singular", "plural"}


def test_the_audit_looks_at_a_built_set(recipe: Write, tmp_path: Path) -> None:
    report = audit(read_pair_set(build(recipe(), tmp_path / "set").folder))
    assert report.items == 5
    assert {finding.verdict for finding in report.findings} <= {"pass", "warn", "info"}


@pytest.mark.parametrize(
    ("changed", "step"), [({"minimum": 0.99999, "maximum": 1.0}, "similarity"), ({"choices": 1}, "replacements")]
)
def test_a_stage_that_leaves_nothing_is_named(recipe: Write, changed: dict[str, float], step: str) -> None:
    stages, options = opened(recipe(**changed))
    found = [counterfactual(text, stages, options) for text in ("a dog sits", "the cats", "a man with a horse")]
    assert step in {each.step for each in found if isinstance(each, Rejected)}


def test_the_chosen_caption_is_the_most_usual_of_all_that_pass(recipe: Write) -> None:
    stages, options = opened(recipe())
    found = counterfactual("A dog sits on the table.", stages, options)
    assert isinstance(found, Counterfactual)
    assert found.choices > 3
    assert stages.language_model is not None
    # Every other noun in either place, judged by hand: none that the stages let through is more usual.
    texts = [f"A {noun} sits on the table." for noun in ("cat", "horse", "man", "poodle")]
    bounded, wide = options, options.model_copy(update={"choices": 24})
    likelihoods = stages.language_model.score_texts([found.text, *texts])
    best = counterfactual("A dog sits on the table.", stages, wide)
    assert isinstance(best, Counterfactual)
    assert best.perplexity is not None and found.perplexity is not None
    assert best.perplexity <= found.perplexity
    assert found.perplexity == pytest.approx(2.718281828459045 ** -float(likelihoods[0]), rel=1e-6)
    assert best.perplexity <= min(2.718281828459045 ** -float(value) for value in likelihoods[1:]) * (1 + 1e-6)
    assert bounded.choices == 10


def test_without_a_language_model_the_most_probable_word_stays(recipe: Write) -> None:
    stages, options = opened(recipe(language_model="off", similarity="off"))
    found = counterfactual("a cat", stages, options)
    assert isinstance(found, Counterfactual)
    assert found.perplexity is None and found.similarity is None
    from tellapart.builders.captions.stages import SentenceGap

    likely = [p for p in stages.replacer.fill([SentenceGap("a ", "")], 10)[0] if p.word in NOUNS - {"cat"}]
    assert found.new == likely[0].word
    assert found.probability == likely[0].probability


def test_wordnet_leaves_out_what_may_still_be_true(recipe: Write, parts: Path) -> None:
    plain, options = opened(recipe("plain", language_model="off", similarity="off", choices=24))
    strict, bounded = opened(
        recipe("strict", language_model="off", similarity="off", choices=24, wordnet=str(parts / "wordnet"))
    )
    before, after = counterfactual("a poodle", plain, options), counterfactual("a poodle", strict, bounded)
    assert isinstance(before, Counterfactual) and isinstance(after, Counterfactual)
    assert after.choices == before.choices - 2  # dog, dogs: a poodle is one
    assert after.new not in {"dog", "dogs"}


def test_rejoined_words_are_the_authors_own(recipe: Write) -> None:
    stages, options = opened(recipe(language_model="off", wording="rejoined"))
    found = counterfactual('The "dog" , sits .', stages, options)
    assert isinstance(found, Counterfactual)
    assert found.text == f"The `` {found.new} '', sits."


@pytest.mark.slow
def test_caption_pairs_need_no_images_and_agree_with_the_set(recipe: Write, tmp_path: Path) -> None:
    path = recipe()
    built = build(path, tmp_path / "set")
    written = write_caption_pairs(path, tmp_path / "pairs.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    items = read_pair_set(built.folder).items
    assert [(row["id"], row["caption_0"], row["caption_1"], row["cluster"]) for row in rows] == [
        (item.id, *item.texts, item.cluster) for item in items
    ]
    assert written.pairs == len(rows) == 5
    assert written.rejected == {("nouns", "the caption has no noun"): 1}
    assert [p.name for p in tmp_path.glob(".pairs*")] == []
    with raises(DataError, "pairs.jsonl", "delete"):
        write_caption_pairs(path, tmp_path / "pairs.jsonl")


def stop_after(captions: int) -> Callable[[str, int, int], None]:
    def stop(_stage: str, done: int, _total: int) -> None:
        if done == captions:
            raise KeyboardInterrupt

    return stop


@pytest.mark.slow
def test_pairs_that_were_stopped_go_on_to_the_same_file(recipe: Write, tmp_path: Path) -> None:
    path, out = recipe(), tmp_path / "pairs.jsonl"
    write_caption_pairs(path, out)
    whole = out.read_bytes()
    for decided in (1, 4, 6):
        out.unlink()
        with pytest.raises(KeyboardInterrupt):
            write_caption_pairs(path, out, block=1, progress=stop_after(decided))
        assert count_decided(journal_of(out)) == decided and not out.exists()
        assert write_caption_pairs(path, out).resumed == decided
        assert out.read_bytes() == whole
    out.unlink()
    with pytest.raises(KeyboardInterrupt):
        write_caption_pairs(path, out, block=1, progress=stop_after(1))
    with raises(RunError, "recipe", "inputs", "options"):
        write_caption_pairs(recipe("other", language_model="off"), out)


@pytest.mark.slow
def test_a_damaged_row_of_the_journal_is_decided_again_and_said_once(
    recipe: Write, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, out = recipe(), tmp_path / "pairs.jsonl"
    write_caption_pairs(path, out)
    whole = out.read_bytes()
    out.unlink()
    with pytest.raises(KeyboardInterrupt):
        write_caption_pairs(path, out, block=1, progress=stop_after(6))
    with closing(sqlite3.connect(journal_of(out))) as journal, journal:
        journal.execute("UPDATE outcome SET told = replace(told, 'caption_1', 'caption_2') WHERE id = 'a_0'")
    assert write_caption_pairs(path, out).resumed == 5
    assert out.read_bytes() == whole
    (message,) = caplog.messages
    check_facts(message, journal_of(out), "damaged", "a_0")


class Backwards:
    """A crew that answers in another order, and whose task went through a pickle, as that of processes does."""

    def __init__(self, workers: int) -> None:
        assert workers == 3

    def perform(self, task: Callable[[Any], Any], jobs: Sequence[Any]) -> Generator[tuple[Any, Any], None, None]:
        task = pickle.loads(pickle.dumps(task))  # noqa: S301
        for job in reversed(jobs):
            yield job, task(job)


@pytest.mark.slow
def test_neither_workers_nor_blocks_nor_their_order_change_the_pairs(
    recipe: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = recipe()
    write_caption_pairs(path, tmp_path / "one.jsonl")
    monkeypatch.setattr(pairs_file, "ProcessExecutor", Backwards)
    write_caption_pairs(path, tmp_path / "three.jsonl", workers=3, block=2)
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "three.jsonl").read_bytes()


def test_a_worker_that_dies_is_named_with_its_caption(
    recipe: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def perform(self: Backwards, task: object, jobs: Sequence[Any]) -> Generator[tuple[Any, Any], None, None]:
        yield jobs[0], Lost("exit code -9")

    monkeypatch.setattr(Backwards, "perform", perform)
    monkeypatch.setattr(pairs_file, "ProcessExecutor", Backwards)
    with raises(RunError, "'a_0'", "exit", "-9"):
        write_caption_pairs(recipe(), tmp_path / "pairs.jsonl", workers=3)


def test_pairs_of_which_none_is_left_are_not_written(recipe: Write, tmp_path: Path) -> None:
    path = recipe(minimum=0.99999, maximum=1.0)
    with raises(DataError, "6", "similarity", "captions"):
        write_caption_pairs(path, tmp_path / "pairs.jsonl")
    assert not (tmp_path / "pairs.jsonl").exists()


def test_pairs_of_another_builder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text('name = "few"\nbuilder = "scenes"\n[options.items]\ncounting = 1\n')
    with raises(DataError, "builder", "'counterfactual-captions'", "'scenes'"):
        write_caption_pairs(tmp_path / "recipe.toml", tmp_path / "pairs.jsonl")


def test_a_set_without_images_says_how_to_have_the_captions_alone(recipe: Write, tmp_path: Path) -> None:
    path = recipe()
    rows = [json.loads(line) for line in (path.parent / "captions.jsonl").read_text().splitlines()]
    del rows[1]["image"]
    (path.parent / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with raises(DataError, "'a_1'", "write_caption_pairs"):
        build(path, tmp_path / "set")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "1_0 a dog\n", ("a.txt:1", "1", "id")),
        ("a.txt", "1_0\ta dog\n1_0\ta cat\n", ("a.txt:2", "id", "'1_0'")),
        ("a.jsonl", '{"captions": "a dog"}\n', ("a.jsonl:1", "'caption'", "'captions'")),
        ("a.jsonl", '{"caption": "a dog", "image": "../a.png"}\n', ("a.jsonl:1", "'image'")),
        ("a.jsonl", '{"caption": "a dog", "image": 3}\n', ("'image'", "3")),
        ("a.csv", "caption\n", ("a.csv", "captions")),
    ],
)
def test_a_file_that_is_no_captions_is_refused_by_line(
    tmp_path: Path, name: str, text: str, message: str | tuple[str, ...]
) -> None:
    (tmp_path / name).write_text(text)
    with raises(DataError, message):
        read_captions(tmp_path / name)


def test_an_empty_range_of_similarity_is_refused(recipe: Write) -> None:
    with raises(DataError, "similarity", "0.9", "0.8"):
        read_recipe_file(recipe(minimum=0.9, maximum=0.8))


def test_the_example_recipe_is_one(tmp_path: Path) -> None:
    example = Path(__file__).parents[3] / "docs/recipes/counterfactual-captions.toml"
    options = CounterfactualCaptions.Options.model_validate(read_recipe_file(example).options)
    assert (options.choices, options.minimum, options.maximum) == (10, 0.8, 0.91)
