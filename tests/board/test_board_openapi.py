"""Whatever is sent to an address that the board declares: never a failure, and always what it declares."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tellapart.board.rendering import PAGES

SLUGS = st.one_of(
    st.sampled_from(["shapes", "good", "poor", "type", "group_score", "latency", "other"]),
    st.from_regex(r"\A[A-Za-z0-9._-]{1,20}\Z"),
    st.text(min_size=1, max_size=12).filter(lambda text: text.strip("./")),
)
NUMBERS = st.one_of(st.integers(-3, 70), st.integers(), st.sampled_from(["NaN", "1e9", "0x1"]))
QUERIES = st.dictionaries(
    st.sampled_from(["format", "a", "b", "x"]), st.sampled_from(["json", "html", "csv", "good", "<"])
)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", sorted(PAGES))
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_request_fails(client, name, data):
    from urllib.parse import quote

    path = PAGES[name].pattern
    for part in [part[1:-1] for part in path.split("/") if part.startswith("{")]:
        value = data.draw(NUMBERS if part in {"position", "page", "number"} else SLUGS)
        path = path.replace(f"{{{part}}}", quote(str(value), safe=""))
    found = client.get(path, params=data.draw(QUERIES), headers={"accept": "application/json"}, follow_redirects=False)
    assert found.status_code in {200, 303, 404, 422}, found.text
    if found.headers.get("content-type") == "application/json":
        json.loads(found.text)


@pytest.mark.slow
def test_schemathesis_finds_nothing(client, schemathesis):
    schema, seen = schemathesis.openapi.from_asgi("/openapi.json", client.app), set()
    for result in schema.get_all_operations():
        operation = result.ok()
        seen.add(operation.path)

        @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(case=operation.as_strategy())
        def try_one(case: object) -> None:
            case.call_and_validate(headers={"accept": "application/json"})

        try_one()
    assert {page.pattern for page in PAGES.values()} <= seen
