"""Write a report as a comment on the pull request that a GitHub workflow runs for; one comment is kept up to date.

    python action/comment.py REPORT.md

Which pull request, repository and server is in the variables that GitHub sets; the token is in GITHUB_TOKEN. A comment
that cannot be written (the token of a fork's pull request may only read) is a warning in the log: the verdict stands.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

#: How the action knows its own comment again.
MARK = "<!-- tellapart gate -->"

#: Comments that are looked through, a hundred at a time.
_PAGES = 50


def write_comment(text: str, pull_request: int) -> str:
    """Write or update the comment; return its address.

    Raises:
        OSError: GitHub cannot be reached, or refuses it.
    """
    repository = f"repos/{os.environ['GITHUB_REPOSITORY']}"
    body = {"body": f"{MARK}\n{text}"}
    for comment in _comments(f"{repository}/issues/{pull_request}/comments"):
        # Of an app alone: a person who quotes the report keeps their own words.
        if comment["body"].startswith(MARK) and comment["user"]["type"] == "Bot":
            return str(_ask("PATCH", f"{repository}/issues/comments/{comment['id']}", body)["html_url"])
    return str(_ask("POST", f"{repository}/issues/{pull_request}/comments", body)["html_url"])


def _comments(path: str) -> Iterator[dict[str, Any]]:
    for page in range(1, _PAGES + 1):
        comments = _ask("GET", f"{path}?per_page=100&page={page}")
        yield from comments
        if len(comments) < 100:
            return


def _ask(method: str, path: str, body: Any = None) -> Any:
    address = f"{os.environ['GITHUB_API_URL']}/{path}"
    headers = {
        "Accept": "application/vnd.github+json",
        "Authorization": f"Bearer {os.environ['GITHUB_TOKEN']}",
        "Content-Type": "application/json",
        "X-GitHub-Api-Version": "2022-11-28",
    }
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(address, data, headers, method=method), timeout=60) as answer:  # noqa: S310  (GitHub's own)
        return json.load(answer)


def main() -> int:
    """Comment where the workflow runs for a pull request; return the exit status."""
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    number = event.get("pull_request", {}).get("number")
    if number is None:
        print("no pull request: the verdicts are in the job's summary")
        return 0
    try:
        print(f"comment: {write_comment(Path(sys.argv[1]).read_text(encoding='utf-8'), number)}")
    except (URLError, TimeoutError) as error:
        print(f"::warning::no comment could be written: {error}; its job needs `permissions: pull-requests: write`")
    return 0


if __name__ == "__main__":
    sys.exit(main())
