"""Write into the documents what the commands print, and the tables that the code declares.

    python docs/generate.py          writes README.md, docs/*.md and examples/notebooks/*.ipynb again
    python docs/generate.py --check  changes nothing; exits with 1 and a diff where a document is out of date

A document marks what is generated:

    <!-- run: tellapart ls models -->      the command and what it prints
    <!-- table: metrics -->                a table from the code
    <!-- end -->
"""

import difflib
import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from speed_tables import RECORD_TABLES, record_table

from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import find_benchmark
from tellapart.board.settings import BoardSettings
from tellapart.board.submissions.hidden import HiddenBenchmark, SubmissionSettings
from tellapart.catalog import BENCHMARKS, LOSSES
from tellapart.metrics.metric import Metric
from tellapart.metrics.registry import METRICS, defined_for
from tellapart.models.api.connection import forms
from tellapart.models.find import name_forms
from tellapart.models.huggingface.load import DUAL, FAMILIES, GENERATIVE
from tellapart.stats.intervals import wilson
from tellapart.stats.power import detectable_above_chance, detectable_difference
from tellapart.tasks.registry import TASKS, headline
from tellapart.training.config import TrainConfig, list_presets, merge_preset
from tellapart.training.losses.loss import DualLoss, find_loss

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # for `examples`
BASELINES = ROOT / "docs" / "baselines.json"
FIRST = "prefers_first_text"
PROGRESS = re.compile(r"\[\d+:\d\d:\d\d\] ")
BLOCK = re.compile(r"(<!-- (run|table): (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def printed(command: str, folder: Path) -> str:
    """Show a command line of ours with its output."""
    lines = output_of(command.split(" | ", maxsplit=1)[0], folder)
    if last := re.search(r"\| tail -n (\d+)$", command):
        lines = lines[-int(last[1]) :]
    if first := re.search(r"\| head -n (\d+)$", command):
        lines = lines[: int(first[1])]
    shown = "\n".join(line.rstrip() for line in lines)
    return f"```console\n$ {command}\n{shown}\n```\n"


@cache
def output_of(command: str, folder: Path) -> list[str]:
    """Run a command in the folder of all documents; what several of them quote is run once."""
    program, *arguments = shlex.split(command)
    assert program == "tellapart", command
    environment = {
        **os.environ,
        "NO_COLOR": "1",
        "TERM": "dumb",
        "COLUMNS": "110",
        "TELLAPART_CACHE": str(folder / "cache"),
        "PYTHONWARNINGS": "error",
    }
    line = [sys.executable, "-m", "tellapart", *arguments]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    # A busy machine also prints how far it is, every half minute.
    return [line for line in (done.stdout + done.stderr).rstrip().splitlines() if not PROGRESS.match(line)]


def metrics_table() -> str:
    """Every metric as the registry declares it."""
    rows = ["| metric | meaning | items | scores | chance | source |", "|---|---|---|---|---|---|"]
    for metric in METRICS.values():
        kinds = "any" if len(metric.kinds) == 3 else ", ".join(sorted(metric.kinds))
        chance = "1 / number of choices" if callable(metric.chance_level) else metric.chance_level
        shown = "none" if chance is None else f"{chance:.4g}" if isinstance(chance, float) else chance
        rows.append(
            f"| `{metric.name}` | {metric.title} | {', '.join(metric.shapes)} | {kinds} | {shown} | {metric.source} |"
        )
    return "\n".join(rows) + "\n"


def pair_benchmarks() -> list[Benchmark]:
    """The catalogue's benchmarks of minimal pairs."""
    return [one for one in map(find_benchmark, BENCHMARKS) if one.task == "pairs"]


def headline_metric(one: Benchmark) -> Metric:
    """The last metric of a first look at a benchmark that compares scores, not sums of them."""
    names = one.official or headline({metric.name for metric in defined_for(one.shape, "similarity", one.true)})
    return [METRICS[name] for name in names if name in METRICS and not METRICS[name].additive][-1]


def benchmarks_table() -> str:
    """Every benchmark as it declares itself."""
    rows = ["| benchmark | items | n | metric | resampled together | a tie, in its code |", "|---|---|--:|---|---|---|"]
    rows += [
        f"| `{one.name}` | {one.shape[0]}x{one.shape[1]} | {f'{one.items:,}' if one.items else ''} | "
        f"`{headline_metric(one).name}` | "
        f"{one.cluster} | {one.ties} |"
        for one in pair_benchmarks()
    ]
    return "\n".join(rows) + "\n"


def baselines_table() -> str:
    """What guessing and words alone get on every benchmark, and what one of its size can show."""
    found = json.loads(BASELINES.read_text(encoding="utf-8"))
    heads = " | ".join(f"`{name}`" for name in found["models"])
    rows = [
        f"| benchmark | n | chance | {heads} | 95 % interval | above chance | difference |",
        "|---|--:|--:|" + "--:|" * len(found["models"]) + "--:|--:|--:|",
    ]
    for one in pair_benchmarks():
        metric, record = headline_metric(one), found["benchmarks"][one.name]
        chance = metric.chance(one.shape, one.true)
        assert chance is not None
        if not one.items:  # nobody said how many there are
            continue
        half = wilson(one.items // 2, one.items).high
        assert half is not None
        margins = [half - 0.5, detectable_above_chance(one.items, chance), detectable_difference(one.items, 0.2)]
        if reason := record.get("not_measured"):
            shown = [reason, *[""] * (len(found["models"]) - 1)]
        else:
            shown = [share(record["models"][name][metric.name]) for name in found["models"]]
        power = " | ".join(f"{100 * margin:.1f}" for margin in margins if margin is not None)
        rows.append(f"| `{one.name}` | {one.items:,} | {100 * chance:.1f} | {' | '.join(shown)} | ±{power} |")
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return "\n".join(rows) + f"\n\nMeasured on {found['measured']} by `{found['command']}` ({versions}).\n"


def share(value: dict[str, float]) -> str:
    """A measured number in percent; where ties touched it, what it is with ties broken at random."""
    return percent(value["value"]) + (f" ({percent(value['tie_neutral'])})" if value.get("ties") else "")


def percent(value: float) -> str:
    """A share in percent with one decimal; one that would look like nothing, with two digits."""
    return f"{100 * value:.2g}" if 0 < value < 0.0005 else f"{100 * value:.1f}"


def captions_table() -> str:
    """Where the captions of one image compete, by the benchmark's own parts; and which of two captions came first."""
    found = json.loads(BASELINES.read_text(encoding="utf-8"))
    heads = " | ".join(f"`{name}`" for name in found["models"])
    rows = [f"| benchmark | part | {heads} |", "|---|---|" + "--:|" * len(found["models"])]
    for name, record in found["benchmarks"].items():
        models = [record["models"][model] for model in found["models"]] if "models" in record else []
        if models and record["shape"][0] == 1 and models[0]["by"]:
            tag, values = max(models[0]["by"].items(), key=lambda found: len(found[1]))
            for value in values:
                shown = " | ".join(share(model["by"][tag][value]) for model in models)
                rows.append(f"| `{name}` | {value} | {shown} |")
        elif models and record["shape"][0] > 1:
            first = [share(model[FIRST]) if FIRST in model else "" for model in models]
            rows.append(f"| `{name}` | text 0 before text 1 | {' | '.join(first)} |")
    return "\n".join(rows) + "\n"


def task_benchmarks() -> list[Benchmark]:
    """The catalogue's benchmarks of tasks."""
    return [one for one in map(find_benchmark, BENCHMARKS) if one.task != "pairs"]


def tasks_table() -> str:
    """Every benchmark of a task: what a model must put out, and the first metrics."""
    rows = [
        "| benchmark | output | n | first metrics | resampled together | domain; its rival | file of predictions |",
        "|---|---|--:|---|---|---|---|",
    ]
    for one in task_benchmarks():
        task = TASKS[one.task]
        names = one.official or headline({metric.name for metric in task.metrics})
        first = ", ".join(f"`{name}`" for name in names)
        domain = "; ".join(filter(None, (one.domain, f"`{one.rival}`" if one.rival else "")))
        rows.append(
            f"| `{one.name}` | {task.output} | {one.items:,} | {first} | {one.cluster} | {domain} | "
            f"{', '.join(task.suffixes)} |"
        )
    return "\n".join(rows) + "\n"


def task_metrics_table() -> str:
    """Every metric of a task as it is declared; those that differ in what stands behind `@` share a row."""
    rows = ["| task | metric | meaning | chance | source |", "|---|---|---|---|---|"]
    for task in TASKS.values():
        families: dict[str, list[Metric]] = {}
        for metric in task.metrics if task.name != "pairs" else ():  # those have a table of their own
            families.setdefault("".join(metric.name.partition("@")[:2]), []).append(metric)
        for family in families.values():
            first, *others = family
            name = f"`{first.name}`" + (f" to `@{others[-1].name.partition('@')[2]}`" if others else "")
            level = first.chance_level
            chance = f"{level((1, 3)):.4g} of 1 x 3" if callable(level) else "" if level is None else f"{level:.4g}"
            rows.append(f"| {task.name} | {name} | {first.title} | {chance} | {first.source} |")
    return "\n".join(rows) + "\n"


def finding_text() -> str:
    """The first finding: the first two sentences of its answer, and its picture."""
    text = (ROOT / "docs" / "findings" / "priors.md").read_text(encoding="utf-8")
    found = re.search(r"\*\*Answer\.\*\* (.+?)\n\n!\[(.+?)\]", text, re.DOTALL)
    assert found is not None
    first, second = re.split(r"(?<=[a-z\])])\. (?=[A-Z0-9])", " ".join(found[1].split()))[:2]
    return f"**{first}.** {second}. [More](docs/findings/priors.md)\n\n![{found[2]}](docs/findings/priors.svg)\n"


def elsewhere_names_table() -> str:
    """The names of the same sets in CLIP_benchmark and mteb."""
    words = tomllib.loads((ROOT / "src/tellapart/report/interchange/foreign.toml").read_text(encoding="utf-8"))
    clip = {ours: theirs for theirs, ours in words["clip"]["sets"].items()} | {"sugarcrepe": "sugar_crepe/PART"}
    mteb = {ours: theirs for theirs, (ours, _, _) in words["mteb"].items()}
    rows = ["| here | CLIP_benchmark | mteb |", "|---|---|---|"]
    for name in sorted({*clip, *mteb}):
        theirs = (f"`{found[name]}`" if name in found else "" for found in (clip, mteb))
        rows.append(f"| `{name}` | {' | '.join(theirs)} |")
    return "\n".join(rows) + "\n"


def names_table() -> str:
    """How a model that is in no catalogue is named."""
    rows = ["| `-m` | model |", "|---|---|"]
    return "\n".join([*rows, *(f"| `{form}` | {meaning} |" for form, meaning in name_forms().items())]) + "\n"


def families_table() -> str:
    """Which readings each family of transformers has; the first is the default where the architecture names none."""
    rows = ["| `model_type` in config.json | `--reading` |", "|---|---|"]
    others = "chinese_clip, groupvit, tipsv2, vision-text-dual-encoder and whatever else encodes images and texts"
    families = {
        **FAMILIES,
        others: DUAL,
        "llava, qwen2_vl, qwen2_5_vl and whatever else writes text about an image": GENERATIVE,
    }
    for family, readings in families.items():
        rows.append(f"| {family} | {', '.join(f'`{reading}`' for reading in readings)} |")
    return "\n".join(rows) + "\n"


def forms_table() -> str:
    """The forms in which servers are asked for vectors and scores."""
    rows = ["| `--reading` | request | source |", "|---|---|---|"]
    rows += [f"| `{name}` | `{form.path}` | {form.source} |" for name, form in forms().items()]
    return "\n".join(rows) + "\n"


#: A table of the file -> the model that reads it.
BOARD_TABLES: dict[str, type[BaseModel]] = {
    "[board]": BoardSettings,
    "[submissions]": SubmissionSettings,
    "[[hidden]]": HiddenBenchmark,
}


def attribute_texts(model: type[BaseModel]) -> dict[str, str]:
    """Return the texts of a docstring's `Attributes:`, by name; names that share a text each get it."""
    section = (inspect.getdoc(model) or "").partition("Attributes:\n")[2]
    entries = re.findall(r"^ {4}(\w[\w, ]*): (.*(?:\n {8}.*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for names, text in entries for name in names.split(", ")}


def show_default(value: Any, required: bool) -> str:
    """Return a default as TOML writes it; empty for none."""
    if required:
        return "needed"
    return "" if value in (None, "", ()) else f"`{json.dumps(value)}`"


def board_keys_table() -> str:
    """Return a row for each key of a board file."""
    rows = ["| table | key | default | meaning |", "|---|---|---|---|"]
    for table, model in BOARD_TABLES.items():
        texts = attribute_texts(model)
        for name, field in model.model_fields.items():
            if not field.exclude:
                default = show_default(field.default, field.is_required())
                rows.append(f"| `{table}` | `{name}` | {default} | {texts[name]} |")
    return "\n".join(rows) + "\n"


def losses_table() -> str:
    """Every loss as it is declared: its definition, the inputs that a step must give it, its options and its source."""
    rows = ["| loss | definition | needs | options | source |", "|---|---|---|---|---|"]
    for name in LOSSES:
        loss = find_loss(name)
        summary, _, rest = inspect.cleandoc(loss.function.__doc__ or "").partition("\n")
        source = " ".join(rest.partition("Source: ")[2].partition("\n\n")[0].split()).removesuffix(".")
        options = ", ".join(option(*one) for one in loss.options.model_json_schema().get("properties", {}).items())
        needs = dual_needs(loss) if isinstance(loss, DualLoss) else fusion_needs(loss)
        what = summary.removeprefix("Return ").removesuffix(".")
        rows.append(f"| `{name}` | {what} | {needs} | {options or 'none'} | {source or 'ours'} |")
    return "\n".join(rows) + "\n"


def option(name: str, schema: dict[str, Any]) -> str:
    """An option with its default, and its bounds if it is a number."""
    kinds = schema.get("anyOf", [schema])
    bounds = ["None"] if {"type": "null"} in kinds else []
    for kind in kinds:
        least, below = (f"{kind[key]:g}" if key in kind else "" for key in ("minimum", "exclusiveMaximum"))
        bounds += [f"at least {least}" + (f" and below {below}" if below else "")] if least else []
    text = schema.get("description") or " or ".join(bounds)
    return f"`{name} = {schema['default']!r}`" + (f" ({text})" if text else "")


def presets_table() -> str:
    """Every preset with its source, and in a second table each value that is not as released."""
    rows = ["| preset | loss | pairs | rate | epochs | weight decay | source |", "|---|---|--:|--:|--:|--:|---|"]
    ours: dict[tuple[str, str], list[str]] = {}
    for name, preset in list_presets().items():
        values = TrainConfig(**merge_preset(preset.values, NEEDED | UNKNOWN.get(name, {})))
        unknown = {key for table in UNKNOWN.get(name, {}).values() for key in table}
        batch, optimiser = values.batch, values.optimiser
        size = f"{batch.size:,}" if batch.accumulate == 1 else f"{batch.accumulate} x {batch.part}"
        rate = f"{optimiser.learning_rate:g}".replace("e-0", "e-")
        rows.append(
            f"| `{name}` | {loss_cell(values)} | {'unknown' if 'size' in unknown else size} | {rate} | "
            f"{'unknown' if 'epochs' in unknown else optimiser.epochs} | {optimiser.weight_decay:g} | {preset.source} |"
        )
        for entry in preset.ours.items():
            ours.setdefault(entry, []).append(f"`{name}`")
    rows += ["", "All values are as released but these, which are ours, because:", ""]
    rows += ["| of | preset | ours, because |", "|---|---|---|"]
    rows += [f"| {key} | {', '.join(presets)} | {reason} |" for (key, reason), presets in ours.items()]
    return "\n".join(rows) + "\n"


#: A configuration's part, and the parts that a paper leaves to it.
NEEDED: dict[str, Any] = {"name": "x", "model": "x", "data": {"train": ["x"]}}
UNKNOWN: dict[str, dict[str, Any]] = {"negbench": {"optimiser": {"epochs": 1}, "batch": {"size": 2}}}


def loss_cell(config: TrainConfig) -> str:
    """The losses of a configuration with the options that it sets."""
    cells = []
    for term in (config.loss, *({"name": name, **own} for name, own in config.loss.get("also", {}).items())):
        options = [f"{key} {value}" for key, value in term.items() if key not in {"name", "also"}]
        cells.append(", ".join((f"`{term['name']}`", *options)))
    return "; ".join(cells)


def dual_needs(loss: Any) -> str:
    """What a dual encoder's loss needs of a row beside image and caption."""
    images = {"none": "", "pairs": "hard images if there are some", "mate": "a hard counterpart"}
    captions = f"{loss.negative_captions} false captions" if loss.negative_captions > 1 else "a false caption"
    needs = [
        captions if loss.negative_captions else "",
        "a unit and its foil" if loss.units else "",
        "patches and words" if loss.local else "",
        "joined pictures" if loss.joins else "",
    ]
    return ", ".join(filter(None, (*needs, images[loss.negative_images]))) or "pairs"


def fusion_needs(loss: Any) -> str:
    """What a fusion encoder's loss needs crossed."""
    crossed = f"a fusion encoder, {loss.negatives} crossed pair{'s' * (loss.negatives > 1)}"
    return crossed + (" and their counterparts" if loss.counterparts else "")


def elsewhere(file: str, function: str) -> Callable[[], str]:
    """A table that another file of this folder makes."""
    return lambda: str(getattr(import_module(file), function)())


def false_inputs_table() -> str:
    """What comes of forged, shortened and mislabelled files: each is made and tried."""
    sys.path.insert(0, str(ROOT / "ci"))
    return str(import_module("false_inputs").false_inputs_table())


#: Tables of this file by the names of their functions, and those of others.
TABLES: dict[str, Callable[[], str]] = {
    function.__name__.removesuffix("_table").replace("_", "-"): function
    for function in (
        *(false_inputs_table, metrics_table, losses_table, presets_table, benchmarks_table),
        *(baselines_table, captions_table, tasks_table, task_metrics_table, elsewhere_names_table, families_table),
        forms_table,
        board_keys_table,
    )
} | {
    "finding": finding_text,
    "model-names": names_table,
    "systems": elsewhere("systems", "systems_table"),
    "commands": elsewhere("command_pages", "commands_reference"),
    "which-command": elsewhere("command_pages", "which_table"),
    **{name: partial(record_table, name) for name in RECORD_TABLES},
}


def wrapped(text: str) -> str:
    """Wrap the sentences around a table at 120 columns; the table's rows stay."""
    blocks = text.rstrip("\n").split("\n\n")
    fill = partial(textwrap.fill, width=120, break_on_hyphens=False)
    kept = ("```", "- ", "#")
    return "\n\n".join(b if "|" in b or b.startswith(kept) else fill(" ".join(b.split())) for b in blocks) + "\n"


def generated(text: str, folder: Path) -> str:
    """Fill every marked block of a document."""

    def fill(match: re.Match[str]) -> str:
        kind, what = match[2], match[3]
        return match[1] + (printed(what, folder) if kind == "run" else wrapped(TABLES[what]())) + match[4]

    return BLOCK.sub(fill, text)


def main() -> int:
    """Write the documents, or check them."""
    check = "--check" in sys.argv[1:]
    stale = False
    named = [Path(name).resolve() for name in sys.argv[1:] if not name.startswith("--")]
    notebooks = sorted(file.with_suffix(".ipynb") for file in (ROOT / "examples" / "notebooks").glob("*.py"))
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(ROOT / "examples" / "plugins", scratch, dirs_exist_ok=True)  # which commands name
        import_module("examples.tutorial.draw_pairs").draw_pairs(Path(scratch) / "my_pairs")
        for path in named or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *notebooks]:
            name, old = path.relative_to(ROOT), path.read_text(encoding="utf-8") if path.exists() else ""
            new = (
                str(import_module("notebook_pages").write_notebook(path.with_suffix(".py")))
                if path.suffix == ".ipynb"
                else generated(old, Path(scratch))
            )
            if new == old:
                continue
            stale = True
            if check:
                now = difflib.unified_diff(old.splitlines(True), new.splitlines(True), str(name), "now")
                sys.stdout.writelines(now)
            else:
                path.write_text(new, encoding="utf-8")
                print(f"wrote {name}")
    return int(check and stale)


if __name__ == "__main__":
    sys.exit(main())
