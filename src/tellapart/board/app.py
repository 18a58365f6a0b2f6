"""The board as a web application: every page as HTML, JSON, CSV or LaTeX at one address."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import FastAPI, HTTPException, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

from tellapart.board.downloads import as_csv, as_latex
from tellapart.board.headers import SecurityHeaders
from tellapart.board.links import PATTERNS, ServerLinks, path_of
from tellapart.board.made_first import MadeFirst, accepted
from tellapart.board.made_pages import Body, MadePages
from tellapart.board.pictures import picture
from tellapart.board.rendering import asset, render
from tellapart.board.settings import BoardSettings
from tellapart.board.site import PAGES, Page
from tellapart.board.store import Store
from tellapart.board.submissions.routes import router_of
from tellapart.board.submissions.service import Submissions
from tellapart.board.views.view import View
from tellapart.errors import UnknownNameError

__all__ = ["create_app"]

Format = Literal["html", "json", "csv", "latex"]

_MEDIA = {
    "html": "text/html; charset=utf-8",
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "latex": "application/x-tex; charset=utf-8",
}
_STATIC = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain",
}

_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {kind.partition(";")[0]: {} for name, kind in _MEDIA.items() if name != "json"}},
    303: {"description": "See the comparison."},
    304: {"description": "Not changed."},
    404: {"description": "This board has no such thing.", "content": {"application/json": {}, "text/html": {}}},
    422: {"description": "No address of this board.", "content": {"application/json": {}, "text/html": {}}},
}

#: What stands in an address: what `file_name` makes of names, and numbers that every database can hold.
_SLUG = Annotated[str, Path(max_length=200, pattern=r"^[A-Za-z0-9._-]+$")]
_NUMBER = Annotated[int, Path(ge=0, le=2**31 - 1)]
_NUMBERS = {"position", "number", "page"}


def create_app(settings: BoardSettings, store: Store, submissions: Submissions | None = None) -> FastAPI:
    """Make the application; the records are in the store already (`records.read_in`).

    Args:
        settings: the board's.
        store: its database.
        submissions: its hidden benchmarks, if it has any; whoever made them starts and stops their measuring.

    >>> app = create_app(BoardSettings(title="Ours"), Store("sqlite://"))
    >>> app.title
    'Ours'
    """
    # No documentation page: the usual ones load scripts from elsewhere.
    app = FastAPI(
        title=settings.title,
        description=settings.about,
        version="1",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # such a redirect goes to whatever host the request names
    )
    made = MadePages()
    for page in PAGES.values():
        app.add_api_route(
            page.pattern,
            _endpoint(page, settings, store, made, hidden=submissions is not None),
            name=page.name,
            summary=(inspect.getdoc(page.gather) or "").split("\n")[0],
            response_model=page.view,
            responses=_RESPONSES,
        )
    if submissions is not None:
        app.include_router(router_of(submissions))
    _add_files(app, store)
    _add_errors(app, settings)
    app.add_middleware(MadeFirst, made=made, store=store)
    app.add_middleware(SecurityHeaders)
    return app


def _endpoint(
    page: Page, settings: BoardSettings, store: Store, made: MadePages, *, hidden: bool
) -> Callable[..., Response]:
    """Return the function that answers a page's address; its signature is what FastAPI validates."""
    names = [part[1:-1] for part in page.pattern.split("/") if part.startswith("{")]

    def answer(request: Request, format: Format | None = None, **args: Any) -> Response:  # noqa: A002
        if page.name == "choose" and args.get("a") and args.get("b"):
            return RedirectResponse(path_of("compare", a=args["a"], b=args["b"]), HTTPStatus.SEE_OTHER)
        own = {name: args[name] for name in names}
        wanted = format or accepted(request.headers.get("accept", ""))

        def make() -> Body:
            with store.reading() as session:
                return _body(page, page.gather(session, settings, **own), wanted, settings, hidden=hidden)

        # The version comes first: what changes while the page is made makes it old.
        body = made.get(store.latest(), (path_of(page.name, **own), wanted), make)
        status, headers, content = body.answer(
            request.headers.get("if-none-match", ""), request.headers.get("accept-encoding", "")
        )
        return Response(content, status, headers)

    parameters = [inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY, annotation=Request)]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=_NUMBER if name in _NUMBERS else _SLUG)
        for name in names
    ]
    if page.name == "choose":
        optional = Annotated[str | None, Query(max_length=200, pattern=r"^[A-Za-z0-9._-]+$")]
        parameters += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=optional) for name in "ab"
        ]
    parameters.append(
        inspect.Parameter("format", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Format | None)
    )
    answer.__signature__ = inspect.Signature(parameters, return_annotation=Response)  # type: ignore[attr-defined]
    return answer


def _body(page: Page, view: View, wanted: str, settings: BoardSettings, *, hidden: bool) -> Body:
    if wanted == "html":
        text = render(page.template, view, ServerLinks(), settings, hidden=hidden)
    elif wanted == "json":
        text = view.model_dump_json(indent=1)
    else:
        table = view.table()
        if table is None:
            raise UnknownNameError(f"{view.title} is no table: ask for it as JSON or HTML")
        text = as_csv(table) if wanted == "csv" else as_latex(table)
    filename = f"{page.name}.{'tex' if wanted == 'latex' else 'csv'}" if wanted in {"csv", "latex"} else ""
    return Body(_MEDIA[wanted], text.encode(), filename)


def _add_files(app: FastAPI, store: Store) -> None:
    @app.get(PATTERNS["static"], include_in_schema=False)
    async def static(name: _SLUG) -> Response:
        try:
            content = asset(name)
        except FileNotFoundError:
            raise HTTPException(HTTPStatus.NOT_FOUND, f"there is no file {name!r}") from None
        kind = _STATIC.get(name.rsplit(".", 1)[-1], "application/octet-stream")
        return Response(content, media_type=kind, headers={"Cache-Control": "max-age=3600"})

    @app.get(
        PATTERNS["picture"],
        response_class=Response,
        responses={
            200: {"content": {"image/png": {}, "image/jpeg": {}, "image/webp": {}}},
            404: {"description": "No such picture here."},
        },
    )
    def item_picture(slug: _SLUG, position: _NUMBER, number: _NUMBER) -> Response:
        """Send a picture of an item."""
        with store.session() as session:
            kind, content = picture(session, slug, position, number)
        return Response(content, media_type=kind, headers={"Cache-Control": "max-age=3600"})


def _add_errors(app: FastAPI, settings: BoardSettings) -> None:
    def told(request: Request, status: int, title: str, text: str) -> Response:
        if accepted(request.headers.get("accept", "")) == "json" or request.query_params.get("format") == "json":
            content = View(title=title).model_dump() | {"detail": text}
            import json

            return Response(json.dumps(content), status, media_type="application/json")
        page = render("message", View(title=title), ServerLinks(), settings, text=text)
        return Response(page, status, media_type=_MEDIA["html"])

    @app.exception_handler(UnknownNameError)
    def unknown(request: Request, error: Exception) -> Response:
        return told(request, HTTPStatus.NOT_FOUND, "Not on this board", str(error))

    @app.exception_handler(StarletteHTTPException)
    def refused(request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", HTTPStatus.INTERNAL_SERVER_ERROR)
        response = told(request, status, HTTPStatus(status).phrase, str(getattr(error, "detail", "")))
        response.headers.update(getattr(error, "headers", None) or {})
        return response

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101  (what the handler is registered for)
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"]))
        return told(
            request, HTTPStatus.UNPROCESSABLE_ENTITY, "Not an address of this board", f"{where}: {problem['msg']}"
        )
