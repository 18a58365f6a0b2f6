"""Spreadsheet cells: text that others wrote stays text, and never runs as a formula."""

from __future__ import annotations

import re

#: The start of a cell that a program would run, if it splits the file at semicolons, tabs or line ends.
#: Full-width signs count as plain ones in East Asian versions.
_FORMULA = re.compile(r"""(?:^|(?<=[;\t\r\n]))(?=[\s"]*[=+\-@＝＋－＠]|[\t\r\n\0])""")


def spreadsheet_cell(content: str | float | None) -> str | float | None:
    """Return a cell for a CSV file: text that a spreadsheet would run gets an apostrophe before it.

    Numbers stay numbers, negative ones too. Remove the apostrophe when you read the text back.

    Source: OWASP ASVS 5.0, requirement 1.2.10; CWE-1236.

    >>> spreadsheet_cell("=HYPERLINK(1)"), spreadsheet_cell("a;-1"), spreadsheet_cell(-1.5), spreadsheet_cell("a-1")
    ("'=HYPERLINK(1)", "a;'-1", -1.5, 'a-1')
    """
    return _FORMULA.sub("'", content) if isinstance(content, str) else content
