"""Answers of hidden benchmarks: each as a page for a browser or as JSON, refusals too."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.routing import APIRoute
from jinja2 import Environment

from tellapart.board.links import Links, ServerLinks
from tellapart.board.rendering import environment
from tellapart.board.submissions.accounts import COOKIE
from tellapart.board.submissions.refused import RefusedError
from tellapart.board.submissions.rounding import in_points
from tellapart.board.submissions.service import Submissions

_UNDER_WAY = ("received", "validated", "measuring")
_LOOKS = {
    **dict.fromkeys(_UNDER_WAY, "even"),
    "done": "won",
    **dict.fromkeys(("refused", "surplus", "failed", "stopped"), "lost"),
}

#: A full disk, or a database that another process has locked.
_UNABLE = RefusedError(503, "the server cannot do this now; nothing was changed, try again later")


class RefusingRoute(APIRoute):
    """A route that answers a refusal with `{"detail": why}`, or with a page."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, wrapped."""
        handler = super().get_route_handler()

        async def refusing(request: Request) -> Response:
            try:
                return await handler(request)
            except (RefusedError, sqlite3.OperationalError) as error:
                refused = error if isinstance(error, RefusedError) else _UNABLE
                headers = {"Cache-Control": "no-store"}
                if refused.status == 401:
                    headers["WWW-Authenticate"] = "Bearer"
                if wants_page(request):
                    text = render_template("refused", {"refused": refused}, ServerLinks(request.scope["root_path"]))
                    return HTMLResponse(text, refused.status, headers)
                return JSONResponse({"detail": str(refused)}, refused.status, headers)

        return refusing


def wants_page(request: Request) -> bool:
    """Return whether the request is a browser's, without `?format=json`."""
    return request.query_params.get("format") != "json" and "text/html" in request.headers.get("accept", "")


def page(request: Request, board: Submissions, template: str, data: Mapping[str, Any]) -> Response:
    """Answer with a page or with JSON, as the request wants."""
    headers = {"Cache-Control": "no-store", "Vary": "Accept, Authorization, Cookie"}
    if not wants_page(request):
        return JSONResponse(dict(data), headers=headers)
    cookie = request.cookies.get(COOKIE, "")
    account = board.accounts.of_session(cookie)
    key, again = board.accounts.form_key(cookie) if account else "", "again" in request.query_params
    more = {"account": account, "key": key, "again": again, "files_left": board.files_left}
    text = render_template(template, {**data, **more}, ServerLinks(request.scope["root_path"]))
    return HTMLResponse(text, headers=headers)


def render_template(template: str, data: Mapping[str, Any], links: Links | None = None) -> str:
    """Fill in a page; everything in `data` is escaped.

    >>> "&lt;script&gt;" in render_template("refused", {"refused": "<script>"})
    True
    """
    links = links or ServerLinks()
    place = {"link": links.to, "data": links.data, "static": links.is_static}
    return (
        _page_environment()
        .get_template(f"{template}.html.j2")
        .render({"account": None, "key": "", "again": False, **place, **data})
    )


@cache
def _page_environment() -> Environment:
    templates = environment(Path(__file__).parent / "templates")
    templates.filters["percent"] = lambda value: f"{100 * value:.4g}"
    templates.filters["bound"] = lambda value: f"{100 * value:.1f}"
    templates.filters["points"] = in_points
    templates.filters["moment"] = _format_moment
    templates.globals |= {
        "under_way": _UNDER_WAY,
        "looks": _LOOKS,
        "hidden": True,
        "here": "hidden",
        "has_table": "",
    }
    return templates


def _format_moment(at: float | str) -> str:
    """Format seconds since 1970, or a moment in ISO 8601, for people."""
    moment = datetime.fromisoformat(at) if isinstance(at, str) else datetime.fromtimestamp(at, UTC)
    at_utc = moment.astimezone(UTC)
    return f"{at_utc.day} {at_utc:%B %Y, %H:%M} UTC"
