"""The same answer as a page for a browser, and as JSON for anything else."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from jinja2 import Environment

from tellapart.board.links import ServerLinks
from tellapart.board.rendering import environment
from tellapart.board.submissions.accounts import COOKIE
from tellapart.board.submissions.service import Submissions

__all__ = ["page", "wants_page", "written"]

_UNDER_WAY = ("received", "validated", "measuring")
_LOOKS = {**dict.fromkeys(_UNDER_WAY, "even"), "done": "won", **dict.fromkeys(("refused", "failed", "stopped"), "lost")}


def wants_page(request: Request) -> bool:
    """Return whether a browser asks, and not for JSON.

    >>> wants_page(Request({"type": "http", "query_string": b"format=json", "headers": [(b"accept", b"text/html")]}))
    False
    """
    return request.query_params.get("format") != "json" and "text/html" in request.headers.get("accept", "")


def page(request: Request, board: Submissions, template: str, data: Mapping[str, Any]) -> Response:
    """Answer with a page or with JSON, whichever was asked for.

    >>> page.__name__
    'page'
    """
    headers = {"Cache-Control": "no-store", "Vary": "Accept, Authorization, Cookie"}
    if not wants_page(request):
        return JSONResponse(dict(data), headers=headers)
    cookie = request.cookies.get(COOKIE, "")
    account = board.accounts.of_session(cookie) if cookie else None
    more = {"account": account, "key": board.accounts.form_key(cookie) if account else ""}
    return HTMLResponse(written(template, {**data, **more}), headers=headers)


def written(template: str, data: Mapping[str, Any]) -> str:
    """Fill in a page; whatever comes from a user is escaped.

    >>> "&lt;script&gt;" in written("refused", {"refused": "<script>"})
    True
    """
    return _environment().get_template(f"{template}.html.j2").render({"account": None, "key": "", **data})


@cache
def _environment() -> Environment:
    made = environment(Path(__file__).parent / "templates")
    made.filters["percent"] = lambda value: f"{100 * value:.4g}"
    made.filters["bound"] = lambda value: f"{100 * value:.1f}"
    made.filters["moment"] = _moment
    links = ServerLinks()
    made.globals |= {
        "under_way": _UNDER_WAY,
        "looks": _LOOKS,
        "link": links.to,
        "data": links.data,
        "static": False,
        "hidden": True,
        "here": "hidden",
        "has_table": "",
    }
    return made


def _moment(at: float | str) -> str:
    """A moment in seconds since 1970, or as ISO 8601 writes it, for people."""
    moment = datetime.fromisoformat(at) if isinstance(at, str) else datetime.fromtimestamp(at, UTC)
    at_utc = moment.astimezone(UTC)
    return f"{at_utc.day} {at_utc:%B %Y, %H:%M} UTC"
