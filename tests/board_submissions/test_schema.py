"""No request made from the OpenAPI document gets a server error."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

MakeBoard = Callable[..., Any]


@pytest.mark.slow
@pytest.mark.parametrize("user", ["root", "nobody"])
def test_no_request_made_from_the_schema_breaks_the_server(
    board: MakeBoard, schemathesis: ModuleType, user: str
) -> None:
    often = {"requests_a_minute": 10**6, "sign_ins_a_minute": 10**6}
    made = board(4, limits={"daily": 10**4, "total": 10**4, "largest_share": 1e6}, settings=often)
    signed = made.of(user) if user in made.tokens else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # schemathesis's own
        schema = schemathesis.openapi.from_asgi("/openapi.json", made.client.app)
        operations = [result.ok() for result in schema.get_all_operations()]
        assert len(operations) == 14
        for operation in operations:

            @settings(max_examples=3, deadline=None, database=None, suppress_health_check=list(HealthCheck))
            @given(case=operation.as_strategy())
            def ask(case: Any) -> None:
                answer = case.call(headers={**(case.headers or {}), **signed})
                assert answer.status_code < 500, answer.text

            ask()
