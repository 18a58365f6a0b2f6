"""Plain words: few of those that strangers stumble over, and functions called by a verb and its object.

The words are counted in docstrings without their examples, in comments, in the texts of raised errors, in the README
and in the documents. A ceiling is lowered whenever the rate has fallen, and never raised.
"""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from syntax import parse_source, walk_statements

ROOT = Path(__file__).parents[1]


#: Words, and how often they may occur in 1,000: about the rates of httpx, torchmetrics, inspect_ai and mteb, with room.
CEILINGS = {
    "what": (r"\bwhat\b", 1.5), "says, told": (r"\b(says?|said|tells?|told)\b", 0.3),
    "is no": (r"\b(is|are|was|were|be) no\b(?! longer)", 0.5), "where": (r"\bwhere\b", 2.0), "own": (r"\bown\b", 1.0),
    "beside": (r"\bbesides?\b", 0.7), "whole": (r"\bwhole\b", 0.5),
    "at hand, be had, anew": (r"\b(at hand|be had|anew)\b", 0.1),
}  # fmt: skip

#: Per cent of the functions' names that are one word, at most.
MOST_ONE_WORD = 34


def read_prose(source: str) -> Iterator[str]:
    """Yield the docstrings of a module without their examples, its comments, and the texts of its raised errors."""
    for node in walk_statements(parse_source(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield re.sub(r"^ *(>>>|\.\.\.).*$", "", ast.get_docstring(node) or "", flags=re.MULTILINE)
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            texts = (each.value for each in ast.walk(node.exc) if isinstance(each, ast.Constant))
            yield from (text for text in texts if isinstance(text, str))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.lstrip("#: ")


def list_functions(source: str) -> Iterator[str]:
    """Yield the names of a module's functions and methods, but not those of Python's protocols."""
    for node in walk_statements(parse_source(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not re.fullmatch("__.*__", node.name):
            yield node.name.lstrip("_")


@pytest.fixture(scope="module")
def sources() -> dict[Path, str]:
    """The text of every module of every package."""
    return {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py"))}


@pytest.fixture(scope="module")
def prose(sources) -> dict[Path, str]:
    """The prose of every module and document."""
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    written = {path: re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL) for path in documents}
    return {path: "\n".join(read_prose(source)) for path, source in sources.items()} | written


def test_words_that_strangers_stumble_over_are_rare(prose):
    words, over = sum(len(re.findall(r"[A-Za-z']+", text)) for text in prose.values()), []
    for name, (pattern, most) in CEILINGS.items():
        found = Counter({path: len(re.findall(pattern, text, re.IGNORECASE)) for path, text in prose.items()})
        rate = 1000 * found.total() / words
        if rate > most:
            places = ", ".join(f"{path.relative_to(ROOT)} {count}" for path, count in found.most_common(5))
            over.append(f"{name}: {rate:.2f} in 1,000 words, at most {most}; most in {places}")
    assert over == []


def test_most_functions_are_called_by_more_than_one_word(sources):
    names = [name for source in sources.values() for name in list_functions(source)]
    often = ", ".join(f"{name} {count}" for name, count in Counter(n for n in names if "_" not in n).most_common(20))
    assert 100 * sum("_" not in name for name in names) / len(names) <= MOST_ONE_WORD, often


def test_words_are_counted_as_words():
    text = "What it says is no longer told. Nowhere; its owner owns it, and there is no other."
    counts = {name: len(re.findall(pattern, text, re.IGNORECASE)) for name, (pattern, _) in CEILINGS.items()}
    assert {name: count for name, count in counts.items() if count} == {"what": 1, "says, told": 2, "is no": 1}
