"""Files of answers: an annotator's page, Label Studio's exports, sheets; the kind is recognised by the content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tellapart.annotate.label_studio import read_export
from tellapart.annotate.page import read_page_answers
from tellapart.annotate.replies import Reply, field_names
from tellapart.annotate.sheets import read_sheet
from tellapart.annotate.survey import Study, Survey
from tellapart.data.compressed import plain_suffix
from tellapart.data.rows import read_json
from tellapart.errors import DataError


def read_replies(path: Path, survey: Survey, study: Study, columns: Mapping[str, str] | None = None) -> Iterator[Reply]:
    """Yield the replies of a file: `.json` that a page saved or Label Studio exported, or a `.csv` sheet or table."""
    if plain_suffix(path) == ".csv":
        yield from read_sheet(path, survey, study, columns or {})
    elif plain_suffix(path) == ".json":
        content = read_json(path)
        if isinstance(content, Mapping) and "tellapart_answers" in content:
            yield from read_page_answers(content, str(path))
        else:
            yield from read_export(content, str(path), field_names(survey, study))
    else:
        raise DataError(
            f"{path}: answers are read from the .json files that pages save and Label Studio exports, and from .csv "
            "sheets and tables"
        )
