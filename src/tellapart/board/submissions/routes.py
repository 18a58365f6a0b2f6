"""Routes of hidden benchmarks: the list, leaderboards, uploads, submissions, sessions and administration.

Every address gives a page to a browser and JSON to anything else (or with `?format=json`). A program sends its token in
the header `Authorization: Bearer TOKEN`; a browser signs in with the same token and gets a session, whose forms carry a
key. Administration needs a token, so that no page of another site can do any of it.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse

from tellapart.board.submissions.accounts import COOKIE
from tellapart.board.submissions.auth import RequestAuth
from tellapart.board.submissions.pages import RefusingRoute, page, wants_page
from tellapart.board.submissions.receiving import receive
from tellapart.board.submissions.service import Submissions

__all__ = ["router_of"]

_BODY = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_Format = Annotated[str | None, Query(alias="format", description="`json` for JSON in a browser, too.")]
_Again = Annotated[str | None, Query(alias="again", description="Anything: the page says that the file came again.")]
_REFUSALS: dict[int | str, dict[str, Any]] = {
    401: {"description": "refused: no valid token"},
    403: {"description": "refused: not allowed"},
    404: {"description": "refused: not there"},
    408: {"description": "refused: too slow"},
    409: {"description": "refused: closed"},
    413: {"description": "refused: too large"},
    429: {"description": "refused: too often"},
    503: {"description": "refused: not now"},
    507: {"description": "refused: no room"},
}


def router_of(submissions: Submissions) -> APIRouter:
    """Return the routes of hidden benchmarks, for any FastAPI application; `submissions.start()` measures the files."""
    router = APIRouter(route_class=RefusingRoute, tags=["hidden benchmarks"], responses=_REFUSALS)
    _add_reading(router, submissions)
    _add_sending(router, submissions)
    _add_sessions(router, submissions)
    _add_administration(router, submissions)
    return router


def _add_reading(router: APIRouter, board: Submissions) -> None:
    @router.get("/hidden")
    def hidden(request: Request, _format: _Format = None) -> Response:
        """List the hidden benchmarks: limits, and how much of the labels the numbers give away."""
        RequestAuth(request, board).count()
        return page(request, board, "hidden", board.listing(request.scope["root_path"]))

    @router.get("/hidden/{name}")
    def leaderboard(request: Request, name: str, _format: _Format = None) -> Response:
        """Show the leaderboard, once the benchmark is closed with private numbers and changes of rank."""
        RequestAuth(request, board).count()
        return page(request, board, "leaderboard", board.leaderboard(name, request.scope["root_path"]))

    @router.get("/hidden/{name}/task.zip")
    def task(request: Request, name: str) -> FileResponse:
        """Send the task file: ids, images and texts, without labels. Needs a reader's token."""
        RequestAuth(request, board).account("reader")
        return FileResponse(
            board.benchmark(name).task_file,
            filename=f"{name}.zip",
            media_type="application/zip",
            headers={"Cache-Control": "private, no-store"},  # a cookie may have opened it: no proxy may store it
        )

    @router.get("/submissions")
    def sent(request: Request, _format: _Format = None) -> Response:
        """List your submissions."""
        account = RequestAuth(request, board).account("reader")
        return page(request, board, "sent", {"submissions": board.sent(account), "left": board.files_left(account)})

    @router.get("/submissions/{submission}")
    def one(request: Request, submission: str, _format: _Format = None, _again: _Again = None) -> Response:
        """Show a submission's state and numbers."""
        account = RequestAuth(request, board).account("reader")
        return page(request, board, "submission", {"submission": board.view(submission, account)})


def _add_sending(router: APIRouter, board: Submissions) -> None:
    @router.post(
        "/hidden/{name}/submissions",
        status_code=202,
        openapi_extra={"requestBody": {"required": True, "content": _BODY}},
    )
    async def send(
        request: Request,
        name: str,
        model: Annotated[str, Query(description="The model's name on the board.")] = "",
        file: Annotated[str, Query(description="The file's name; its ending gives the format.")] = "",
    ) -> Response:
        """Send a file of scores or answers as the request's body, or as a form; it is measured in its turn.

        The same bytes sent again are answered with 200, the first one's state and its model's name, and do not count.
        """
        taken = await receive(request, board, name, model, file)
        address = str(request.url_for("one", submission=taken.id).path)
        if RequestAuth(request, board).is_browser:
            return RedirectResponse(f"{address}?again=1" if taken.again else address, 303)
        content = {"id": taken.id, "state": taken.state, "model": taken.model, "at": address, "again": taken.again}
        return JSONResponse(content, 200 if taken.again else 202, {"Location": address})


