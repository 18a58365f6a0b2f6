"""Wrong input on the command line, and options without effect: exit status 2, and one line that helps."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

import tellapart
from commands import COMMANDS
from facts import check_facts
from tellapart.models.options import MEANT_FOR


def check_refusal(ran, *facts: object) -> None:
    """Expect exit status 2, and one line that helps."""
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), ran
    assert ran.err.startswith("error: ")
    check_facts(ran.err, *facts)


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "-m", "oracel"], ("'oracel'", "'oracle'")),
        (["run", "-b", "winoground", "-m", "random"], "tellapart score winoground --scores FILE"),
        (["run", "-m", "random", "--limit", "all"], "--limit all"),
        (["run", "--cache", "c", "--no-cache"], ("--cache", "--no-cache")),
        (["score", "winoground", "--scores", "gone.npz"], ("gone.npz", "No such file")),
        (["score", "winoground", "--scores", "gone.txt"], ("gone.txt", ".npz", ".csv", ".jsonl", ".npy")),
        (["score", "winoground", "--scores", "a.csv", "--kind", "cosine"], ("--kind cosine", "similarity")),
        # A name of bytes that are not UTF-8, as Python reads it from the command line.
        (["score", "winoground", "--scores", "a.csv", "--name", "a\udcffb"], (r"'a\udcffb'", "UTF-8", "0xff")),
        (["show", "gone"], ("gone", "run folder")),
        (["compare", "gone", "gone"], ("gone", "run folder")),
        (["ls", "model"], ("'model'", "'models'", "benchmarks", "losses", "builders")),
        (["plot", "bras", "runs/a"], ("'bras'", "'bars'")),  # before the --out that is missing
        (["ls", "zebras"], ("'zebras'", "benchmarks", "models", "losses", "builders")),
    ],
)
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["tables", "json"])
def test_a_wrong_value_is_one_line_that_helps(command, arguments, said, options):
    check_refusal(command(*arguments, *options), said)
    assert not Path("runs").exists()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bogus"], "No such command 'bogus'"), (["rum"], "Did you mean 'run'"),
        (["run", "--modle", "random"], "No such option: --modle"),
        (["run", "--batch-size", "0"], "Invalid value for '--batch-size'"),
        (["run", "--batch-size", "many"], "Invalid value for '--batch-size'"),
        (["run", "--seed", "-1"], "Invalid value for '--seed'"), (["run", "-m"], "Option '-m' requires an argument"),
        (["run", "random"], "unexpected extra argument"), (["score", "winoground"], "Missing option '--scores'"),
        (["export"], "Missing argument 'BENCHMARK'"), (["score"], "Missing option '--scores'"),
        (["compare"], "Missing argument 'RUN...'"), (["ls"], "Missing argument 'WHAT'"),
    ],
)  # fmt: skip
def test_a_wrong_use_is_one_line_that_says_what_is_wrong_and_which_help_to_read(command, arguments, said):
    ran = command(*arguments)
    owner = f" {arguments[0]}" if arguments[0] not in {"bogus", "rum"} else ""
    check_refusal(ran, f"see: tellapart{owner} --help")
    assert ran.err.endswith(" --help\n")
    assert said.lower() in ran.err.lower()  # typer spells arguments in capitals or not, by version


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["run", "--limit", "2", "-m", "random", "--limit", "3"], "--limit"),
        (["detect", "demo", "-m", "a", "--model", "b"], "--model"),
        (["table", "r", "--costs", "a.csv", "--costs", "b.csv"], "--costs"),
        (["plot", "pareto", "r", "--out", "a.svg", "--costs", "a.csv", "--costs", "b.csv"], "--costs"),
        (["ls", "benchmarks", "--data", ".", "--data", "."], "--data"),
        (["annotate", "agree", "study", "--scores", "a.npz", "--scores", "b.npz"], "--scores"),
    ],
)
def test_an_option_of_one_value_is_not_taken_twice(command, arguments, option):
    ran = command(*arguments)
    assert (ran.code, ran.out) == (2, "")
    check_facts(ran.err, "error", option, "twice", f"tellapart {arguments[0]}", "--help")


def test_options_that_may_be_repeated_and_switches_are_taken_twice_and_a_loop_of_links_is_refused(
    command, made_set, tmp_path
):
    name = f"folder:{made_set()}"
    ran = command("run", "-m", "random", "-m", "oracle", "-b", name, "--out", "r", "--no-cache", "--no-cache", "--json")
    assert [run["model"]["name"] for run in ran.json["runs"]] == ["random", "oracle"]
    (tmp_path / "loop").symlink_to("loop")
    check_refusal(command("audit", "folder:loop"), "loop")


@pytest.mark.slow
def test_costs_of_one_model_that_are_listed_twice_are_an_error(command, made_set):
    name = f"folder:{made_set()}"
    command("run", "-m", "random", "-b", name, "--out", "r")
    Path("costs.csv").write_text("model,milliseconds\nrandom,1\nrandom,2\n")
    quick = ("--repeats", "1", "--warm-up", "1", "--batch-size", "2")
    command("time", "-m", "random", "-b", name, *quick, "--out", "t.json")
    timings = json.loads(Path("t.json").read_text())
    timings["models"] *= 2
    Path("t.json").write_text(json.dumps(timings))
    for file, said in (("costs.csv", ("costs.csv:3", "random", "twice")), ("t.json", ("t.json", "twice"))):
        check_refusal(command("plot", "pareto", "r", "--costs", file, "--out", "a.svg"), said)


READ_DATA = (
    "run -m random", "score demo --scores a.csv", "export demo --to a.csv", "audit demo", "time -m random",
    "detect demo -m random", "annotate export match demo --to study", "ls benchmarks",
)  # fmt: skip


@pytest.mark.parametrize("call", READ_DATA)
def test_a_data_folder_that_is_not_there_is_one_line(command, call):
    check_refusal(command(*call.split(), "--data", "gone"), "--data gone", "folder")


# Every option of every command acts, or its command ends with status 2 and a line that names it.

#: Options that only some models take; tests/models/test_find.py goes through them by family.
OF_MODELS = {f"--{name.replace('_', '-')}" for name in MEANT_FOR} | {"--dtype-b", "--reading-b"}
#: Options that act wherever they stand: outputs, what is measured, names. None of them can be without effect.
ACT = {
    "--adaptive", "--against", "--all", "--allow-leak", "--annotators", "--anytime", "--answer-list", "--average-as",
    "--batch-size", "--benchmark", "--board", "--bundle", "--by", "--card", "--comparisons", "--csv", "--direction",
    "--days", "--detector-model", "--dry-run", "--each", "--embed", "--every", "--family", "--follow", "--gate",
    "--corpus", "--debias", "--grammar-model", "--groups", "--judge", "--probe", "--samples", "--tagger", "--tags",
    "--host", "--imagefolder", "--intervals", "--items", "--json", "--label", "--latex", "--layout", "--limit",
    "--metric", "--model", "--most", "--name", "--nearest", "--no-images", "--out", "--over", "--page", "--pairs",
    "--parquet", "--partial", "--picture", "--port", "--proxy", "--quiet", "--ray", "--records", "--repeats",
    "--resume", "--role", "--root-path", "--runs", "--sample", "--scorer", "--scores", "--seeds", "--short", "--small",
    "--text-model", "--title", "--to", "--trained-on", "--until", "--warm-up", "--without", "--workers",
}  # fmt: skip
#: Options that say what may be read, or are kept in the record: they act where there is something to.
OFFERS = {"--outside-images", "--cache"}
#: Command and option: draws or checks that every call may make, and files that every call may need.
OFFERED = {
    *((command, "--seed") for command in ("run", "score", "compare", "items", "curve", "risk", "detect", "why")),
    *((command, "--seed") for command in ("annotate export", "annotate agree")),
    ("audit", "--strict"), ("verify", "--strict"), ("mine", "--images"), ("regions", "--images"), ("train", "--data"),
}  # fmt: skip
#: A call, and options that would each do nothing in it.
IDLE_CALLS: Mapping[str, tuple[str, ...]] = {
    "annotate export match demo --to s": ("--data .", "--images .", "--after e"),
    "annotate export match demo --to s --embed": ("--prefix p",), "annotate import s a.json": ("--columns task=a",),
    "audit demo": ("--data .", "--images .", "--columns image_0=a", "--open"),
    "board check backup": ("--board b.toml",), "build RECIPE": ("--ray-gpus 1",),
    "build r.toml --pairs p.jsonl": ("--insecure",), "cache prune --cache c --all": ("--model a", "--prepared"),
    "check": ("--device cuda", "--seed 3"), "compare a b": ("--margin 1", "--max-drop 1", "--markdown"),
    "compare a b --gate": ("--by type", "--baseline a"), "convert a --to lm-eval": ("--tokenizer t",),
    "convert compact:a b": ("--card c.md", "--out c.md"),
    "curve a --over size": ("--data .", "--columns caption=a", "--device cuda"),
    "detect demo -m demo-encoder": ("--data .", "--images ."),
    "detect demo -m demo-encoder --trained-on demo": ("--folds 3",),
    "export demo --to a.csv": ("--images .", "--columns image_0=a"), "export folder:none --to a.csv": ("--data .",),
    "items a": ("--data .", "--images .", "--kind logit", "--to ids.txt"),
    "ls models": ("--data .", "--task pairs", "--language en", "--media images", "--year 2020"),
    "mine r.jsonl -m demo-encoder --out o.jsonl": ("--reading itm", "--negatives 3", "--hard 3", "--seed 3"),
    "parity demo-encoder demo-encoder": ("--data .", "--images ."), "plot agree a --out a.svg": ("--sort text_score",),
    "plot bars a --out a.svg": ("--seed 3", "--cost memory", "--item 3", "--tag type"),
    "plot cost a --out a.svg": ("--benchmark demo", "--label a=b"),
    "plot matrix a --out a.svg --item 3": ("--metric text_score",), "plot tiers a --out a.svg": ("--costs c.csv",),
    "push a me/a": ("--config all", "--split train"),
    "run": ("--check 3", "--temperature 0.5", "--flips 0.1", "--columns image_0=a", "--data .", "--images ."),
    "run --cache c": ("--no-cache",), "run -b folder:none": ("--strict",), "run -m random": ("--frames 3",),
    "score demo --scores a.csv": ("--data .", "--images .", "--columns image_0=a"),
    "score svo-probes --scores a.csv": ("--strict",), "table RUN": ("--costs c.csv", "--average"),
    "table RUN --layout vlue": ("--benchmark demo", "--no-tiers", "--sort tr"), "table RUN --no-tiers": ("--seed 3",),
    "time -m demo-encoder": ("--data .", "--images ."), "train TOML": ("--against a",),
}  # fmt: skip


def _command_of(call: str) -> str:
    """Return the longest name of a command with which a call begins."""
    words = call.split()
    return next(name for name in (" ".join(words[:2]), words[0]) if name in COMMANDS)


#: Command and option -> a call in which it would do nothing.
IDLE = {
    (_command_of(call), option.split()[0]): f"{call} {option}".split()
    for call, options in IDLE_CALLS.items()
    for option in options
}
#: The files that these calls read before they look at the option.
FILES = {
    "TOML": """
