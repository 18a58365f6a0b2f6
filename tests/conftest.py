"""What tests of more than one folder use: small pair sets and models, and the command line in this process."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import typer.main
import typer.testing
from hypothesis import settings
from numpy.typing import NDArray

from scripts import install
from sets import WORDS, write_set
from tellapart import catalog

# No deadline: a test is no slower for being run beside others. `make test` draws the same examples each time, `make
# explore` others.
settings.register_profile("tellapart", deadline=None, derandomize=True, database=None, max_examples=50)
settings.register_profile("explore", deadline=None, max_examples=200, print_blob=True)
settings.load_profile("tellapart")

# A job in a shell's background ignores Ctrl-C, and so would every program that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# As `import_torch` does; in a test's process something else may let MKL compute before it.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")

#: What a test writes need not outlast a power cut, and a disk takes milliseconds for each file. Programs that a test
#: starts sync as always, and so does SQLite.
os.fsync = lambda _descriptor: None


def keep_help(command: Any, context: Any) -> None:
    """Make the option of help of a command and of those below it: each has the names of the first context that asks."""
    command.get_help_option(context)
    for name, below in getattr(command, "commands", {}).items():
        keep_help(below, typer.Context(below, parent=context, info_name=name))


@cache
def kept_command(app: typer.Typer, make: Callable[[typer.Typer], Any] = typer.main.get_command) -> Any:
    """Make the 40 commands of the command line from their functions: a tenth of a second, here once a process."""
    command = make(app)
    keep_help(command, typer.Context(command, **command.context_settings))
    return command


typer.main.get_command = typer.testing._get_command = kept_command
#: Files whose slow tests take longest. They are dealt out first, so that the workers end at about the same time.
LONGEST = (
    "journeys/test_power_loss.py", "journeys/test_clock_back.py", "test_mutants.py", "test_documents.py",
    "evaluation/test_distributed.py", "training/test_loop.py", "test_damage.py", "examples/test_eqsim_ablation.py",
    "benchmarks/test_fuzz.py", "board_submissions/test_board_attack.py", "test_task_baselines.py",
    "cli/test_low_memory.py", "training/test_several_ranks.py", "test_baselines.py",
)  # fmt: skip

#: How tests say that they need published files.
PUBLISHED = re.compile(r"beside (this checkout|the repository)|not part of the repository|shared/data(?!/native)")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Name the command that fetches published files where a test is skipped for want of them."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple) and PUBLISHED.search(report.longrepr[2]):
        path, line, reason = report.longrepr
        report.longrepr = path, line, f"{reason}: python ci/published_files.py ../shared/data"
    return report


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases that `few` leaves out, and put the files that take longest first.

    With `--no-loadscope-reorder` workers get the files in this order.
    """
    cases: Counter[str] = Counter()
    for item in items:
        if few := item.get_closest_marker("few"):
            function = item.nodeid.partition("[")[0]
            cases[function] += 1
            if cases[function] > few.args[0]:
                item.add_marker(pytest.mark.slow)
    root = Path(__file__).parent
    place = {root / name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


ENTRY_POINTS = """[tellapart.models]
colours = installed_models:colours
slow = installed_models:slow
of-its-batch = installed_models:of_its_batch
probable = installed_models:probable
twin = installed_models:twin
no-model = installed_models:no_model
gone = no_such_module:model
[tellapart.benchmarks]
no-benchmark = installed_models:NO_BENCHMARK
"""


@pytest.fixture(autouse=True)
def no_plugins_of_earlier_tests(leaves_nothing_behind) -> Iterator[None]:
    """A program loads its plugins once; here each test is one, and its files are gone with it."""
    yield
    if plugins := sys.modules.get("tellapart.benchmarks.plugins"):
        plugins._LOADED.clear()
    for added in catalog._ADDED.values():  # objects that a test gave, by their names
        added.clear()


@pytest.fixture
def made_set(tmp_path) -> Callable[..., Path]:
    """Write a pair set of noise images, as `write_set` does, by its name."""
    return lambda name="set", **how: write_set(tmp_path / name, **how)


@pytest.fixture
def installed(tmp_path, monkeypatch) -> Path:
    """Install the models of `installed_models.py` on this process's path; return the folder, for other processes'."""
    site, code = tmp_path / "site", Path(__file__).with_name("installed_models.py").read_text()
    install(site, "installed_models", ENTRY_POINTS, code)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "installed_models", raising=False)
    return site


@pytest.fixture(scope="module")
def torch() -> Iterator[Any]:
    """The library as models import it, on one thread; transformers must be there, too."""
    pytest.importorskip("torch", reason="its models need the extra 'models'")
    pytest.importorskip("transformers", reason="its models need the extra 'models'")
    from tellapart.models.torch.backend import import_torch

    torch = import_torch()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch
    torch.set_num_threads(threads)


@pytest.fixture
def tiny(torch) -> ModuleType:
    """Tiny models of transformers, `tiny_models`."""
    import tiny_models

    return tiny_models


@pytest.fixture
def start(installed, tmp_path) -> Callable[..., subprocess.Popen[str]]:
    """Start `tellapart ...` in a process of its own, with the models of `installed_models.py`."""

    def program(*arguments: object, **environment: str) -> subprocess.Popen[str]:
        variables = {"PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1", "TELLAPART_CACHE": str(tmp_path / "cache")}
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": tmp_path}
        command = [sys.executable, "-m", "tellapart", *map(str, arguments)]
        return subprocess.Popen(command, env={**os.environ, **variables, **environment}, **how)

    return program


