"""The board as a web application: every page as HTML, JSON, CSV or LaTeX at one address."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from inspect import Parameter
from typing import Annotated, Any, Literal

from fastapi import FastAPI, HTTPException, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from pydantic import Field
from starlette.exceptions import HTTPException as StarletteHTTPException

from tellapart.board.connections import SecurityHeaders
from tellapart.board.page_cache import CachedPage, PageCache, PageCacheMiddleware, preferred_format
from tellapart.board.rendering import PAGES, PATTERNS, Page, ServerLinks, as_csv, as_latex, asset, render
from tellapart.board.settings import BoardSettings
from tellapart.board.store import Store
from tellapart.board.submissions.routes import router_of
from tellapart.board.submissions.service import Submissions
from tellapart.board.views.items import picture
from tellapart.board.views.rows import View
from tellapart.errors import UnknownNameError

Format = Literal["html", "json", "csv", "latex"]

_MEDIA = {
    "html": "text/html; charset=utf-8",
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "latex": "application/x-tex; charset=utf-8",
}
_STATIC = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_KEPT_AN_HOUR = {"Cache-Control": "max-age=3600"}

_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {kind.partition(";")[0]: {} for name, kind in _MEDIA.items() if name != "json"}},
    303: {"description": "See the comparison."},
    304: {"description": "Not changed."},
    404: {"description": "This board has no such thing.", "content": {"application/json": {}, "text/html": {}}},
    422: {"description": "No address of this board.", "content": {"application/json": {}, "text/html": {}}},
}

#: The parts of an address: names as `file_name` writes them, and numbers that every database can hold.
_SLUG_PATTERN = r"^[A-Za-z0-9._-]+$"
_SLUG = Annotated[str, Path(max_length=200, pattern=_SLUG_PATTERN)]
_SLUGS_PATTERN = r"^[A-Za-z0-9._+-]+$"
_SLUGS = Annotated[str, Path(max_length=2000, pattern=_SLUGS_PATTERN, description="Addresses with + between them.")]
_CHOSEN = Annotated[list[Annotated[str, Field(max_length=200, pattern=_SLUG_PATTERN)]], Query(max_length=100)]
_NUMBER = Annotated[int, Path(ge=0, le=2**31 - 1)]
_KINDS = {**dict.fromkeys(("position", "number", "page"), _NUMBER), **dict.fromkeys(("models", "over"), _SLUGS)}

#: A board whose folders were not read in for so long is not well.
STALE_SECONDS = 60.0

#: Page with a form -> the names that it sends, each once or several times.
_FORMS = {"choose": ("a", "b", "model"), "pareto": ("over",)}


def create_app(
    settings: BoardSettings,
    store: Store,
    submissions: Submissions | None = None,
    age: Callable[[], float] | None = None,
) -> FastAPI:
    """Make the application."""
    # No documentation page: the usual ones load scripts from elsewhere. No redirect of a slash: it would go to the host
    # that the request names.
    settled: dict[str, Any] = {"docs_url": None, "redoc_url": None, "redirect_slashes": False}
    app = FastAPI(title=settings.title, description=settings.about, version="1", **settled)
    cache = PageCache()
    for page in PAGES.values():
        app.add_api_route(
            page.pattern,
            _page_endpoint(page, settings, store, cache, hidden=submissions is not None),
            name=page.name,
            summary=(inspect.getdoc(page.gather) or "").split("\n")[0],
            response_model=page.view,
            responses=_RESPONSES,
        )
    if submissions is not None:
        app.include_router(router_of(submissions))
    if age is not None:
        app.add_api_route(
            "/healthz",
            lambda: _answer_health(age()),
            summary="How long ago the folders of runs were last read in without an error.",
            name="health",
            response_class=JSONResponse,
        )
    _add_files(app, store)
    _add_errors(app, settings)
    app.add_middleware(PageCacheMiddleware, cache=cache, store=store)
    app.add_middleware(SecurityHeaders)
    return app


def _page_endpoint(
    page: Page, settings: BoardSettings, store: Store, cache: PageCache, *, hidden: bool
) -> Callable[..., Response]:
    """Return the function that answers a page's address; FastAPI validates requests by its signature."""
    names = [part[1:-1] for part in page.pattern.split("/") if part.startswith("{")]

    def answer(request: Request, format: Format | None = None, **args: Any) -> Response:  # noqa: A002
        slugs = [slug for name in _FORMS.get(page.name, ()) for slug in args[name]]
        links = ServerLinks(request.scope["root_path"])
        if address := _address_of(page.name, slugs, args, links):
            return RedirectResponse(address, HTTPStatus.SEE_OTHER)
        arguments = {name: args[name] for name in names}
        form = format or preferred_format(request.headers.get("accept", ""))

        def render_page() -> CachedPage:
            with store.reading() as session:
                view = page.gather(session, settings, **arguments)
                return _render_view(page, view, form, settings, links, hidden=hidden)

        # The version comes first: a change during the rendering makes the page out of date.
        cached = cache.get(store.latest(), (links.to(page.name, **arguments), form), render_page)
        given = request.headers
        status, headers, content = cached.answer(given.get("if-none-match", ""), given.get("accept-encoding", ""))
        return Response(content, status, headers)

    def parameter(name: str, annotation: object, default: object = Parameter.empty) -> Parameter:
        return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)

    parameters = [parameter("request", Request)]
    parameters += [parameter(name, _KINDS.get(name, _SLUG)) for name in names]
    parameters += [parameter(name, _CHOSEN, []) for name in _FORMS.get(page.name, ())]
    parameters.append(parameter("format", Format | None, None))
    answer.__signature__ = inspect.Signature(parameters, return_annotation=Response)  # type: ignore[attr-defined]
    return answer