name = "t"
model = "new:."
loss.name = "itc"
data.train = ["a.jsonl"]
optimiser = {learning_rate = 1e-3, steps = 1}
batch.size = 2
""",
    "RECIPE": 'name = "r"\nbuilder = "negatives"\n[options]\ncaptions = "c.csv"\nimages = "."\n',
}


def _list_options() -> set[tuple[str, str]]:
    shown = ((words, option) for words, command in COMMANDS.items() for option in command.params)
    shown = ((words, option) for words, option in shown if not getattr(option, "hidden", False))
    longest = ((words, max(option.opts, key=len)) for words, option in shown)
    return {(words, option) for words, option in longest if option.startswith("--")}


def test_every_option_is_classified_and_no_entry_is_of_one_that_is_gone():
    conditional = {option for _, option in IDLE} - {option for _, option in OFFERED}
    unknown = {
        (command, option)
        for command, option in _list_options()
        if (command, option) not in {*IDLE, *OFFERED} and option not in OF_MODELS | ACT | OFFERS | conditional
    }
    assert not unknown, (
        f"{sorted(unknown)}: can the option be given where it does nothing? If so, make that an error and add the call "
        "to IDLE; if not, add it to ACT; if only some models take it, to MEANT_FOR of models/options.py"
    )
    assert not {*IDLE, *OFFERED} - _list_options()


@pytest.mark.parametrize("entry", IDLE, ids=" ".join)
def test_an_option_that_would_do_nothing_is_refused_by_name(entry, command, idle_run):
    words = [str(idle_run) if word == "RUN" else word for word in IDLE[entry]]
    for number, word in enumerate(words):
        if word in FILES:
            Path("given.toml").write_text(FILES[word])
            words[number] = "given.toml"
    check_refusal(command(*words), entry[1])


@pytest.fixture(scope="module")
def idle_run(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("idle") / "run"
    return tellapart.evaluate("oracle", "demo", limit=6, out=out, cache=False).folder
