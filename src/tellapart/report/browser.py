"""Show a page that was written, where there is somebody to see it."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path

__all__ = ["shown"]


def shown(page: Path) -> bool:
    """Open a local page in the user's browser, and say whether one took it.

    Nothing is opened when standard output is no terminal, or where there is no display (a server, a job): the page's path
    is for whoever called to print.

    >>> shown(Path("card.html"))  # an example's output goes to no terminal
    False
    """
    display = sys.platform in {"darwin", "win32"} or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if not (sys.stdout.isatty() and display):
        return False
    try:
        return webbrowser.open(page.resolve().as_uri())
    except webbrowser.Error:
        return False
