"""The board as a web application: every page as HTML, JSON, CSV or LaTeX at one address."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import inspect
import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import Future
from http import HTTPStatus
from inspect import Parameter
from threading import RLock, Semaphore
from typing import Annotated, Any, Literal, get_args

from fastapi import FastAPI, HTTPException, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from pydantic import Field
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from tellapart.board.records import Board, BoardSettings
from tellapart.board.rendering import PAGES, PATTERNS, Page, ServerLinks, as_csv, as_latex, asset, render
from tellapart.board.submissions.accounts import network
from tellapart.board.submissions.routes import add_routes
from tellapart.board.submissions.service import Submissions
from tellapart.board.views.items import picture
from tellapart.board.views.leaderboard import View
from tellapart.errors import UnknownNameError, plain, quote

#: Names of this machine, for itself.
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

#: Header -> value.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def secure_answers(app: ASGIApp) -> ASGIApp:
    """Return an application that adds `HEADERS` to every answer of `app`, errors included, except those that are set.

    HEAD is answered as GET without the body, as previews of links and monitors ask. A request with two lengths is
    refused: a proxy before the board may find its end by one of them, and the board by the other.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        method, request = scope["method"], Headers(scope=scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            elif method == "HEAD":
                message = {**message, "body": b""}
            await send(message)

        inner: ASGIApp = app
        if "transfer-encoding" in request and "content-length" in request:
            inner = PlainTextResponse("A request has one length.\n", 400, {"Connection": "close"})
        await inner({**scope, "method": "GET" if method == "HEAD" else method}, receive, send_with_headers)

    return answer


class BoardAddress:
    """ASGI middleware for a board's names and path: other hosts are refused, the first 20 logged with advice."""

    def __init__(self, app: ASGIApp, names: Iterable[str], root: str = "") -> None:
        self._app, self._root, self._logged = app, root, set[str]()
        self._trusted = TrustedHostMiddleware(self._enter, sorted(names), www_redirect=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._trusted(scope, receive, send)
        host = Headers(raw=scope.get("headers", [])).get("host", "").partition(":")[0][:80]
        if "entered" not in scope and host not in self._logged and len(self._logged) < 20:  # anybody can send any name
            self._logged.add(host)
            logging.getLogger(__name__).warning(
                "refused a request for the host %s: --name %s lets it in; a proxy must send the browser's "
                "(proxy_set_header Host $host)",
                plain(quote(host)),
                plain(host),
            )

    async def _enter(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["entered"] = True  # for `__call__`: the host was not refused
        if scope["type"] == "http":  # some proxies remove the path, others do not
            path = scope["path"] if scope["path"] != self._root else f"{self._root}/"
            path = path if path.startswith(f"{self._root}/") else self._root + path
            scope = {**scope, "root_path": self._root, "path": path}
        await self._app(scope, receive, send)


#: Connections at once, and those of one address that is no proxy's.
MOST_CONNECTIONS, MOST_OF_ADDRESS = 500, 200

#: New connections that the event loop accepts at once; three times as many may be open before it can end the first.
#: With `MOST_CONNECTIONS` they are fewer than the 1,024 files that a process may open by default: at that limit, the
#: loop accepts none for a second.
BACKLOG = 128

#: What a client owes -> seconds until its connection ends: all of a request's head, more of its body, or reading on.
SECONDS = {"request": 15.0, "body": 30.0, "reading": 60.0}


class Connection(H11Protocol):
    """uvicorn's HTTP/1.1 protocol with a deadline for everything that a client owes, for `uvicorn.Config(http=...)`.

    uvicorn closes only connections that are idle after an answer: a few thousand half requests, which cost their sender
    nothing, would take every descriptor of the process (decision 15).
    """

    _owed, _since = "", 0.0  # a key of `SECONDS`, or empty; the loop's time from which on it is owed
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request; beyond `MOST_CONNECTIONS`, end the connection that has waited longest."""
        super().connection_made(transport)
        if self._count_of_address() > MOST_OF_ADDRESS:
            transport.abort()
            return
        self._set_deadline()
        active = [other for other in self._others() if not other.transport.is_closing()]
        if len(active) > MOST_CONNECTIONS:
            idle = [other for other in active if other._owed == "request"]  # this one is among them
            min(idle, key=lambda other: other._since).transport.abort()

    def _others(self) -> list[Connection]:
        return [connection for connection in self.connections if isinstance(connection, Connection)]

    def _count_of_address(self) -> int:
        """Return how many connections the client's network has; 0 of a proxy."""
        host = self.client[0] if self.client else ""
        if host in ("", "127.0.0.1", "::1", *str(self.config.forwarded_allow_ips or "").replace(" ", "").split(",")):
            return 0  # from a socket file, this machine or a proxy, where all readers may come from
        return [network((other.client or ("",))[0]) for other in self._others()].count(network(host))

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Parse the data, and wait for the rest."""
        super().data_received(data)
        self._set_deadline(received=True)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._set_deadline()

    def pause_writing(self) -> None:
        """Wait until the client reads its answer."""
        super().pause_writing()
        self._set_deadline()

    def resume_writing(self) -> None:
        """Stop waiting for the client to read."""
        super().resume_writing()
        self._set_deadline()

    def _set_deadline(self, *, received: bool = False) -> None:
        """Set the deadline for what the client owes; bytes that come extend it for a body, and not for a head."""
        if self.flow.write_paused:
            owed = "reading"
        elif self.cycle is None or self.cycle.response_complete:
            owed = "request"
        else:
            owed = "body" if self.cycle.more_body and not self.flow.read_paused else ""
        if owed == self._owed and not (received and owed == "body"):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._owed, self._since, self._timer = owed, self.loop.time(), None
        if owed and not self.transport.is_closing():
            self._timer = self.loop.call_later(SECONDS[owed], self.transport.abort)


#: Pages up to so many bytes are not compressed, as they fit a few packets.
_SMALL = 4096

#: Pages rendered at once: more would slow down the thread that answers readers; one may wait for the disk.
_AT_ONCE = 2

Format = Literal["html", "json", "csv", "latex"]

#: Query string -> format, empty if the Accept header decides. Pages with another query are not cached.
_FORMATS = {b"": "", **{b"format=" + form.encode(): form for form in get_args(Format)}}


def preferred_format(accept: str) -> str:
    """Return the format for a request without `?format=`: HTML, or JSON if `Accept` names that and not HTML."""
    return "json" if "application/json" in accept and "text/html" not in accept else "html"


class CachedPage:
    """A page as it is sent; `filename` is the name under which a browser saves it, empty for HTML and JSON."""

    def __init__(self, media_type: str, content: bytes, filename: str = "") -> None:
        self.media_type, self.content, self.filename = media_type, content, filename
        self.compressed = gzip.compress(content, 1, mtime=0) if len(content) > _SMALL else b""
        self.tag = f'W/"{hashlib.sha256(content).hexdigest()[:16]}"'  # weak, since it is the same for both encodings

    def answer(self, request: Mapping[str, str]) -> Response:
        """Return the answer to a request with these headers."""
        # One address has several formats, and every new record makes pages out of date.
        headers = {"etag": self.tag, "vary": "Accept, Accept-Encoding", "cache-control": "no-cache"}
        if request.get("if-none-match") == self.tag:
            return Response(None, HTTPStatus.NOT_MODIFIED, headers)
        content = self.content
        if self.compressed and "gzip" in request.get("accept-encoding", ""):
            content, headers["content-encoding"] = self.compressed, "gzip"
        if self.filename:
            headers["content-disposition"] = f'attachment; filename="{self.filename}"'
        return Response(content, headers={**headers, "content-type": self.media_type})


class PageCache:
    """The most recently used pages of the newest version of the records, within a budget of bytes."""

    def __init__(self, budget: int = 64 << 20) -> None:
        self._budget, self._version = budget, -1
        self._pages: OrderedDict[Hashable, Future[CachedPage]] = OrderedDict()
        self._lock, self._turns = RLock(), Semaphore(_AT_ONCE)

    def find(self, version: int, key: Hashable) -> CachedPage | None:
        """Return a page of this version if it is in the cache."""
        with self._lock:
            future = self._pages.get(key) if version == self._version else None
            if future is None or not future.done():
                return None
            self._pages.move_to_end(key)
            return future.result()

    def get(self, version: int, key: Hashable, render: Callable[[], CachedPage]) -> CachedPage:
        """Return the page of a version of the records, rendering it if it is neither cached nor under way.

        Requests during the rendering wait, and get that page or that error; a request for a newer version never gets
        a page of an older one.
        """
        with self._lock:
            if version > self._version:
                self._pages.clear()
                self._version = version
            pages = self._pages if version == self._version else {}
            future = pages.setdefault(key, new := Future[CachedPage]())
        if future is new:  # no other request renders this page
            try:
                with self._turns:
                    future.set_result(render())
            except BaseException as error:
                with self._lock:
                    if self._pages.get(key) is future:
                        del self._pages[key]
                future.set_exception(error)
            self._drop_oldest()
        return future.result()

    def _drop_oldest(self) -> None:
        """Drop the pages that were not used for longest until the others fit the budget."""
        with self._lock:
            done = [(key, future.result()) for key, future in self._pages.items() if future.done()]
            size = sum(len(page.content) + len(page.compressed) for _, page in done)
            for key, page in done:
                if size <= self._budget:
                    break
                size -= len(page.content) + len(page.compressed)
                del self._pages[key]

    def before(self, app: ASGIApp, board: Board) -> ASGIApp:
        """Return an application that answers with a cached page if there is one, else passes the request on."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            form = _FORMATS.get(scope["query_string"]) if scope["type"] == "http" and scope["method"] == "GET" else None
            if form is not None:
                headers = Headers(scope=scope)
                key = (scope["path"], form or preferred_format(headers.get("accept", "")))
                if (page := self.find(board.tables.version, key)) is not None:
                    await page.answer(headers)(scope, receive, send)
                    return
            await app(scope, receive, send)

        return answer


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

#: The arguments of an address: names as `file_name` writes them, and numbers of up to 31 bits.
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


def create_app(board: Board, submissions: Submissions | None = None, age: Callable[[], float] | None = None) -> FastAPI:
    """Make the application; `age` returns the seconds since the folders were last read in, for `/healthz`."""
    settings = board.settings
    # No documentation pages: FastAPI's load scripts from elsewhere. No redirect of a slash: it would go to the host
    # that the request names.
    options: dict[str, Any] = {"docs_url": None, "redoc_url": None, "redirect_slashes": False}
    app = FastAPI(title=settings.title, description=settings.about, version="1", **options)
    cache = PageCache()
    for page in PAGES.values():
        app.add_api_route(
            page.pattern,
            _page_endpoint(page, board, cache, hidden=submissions is not None),
            name=page.name,
            summary=(inspect.getdoc(page.gather) or "").split("\n")[0],
            responses=_RESPONSES,
        )
    if submissions is not None:
        add_routes(app, submissions)
    if age is not None:

        @app.get("/healthz", name="health", response_class=JSONResponse)
        def health() -> JSONResponse:
            """Say how long ago the folders of runs were last read in without an error."""
            late = (seconds := age()) > STALE_SECONDS
            content = {"state": "stale" if late else "ok", "seconds_since_last_sync": round(seconds, 1)}
            status = HTTPStatus.SERVICE_UNAVAILABLE if late else HTTPStatus.OK
            return JSONResponse(content, status, {"cache-control": "no-store"})

    _add_files(app, board)
    _add_errors(app, settings, hidden=submissions is not None)
    app.add_middleware(cache.before, board=board)
    app.add_middleware(secure_answers)
    return app


def _page_endpoint(page: Page, board: Board, cache: PageCache, *, hidden: bool) -> Callable[..., Response]:
    """Return the function that answers a page's address; FastAPI validates requests by its signature."""
    names = [part[1:-1] for part in page.pattern.split("/") if part.startswith("{")]

    def answer(request: Request, format: Format | None = None, **args: Any) -> Response:  # noqa: A002
        links = ServerLinks(request.scope["root_path"])
        chosen = [slug for name in _FORMS.get(page.name, ()) for slug in args[name]]
        if chosen and page.name == "pareto":
            return RedirectResponse(links.to("pareto_over", cost=args["cost"], over="+".join(chosen)), 303)
        if len(chosen) == 2:  # of the page that chooses models
            return RedirectResponse(links.to("compare", a=chosen[0], b=chosen[1]), 303)
        if len(chosen) > 2:
            return RedirectResponse(links.to("compare_many", models="+".join(chosen)), 303)
        arguments = {name: args[name] for name in names}
        form, tables = format or preferred_format(request.headers.get("accept", "")), board.tables

        def render_page() -> CachedPage:
            view = page.gather(tables, **arguments)
            if form == "html":
                text = render(page.template, links, view=view, board=board.settings, hidden=hidden)
            elif form == "json":
                text = view.model_dump_json(indent=1)
            elif not (table := view.table()):
                raise UnknownNameError(f"{view.title} is not a table: ask for JSON or HTML")
            else:
                text = as_csv(table) if form == "csv" else as_latex(view.title, table)
            suffix = {"csv": "csv", "latex": "tex"}.get(form)
            return CachedPage(_MEDIA[form], text.encode(), f"{page.name}.{suffix}" if suffix else "")

        cached = cache.get(tables.version, (links.to(page.name, **arguments), form), render_page)
        return cached.answer(request.headers)

    def parameter(name: str, annotation: object, default: object = Parameter.empty) -> Parameter:
        return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)

    parameters = [parameter("request", Request)]
    parameters += [parameter(name, _KINDS.get(name, _SLUG)) for name in names]
    parameters += [parameter(name, _CHOSEN, []) for name in _FORMS.get(page.name, ())]
    parameters.append(parameter("format", Format | None, None))
    answer.__signature__ = inspect.Signature(parameters, return_annotation=Response)  # type: ignore[attr-defined]
    return answer


def _add_files(app: FastAPI, board: Board) -> None:
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
        kind, content = picture(board.tables, slug, position, number)
        return Response(content, media_type=kind, headers=_KEPT_AN_HOUR)


def _add_errors(app: FastAPI, settings: BoardSettings, *, hidden: bool) -> None:
    def respond(request: Request, error: Exception) -> Response:
        status = int(getattr(error, "status_code", HTTPStatus.NOT_FOUND))
        headers = getattr(error, "headers", None) or {}
        title, text = HTTPStatus(status).phrase, str(getattr(error, "detail", error))
        if isinstance(error, UnknownNameError):
            title = "Not on this board"
        elif isinstance(error, RequestValidationError):
            problem = error.errors()[0]
            status, title = HTTPStatus.UNPROCESSABLE_ENTITY, "Not an address of this board"
            text = f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
        elif status == HTTPStatus.METHOD_NOT_ALLOWED:
            text = f"this address takes {headers.get('Allow', 'no')} requests, not {request.method}"
        # A browser names HTML, and its script names itself; anything else is a program.
        accept, script = request.headers.get("accept", ""), request.headers.get("hx-request")
        if request.query_params.get("format") == "json" or not ("text/html" in accept or script):
            return JSONResponse({"title": title, "detail": text}, status, headers)
        links, view = ServerLinks(request.scope["root_path"]), View(title=title)
        page = render("message", links, view=view, board=settings, hidden=hidden, text=text)
        return HTMLResponse(page, status, headers)

    for kind in (UnknownNameError, StarletteHTTPException, RequestValidationError):
        app.add_exception_handler(kind, respond)
