"""Write into the documents what the commands print, and the tables that the code declares.

    python docs/generate.py          writes README.md, docs/*.md, the flow, the badges and the notebooks again
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
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

from jinja2 import Template
from pydantic import BaseModel, TypeAdapter
from speed_tables import RECORD_TABLES, fill_table, record_table

from tellapart import __version__
from tellapart.benchmarks.benchmark import Benchmark
from tellapart.benchmarks.find import find_benchmark
from tellapart.board.records import BoardSettings
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
from tellapart.training.losses.loss import find_loss

ROOT = Path(__file__).resolve().parent.parent
BASELINES = ROOT / "docs" / "baselines.json"
GOLDEN = ROOT / "bench" / "records" / "native_golden.json"
FIRST = "prefers_first_text"
PROGRESS = re.compile(r"\[\d+:\d\d:\d\d\] ")
BLOCK = re.compile(r"(<!-- (run|table): (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def read_toml(name: str) -> dict[str, Any]:
    """Read a file of the repository."""
    return tomllib.loads((ROOT / name).read_text(encoding="utf-8"))


def printed(command: str, folder: Path) -> str:
    """Show a command line of ours with its output."""
    lines = output_of(command.partition(" | ")[0], folder)
    if cut := re.search(r"\| (head|tail) -n (\d+)$", command):
        lines = lines[: int(cut[2])] if cut[1] == "head" else lines[-int(cut[2]) :]
    shown = "\n".join(line.rstrip() for line in lines)
    return f"```console\n$ {command}\n{shown}\n```\n"


@cache
def output_of(command: str, folder: Path) -> list[str]:
    """Run a command in the folder of all documents; what several of them quote is run once."""
    program, *arguments = shlex.split(command)
    assert program == "tellapart", command
    environment = os.environ | {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "110", "PYTHONWARNINGS": "error"}
    environment["TELLAPART_CACHE"] = str(folder / "cache")
    line = [sys.executable, "-m", "tellapart", *arguments]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    # A busy machine also prints how far it is, every half minute.
    return [line for line in (done.stdout + done.stderr).rstrip().splitlines() if not PROGRESS.match(line)]


def headline_metric(one: Benchmark) -> Metric:
    """The last metric of a first look at a benchmark that compares scores, not sums of them."""
    names = one.official or headline({metric.name for metric in defined_for(one.shape, "similarity", one.true)})
    return [METRICS[name] for name in names if name in METRICS and not METRICS[name].additive][-1]


@cache
def benchmarks_of(*, pairs: bool) -> list[Benchmark]:
    """The catalogue's benchmarks of minimal pairs, or those of other tasks."""
    return [one for one in map(find_benchmark, BENCHMARKS) if (one.task == "pairs") is pairs]


