"""Open a page that was written in the user's browser, if there is a display."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path


def open_in_browser(page: Path) -> bool:
    """Open a local page in the user's browser, and return whether one took it.

    Nothing is opened when standard output is not a terminal, or without a display (a server, a job): the caller
    prints the page's path.
    """
    display = sys.platform in {"darwin", "win32"} or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if not (sys.stdout.isatty() and display):
        return False
    try:
        return webbrowser.open(page.resolve().as_uri())
    except webbrowser.Error:
        return False
