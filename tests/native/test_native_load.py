"""Files of tiny size, with random weights under the authors' names: named on the command line, measured, refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_files import PICTURES, SETTINGS, albef_state, save_tokenizer

from facts import check_facts, raises
from tellapart.errors import ModelError
from tellapart.models.find import find_model, find_prefix
from tellapart.models.options import ModelOptions
from tellapart.models.protocols import PairScorer
from tellapart.models.torch.backend import import_torch

torch = import_torch()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An ALBEF of tiny size, as its authors nest it, with the heads and the tokenizer beside it."""
    torch.save({"model": albef_state(), "epoch": 3, "config": {"image_res": 32}}, tmp_path / "mscoco.pth")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "albef", **SETTINGS}))
    save_tokenizer(tmp_path)
    return tmp_path / "mscoco.pth"


def test_cleaned_texts_are_another_model(file: Path) -> None:
    raw, cleaned = (find_model(f"albef:{file}", ModelOptions(texts=texts)) for texts in ("raw", "cleaned"))
    assert isinstance(raw, PairScorer)
    assert isinstance(cleaned, PairScorer)
    assert raw.fingerprint != cleaned.fingerprint
    one = raw.score_pairs(PICTURES[:1], ["a red bowl on the cup"])
    np.testing.assert_array_equal(cleaned.score_pairs(PICTURES[:1], ["A red bowl, on the cup!"]), one)
    assert raw.score_pairs(PICTURES[:1], ["A red bowl, on the cup!"]) != one


@pytest.mark.parametrize(("options", "option"), [({"texts": "cleaned"}, "texts"), ({"image_size": 64}, "image_size")])
def test_other_models_refuse_these_options(options: dict[str, Any], option: str) -> None:
    with raises(ModelError, f"{option}=", "models"):
        find_model("constant", ModelOptions(**options))


def test_a_file_without_a_tokenizer(file: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        (file.parent / name).unlink(missing_ok=True)
    with raises(ModelError, "tokenizer=", "FOLDER"):
        find_model(f"albef:{file}")


def test_of_plain_and_averaged_weights_each_can_be_taken(tmp_path: Path) -> None:
    plain = albef_state()
    mean = {name: tensor * 0.9 if tensor.ndim > 1 else tensor for name, tensor in plain.items()}
    beside = {"epoch": 3, "config": {"image_res": 32}}
    torch.save({"model": plain, "model_ema": {"decay": 0.999, "module": mean}, **beside}, tmp_path / "both.pth")
    torch.save({"model": mean, **beside}, tmp_path / "mean.pth")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "albef", **SETTINGS}))
    save_tokenizer(tmp_path)
    both = f"albef:{tmp_path / 'both.pth'}"
    for reading in ("itm", "itc"):
        options = ModelOptions(reading=reading)
        taken, named, alone = (
            find_model(name, options) for name in (both, f"{both}#ema", f"albef:{tmp_path / 'mean.pth'}")
        )
        assert named.fingerprint == alone.fingerprint != taken.fingerprint
        check_facts(taken.provenance, "'model'", "model_ema.module")  # type: ignore[attr-defined]
        check_facts(named.provenance, "'model_ema.module'", "model")  # type: ignore[attr-defined]
        assert not alone.provenance  # type: ignore[attr-defined]
    with raises(ModelError, "'best'", "model", "model_ema.module"):
        find_model(f"{both}#best")
    prefix = find_prefix(both)
    assert prefix is not None
    assert prefix.convert is not None
    assert prefix.files(both) == prefix.files(f"{both}#ema") is not None
    with raises(ModelError, f"{both}#model", f"{both}#model_ema.module"):
        prefix.convert(both, tmp_path / "new", None)
    prefix.convert(f"{both}#ema", tmp_path / "new", None)
    assert find_model(f"hf:{tmp_path / 'new'}").fingerprint == find_model(f"albef:{tmp_path / 'mean.pth'}").fingerprint
