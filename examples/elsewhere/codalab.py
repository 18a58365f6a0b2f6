"""Write a board file from the bundle of a CodaLab or Codabench competition.

    python -m examples.elsewhere.codalab BUNDLE --name clocks --pairs DIR --out board.toml
    python -m examples.elsewhere.codalab BUNDLE --name wino --benchmark winoground --data DIR --out board.toml

BUNDLE is the folder with `competition.yaml`. Its scoring program is not run: tellapart measures the hidden benchmark
itself, so the reference data must be a pair set's folder (`--pairs`), or a benchmark of the catalogue with its files.
What the board file has no place for is printed.
"""

import argparse
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

#: Fields of a bundle that a board file has, or that say nothing to it.
_KNOWN = {"version", "title", "description", "phases", "end_date", "start_date"}


def read_bundle(folder: Path) -> dict[str, Any]:
    """Read `competition.yaml`; YAML tags that would run code are refused."""
    path = folder / "competition.yaml"
    if not path.is_file():
        raise SystemExit(f"{path} is missing; name the folder of the unpacked bundle")
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict) or not found.get("phases"):
        raise SystemExit(f"{path} has no phases; it is not a competition's file")
    return found


def convert_bundle(bundle: Mapping[str, Any], name: str, source: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the board file of a hidden benchmark, and a line for everything that did not carry over.

    The last phase decides: its limits, and its end, or that of the competition. CodaLab has phases by number, Codabench
    a list. `source` has `pairs`, or `benchmark`, `data` and `images`.
    """
    found = bundle["phases"]
    phases = [found[key] for key in sorted(found)] if isinstance(found, dict) else list(found)
    last = phases[-1]
    title = str(bundle.get("title", name)).strip()
    board = [f"title = {json.dumps(title, ensure_ascii=False)}"]
    if about := str(bundle.get("description") or "").strip():
        board.append(f"about = {json.dumps(about, ensure_ascii=False)}")
    hidden = [f"name = {json.dumps(name)}", f"title = {json.dumps(title, ensure_ascii=False)}"]
    hidden += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in source.items() if value]
    for theirs, ours in (("max_submissions_per_day", "daily"), ("max_submissions", "total")):
        if last.get(theirs):
            hidden.append(f"{ours} = {int(last[theirs])}")
    if end := last.get("end") or last.get("end_date") or bundle.get("end_date"):
        closes = datetime.fromisoformat(str(end))  # a day begins at midnight, and without a zone it is UTC
        hidden.append(f"closes = {(closes if closes.tzinfo else closes.replace(tzinfo=UTC)).isoformat()}")
    lines = ["[board]", *board, "", "[submissions]", 'state = "state"', "", "[[hidden]]", *hidden]
    lost = [f"phase {phase.get('label') or phase.get('name') or k!r}" for k, phase in enumerate(phases[:-1], 1)]
    programs = {"scoring_program", "ingestion_program", "reference_data"}
    lost += [f"{program} of the last phase" for program in sorted(programs & set(last))]
    return "\n".join(lines) + "\n", lost + sorted(set(bundle) - _KNOWN)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--name", required=True, help="of the hidden benchmark")
    for option in ("pairs", "benchmark", "data", "images"):
        parser.add_argument(f"--{option}", default="", help="as in a board file; relative to it")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    if bool(given.pairs) == bool(given.benchmark):
        parser.error("give --pairs or --benchmark")
    sources = {key: getattr(given, key) for key in ("pairs", "benchmark", "data", "images")}
    text, left = convert_bundle(read_bundle(given.bundle), given.name, sources)
    given.out.write_text(text, encoding="utf-8")
    for line in left:
        print(f"not carried over: {line}")