def show_margins(items: int, chance: float) -> list[str]:
    """Half of an interval in points, and what so many items tell from chance, and from another system."""
    half = wilson(items // 2, items).high or 0.0
    margins = [half - 0.5, detectable_above_chance(items, chance), detectable_difference(items, 0.2)]
    return [f"{100 * margin:.1f}" for margin in margins if margin is not None]


def pairs_table(name: str) -> str:
    """Every benchmark of pairs: as it declares itself, or what guessing and words alone get on it."""
    pairs = [(one, headline_metric(one)) for one in benchmarks_of(pairs=True)]
    found = json.loads(BASELINES.read_text(encoding="utf-8"))
    return fill_table(name, pairs=pairs, found=found, margins=show_margins, share=share)


def share(value: dict[str, float]) -> str:
    """A measured number in percent; where ties touched it, what it is with ties broken at random."""
    return percent(value["value"]) + (f" ({percent(value['tie_neutral'])})" if value.get("ties") else "")


def percent(value: float) -> str:
    """A share in percent with one decimal; one that would look like nothing, with two digits."""
    return f"{100 * value:.2g}" if 0 < value < 0.0005 else f"{100 * value:.1f}"


def captions_table() -> str:
    """Where the captions of one image compete, by the benchmark's own parts; and which of two captions came first."""
    found = json.loads(BASELINES.read_text(encoding="utf-8"))
    rows = []
    for name, record in found["benchmarks"].items():
        models = [record["models"][model] for model in found["models"]] if "models" in record else []
        if models and record["shape"][0] == 1 and models[0]["by"]:
            tag, values = max(models[0]["by"].items(), key=lambda found: len(found[1]))
            rows += [[f"`{name}`", value, *(share(model["by"][tag][value]) for model in models)] for value in values]
        elif models and record["shape"][0] > 1:
            first = (share(model[FIRST]) if FIRST in model else "" for model in models)
            rows.append([f"`{name}`", "text 0 before text 1", *first])
    return fill_table("captions", models=found["models"], rows=rows)


def tasks_table() -> str:
    """Every benchmark of a task: what a model must put out, and the first metrics."""
    tasks = [(one, TASKS[one.task]) for one in benchmarks_of(pairs=False)]
    rows = [(one, task, one.official or headline({metric.name for metric in task.metrics})) for one, task in tasks]
    return fill_table("tasks", benchmarks=rows)


def task_metrics_table() -> str:
    """Every metric of a task as it is declared; those that differ in what stands behind `@` share a row."""
    families: dict[tuple[str, str], list[Metric]] = {}
    for task in TASKS.values():
        for metric in task.metrics if task.name != "pairs" else ():  # those have a table of their own
            families.setdefault((task.name, "".join(metric.name.partition("@")[:2])), []).append(metric)
    return fill_table("task_metrics", families=[(task, all_[0], all_[-1]) for (task, _), all_ in families.items()])


def finding_text() -> str:
    """The first finding: the first two sentences of its answer, and its picture."""
    text = (ROOT / "docs" / "findings" / "priors.md").read_text(encoding="utf-8")
    found = re.search(r"\*\*Answer\.\*\* (.+?)\n\n!\[(.+?)\]", text, re.DOTALL)
    assert found is not None
    first, second = re.split(r"(?<=[a-z\])])\. (?=[A-Z0-9])", " ".join(found[1].split()))[:2]
    return f"**{first}.** {second}. [More](docs/findings/priors.md)\n\n![{found[2]}](docs/findings/priors.svg)\n"


def elsewhere_names_table() -> str:
    """The names of the same sets in CLIP_benchmark and mteb."""
    words = read_toml("src/tellapart/report/interchange/foreign.toml")
    clip = {ours: theirs for theirs, ours in words["clip"]["sets"].items()} | {"sugarcrepe": "sugar_crepe/PART"}
    mteb = {ours: theirs for theirs, (ours, _, _) in words["mteb"].items()}
    return fill_table("elsewhere_names", clip=clip, mteb=mteb)


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


@dataclass(frozen=True, slots=True)
class System:
    """A system of the papers; `systems.toml` has the meaning of each field."""

    name: str
    where: str
    commands: tuple[str, ...]
    checked: str
    note: str
    type: str = ""
    golden: tuple[str, ...] = ()
    presets: tuple[str, ...] = ()


def read_systems() -> list[System]:
    """Read `systems.toml`, in its order."""
    return TypeAdapter(list[System]).validate_python(read_toml("docs/systems.toml")["system"])


def systems_table() -> str:
    """Every system: its place in the papers, its commands and its check, with figures of the benches' record."""
    record = json.loads(GOLDEN.read_text(encoding="utf-8"))
    largest = {name: f"{max(found.values()):.0e}".replace("e-0", "e-") for name, found in record.items()}
    return fill_table("systems", systems=read_systems(), largest=largest)


def losses_table() -> str:
    """Every loss as it is declared: its definition, the inputs that a step must give it, its options and its source."""
    rows = []
    for name in LOSSES:
        loss = find_loss(name)
        summary, _, rest = inspect.cleandoc(loss.function.__doc__ or "").partition("\n")
        source = " ".join(rest.partition("Source: ")[2].partition("\n\n")[0].split()).removesuffix(".")
        options = ", ".join(option(*one) for one in loss.options.model_json_schema().get("properties", {}).items())
        rows.append((name, loss, summary.removeprefix("Return ").removesuffix("."), options, source))
    return fill_table("losses", losses=rows)


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
    presets, ours = [], dict[tuple[str, str], list[str]]()
    for name, preset in list_presets().items():
        unknown = UNKNOWN.get(name, {})
        values = TrainConfig(**merge_preset(preset.values, NEEDED | unknown))
        presets.append((name, preset, values, {key for table in unknown.values() for key in table}))
        for entry in preset.ours.items():
            ours.setdefault(entry, []).append(name)
    return fill_table("presets", presets=presets, ours=ours)


#: A configuration's part, and the parts that a paper leaves to it.
NEEDED: dict[str, Any] = {"name": "x", "model": "x", "data": {"train": ["x"]}}
UNKNOWN: dict[str, dict[str, Any]] = {"negbench": {"optimiser": {"epochs": 1}, "batch": {"size": 2}}}


#: The tables of the documents; some are made by other files of this folder.
TABLES: dict[str, Callable[[], str]] = {
    "finding": finding_text,
    "false-inputs": lambda: fill_table("false_inputs", **read_toml("ci/false_inputs.toml")),
    "metrics": lambda: fill_table("metrics", metrics=METRICS.values()),
    **{name: partial(pairs_table, name) for name in ("benchmarks", "baselines")},
    "captions": captions_table,
    "tasks": tasks_table,
    "task-metrics": task_metrics_table,
    "elsewhere-names": elsewhere_names_table,
    "model-names": lambda: fill_table("model_names", forms=name_forms()),
    "families": lambda: fill_table("families", families=FAMILIES, dual=DUAL, generative=GENERATIVE),
    "forms": lambda: fill_table("forms", forms=forms()),
    "board-keys": lambda: fill_table("board_keys", models=BOARD_TABLES, attribute_texts=attribute_texts),
    "losses": losses_table,
    "presets": presets_table,
    "systems": systems_table,
    "gallery": lambda: fill_table("gallery", **read_toml("docs/gallery.toml")),
    "levels": lambda: str(import_module("levels").levels_table()),
    "commands": lambda: str(import_module("command_pages").commands_reference()),
    "which-command": lambda: str(import_module("command_pages").which_table()),
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


def draw_badge(name: str) -> str:
    """Draw one of the README's badges as SVG, the name on grey and the value on blue: no service is asked."""
    template, value = Template((ROOT / "docs" / "templates" / "badge.svg.j2").read_text(encoding="utf-8")), BADGES[name]
    left, right = 12 + 7 * len(name), 12 + 7 * len(value)
    return template.render(name=name, value=value, left=left, right=right, width=left + right) + "\n"


_PROJECT = read_toml("pyproject.toml")["project"]
BADGES: dict[str, str] = {
    "version": __version__,
    "python": _PROJECT["requires-python"].replace(">=", "≥ "),
    "licence": _PROJECT["license"],
}


def write_again(path: Path, old: str, folder: Path) -> str:
    """Return what a document should be; commands run in the folder of all documents."""
    if path.suffix == ".ipynb":
        return str(import_module("notebook_pages").write_notebook(path.with_suffix(".py")))
    if path.suffix == ".svg":
        return draw_badge(path.stem) if path.stem in BADGES else str(import_module("command_pages").flow_picture())
    return generated(old, folder)


def main() -> int:
    """Write the documents, or check them."""
    check = "--check" in sys.argv[1:]
    stale = False
    named = [Path(name).resolve() for name in sys.argv[1:] if not name.startswith("--")]
    docs, notebooks = ROOT / "docs", (ROOT / "examples" / "notebooks").glob("*.py")
    documents = [ROOT / "README.md", *sorted(docs.glob("*.md")), docs / "flow.svg"]
    documents += sorted(file.with_suffix(".ipynb") for file in notebooks)
    documents += [docs / "badges" / f"{name}.svg" for name in BADGES]
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(ROOT / "examples" / "plugins", scratch, dirs_exist_ok=True)  # which commands name
        import_module("examples.tutorial.draw_pairs").draw_pairs(Path(scratch) / "my_pairs")
        for path in named or documents:
            name, old = path.relative_to(ROOT), path.read_text(encoding="utf-8") if path.exists() else ""
            if (new := write_again(path, old, Path(scratch))) == old:
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
