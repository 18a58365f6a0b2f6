"""Run the property tests with new random seeds and many more examples than `make test` draws.

    python ci/explore.py [--rounds 3] [--seed SEED] [--workers 2] [TESTS ...]

`make test` draws the same examples each time, so that it passes or fails for a reason. This finds what those examples
miss. A round that fails ends it with exit status 1 and the command that repeats the round; write what it found into the
test, as an `@example`.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Run the rounds; return 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", default=["tests"], help="files and folders")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, help="of the first round; the others count up from it")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    first = secrets.randbelow(1 << 31) if options.seed is None else options.seed
    for seed in range(first, first + options.rounds):
        print(f"seed {seed}", flush=True)
        command = [sys.executable, "-m", "pytest", "-n", str(options.workers), "-m", "hypothesis", "-q"]
        command += ["--hypothesis-profile=explore", f"--hypothesis-seed={seed}", *options.tests]
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            again = ["--rounds", "1", "--seed", str(seed), *options.tests]
            print(f"repeat this round: python ci/explore.py {shlex.join(again)}", flush=True)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
