"""The Python interface: models, benchmarks and vectors as people hold them, runs as they look at them, dry runs."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tellapart as ta
from facts import check_facts, raises
from scripts import run_python
from tellapart import errors
from tellapart.cli.main import app
from tellapart.errors import RunError, ScoreError, TellapartError
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
    assert (run.models, run.benchmarks) == (["bright", "matrix"], ["folder:set", "demo"])
    # A function and its matrix form get the same scores.
    one, other = (run.items("folder:set", model=name).scores for name in run.models)
    assert one.shape == (10, 2, 2) and one.any()
    np.testing.assert_array_equal(one, other)
    assert ta.compare(run).models == ta.open_run(tmp_path / "mine").models == ["bright", "matrix"]
    assert len(ta.load_pairs(folder)) == len(ta.load_pairs(str(folder))) == 12
    scored = ta.score(f"folder:{folder}", np.zeros((12, 2, 2)).tolist(), name="mine")
    assert (scored.models, scored.value("group_score")) == (["mine"], 0.0)
    assert ta.audit(folder, read_images=False).record.items == 12


def test_a_run_stands_for_its_folder_which_is_gone_with_it_unless_it_is_saved(tmp_path):
    run = ta.evaluate(["demo-encoder", "constant"], "demo", limit=10, out=tmp_path / "run")
    assert (ta.table(run), ta.open_run(run).models) == (ta.table([tmp_path / "run"]), run.models)
    with raises(errors.UnknownNameError, "'latx'", "'latex'"):
        ta.table(run, "latx")
    run = ta.evaluate("oracle", "demo", limit=3)
    folder = run.folder
    assert folder.is_dir()
    kept = run.save(tmp_path / "kept")
    del run
    assert not folder.exists()
    assert kept.value("text_score") == 1.0
    with raises(errors.RunError, "folder"):
        kept.save(tmp_path / "kept")


def test_a_function_gets_pil_images_in_rgb(made_set):
    seen = []

    def look(image, text: str) -> float:
        seen.append((image.mode, image.size, type(text)))
        return 0.0

    look.fingerprint = "look"
    ta.evaluate(look, f"folder:{made_set(n=1)}", cache=False)
    assert seen == [("RGB", (8, 8), str)] * 4


def test_without_a_fingerprint_nothing_is_kept_a_warning_says_so_and_with_one_the_store_keeps(made_set, tmp_path):
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
    weighed.fingerprint = "weighed-1"
    for _ in range(2):
        ta.evaluate(weighed, name)
    assert len(calls) == 16 + 8


def test_the_source_is_in_the_fingerprint_of_a_function_that_names_none():
    from tellapart.models.memory.held import as_model

    def first(i, t: str) -> float:
        return 1.0

    def second(i, t: str) -> float:
        return 2.0

    with pytest.warns(errors.TellapartWarning):
        one, same, other = (as_model(f) for f in (lambda i, t: 1.0, lambda i, t: 1.0, lambda i, t: len(t)))
        assert as_model(first, name="a").fingerprint != as_model(second, name="a").fingerprint
    assert (one.fingerprint, len({one.name, other.name})) == (same.fingerprint, 1)


def test_a_model_with_preparation_takes_no_processor_and_a_bare_module_is_no_model():
    with raises(errors.ModelError, "Oracle", "ta.model(it)"):
        ta.model(ta.find_model("oracle"), processor=object())
    torch = pytest.importorskip("torch")
    with raises(errors.ModelError, "Linear", "id", "folder"):
        ta.evaluate(torch.nn.Linear(2, 2), "demo")


@pytest.mark.parametrize(
    ("texts", "facts"),
    [
        ({"texts": ("a cat",)}, ("1 image and 1 text", "negative_caption")),  # it needs a rival
        ({"texts": ("a cat", "a kitten", "a dog", "a cow"), "true": (0, 1)}, ("1 image and 4 texts", "2 true")),
    ],
)
def test_a_set_that_no_metric_measures_is_named_with_its_texts(texts, facts, tmp_path):
    item = ta.Item(id="a", images=("a.png",), **texts)
    ta.write_pair_set(tmp_path / "set", [item], {"a.png": b"no picture is read"}, {})
    with raises(errors.MetricError, "oracle", facts):
        ta.evaluate("oracle", f"folder:{tmp_path}/set")


def test_an_object_with_the_methods_alone_is_a_model(made_set):
    class Colours:
        def encode_images(self, images):
            return np.array([np.asarray(image).reshape(-1, 3).mean(axis=0) for image in images], np.float32)

        def encode_texts(self, texts):
            return np.array([[len(text), text.count("e"), 1] for text in texts], np.float32)

        def similarity(self, images, texts):
            return (images[:, None] * texts[None]).sum(axis=2)

    name = f"folder:{made_set(n=3)}"
    for given in (Colours(), Colours):  # the class itself is called
        with pytest.warns(errors.TellapartWarning, match="Colours.*fingerprint"):
            assert ta.evaluate(given, name).models == ["Colours"]


def test_settings_take_objects_where_names_stand(tmp_path, made_set):
    from tellapart.evaluation.run import Settings, run

    settings = Settings(models=(bright,), benchmarks=(ta.load_pairs(made_set()),), limit="3")
    (folder,) = run(settings, tmp_path / "r", store=EmbeddingStore(None))
    assert ta.open_run(folder).benchmarks == ["folder:set"]


def test_pairs_in_memory_are_a_benchmark_and_may_not_bear_a_name_of_the_catalogue():
    pairs = ta.load_pairs("demo").select(range(4))
    run = ta.evaluate(bright, ta.PairSet("mine", pairs.items, pairs.root, read=pairs.read_bytes))
    assert (run.benchmarks, run.items()[0]._repr_html_().count("<img src=")) == (["mine"], 2)
    assert [item.sample.id for item in run.items()] == run.items()["id"]
    own = replace(ta.find_benchmark("winoground"), load=ta.find_benchmark("demo").load)
    with raises(errors.DataError, "'winoground'", "benchmark"):
        ta.evaluate("oracle", own)
    run = ta.evaluate("oracle", ta.load_pairs("demo").select(range(5)))
    assert (run.benchmarks, run.record("group_score").n) == (["demo"], 5)
    assert "these files hold 5 records; demo as published holds 400" in run.result().benchmarks["demo"].notes[0]


def test_two_models_of_one_name_must_be_told_apart(made_set):
    name = f"folder:{made_set(n=3)}"
    with raises(errors.RunError, "2", "'bright'", "names="):
        ta.evaluate([bright, bright], name)
    assert sorted(ta.evaluate([bright, bright], name, names=("a", "b")).models) == ["a", "b"]


def test_a_run_is_handed_on_as_pandas_arrow_and_arrays_and_a_missing_pandas_is_answered(monkeypatch):
    run = ta.evaluate(["oracle", "constant"], "demo", limit=10)
    arrays = run.to_dict()
    assert (arrays["value"].dtype, set(arrays["model"])) == (np.float64, {"oracle", "constant"})
    items = run.items(model="constant")
    assert (len(items), items.to_dict()["text_score"].tolist()) == (10, [0.0] * 10)
    pandas, frame = pytest.importorskip("pandas"), run.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame[(frame.model == "oracle") & (frame.metric == "group_score")].value.item() == 1.0
    pytest.importorskip("pyarrow")
    assert run.table().to_arrow().num_rows == 8
    monkeypatch.setitem(sys.modules, "pandas", None)
    with raises(errors.TellapartError, "to_dict()"):
        ta.evaluate("oracle", "demo", limit=3).to_pandas()


def test_a_comparison_is_plain_and_whole_where_colours_are_asked_for_and_a_notebook_has_its_verdict(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as Jupyter's kernels and CI do
    compared = ta.compare(ta.evaluate(["oracle", "blind"], "demo", limit=20), baseline="blind")
    assert "p (Holm)" in repr(compared) and "detectable" in repr(compared)
    assert "\x1b" not in repr(compared) and "…" not in repr(compared)
    shown = compared._repr_html_()
    assert "oracle is better than blind" in shown and "Holm over 4 tests" in shown


def test_an_item_shows_its_matrix_and_texts_of_strangers_are_escaped():
    items = ta.evaluate("oracle", "demo", limit=3).items()
    item = items[items["id"][1]]
    assert (item.scores.tolist(), repr(item).count("✓")) == ([[1.0, 0.0], [0.0, 1.0]], 2)
    assert item._repr_html_().count("<td>1 ✓</td>") == 2
    assert repr(items[-1]).splitlines()[0].startswith("demo: ")
    pairs = ta.load_pairs("demo").select([0])
    item = pairs.items[0].model_copy(update={"id": "<script>a", "texts": ("<script>b", "c")})
    run = ta.evaluate("oracle", ta.PairSet("<script>d", (item,), pairs.root, read=pairs.read_bytes))
    for shown in (run, run.items(), run.items()[0], run.table()):
        assert "<script>" not in shown._repr_html_() and "&lt;script&gt;" in shown._repr_html_()


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        (np.zeros((3, 2, 2)), ("(item, image, text)", "400", "(3, 2, 2)")), ([[["a"]]], ("array", "list")),
        (7, ("(item, image, text)", "shape ()")), (None, ("None", "NoneType", "array")),
        ({"x": [[1, 2], [3, 4]]}, ("benchmark", "item")), ("gone.npz", "gone.npz"),
    ],
)  # fmt: skip
def test_scores_that_do_not_fit_are_refused_in_words(scores, said):
    with raises(errors.TellapartError, said):
        ta.score("demo", scores)


def test_scores_by_id_and_scores_objects_and_tensors_are_measured(made_set):
    name, matrices = f"folder:{made_set(n=3)}", {f"item-{k}": [[0.9, 0.1], [0.2, 0.8]] for k in (2, 0, 1)}
    for kind in ("probability", "logit", None):
        run = ta.score(name, matrices, kind=kind)
        assert run.value("group_score") == 1.0
        assert run.result().benchmarks["folder:set"].kind == (kind or "similarity")
    scores = ta.Scores(tuple(matrices), list(matrices.values()), "probability")
    assert ta.score(name, scores, name="p").result().benchmarks["folder:set"].kind == "probability"
    torch = pytest.importorskip("torch")
    assert ta.score(name, torch.tensor(list(matrices.values()))).value("text_score") == 1.0


WRONG: list[Any] = [None, 7, 1.5, b"x", object(), ["x", 3], {"a": 1}, np.zeros(3), "", "no such thing", Path("gone")]
CALLS = {
    "evaluate a model": lambda x: ta.evaluate(x if x is not None else 0, "demo", limit=1),
    "evaluate a benchmark": lambda x: ta.evaluate("oracle", x, limit=1),
    "evaluate out": lambda x: ta.evaluate("oracle", "demo", limit="x", out=x),
    "evaluate limit": lambda x: ta.evaluate("oracle", "demo", limit="x" if x is None or isinstance(x, int) else x),
    "evaluate data": lambda x: ta.evaluate("oracel", "demo", data=x),
    "evaluate cache": lambda x: ta.evaluate("oracel", "demo", cache=x),
    "evaluate progress": lambda x: ta.evaluate("oracel", "demo", progress=x),
    "evaluate names": lambda x: ta.evaluate(["oracle", "blind"], "demo", names=3 if x is None else x),
    "score": lambda x: ta.score(x, "gone.npz"), "compare": lambda x: ta.compare(x, x),
    "compare by": lambda x: ta.compare("gone", by=x), "audit": ta.audit, "build": ta.build, "train": ta.train,
    "load_pairs": ta.load_pairs, "open_run": ta.open_run, "read_pair_set": ta.read_pair_set,
    "read_result": ta.read_result, "read_samples": lambda x: ta.read_samples(x, "demo"),
    "find_benchmark": ta.find_benchmark, "find_model": ta.find_model, "text_score": ta.text_score,
    "group score update": lambda x: ta.metrics.GroupScore().update(x), "load_plugin": ta.load_plugin,
    "PairProbe": lambda x: ta.PairProbe(x if x is not None else 7),
    "PairProbe every": lambda x: ta.PairProbe("demo", every=0 if isinstance(x, int) else x),
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("wrong", WRONG, ids=lambda value: repr(value)[:12])
def test_a_wrong_argument_is_an_error_of_ours(call, wrong, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)  # a folder for vectors is made where the call says
    with pytest.raises((errors.TellapartError, OSError)) as raised:
        CALLS[call](wrong)
    assert isinstance(raised.value, errors.TellapartError)
    assert len(str(raised.value)) > 15


@pytest.mark.filterwarnings("ignore::tellapart.errors.TellapartWarning")
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ta.evaluate("oracle", "demo", limit=1).value("group"), ("metric", "'group'", "'group_score'")),
        (lambda: ta.evaluate("oracle", "demo", limit=1).items("dem"), ("benchmark", "'dem'", "'demo'")),
        (lambda: ta.evaluate("oracle", "demo", limit=1).items()["x"], "'x'"),
        (lambda: ta.evaluate("oracle", "demo", limit=1).items()[9], ("items[9]", "id", "column")),
        (lambda: ta.evaluate("oracle", "demo", limit=1).table()["benchmrk"], ("'benchmrk'", "'benchmark'", "metric")),
        (lambda: ta.evaluate(lambda image, text: [1, 2], "demo", limit=1), "(2,)"),
        (lambda: ta.evaluate(lambda a, b: 1.0, "demo", limit=1, batched=True), ("2", "2", "images")),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(call, said):
    with raises((errors.UnknownNameError, errors.RunError, errors.ModelError), said):
        call()


def test_functions_stay_functions_whichever_modules_are_imported_and_the_metrics_room_names_its_classes():
    code = (
        "import sys; from tellapart.metrics import ties; assert 'tellapart.metrics.streaming' not in sys.modules; "
        "import tellapart.training.config, tellapart.auditing.card, tellapart as ta, sys; "
        "assert callable(ta.train) and callable(ta.audit); assert ta.metrics.GroupScore().metric.name; "
        "assert 'torch' not in sys.modules"
    )
    run_python("-c", code)
    with raises(AttributeError, "'GroupScor'", "TextScore, ImageScore, GroupScore"):
        ta.metrics.GroupScor  # noqa: B018


# Vectors of another system: arrays and files, with ids and in order; what does not fit is named by its row.


@pytest.fixture
def pairs(made_set) -> ta.PairSet:
    return ta.load_pairs(made_set(n=5))


@pytest.fixture
def made(pairs) -> dict[str, Any]:
    """Distinct images and texts with their vectors, and the cosines of the items."""
    rng = np.random.default_rng(0)
    slots = {side: [each for item in pairs.items for each in getattr(item, side)] for side in ("images", "texts")}
    ids = {side: list(dict.fromkeys(each)) for side, each in slots.items()}
    vectors = {side: rng.normal(size=(len(names), 6)).astype(np.float32) for side, names in ids.items()}
    unit = {side: each / np.linalg.norm(each, axis=1, keepdims=True) for side, each in vectors.items()}
    cosines = [
        unit["images"][[ids["images"].index(name) for name in item.images]]
        @ unit["texts"][[ids["texts"].index(text) for text in item.texts]].T
        for item in pairs.items
    ]
    return {"ids": ids, "vectors": vectors, "unit": unit, "scores": np.array(cosines)}


def write(folder: Path, form: str, made: dict[str, Any], order=slice(None)) -> None:
    folder.mkdir(exist_ok=True)
    for side in ("images", "texts"):
        names, vectors = np.array(made["ids"][side])[order], made["vectors"][side][order]
        path = folder / f"{side}.{form}"
        if form == "npz":
            np.savez(path, ids=names, vectors=vectors)
        elif form == "npy":
            np.save(path, vectors)
            path.with_suffix(".txt").write_bytes("".join(f"{name}\r\n" for name in names).encode())
        elif form == "parquet":
            pyarrow = pytest.importorskip("pyarrow")
            from pyarrow import parquet

            parquet.write_table(pyarrow.table({"id": names.tolist(), "vector": list(vectors)}), path)
        else:
            numpy = pytest.importorskip("safetensors.numpy")
            numpy.save_file({"vectors": np.ascontiguousarray(vectors)}, path, {"ids": json.dumps(names.tolist())})


def test_arrays_in_order_and_with_ids_give_the_cosines(pairs, made):
    images, texts = made["vectors"]["images"], made["vectors"]["texts"]
    ids = made["ids"]
    slots = {side: [ids[side].index(each) for item in pairs.items for each in getattr(item, side)] for side in ids}
    per_slot = images[slots["images"]], texts[slots["texts"]]
    calls = [
        ta.score_vectors(images, texts, pairs),
        ta.score_vectors(images.tolist(), texts, pairs),
        ta.score_vectors(*per_slot, pairs),
        ta.score_vectors(*(each.reshape(5, 2, 6) for each in per_slot), pairs),
        ta.score_vectors(images[::-1], texts[::-1], pairs, image_ids=ids["images"][::-1], text_ids=ids["texts"][::-1]),
    ]
    for run in calls:
        assert np.allclose(run.items().scores, made["scores"], atol=1e-6)
    notes, low = calls[0].result().benchmarks["folder:set"].notes, np.linalg.norm(images, axis=1).min()
    assert ["images" in notes[0], "texts" in notes[1], f"{low:.4g}" in notes[0]] == [True] * 3
    unit = ta.score_vectors(made["unit"]["images"], made["unit"]["texts"], pairs)
    assert unit.result().benchmarks["folder:set"].notes == ()
    assert calls[0].result().model.fingerprint == calls[1].result().model.fingerprint


@pytest.mark.few(2)
@pytest.mark.parametrize("form", ["npz", "npy", "parquet", "safetensors"])
def test_files_with_ids_give_the_same_in_python_and_on_the_command_line(form, pairs, made, tmp_path):
    write(tmp_path / "v", form, made, slice(None, None, -1))
    run = ta.score_vectors(tmp_path / "v" / f"images.{form}", str(tmp_path / "v" / f"texts.{form}"), pairs)
    assert np.allclose(run.items().scores, made["scores"], atol=1e-6)
    words = ["run", "-m", f"vectors:{tmp_path / 'v'}", "-b", f"folder:{pairs.root}", "--out", str(tmp_path / "r")]
    done = CliRunner().invoke(app, [*words, "--no-cache", "--quiet"])
    assert done.exit_code == 0, done.output
    again = ta.open_run(tmp_path / "r")
    assert again.items().scores.tobytes() == run.items().scores.tobytes()
    assert again.result().model.fingerprint == run.result().model.fingerprint


def test_vectors_in_bfloat16_are_read(pairs, made, tmp_path):
    torch, save_file = pytest.importorskip("torch"), pytest.importorskip("safetensors.torch").save_file
    halves = {side: torch.tensor(vectors).bfloat16() for side, vectors in made["vectors"].items()}
    for side, vectors in halves.items():
        save_file({"vectors": vectors}, tmp_path / f"{side}.safetensors", {"ids": json.dumps(made["ids"][side])})
    files, floats = (tmp_path / f"{side}.safetensors" for side in halves), (each.float() for each in halves.values())
    runs = (ta.score_vectors(*vectors, pairs) for vectors in (files, floats))
    np.testing.assert_array_equal(*(run.items().scores for run in runs))


def test_what_does_not_fit_is_named_by_its_row(pairs, made):
    images, texts, ids = made["vectors"]["images"], made["vectors"]["texts"], made["ids"]["images"]
    nan, infinite, zero = (np.where(np.arange(10)[:, None] == 7, value, images) for value in (np.nan, np.inf, 0))
    wrong: list[tuple[Any, Any, dict[str, Any], tuple[str, ...]]] = [
        (images[:9], texts, {}, ("images", "9 rows", "10", "image_ids=")),
        (images, texts[:, :5], {}, ("images=", "6", "texts=", "5")),
        *((spoilt, texts, {}, ("images", "row 7", ids[7], "not finite")) for spoilt in (nan, infinite)),
        (zero, texts, {}, ("images", "row 7", ids[7], "length zero")),
        (images, texts, {"image_ids": [*ids[:2], "gone.png", *ids[3:]]}, ("row 2", "'gone.png'", "set")),
        (images, texts, {"image_ids": ids[:9]}, ("9", "10")),
        (images, texts, {"image_ids": [ids[0], *ids[:9]]}, ("rows 0 and 1", ids[0])),
        (images, texts[:-1], {"text_ids": made["ids"]["texts"][:-1]}, (made["ids"]["texts"][-1], "item-4")),
        (np.zeros((2, 4, 4, 3)), texts, {}, ("pixels", "(2, 4, 4, 3)")),
        (images.reshape(2, 5, 6), texts, {}, ("images", "(2, 5, 6)", "(5, 2)")),
        (["a.png"], texts, {}, ("(n, dimensions)", "['a.png']")),
    ]
    for one, other, named, facts in wrong:
        with raises(ScoreError, facts):
            ta.score_vectors(one, other, pairs, **named)
    assert ta.score_vectors(images[:, None], texts[None], pairs).items().scores.shape == (5, 2, 2)
    with raises(ScoreError, "images", "x.npz", "vectors:FOLDER"):
        np.savez(pairs.root / "x.npz", ids=ids, vectors=images)
        ta.score(f"folder:{pairs.root}", pairs.root / "x.npz")
    with raises(ScoreError, str(pairs.root), "vectors:FOLDER"):
        ta.score(f"folder:{pairs.root}", pairs.root)
    with raises(ScoreError, "(600, 256)", "score_vectors", "vectors:DIR"):
        path = pairs.root / "x.npy"
        np.save(path, np.zeros((600, 256)))
        ta.score(f"folder:{pairs.root}", path)


def test_a_folder_without_ids_or_vectors_is_refused_with_the_line_to_write(tmp_path):
    with raises(TellapartError, "vectors:gone", "images", "texts", ".npz"):
        ta.evaluate("vectors:gone", "demo")
    for side in ("images", "texts"):
        np.save(tmp_path / f"{side}.npy", np.ones((3, 2)))
    with raises(ScoreError, "images.npy", "images.txt", "np.savez"):
        ta.evaluate(f"vectors:{tmp_path}", "demo")
    np.savez(tmp_path / "images.npz", ids=["a"])
    with raises(ScoreError, "images.npz", "images.npy", "leave one"):  # which of two it would read, nobody could see
        ta.evaluate(f"vectors:{tmp_path}", "demo")
    (tmp_path / "images.npy").unlink()
    with raises(ScoreError, "images.npz", "`vectors`"):
        ta.evaluate(f"vectors:{tmp_path}", "demo")


def test_columns_of_parquet_have_two_names_and_others_are_listed(made, tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for id_, vector, side in (("ids", "vectors", "images"), ("path", "embedding", "texts")):
        table = pyarrow.table({id_: made["ids"][side], vector: list(made["vectors"][side])})
        parquet.write_table(table, tmp_path / f"{side}.parquet")
    with raises(ScoreError, "texts.parquet", "path", "embedding", "'vector'", "'id'"):
        ta.evaluate(f"vectors:{tmp_path}", "demo")


# A dry run: all problems at once, what is stored already, the time of the rest; nothing is written.

SCENES = Path("examples/eqsim_ablation/smoke_scenes").absolute()


def dry(*arguments: object) -> tuple[int, Any]:
    done = CliRunner().invoke(app, ["run", "--dry-run", "--json", "-q", *map(str, arguments)])
    return done.exit_code, json.loads(done.stdout)


def test_it_counts_sets_and_stored_numbers_and_writes_nothing(tmp_path):
    models = ("-m", "demo-encoder", "-m", "oracle")
    place = (*models, "-b", f"folder:{SCENES}", "--cache", tmp_path / "cache", "--limit", 12)
    code, plan = dry(*place, "--out", tmp_path / "run")
    assert (code, plan["passed"], plan["problems"]) == (0, True, [])
    counts = {"items": 12, "images": 24, "captions": 24, "texts": 24, "scores": 48}
    assert plan["sets"] == [{"set": "folder:smoke_scenes", **counts}]
    news = [(each["model"], each["new_images"], each["new_texts"], each["new_scores"]) for each in plan["parts"]]
    assert news == [("demo-encoder", 24, 24, 48), ("oracle", 24, 24, 48)]
    assert all(each["seconds"] > 0 and "timed" in each["basis"] for each in plan["parts"])
    assert plan["memory"] > 1e6 and list(tmp_path.iterdir()) == []
    ta.run("demo-encoder", f"folder:{SCENES}", limit=4, cache=tmp_path / "cache")
    stored = (tmp_path / "cache" / "store.sqlite").read_bytes()
    encoder, _ = dry(*place, "--out", tmp_path / "run")[1]["parts"]
    assert [encoder[f"new_{kind}"] for kind in ("images", "texts", "scores")] == [16, 16, 32]
    assert (tmp_path / "cache" / "store.sqlite").read_bytes() == stored
    ta.run("demo-encoder", f"folder:{SCENES}", limit=12, cache=tmp_path / "cache")
    encoder, _ = dry(*place, "--out", tmp_path / "run")[1]["parts"]
    assert (encoder["new_scores"], encoder["seconds"], encoder["basis"]) == (0, 0.0, "all scores are stored")
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


def test_it_looks_into_the_runs_folder(tmp_path):
    place = ("-b", f"folder:{SCENES}", "--limit", 4, "--no-cache", "--out", tmp_path / "run")
    ta.run("demo-encoder", f"folder:{SCENES}", limit=4, out=tmp_path / "run", cache=False)
    kept = sorted((path, path.read_bytes()) for path in (tmp_path / "run").rglob("*") if path.is_file())
    code, plan = dry("-m", "demo-encoder", "-m", "oracle", *place)
    first, second = plan["parts"]
    assert (code, first["seconds"], first["basis"]) == (0, 0.0, f"measured in {tmp_path / 'run'} already")
    assert second["seconds"] > 0 and "timed" in second["basis"]
    other = shutil.copytree(SCENES, tmp_path / "other" / SCENES.name) / "pairs.jsonl"
    other.write_text(other.read_text().replace("small red coffee mug", "small red cup"))
    code, plan = dry("-m", "demo-encoder", "-b", f"folder:{other.parent}", *place[2:])
    assert code == 1
    check_facts(plan["problems"][0], (str(tmp_path / "run"), "smoke_scenes", "other content"))
    code, plan = dry("-m", "oracle", *place)
    assert code == 1
    check_facts(plan["problems"][0], (str(tmp_path / "run"), "another run", "demo-encoder"))
    assert kept == sorted((path, path.read_bytes()) for path in (tmp_path / "run").rglob("*") if path.is_file())


def test_all_problems_are_named_at_once_and_the_command_ends_with_1(tmp_path):
    folder, pointer = (shutil.copytree(SCENES, tmp_path / name) for name in ("scenes", "pointers"))
    pictures = sorted((folder / "images").iterdir())
    pictures[0].unlink()
    pictures[4].unlink()
    for picture in sorted((pointer / "images").iterdir())[:2]:
        picture.write_text("version https://git-lfs.github.com/spec/v1\n")
    sets = [option for name in (f"folder:{folder}", f"folder:{pointer}", "demmo") for option in ("-b", name)]
    code, plan = dry("-m", "orcale", "-m", "api:x", "-m", "random", *sets, "--dtype", "bfloat16")
    assert (code, plan["passed"]) == (1, False)
    facts = [pictures[0].name, pictures[4].name, "demmo", "'orcale'", "api:x", "attribute-000_1", "git lfs pull"]
    check_facts("\n".join(plan["problems"]), *facts)
    assert len(plan["problems"]) == 6  # a set, two pictures, a name of a set and two of models; none of the reference


def test_names_in_files_of_python_are_problems_of_the_same_list(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "mine.py").write_text("def bright(image, text):\n    return 0.5\n")
    typed = [f"{tmp_path / 'mine.py'}:{name}" for name in ("brigth", "dark", "SET")]
    code, plan = dry("-m", typed[0], "-m", "oracle", "-m", typed[1], "-b", typed[2], "-b", "demmo", "--name", "a")
    assert code == 1 and len(plan["problems"]) == 4
    for problem, name in zip(plan["problems"], ("SET", "brigth", "dark", "demmo"), strict=True):
        check_facts(problem, name)


def test_python_has_the_plan_and_shows_it(capsys, tmp_path):
    names, how = ["right", "same"], {"limit": 6, "out": tmp_path / "r", "dry_run": True}
    run = ta.evaluate(["oracle", "constant"], "demo", names=names, **how)
    assert run.plan is not None and run.plan.parts["model"] == ["right", "same"]
    assert "constant" not in repr(run) and "right" in repr(run)
    run.show()
    check_facts(capsys.readouterr().out, str(tmp_path / "r"), "captions", "no problem found")
    assert not (tmp_path / "r").exists()
    with raises(RunError, "dry_run=True", "follow="):
        ta.evaluate("open_clip:ViT-B-32@{}", "demo", follow=tmp_path, dry_run=True)


def test_vectors_that_are_stored_leave_scores_to_compute(tmp_path):
    folder = shutil.copytree(SCENES, tmp_path / "crossed")
    rows = [json.loads(line) for line in (SCENES / "pairs.jsonl").read_text().splitlines()[:6]]
    crossed = [{**row, "texts": rows[k - 1]["texts"]} for k, row in enumerate(rows)]
    ta.run("demo-encoder", ta.read_pair_set(SCENES).select(range(6)), cache=tmp_path / "cache", out=tmp_path / "run")
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in crossed))
    code, plan = dry("-m", "demo-encoder", "-b", f"folder:{folder}", "--cache", tmp_path / "cache")
    (part,) = plan["parts"]
    assert (code, plan["problems"]) == (0, [])
    assert [part[f"new_{kind}"] for kind in ("images", "texts", "scores")] == [0, 0, 24]
