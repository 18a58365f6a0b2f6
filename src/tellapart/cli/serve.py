"""The commands `tellapart serve` and `tellapart board`: the board, its users, and the state of hidden benchmarks."""

from __future__ import annotations

import typer

from tellapart.cli.command import Call, Commands
from tellapart.cli.options import Hint, Json, print_json
from tellapart.report.terminal import print_text

serve_app = Commands("Host")
board_app = Commands(help="The board's records as a static site; its users; backups of its state.")

_RUNS = Hint("A folder of run folders; ./runs by default. Repeatable.", ("--runs",), metavar="DIR")
_DATABASE = "sqlite:///FILE or postgresql://HOST/NAME; board.sqlite among the runs by default."


def _print_left_out(problem: str) -> None:
    print_text(f"left out: {problem}", error=True)


@serve_app.declare("serve", runs=_RUNS, port=Hint(min=0, max=65535), database=_DATABASE)
def _serve(call: Call) -> None:
    """Show runs in the browser: leaderboards, models, items, comparisons, the Pareto front.

    Example: `tellapart serve --runs runs`
    """
    call(ready=lambda address: print_text(f"the board is at {address} (stop it with Ctrl-C)"), left_out=_print_left_out)


@board_app.declare("new", "board_new", folder=Hint(metavar="DIR"), pairs=Hint(argument=False))
def _new(call: Call, *, as_json: Json = False) -> None:
    """Write a board file for a set of pairs whose labels are hidden, with limits that fit its size.

    Example: `tellapart board new board --pairs my_pairs`
    """
    from tellapart.board.submissions.hidden import in_points
    from tellapart.data.rows import read_toml

    file = call()
    hidden = read_toml(file)["hidden"][0]
    if as_json:
        return print_json({"board": str(file), "step": hidden["step"], "total": hidden["total"]})
    return print_text(
        f"{file}: numbers are rounded to {in_points(hidden['step'])}; files of a user that count: {hidden['total']}\n"
        "more files or finer numbers could reveal over half of the public labels; more pairs allow both\n"
        "private numbers are published when it closes: set `closes` in the file, or close it as an admin\n"
        f"tokens for those who take part: tellapart board user NAME... --board {file}\n"
        f"serve it: tellapart serve --board {file}"
    )


@board_app.declare(
    "user", "board_user", name=Hint(metavar="NAME...", several=True), days="Days until the token expires."
)
def _user(call: Call, *, as_json: Json = False) -> None:
    """Add users to a board with hidden benchmarks and print their tokens; an existing user gets another token.

    Example: `tellapart board user ann bob --board board.toml`
    """
    rows: list[dict[str, str]] = []
    try:
        for user in dict.fromkeys(call.name):
            issued = call(name=user)
            rows.append({"user": user, "role": call.role, "token_id": issued.token_id, "token": issued.token})
            if not as_json:
                print_text(f"token {issued.token_id} of {user}, shown this once: {issued.token}")
    finally:  # a token is shown once: a later name that is refused must not lose those before it
        if as_json and rows:
            print_json(rows if len(call.name) > 1 else rows[0])


@board_app.declare("backup", "board_backup", target=Hint(metavar="DEST"))
def _backup(call: Call, *, as_json: Json = False) -> None:
    """Copy the state of a board's hidden benchmarks: accounts, files, truths, the secret. The board may be running.

    Example: `tellapart board backup backups/today --board board.toml`
    """
    done = call()
    if as_json:
        return print_json({"to": str(call.target), "files": done.files, "bytes": done.bytes})
    private = "it holds the secret: keep it private"
    return print_text(f"{done.files:,} files, {done.bytes:,} bytes in {call.target}; {private}")


@board_app.declare("check", "board_check", backup=Hint(argument=True))
def _check(call: Call, *, as_json: Json = False) -> None:
    """Check the state of a board's hidden benchmarks, or a backup of it. A problem is a line, and the exit status is 1.

    Example: `tellapart board check --board board.toml`
    """
    report = call()
    place, problems = report.checked, report.problems
    if as_json:
        print_json({"checked": str(place), "problems": list(problems)})
    else:
        for problem in problems:
            print_text(problem)
        if not problems:
            print_text(f"{place}: everything is there, and as it was written")
    if problems:
        raise typer.Exit(1)


@board_app.declare("accept", "board_accept")
def _accept(call: Call, *, as_json: Json = False) -> None:
    """Accept the present state after a part of it was lost or replaced, so that the board can start again.

    Example: `tellapart board accept --board board.toml`
    """
    accepted = call()
    if as_json:
        return print_json({"state": str(accepted.state), **accepted.counters})
    listed = ", ".join(f"{number:,} {name}" for name, number in accepted.counters.items())
    return print_text(f"{accepted.state} is accepted: {listed}. Tokens of another secret are void")


@board_app.declare("retry", "board_retry", files=Hint(metavar="ID...", argument=True))
def _retry(call: Call, *, as_json: Json = False) -> None:
    """Measure files again that failed because the server stopped too often. The board may be running.

    Example: `tellapart board retry --board board.toml`
    """
    again = call()
    if as_json:
        return print_json({"files": list(again)})
    return print_text(f"{len(again):,} files wait again: {', '.join(again)}" if again else "no file failed")


@board_app.declare("export", "board_export", runs=_RUNS, database=_DATABASE, items=Hint(min=0), comparisons=Hint(min=0))
def _export(call: Call, *, as_json: Json = False) -> None:
    """Write the board as a static site: it opens from the disk, and any web server can hold it.

    Example: `tellapart board export --runs runs --out site`
    """
    pages = call(left_out=_print_left_out)
    if as_json:
        print_json({"out": str(call.out), "pages": pages})
    else:
        print_text(f"{pages:,} pages; open {call.out / 'index.html'}")
