"""`python -m tellapart`, and the command `tellapart`: the command line, with Ctrl-C from its first import on."""

from __future__ import annotations

import gc
import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line; an interrupt while it is imported ends it without a traceback, with status 130."""
    # Threads of numpy's OpenBLAS sleep after a product, and do not spin for milliseconds: read when numpy is imported.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    # What imports make stays: a run that looks for cycles among it every 700 objects takes .2 CPU-seconds more.
    gc.set_threshold(10_000)
    try:
        from tellapart.cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
