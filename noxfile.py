"""The tests on every Python that the metadata claims: `nox`, or `nox -s tests-3.12`.

Each has an environment of its own with the core alone, without torch; what needs more skips and says so. A Python that
this machine lacks is passed over, and is an error with `--error-on-missing-interpreters`.

`nox -s lowest` takes the lowest versions that pyproject.toml allows; with `-- --record` it writes them, and whether the
tests passed, to bench/records/lowest_versions.json. It needs uv, which can choose so.

`nox -s newest` takes the newest version of every package, with all extras, as a fresh install has them on that day.
No lock tells that a release of another project breaks this one.

`nox -s extras` installs each extra alone, and runs the commands that it is named for (15 minutes); `nox -s
"extras(hub)"` tries one.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import nox

sys.path.insert(0, "ci")
try:
    from environment import uv_environment
finally:
    sys.path.remove("ci")

PROJECT = nox.project.load_toml("pyproject.toml")["project"]
PYTHONS = [found[1] for line in PROJECT["classifiers"] if (found := re.search(r"Python :: (3\.\d+)$", line))]

ROOMS = [f"tests/{room}" for room in ("data", "metrics", "stats", "records", "evaluation", "diagnosis")]
NEEDS = ("pytest", "pytest-xdist", "hypothesis", "scikit-learn")
RECORD = Path("bench/records/lowest_versions.json")

#: Extra, or `core` -> files that are made first, and the commands that are run.
EXTRAS = nox.project.load_toml("ci/extras.toml")

nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_missing_interpreters = False
nox.options.sessions = ["tests", "lowest"]


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Measure the demo, and run the fast tests of the core, on the locked versions."""
    session.install("--quiet", "--constraint", "ci/lock.txt", ".", *NEEDS, env=uv_environment())
    session.run("tellapart", "run", "--out", str(Path(session.create_tmp()) / "demo"))
    run_tests(session, session.posargs or ROOMS)


@nox.session(python=PYTHONS[0], venv_backend="uv")
def lowest(session: nox.Session) -> None:
    """Run the same on the lowest versions that pyproject.toml allows; only the tools that test are the locked ones."""
    lock = dict(re.findall(r"^([\w-]+)==([^\s;]+)", Path("ci/lock.txt").read_text(), re.MULTILINE))
    tools = [f"{name}=={lock[name]}" for name in NEEDS if name != "scikit-learn"]
    lowest_of = ("--resolution", "lowest-direct", ".", *tools, "scikit-learn>=1.5")
    session.install("--quiet", *lowest_of, env=uv_environment())
    record = "--record" in session.posargs
    frozen = session.run("uv", "pip", "freeze", silent=True, external=True)
    named = [re.split(r"[<>=]", line)[0] for line in PROJECT["dependencies"]]
    versions = dict(re.findall(r"^([\w-]+)==(\S+)", frozen or "", re.MULTILINE))
    printed = run_tests(session, ROOMS, silent=record)
    if record and printed:
        record_of = {"command": "nox -s lowest -- --record", "python": PYTHONS[0], "tests": ROOMS}
        record_of |= {"versions": {name: versions[name] for name in named}, "result": printed.strip().splitlines()[-1]}
        RECORD.write_text(json.dumps(record_of, indent=1) + "\n", encoding="utf-8")


@nox.session(python=PYTHONS[-1])
def newest(session: nox.Session) -> None:
    """Run all fast tests on the newest versions of everything, on the newest Python (some gigabytes of torch)."""
    everything = f".[{','.join(PROJECT['optional-dependencies'])}]"
    session.install("--quiet", "--upgrade", "--editable", everything, env=uv_environment())
    run_tests(session, session.posargs or ["tests"])


@nox.session(venv_backend="virtualenv")
@nox.parametrize("extra", [nox.param(name, id=name) for name in EXTRAS])
def extras(session: nox.Session, extra: str) -> None:
    """Install one extra alone, and run its commands in an empty folder."""
    root, home = str(Path.cwd()), Path(session.create_tmp())
    session.install("--quiet", "--constraint", "ci/lock.txt", root if extra == "core" else f"{root}[{extra}]")
    made = EXTRAS[extra].get("files", {})
    for file, content in made.items():
        (home / file).write_text(content.replace("ROOT", root), encoding="utf-8")
    variables = {
        "TELLAPART_CACHE": str(home / "cache"),
        "HF_HUB_OFFLINE": "1",
        "WANDB_MODE": "offline",
        "NO_COLOR": "1",
    }
    with session.chdir(home):
        for line in (*(f"python {file}" for file in made if file.endswith(".py")), *EXTRAS[extra]["commands"]):
            command = f"unset PYTHONPATH; {line.replace('ROOT', root)}"
            session.run("bash", "-c", command, external=True, silent=True, env=variables)
    shutil.rmtree(session.virtualenv.location)  # all of them are tens of gigabytes


def run_tests(session: nox.Session, names: list[str], silent: bool = False) -> str | None:
    """Run the fast tests in `names`; what they print is returned if `silent`."""
    line = ["python", "-m", "pytest", "-q", "-n", "2", "-m", "not slow", "-p", "no:cacheprovider", *names]
    return session.run(*line, silent=silent)