def _add_sessions(router: APIRouter, board: Submissions) -> None:
    @router.get("/sign-in")
    def sign_in_page(request: Request, _format: _Format = None) -> Response:
        """Show the form that takes a token; a browser that is signed in sees its files."""
        RequestAuth(request, board).count()
        # Pages of the leaderboard are the same for everybody, and link to this one.
        if wants_page(request) and board.accounts.of_session(request.cookies.get(COOKIE, "")):
            return RedirectResponse(request.url_for("sent").path, 303, headers={"Cache-Control": "no-store"})
        return page(request, board, "sign_in", {})

    @router.post("/sign-in", status_code=303)
    async def sign_in(request: Request) -> Response:
        """Begin a browser session."""
        auth = RequestAuth(request, board)
        form, count = await auth.small_form(), partial(auth.count_guess, by_address=False)  # the form was counted
        cookie = await run_in_threadpool(
            board.accounts.sign_in, form.get("token", ""), hours=board.settings.session_hours, before_refusal=count
        )
        answer = RedirectResponse(request.url_for("sent").path, 303)
        seconds = int(board.settings.session_hours * 3600)
        secure = board.settings.secure_cookies or request.url.scheme == "https"
        path = f"{request.scope['root_path']}/"
        answer.set_cookie(COOKIE, cookie, max_age=seconds, path=path, httponly=True, samesite="strict", secure=secure)
        return answer

    @router.post("/sign-out", status_code=303)
    async def sign_out(request: Request) -> Response:
        """End a browser session."""
        cookie, form = request.cookies.get(COOKIE, ""), await RequestAuth(request, board).small_form()
        board.accounts.check_form(cookie, form.get("key", ""))
        await run_in_threadpool(board.accounts.sign_out, cookie)
        answer = RedirectResponse(request.url_for("hidden").path, 303)
        answer.delete_cookie(COOKIE, f"{request.scope['root_path']}/")
        return answer


def _require_admin(request: Request, board: Submissions) -> str:
    """Return the admin whose token the request has."""
    return RequestAuth(request, board).account("admin", by_token=True).user


def _add_administration(router: APIRouter, board: Submissions) -> None:
    @router.post("/admin/users", status_code=201)
    def add_user(request: Request, name: str, role: str) -> JSONResponse:
        """Add a user."""
        board.accounts.add(name, role, by=_require_admin(request, board))  # type: ignore[arg-type]  # checked there
        return JSONResponse({"name": name, "role": role}, 201)

    @router.post("/admin/tokens", status_code=201)
    def issue(request: Request, user: str, days: Annotated[float, Query(gt=0, le=3660)] = 365) -> JSONResponse:
        """Make a token for a user; only this answer has it."""
        id_, token = board.accounts.issue(user, days=days, by=_require_admin(request, board))
        return JSONResponse({"id": id_, "token": token}, 201, {"Cache-Control": "no-store"})

    @router.post("/admin/tokens/{token}/revoke")
    def revoke(request: Request, token: str) -> JSONResponse:
        """Revoke a token, by its id."""
        board.accounts.revoke(token, by=_require_admin(request, board))
        return JSONResponse({"revoked": token})

    @router.post("/admin/hidden/{name}/close")
    def close(request: Request, name: str) -> JSONResponse:
        """Close a benchmark for good: private numbers are published, and no file is taken any more."""
        board.close(name, by=_require_admin(request, board))
        return JSONResponse({"closed": name})

    @router.get("/admin/log")
    def log(request: Request, after: Annotated[int, Query(ge=0, lt=2**63)] = 0) -> JSONResponse:
        """Read the log of actions and their users."""
        _require_admin(request, board)
        return JSONResponse({"entries": board.log(after)}, headers={"Cache-Control": "no-store"})
