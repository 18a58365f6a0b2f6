"""Install each extra alone, in a fresh environment, and run the command that it is named for (15 minutes, network).

python ci/extras.py [EXTRA...]    all of them if none is named
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]

#: Extra, or `core` -> what is made first, and the commands that are run.
EXTRAS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def check(extra: str) -> float:
    """Install one extra in an environment of its own and run its commands; return the seconds it took."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"extra-{extra}-") as scratch:
        home = Path(scratch)
        venv.create(home / "venv", with_pip=True)
        environment = {
            **os.environ,
            "PATH": f"{home / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "TELLAPART_CACHE": str(home / "cache"),
            "HF_HUB_OFFLINE": "1",
            "WANDB_MODE": "offline",
            "NO_COLOR": "1",
        }
        environment.pop("PYTHONPATH", None)
        name = str(ROOT) if extra == "core" else f"{ROOT}[{extra}]"
        made, commands = EXTRAS[extra].get("files", {}), EXTRAS[extra]["commands"]
        install = f"pip install --quiet --disable-pip-version-check -c ROOT/ci/lock.txt '{name}'"
        for file, content in made.items():
            (home / file).write_text(content.replace("ROOT", str(ROOT)))
        makers = [f"python {file}" for file in made if file.endswith(".py")]
        for line in (install, *makers, *commands):
            done = subprocess.run(  # noqa: S602  (the lines are those above)
                line.replace("ROOT", str(ROOT)),
                shell=True,
                cwd=home,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                shutil.rmtree(home / "venv", ignore_errors=True)
                raise SystemExit(f"extra {extra!r}: {line}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return time.monotonic() - started


def main() -> None:
    """Check the extras that the command line names."""
    wanted = sys.argv[1:] or list(EXTRAS)
    if unknown := [name for name in wanted if name not in EXTRAS]:
        raise SystemExit(f"no extra {unknown[0]!r}; there are {', '.join(EXTRAS)}")
    for extra in wanted:
        sys.stdout.write(f"{extra}: works alone, {check(extra):.0f} s\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
