"""The Python interface: models and benchmarks as people hold them, runs as they look at them."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tellapart as ta
from facts import raises
from tellapart import errors
from tellapart.models.store.embedding_store import EmbeddingStore


def bright(image, text: str) -> float:
    return float(np.asarray(image).mean()) * len(text)


bright.fingerprint = "bright-1"


def matrix(images: list[Any], texts: list[str]) -> list[list[float]]:
    return [[float(np.asarray(image).mean()) * len(text) for text in texts] for image in images]


matrix.fingerprint, matrix.batched = "matrix-1", True


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TELLAPART_CACHE", str(tmp_path / "cache"))


def test_the_lines_of_the_interface_run(made_set, tmp_path):
    folder = made_set()
    run = ta.evaluate([bright, matrix], [f"folder:{folder}", "demo"], out=str(tmp_path / "mine"), limit=10)
    assert run.models == ["bright", "matrix"]
    assert run.benchmarks == ["folder:set", "demo"]
    compared = ta.compare(run)
    assert compared.models == ["bright", "matrix"]
    assert ta.open_run(tmp_path / "mine").models == run.models
    assert len(ta.load_pairs(folder)) == len(ta.load_pairs(str(folder))) == 12
    scored = ta.score(f"folder:{folder}", np.zeros((12, 2, 2)).tolist(), name="mine")
    assert (scored.models, scored.value("group_score")) == (["mine"], 0.0)
    found = ta.audit(folder, read_images=False)
    assert found.record.items == 12


def test_a_run_stands_for_its_folder_and_a_format_that_is_none_is_one_sentence(tmp_path):
    run = ta.evaluate(["demo-encoder", "constant"], "demo", limit=10, out=tmp_path / "run")
    assert ta.table(run) == ta.table([tmp_path / "run"])
    assert ta.open_run(run).models == run.models
    with raises(errors.UnknownNameError, "'latx'", "'latex'"):
        ta.table(run, "latx")


def test_a_function_and_its_matrix_form_get_the_same_scores(made_set):
    run = ta.evaluate([bright, matrix], f"folder:{made_set()}")
    one, other = (run.items(model=name).scores for name in run.models)
    assert one.shape == (12, 2, 2)
    assert np.array_equal(one, other)
    assert one.any()


def test_a_function_gets_pil_images_in_rgb(made_set):
    seen = []

    def look(image, text: str) -> float:
        seen.append((image.mode, image.size, type(text)))
        return 0.0

    look.fingerprint = "look"
    ta.evaluate(look, f"folder:{made_set(n=1)}", cache=False)
    assert seen == [("RGB", (8, 8), str)] * 4


def test_without_a_fingerprint_nothing_is_kept_and_a_warning_says_so(made_set, tmp_path):
    strength, calls = 1.0, []

    def weighed(image, text: str) -> float:
        calls.append(text)
        return strength * float(np.asarray(image).mean())

    name, out = f"folder:{made_set(n=2)}", tmp_path / "r"
    with pytest.warns(errors.TellapartWarning, match="weighed.*`fingerprint`"):
        first = ta.evaluate(weighed, name, out=out).items().scores
    strength = 2.0  # the source is the same, and the scores are not
    with pytest.warns(errors.TellapartWarning):
        second = ta.evaluate(weighed, name, out=out).items().scores
    assert np.allclose(second, 2 * first)
    assert len(calls) == 16
    assert ta.open_run(out).result().model.fingerprint.startswith("source-")


def test_with_a_fingerprint_the_store_keeps_what_a_function_computed(made_set):
    calls: list[str] = []

    def kept(_image, text: str) -> float:
        calls.append(text)
        return 1.0

    kept.fingerprint = "kept-1"
    name = f"folder:{made_set(n=2)}"
    for _ in range(2):
        ta.evaluate(kept, name)
    assert len(calls) == 8


def test_the_source_is_in_the_fingerprint_of_a_function_that_names_none():
    from tellapart.models.memory.held import as_model

    with pytest.warns(errors.TellapartWarning):
        one, same, other = (as_model(f) for f in (lambda i, t: 1.0, lambda i, t: 1.0, lambda i, t: len(t)))
    assert one.fingerprint == same.fingerprint
    assert len({one.name, other.name}) == 1

    def first(i, t: str) -> float:
        return 1.0

    def second(i, t: str) -> float:
        return 2.0

    with pytest.warns(errors.TellapartWarning):
        assert as_model(first).fingerprint != as_model(second).fingerprint


def test_a_model_that_prepares_its_inputs_takes_no_processor():
    with raises(errors.ModelError, "Oracle", "ta.model(it)"):
        ta.model(ta.find_model("oracle"), processor=object())


def test_items_of_one_image_and_one_text_are_answered_with_the_need_of_a_rival(tmp_path):
    item = ta.Item(id="a", images=("a.png",), texts=("a cat",))
    ta.write_pair_set(tmp_path / "set", [item], {"a.png": b"no picture is read"}, {})
    with raises(errors.MetricError, "oracle", "1 image and 1 text", "negative_caption"):
        ta.evaluate("oracle", f"folder:{tmp_path}/set")


def test_an_object_with_the_methods_alone_is_a_model(made_set):
    class Colours:
        def encode_images(self, images):
            return np.array([np.asarray(image).reshape(-1, 3).mean(axis=0) for image in images], np.float32)

        def encode_texts(self, texts):
            return np.array([[len(text), text.count("e"), 1] for text in texts], np.float32)

        def similarity(self, images, texts):
            return (images[:, None] * texts[None]).sum(axis=2)

    with pytest.warns(errors.TellapartWarning, match="Colours.*fingerprint"):
        run = ta.evaluate(Colours(), f"folder:{made_set(n=3)}")
    assert run.models == ["Colours"]
    with pytest.warns(errors.TellapartWarning):  # the class itself is called
        assert ta.evaluate(Colours, f"folder:{made_set('b', n=3)}").models == ["Colours"]


def test_settings_take_objects_where_names_stand(tmp_path, made_set):
    from tellapart.evaluation.run import Settings, run

    settings = Settings(models=(bright,), benchmarks=(ta.load_pairs(made_set()),), limit="3")
    (folder,) = run(settings, tmp_path / "r", store=EmbeddingStore(None))
    assert ta.open_run(folder).benchmarks == ["folder:set"]


def test_a_pair_set_made_in_memory_is_a_benchmark_with_its_pictures():
    pairs = ta.load_pairs("demo").select(range(4))
    mine = ta.PairSet("mine", pairs.items, pairs.root, read=pairs.read_bytes)
    run = ta.evaluate(bright, mine)
    assert run.benchmarks == ["mine"]
    assert run.items()[0]._repr_html_().count("<img src=") == 2
    assert [item.sample.id for item in run.items()] == run.items()["id"]


def test_an_object_with_the_name_of_the_catalogues_benchmark_is_refused():
    own = replace(ta.find_benchmark("winoground"), load=ta.find_benchmark("demo").load)
    with raises(errors.DataError, "'winoground'", "benchmark"):
        ta.evaluate("oracle", own)
    part = ta.load_pairs("demo").select(range(5))
    run = ta.evaluate("oracle", part)
    assert (run.benchmarks, run.record("group_score").n) == (["demo"], 5)
    assert "these files hold 5 records; demo as published holds 400" in run.result().benchmarks["demo"].notes[0]


def test_two_models_of_one_name_must_be_told_apart(made_set):
    with raises(errors.RunError, "2", "'bright'", "names="):
        ta.evaluate([bright, bright], f"folder:{made_set()}")
    run = ta.evaluate([bright, bright], f"folder:{made_set('other', n=3)}", names=("a", "b"))
    assert sorted(run.models) == ["a", "b"]


def test_a_folder_is_gone_with_its_run_and_save_keeps_it(tmp_path):
    run = ta.evaluate("oracle", "demo", limit=3)
    folder = run.folder
    assert folder.is_dir()
    kept = run.save(tmp_path / "kept")
    del run
    assert not folder.exists()
    assert kept.value("text_score") == 1.0
    with raises(errors.RunError, "folder"):
        kept.save(tmp_path / "kept")


def test_a_run_is_handed_on_as_pandas_arrow_and_arrays():
    run = ta.evaluate(["oracle", "constant"], "demo", limit=10)
    arrays = run.to_dict()
    assert arrays["value"].dtype == np.float64
    assert set(arrays["model"]) == {"oracle", "constant"}
    items = run.items(model="constant")
    assert len(items) == 10
    assert items.to_dict()["text_score"].tolist() == [0.0] * 10
    pandas = pytest.importorskip("pandas")
    frame = run.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame[(frame.model == "oracle") & (frame.metric == "group_score")].value.item() == 1.0
    pytest.importorskip("pyarrow")
    assert run.table().to_arrow().num_rows == 8


def test_without_pandas_the_error_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with raises(errors.TellapartError, "to_dict()"):
        ta.evaluate("oracle", "demo", limit=3).to_pandas()


def test_an_objects_text_is_plain_and_whole_where_colours_are_asked_for(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as Jupyter's kernels and CI do
    text = repr(ta.compare(ta.evaluate(["oracle", "blind"], "demo", limit=20), baseline="blind"))
    assert "p (Holm)" in text and "detectable" in text
    assert "\x1b" not in text and "…" not in text


def test_a_column_that_is_not_there_is_answered_with_the_nearest():
    with raises(errors.UnknownNameError, "'benchmrk'", "did you mean 'benchmark'", "metric"):
        ta.evaluate("oracle", "demo", limit=3).table()["benchmrk"]


def test_an_item_shows_its_matrix():
    items = ta.evaluate("oracle", "demo", limit=3).items()
    item = items[items["id"][1]]
    assert item.scores.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert repr(item).count("✓") == 2
    assert item._repr_html_().count("<td>1 ✓</td>") == 2
    assert repr(items[-1]).splitlines()[0].startswith("demo: ")


def test_texts_of_strangers_are_escaped_in_what_a_notebook_shows():
    pairs = ta.load_pairs("demo").select([0])
    item = pairs.items[0].model_copy(update={"id": "<script>a", "texts": ("<script>b", "c")})
    run = ta.evaluate("oracle", ta.PairSet("<script>d", (item,), pairs.root, read=pairs.read_bytes))
    for shown in (run, run.items(), run.items()[0], run.table()):
        assert "<script>" not in shown._repr_html_()
        assert "&lt;script&gt;" in shown._repr_html_()


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        (np.zeros((3, 2, 2)), ("(item, image, text)", "400", "(3, 2, 2)")),
        ([[["a"]]], ("array", "list")),
        (7, ("(item, image, text)", "shape ()")),
        (None, ("None", "NoneType", "array")),
        ({"x": [[1, 2], [3, 4]]}, ("benchmark", "item")),
        ("gone.npz", "gone.npz"),
    ],
)
def test_scores_that_do_not_fit_are_refused_in_words(scores, said):
    with raises(errors.TellapartError, said):
        ta.score("demo", scores)


def test_scores_by_id_and_scores_objects_and_tensors_are_measured(made_set):
    name = f"folder:{made_set(n=3)}"
    matrices = {f"item-{k}": [[0.9, 0.1], [0.2, 0.8]] for k in (2, 0, 1)}
    assert ta.score(name, matrices).value("group_score") == 1.0
    scores = ta.Scores(tuple(matrices), list(matrices.values()), "probability")
    run = ta.score(name, scores, name="p")
    assert run.result().benchmarks["folder:set"].kind == "probability"
    torch = pytest.importorskip("torch")
    assert ta.score(name, torch.tensor(list(matrices.values()))).value("text_score") == 1.0


WRONG: list[Any] = [None, 7, 1.5, b"x", object(), ["x", 3], {"a": 1}, np.zeros(3), "", "no such thing", Path("gone")]

CALLS = {
    "evaluate a model": lambda x: ta.evaluate(x if x is not None else 0, "demo", limit=1),
    "evaluate a benchmark": lambda x: ta.evaluate("oracle", x, limit=1),
    "evaluate out": lambda x: ta.evaluate("oracle", "demo", limit="x", out=x),
    "evaluate limit": lambda x: ta.evaluate(
        "oracle", "demo", limit="x" if x is None or x is Path or isinstance(x, int) else x
    ),
    "evaluate data": lambda x: ta.evaluate("oracel", "demo", data=x),
    "evaluate cache": lambda x: ta.evaluate("oracel", "demo", cache=x),
    "evaluate progress": lambda x: ta.evaluate("oracel", "demo", progress=x),
    "evaluate names": lambda x: ta.evaluate(["oracle", "blind"], "demo", names=3 if x is None else x),
    "score": lambda x: ta.score(x, "gone.npz"),
    "compare": lambda x: ta.compare(x, x),
    "compare by": lambda x: ta.compare("gone", by=x),
    "audit": ta.audit,
    "build": ta.build,
    "train": ta.train,
    "load_pairs": ta.load_pairs,
    "open_run": ta.open_run,
    "read_pair_set": ta.read_pair_set,
    "read_result": ta.read_result,
    "read_samples": lambda x: ta.read_samples(x, "demo"),
    "find_benchmark": ta.find_benchmark,
    "find_model": ta.find_model,
    "text_score": ta.text_score,
    "group score update": lambda x: ta.metrics.GroupScore().update(x),
    "load_plugin": ta.load_plugin,
    "PairProbe": lambda x: ta.PairProbe(x if x is not None else 7),
    "PairProbe every": lambda x: ta.PairProbe("demo", every=0 if isinstance(x, int) else x),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("wrong", WRONG, ids=lambda value: repr(value)[:12])
def test_a_wrong_argument_is_an_error_of_ours(call, wrong, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)  # a folder for vectors is made where the call says
    with pytest.raises((errors.TellapartError, OSError)) as raised:
        CALLS[call](wrong)
    assert isinstance(raised.value, errors.TellapartError)
    assert len(str(raised.value)) > 15


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ta.evaluate("oracle", "demo", limit=1).value("group"), ("metric", "'group'", "'group_score'")),
        (lambda: ta.evaluate("oracle", "demo", limit=1).items("dem"), ("benchmark", "'dem'", "'demo'")),
        (lambda: ta.evaluate("oracle", "demo", limit=1).items()["x"], "'x'"),
        (lambda: ta.evaluate("oracle", "demo", limit=1).items()[9], ("items[9]", "id", "column")),
        (lambda: ta.evaluate(lambda image, text: [1, 2], "demo", limit=1), "(2,)"),
        (lambda: ta.evaluate(lambda a, b: 1.0, "demo", limit=1, batched=True), ("2", "2", "images")),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(call, said):
    import warnings

    with warnings.catch_warnings(), raises((errors.UnknownNameError, errors.RunError, errors.ModelError), said):
        warnings.simplefilter("ignore", errors.TellapartWarning)
        call()


def test_a_module_of_torch_is_refused_with_what_to_do():
    torch = pytest.importorskip("torch")
    with raises(errors.ModelError, "Linear", "id", "folder"):
        ta.evaluate(torch.nn.Linear(2, 2), "demo")


def test_functions_stay_functions_whichever_modules_are_imported():
    code = (
        "import sys; from tellapart.metrics import ties; assert 'tellapart.metrics.streaming' not in sys.modules; "
        "import tellapart.training.config, tellapart.auditing.card, tellapart as ta, sys; "
        "assert callable(ta.train) and callable(ta.audit); assert ta.metrics.GroupScore().metric.name; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_metrics_room_names_its_classes():
    with raises(AttributeError, "'GroupScor'", "TextScore, ImageScore, GroupScore"):
        ta.metrics.GroupScor  # noqa: B018
