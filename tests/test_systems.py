"""The table of the papers' systems: every command is one of ours, and names what is there."""

import json
import re
import shlex
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from facts import check_facts, raises
from scripts import import_document
from tellapart.benchmarks.find import find_benchmark
from tellapart.catalog import names
from tellapart.cli.main import app
from tellapart.errors import ModelError, UnknownNameError
from tellapart.models.find import declared_prefix, find_prefix
from tellapart.models.fusion.family import FusionPrefix
from tellapart.models.huggingface.load import readings_of
from tellapart.models.openclip.source import resolve
from tellapart.training.config import list_presets
from tellapart_native.family import NativeFamily
from tellapart_native.prefix import find_family

ROOT = Path(__file__).parents[1]
SUFFIXES = (".pth", ".pt", ".th", ".ckpt", ".bin", ".safetensors")
systems = import_document("generate")
SYSTEMS = systems.read_systems()


@cache
def whole_program():
    return typer.main.get_command(app)


def parse(line: str) -> dict[str, Any]:
    """Read a command line as the program does, and run nothing."""
    program, *words = shlex.split(line)
    assert program == "tellapart", line
    command = whole_program()
    while commands := getattr(command, "commands", None):
        command = commands[words.pop(0)]
    with command.make_context("tellapart", words) as context:
        given: dict[str, Any] = context.params
    return given


def native_family(model: str) -> NativeFamily | None:
    """Return the family of a model in its authors' file."""
    return find_family(model.partition(":")[0]) if isinstance(declared_prefix(model), FusionPrefix) else None


def readings(model: str, model_type: str) -> list[str]:
    """List the readings of the family that a model's name says, or of the type that the table says."""
    if find_prefix(model) is None:
        return []
    if (family := native_family(model)) is not None:
        return list(family.readings)
    return list(readings_of({"model_type": model_type}, model)) if model_type else []


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_a_systems_commands_are_known(system):
    for line in system.commands:
        given = parse(line)
        models = given["models"] if line.startswith("tellapart run") else ()
        for model in models or ():
            known, family = readings(model, system.type), native_family(model)
            assert given["reading"] in ([None, *known] if known else [None]), line
            if family is not None:
                assert model.endswith(SUFFIXES), line
                assert (family.images is None) == (given["regions"] is not None), line
                assert given["texts"] == "raw" or family.clean is not None, line
                assert given["image_size"] is None or family.resize is not None, line
        named = given.get("benchmarks") or given.get("benchmark") or ()
        for benchmark in (named,) if isinstance(named, str) else named:
            find_benchmark(benchmark.removeprefix("pairing:"))
        for path in re.findall(r"[\w/.-]+\.(?:toml|py)", line + system.note):
            assert (ROOT / path).is_file(), path
    assert set(system.presets) <= set(list_presets())
    assert bool(system.golden) == (system.checked == "golden")


def test_every_family_in_its_authors_files_and_every_golden_file_is_in_the_table():
    commands = " ".join(command for system in SYSTEMS for command in system.commands)
    native = [name for name in names("prefix") if isinstance(declared_prefix(name), FusionPrefix)]
    assert len(native) == 11 and [name for name in native if f" {name}" not in commands] == []
    record = json.loads(systems.GOLDEN.read_text())
    assert {name for system in SYSTEMS for name in system.golden} | {"meter_swin", "lxmert_full"} == set(record)


@pytest.mark.slow
def test_models_of_open_clip_in_the_documents_are_opened(tmp_path):
    """But for their weights: the architecture and the tag are known, and so is the activation."""
    pages = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/**/*.toml"), *ROOT.glob("examples/**/*.toml")]
    text = " ".join(page.read_text(encoding="utf-8") for page in pages)
    named = set(re.findall(r"open_clip:(?!ARCH)[\w-]+(?:/\w+)?(?:@(?:[\w.-]+\.pth?|\{\}))?", text))
    assert len(named) > 5
    (tmp_path / "weights.pt").touch()
    for name in sorted(named):
        try:
            resolve(re.sub("@.*", f"@{tmp_path / 'weights.pt'}", name))
        except ModelError as error:
            check_facts(str(error), "hub")


def test_checkpoints_that_papers_compare_have_names_that_can_be_typed():
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    section = page.partition("## Checkpoints of CLIP that papers compare")[2].partition("\n## ")[0]
    table = "".join(line for line in section.splitlines() if line.startswith("|"))
    prefixes = tuple(f"{prefix}" for prefix in names("prefix"))
    named = [span for span in re.findall("`([^`]+)`", table) if span.startswith(prefixes)]
    assert len(named) > 50
    for span in named:
        (model,) = parse(f"tellapart run -b winoground -m {span}")["models"]
        assert find_prefix(model) is not None, span
        assert not re.search(r"\.\.\.|ARCH|ORG|TAG", model), span
    for line in re.findall(r"^\$ (tellapart .*)$", section, re.MULTILINE):
        parse(line)


def test_a_wrong_command_is_noticed():
    with pytest.raises(Exception, match="--readings"):
        parse("tellapart run -m albef:ALBEF.pth --readings itm")
    with raises(UnknownNameError, "albeff"):
        readings("albeff:ALBEF.pth", "")
    assert "rank" not in readings("albef:ALBEF.pth", "")
    wrong = replace(SYSTEMS[0], commands=("tellapart run -m albef:mscoco.pth --reading rank -b vlue-retrieval",))
    with pytest.raises(AssertionError, match="--reading rank"):
        test_a_systems_commands_are_known(wrong)
