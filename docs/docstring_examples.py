"""A griffe extension: examples in docstrings are code blocks in the API reference, without a heading."""

import re
from typing import Any

from griffe import Extension, Object


class ExamplesAsCode(Extension):
    """Fences the examples of every docstring before it is read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Fence the examples of one object's docstring."""
        if obj.docstring is not None:
            obj.docstring.value = fence_examples(obj.docstring.value)


def fence_examples(text: str) -> str:
    """Return a docstring with each run of lines from `>>>` to the next empty line in a code block.

    >>> print(fence_examples("Add.\\n\\n>>> 1 + 1\\n2\\n\\nMore."))
    Add.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    <BLANKLINE>
    More.
    """
    return re.sub(r"^( *)>>> .*(\n *\S.*)*", r"\1```pycon\n\g<0>\n```", text, flags=re.MULTILINE)
