"""`python -m tellapart`, and the command `tellapart`: the command line, with Ctrl-C from its first import on."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line; an interrupt while it is imported ends it without a traceback, with status 130."""
    try:
        from tellapart.cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
