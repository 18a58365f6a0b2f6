"""Options of models: each is taken by a model or refused before one is loaded, and no run ignores one in silence."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from facts import raises
from tellapart import catalog
from tellapart.errors import ModelError
from tellapart.evaluation.run import Settings, run
from tellapart.evaluation.verified import read_result
from tellapart.models.find import declared_prefix, find_model
from tellapart.models.options import MEANT_FOR, ModelOptions
from tellapart.models.prefix import ModelPrefix
from tellapart.models.reference import Constant
from tellapart.models.store.embedding_store import EmbeddingStore

#: A value of each option that is not its default.
GIVEN: dict[str, Any] = {
    "device": "cuda", "dtype": "bfloat16", "reading": "itn", "regions": Path("none.npz"), "texts": "library",
    "image_size": 384, "tokenizer": Path("none"), "calls": 9, "insecure": True, "instruction": "Find it.",
}  # fmt: skip

#: Options that act on every model, or that no caller gives.
OF_ALL = {"seed", "answers", "auto"}


def test_every_option_says_which_models_it_is_for() -> None:
    names = {field.name for field in fields(ModelOptions)}
    unknown = names - OF_ALL - set(MEANT_FOR)
    assert not unknown, f"add {unknown} to MEANT_FOR of models/options.py and to takes= of the prefixes that read it"
    assert set(MEANT_FOR) <= names
    assert set(GIVEN) == set(MEANT_FOR), "give the new option a value in this test"


def test_every_prefix_here_declares_what_it_takes_and_every_option_is_taken() -> None:
    taken = {prefix: declaration.takes for prefix, declaration in _prefixes()}
    assert None not in taken.values(), {prefix for prefix, takes in taken.items() if takes is None}
    assert set().union(*taken.values()) == set(MEANT_FOR)


@pytest.mark.parametrize("option", GIVEN)
def test_an_option_that_a_prefix_does_not_take_is_refused_before_a_file_is_read(option: str) -> None:
    for prefix, declaration in _prefixes():
        if option not in (declaration.takes or ()):
            with raises(ModelError, f"{prefix}gone", option, str(GIVEN[option]), "no effect", MEANT_FOR[option]):
                find_model(f"{prefix}gone", ModelOptions(**{option: GIVEN[option]}))


@pytest.mark.parametrize("option", GIVEN)
@pytest.mark.parametrize("name", catalog.REFERENCES)
def test_a_reference_model_alone_refuses_options(name: str, option: str) -> None:
    with raises(ModelError, name, option, "no effect"):
        find_model(name, ModelOptions(**{option: GIVEN[option]}))


@pytest.mark.parametrize(
    ("model_type", "options", "facts"),
    [
        ("clip", {"regions": Path("none.npz")}, ("regions=none.npz", "LXMERT")),
        ("clip", {"texts": "library"}, ("texts=library", "SigLIP")),
        ("clip", {"texts": "cleaned"}, ("texts=cleaned", "authors")),
        ("clip", {"image_size": 384}, ("image_size=384", "authors")),
        ("clip", {"reading": "itn"}, ("'itn'", "itc")),
        ("lxmert", {"reading": "itm", "texts": "library"}, ("texts=library", "SigLIP")),
        ("", {"regions": Path("none.npz")}, ("regions=none.npz", "UNITER")),
        ("", {"reading": "itn"}, ("'itn'", "itm")),
    ],
)
def test_a_family_refuses_what_it_does_not_take_before_it_reads_weights(
    tmp_path: Path, model_type: str, options: Any, facts: Any
) -> None:
    pytest.importorskip("transformers")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))  # nothing else is there
    with raises(ModelError, *facts, tmp_path):
        find_model(f"hf:{tmp_path}" if model_type else f"albef:{tmp_path}/gone.pth", ModelOptions(**options))


def test_another_packages_loader_is_known_by_what_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(_name: str, options: ModelOptions) -> Constant:
        assert options.reading in {None, "mine"}
        return Constant()

    monkeypatch.setitem(catalog._ADDED["prefix"], "mine:", ModelPrefix({"mine:FILE": "mine"}, load))
    assert find_model("mine:a", ModelOptions(reading="mine")).name == "constant"
    with raises(ModelError, "mine:a", "dtype=bfloat16", "no effect"):
        find_model("mine:a", ModelOptions(reading="mine", dtype="bfloat16"))


def test_reference_models_beside_a_measured_one_keep_their_records_free_of_its_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, picture_set: Any
) -> None:
    def lower(options: ModelOptions) -> Constant:
        assert options.dtype == "bfloat16"
        return Constant()

    monkeypatch.setitem(catalog._ADDED["model"], "lower", lower)
    settings = Settings(models=("lower", "blind"), names=("lower", "blind"), dtype="bfloat16",
                        benchmarks=(picture_set(4),))  # fmt: skip
    folders = run(settings, tmp_path / "run", store=EmbeddingStore(None))
    assert [read_result(folder).model.dtype for folder in folders] == ["bfloat16", None]


@pytest.mark.parametrize("option", sorted(set(GIVEN) - {"device"}))
def test_a_model_in_memory_refuses_options_of_names(tmp_path: Path, picture_set: Any, option: str) -> None:
    settings = Settings(models=(Constant(),), benchmarks=(picture_set(2),), **{option: GIVEN[option]})
    with raises(ModelError, "constant", option, "no effect"):
        run(settings, tmp_path / "run", store=EmbeddingStore(None))


def _prefixes() -> list[tuple[str, ModelPrefix]]:
    found = [(prefix, declared_prefix(f"{prefix}gone")) for prefix in catalog.names("prefix")]
    return [(prefix, declaration) for prefix, declaration in found if declaration is not None]