@dataclass(frozen=True)
class Ran:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def command(tmp_path, monkeypatch, capsys) -> Callable[..., Ran]:
    """Run `tellapart ...` in this process, in a folder and with a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TELLAPART_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TELLAPART_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def run(*arguments: object, code: int | None = None) -> Ran:
        """Run a command, which must end with `code` if that is given."""
        from tellapart.cli.main import main

        monkeypatch.setattr(sys, "argv", ["tellapart", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        written = capsys.readouterr()
        ran = Ran(int(stop.value.code or 0), written.out, written.err)
        assert code in (None, ran.code), ran.err or ran.out
        return ran

    return run


@pytest.fixture
def schemathesis() -> Iterator[ModuleType]:
    """Make requests from an OpenAPI document; the library keeps its event loop, and the app, until the process ends."""
    yield pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    from schemathesis.python import asgi

    asgi._shutdown()


@dataclass
class TinyEncoder:
    """A folder with an ONNX dual encoder, and its weights for numpy."""

    folder: Path
    weights: dict[str, NDArray[np.float32]]
    vocabulary: dict[str, int]

    def change_config(self, **changes: object) -> None:
        path = self.folder / "config.json"
        config = json.loads(path.read_text())
        for key, value in changes.items():
            if value is None:
                del config[key]
            else:
                config[key] = value
        path.write_text(json.dumps(config, indent=1))

    def replace(self, name: str, data: bytes) -> None:
        """Put other bytes in a file's place, with the hash that goes with them."""
        (self.folder / name).write_bytes(data)
        config = json.loads((self.folder / "config.json").read_text())
        self.change_config(sha256=config["sha256"] | {name: hashlib.sha256(data).hexdigest()})


SIZE, LENGTH, DIMENSIONS = 16, 6, 8


def image_graph(weights: dict[str, NDArray[np.float32]], *, name: str = "pixel_values", size: object = SIZE) -> Any:
    """Convolution of stride 2, ReLU, mean over space, projection."""
    return finished(
        f"""image (float[n, 3, {size}, {size}] {name}) => (float[n, {DIMENSIONS}] vectors) {{
            a = Conv <strides = [2, 2]> ({name}, filters)
            b = Relu (a)
            c = GlobalAveragePool (b)
            d = Flatten (c)
            vectors = MatMul (d, project)
        }}""",
        **{key: weights[key] for key in ("filters", "project")},
    )


def text_graph(weights: dict[str, NDArray[np.float32]], *, integer: str = "INT64") -> Any:
    """Mean of the embeddings of the tokens that are no padding."""
    kind = f"{integer.lower()}[n, {LENGTH}]"
    return finished(
        f"""text ({kind} input_ids, {kind} attention_mask) => (float[n, {DIMENSIONS}] vectors) {{
            a = Gather (table, input_ids)
            m = Cast <to = 1> (attention_mask)
            mask = Unsqueeze (m, axes)
            b = Mul (a, mask)
            sum = ReduceSum <keepdims = 0> (b, one)
            count = ReduceSum <keepdims = 0> (mask, one)
            vectors = Div (sum, count)
        }}""",
        **{"table": weights["table"], "axes": np.array([2]), "one": np.array([1])},
    )


def finished(graph: Any, **weights: NDArray[Any]) -> Any:
    """Return the model of a graph, or of a graph's text in ONNX's own language and its weights."""
    from onnx import helper, numpy_helper, parser

    graph = parser.parse_graph(graph) if isinstance(graph, str) else graph
    graph.initializer.extend(numpy_helper.from_array(weight, key) for key, weight in weights.items())
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    return model


@pytest.fixture
def graphs() -> dict[str, Callable[..., Any]]:
    return {"image": image_graph, "text": text_graph, "finished": finished}


@pytest.fixture
def tiny_encoder(tmp_path) -> TinyEncoder:
    """Write the folder of a tiny ONNX dual encoder."""
    pytest.importorskip("onnx", reason="the tiny model is built with onnx, of the extra 'train'")
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import Whitespace

    rng = np.random.default_rng(7)
    vocabulary = {token: k for k, token in enumerate(["[PAD]", "[UNK]", *WORDS])}
    weights = {
        "filters": rng.standard_normal((5, 3, 3, 3)).astype(np.float32),
        "project": rng.standard_normal((5, DIMENSIONS)).astype(np.float32),
        "table": rng.standard_normal((len(vocabulary), DIMENSIONS)).astype(np.float32),
    }
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))  # noqa: S106
    tokenizer.normalizer, tokenizer.pre_tokenizer = Lowercase(), Whitespace()
    files = {
        "image.onnx": image_graph(weights).SerializeToString(),
        "text.onnx": text_graph(weights).SerializeToString(),
        "tokenizer.json": tokenizer.to_str().encode(),
    }
    folder = tmp_path / "encoder"
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    config = {"schema_version": 1, "name": "tiny", "image_size": SIZE, "resize": "stretch"}
    config |= {"mean": [0.48, 0.46, 0.41], "std": [0.27, 0.26, 0.28], "context_length": LENGTH, "pad_token": "[PAD]"}
    config |= {"dimensions": DIMENSIONS, "kind": "similarity"}
    config["sha256"] = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    return TinyEncoder(folder, weights, vocabulary)