def _address_of(page: str, chosen: Sequence[str], args: Mapping[str, Any], links: ServerLinks) -> str:
    """Return the address of the choice in a page's form; empty if it is this page itself."""
    if page == "pareto" and chosen:
        return links.to("pareto_over", cost=args["cost"], over="+".join(chosen))
    if page == "choose" and len(chosen) == 2:
        return links.to("compare", a=chosen[0], b=chosen[1])
    if page == "choose" and len(chosen) > 2:
        return links.to("compare_many", models="+".join(chosen))
    return ""


def _render_view(
    page: Page, view: View, form: str, settings: BoardSettings, links: ServerLinks, *, hidden: bool
) -> CachedPage:
    if form == "html":
        text = render(page.template, view, links, settings, hidden=hidden)
    elif form == "json":
        text = view.model_dump_json(indent=1)
    elif (table := view.table()) is None:
        raise UnknownNameError(f"{view.title} is not a table: ask for JSON or HTML")
    else:
        text = as_csv(table) if form == "csv" else as_latex(table)
    suffix = {"csv": "csv", "latex": "tex"}.get(form)
    return CachedPage(_MEDIA[form], text.encode(), f"{page.name}.{suffix}" if suffix else "")


def _answer_health(seconds: float) -> JSONResponse:
    late = seconds > STALE_SECONDS
    content = {"state": "stale" if late else "ok", "seconds_since_last_sync": round(seconds, 1)}
    status = HTTPStatus.SERVICE_UNAVAILABLE if late else HTTPStatus.OK
    return JSONResponse(content, status, {"cache-control": "no-store"})


def _add_files(app: FastAPI, store: Store) -> None:
    @app.get(PATTERNS["static"], include_in_schema=False)
    async def static(name: _SLUG) -> Response:
        try:
            content = asset(name)
        except FileNotFoundError:
            raise HTTPException(HTTPStatus.NOT_FOUND, f"there is no file {name!r}") from None
        kind = _STATIC.get(name.rsplit(".", 1)[-1], "text/plain")
        return Response(content, media_type=kind, headers=_KEPT_AN_HOUR)

    kinds: dict[str, Any] = {"content": {"image/png": {}, "image/jpeg": {}, "image/webp": {}}}
    responses: dict[int | str, dict[str, Any]] = {200: kinds, 404: {"description": "No such picture here."}}

    @app.get(PATTERNS["picture"], response_class=Response, responses=responses)
    def item_picture(slug: _SLUG, position: _NUMBER, number: _NUMBER) -> Response:
        """Send a picture of an item."""
        with store.session() as session:
            kind, content = picture(session, slug, position, number)
        return Response(content, media_type=kind, headers=_KEPT_AN_HOUR)


def _add_errors(app: FastAPI, settings: BoardSettings) -> None:
    def respond(request: Request, status: int, title: str, text: str) -> Response:
        view = View(title=title)
        # A browser names HTML, and its script names itself; anything else is a program.
        accept, script = request.headers.get("accept", ""), request.headers.get("hx-request")
        if request.query_params.get("format") == "json" or not ("text/html" in accept or script):
            return JSONResponse(view.model_dump() | {"detail": text}, status)
        links = ServerLinks(request.scope["root_path"])
        return HTMLResponse(render("message", view, links, settings, text=text), status)

    @app.exception_handler(UnknownNameError)
    def unknown_name(request: Request, error: Exception) -> Response:
        return respond(request, HTTPStatus.NOT_FOUND, "Not on this board", str(error))

    @app.exception_handler(StarletteHTTPException)
    def http_error(request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", HTTPStatus.INTERNAL_SERVER_ERROR)
        headers = getattr(error, "headers", None) or {}
        text = str(getattr(error, "detail", ""))
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            text = f"this address takes {headers.get('Allow', 'no')} requests, not {request.method}"
        response = respond(request, status, HTTPStatus(status).phrase, text)
        response.headers.update(headers)
        return response

    @app.exception_handler(RequestValidationError)
    def invalid_request(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101  (what the handler is registered for)
        problem = error.errors()[0]
        text = f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
        return respond(request, HTTPStatus.UNPROCESSABLE_ENTITY, "Not an address of this board", text)
