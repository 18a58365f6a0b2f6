"""What pydantic refused is told in one line: the field's place, what is wrong there, and what stands there."""

from typing import Self

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from facts import check_facts
from tellapart.board.submissions.hidden import HiddenBenchmark, SubmissionSettings
from tellapart.builders.negatives.language_negatives import ChatOptions
from tellapart.data.validation import list_problems
from tellapart.models.onnx.dual_encoder import OnnxConfig


class Box(BaseModel):
    model_config = ConfigDict(extra="forbid")

    corners: list[int] = Field(min_length=2)
    name: str = Field(default="box", min_length=1)
    tags: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.corners[0] > self.corners[1]:
            raise ValueError("the left corner lies right of the right one")
        return self


class Page(BaseModel):
    boxes: tuple[Box, ...]


@pytest.mark.parametrize(
    ("box", "said"),
    [
        ({}, "field 'boxes[0].corners': is missing"),
        ({"corners": []}, "field 'boxes[0].corners': is empty, got []"),
        ({"corners": [1]}, "field 'boxes[0].corners': list should have at least 2 items after validation, not 1, got "),
        ({"corners": [1, "x"]}, "field 'boxes[0].corners[1]': input should be a valid integer"),
        ({"corners": "ab"}, "field 'boxes[0].corners': expected a list, got 'ab'"),
        ({"corners": [1, 2], "name": 7}, "field 'boxes[0].name': expected a string, got 7"),
        ({"corners": [1, 2], "name": ""}, "field 'boxes[0].name': is empty, got ''"),
        ({"corners": [1, 2], "colour": "red"}, "field 'boxes[0].colour': is unknown, got 'red'"),
        ({"corners": [1, 2], "tags": []}, "field 'boxes[0].tags': expected an object, got []"),
        ({"corners": [1, 2], "tags": {1: "x"}}, "field 'boxes[0].tags[1]': expected a string, got 1"),
        ({"corners": [2, 1]}, "field 'boxes[0]': the left corner lies right of the right one, got "),
        ({"corners": "x" * 999}, f"field 'boxes[0].corners': expected a list, got '{'x' * 59}"),
    ],
)
def test_a_problem_names_the_field_what_is_wrong_and_what_stands_there(box, said):
    with pytest.raises(ValidationError) as caught:
        Page.model_validate({"boxes": [box]})
    assert str(list_problems(caught.value)[0]).startswith(said)
    assert len(str(list_problems(caught.value)[0])) < 200


def test_a_problem_of_the_whole_has_no_field():
    with pytest.raises(ValidationError) as caught:
        Box.model_validate({"corners": [2, 1]})
    (problem,) = list_problems(caught.value)
    assert (problem.field, str(problem)) == ("", "the left corner lies right of the right one")


@pytest.mark.parametrize(
    ("model", "name"),
    [
        *((HiddenBenchmark, name) for name in ("largest_share", "step")),
        *((SubmissionSettings, "session_hours"), (ChatOptions, "timeout"), (OnnxConfig, "logit_scale")),
    ],
)
@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_setting_without_bounds_is_a_finite_number(model, name, value):
    with pytest.raises(ValidationError) as caught:
        model.model_validate({name: value})
    (problem,) = [problem for problem in list_problems(caught.value) if problem.field == name]
    check_facts(str(problem), "finite", value)
