"""Write into the documents what the commands print, and the tables that the code declares.

    python docs/generate.py          writes README.md and docs/*.md again
    python docs/generate.py --check  changes nothing; exits with 1 and a diff where a document no longer says what is so

A document marks what is generated:

    <!-- run: tellapart ls models -->      the command and what it prints
    <!-- table: metrics -->                a table from the code
    <!-- end -->
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(<!-- (run|table): (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def printed(command: str, folder: Path) -> str:
    """Run one command line of ours in a folder that is kept from block to block, and show it with its output."""
    program, *arguments = shlex.split(command.split(" | ", maxsplit=1)[0])
    assert program == "tellapart", command
    environment = {
        **os.environ,
        "NO_COLOR": "1",
        "TERM": "dumb",
        "COLUMNS": "110",
        "TELLAPART_CACHE": str(folder / "cache"),
        "PYTHONWARNINGS": "error",
    }
    line = [sys.executable, "-m", "tellapart", *arguments]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).rstrip().splitlines()
    if last := re.search(r"\| tail -n (\d+)$", command):
        lines = lines[-int(last[1]) :]
    if first := re.search(r"\| head -n (\d+)$", command):
        lines = lines[: int(first[1])]
    shown = "\n".join(line.rstrip() for line in lines)
    return f"```console\n$ {command}\n{shown}\n```\n"


def metrics_table() -> str:
    """Every metric as the registry declares it."""
    from tellapart.metrics.registry import METRICS

    rows = ["| metric | what | items | scores | chance | source |", "|---|---|---|---|---|---|"]
    for metric in METRICS.values():
        kinds = "any" if len(metric.kinds) == 3 else ", ".join(sorted(metric.kinds))
        chance = "1 / number of choices" if callable(metric.chance_level) else metric.chance_level
        shown = "none" if chance is None else f"{chance:.4g}" if isinstance(chance, float) else chance
        rows.append(
            f"| `{metric.name}` | {metric.title} | {', '.join(metric.shapes)} | {kinds} | {shown} | {metric.source} |"
        )
    return "\n".join(rows) + "\n"


def benchmarks_table() -> str:
    """Every benchmark as it declares itself, and what its size can show."""
    from tellapart.benchmarks.benchmark import find_benchmark
    from tellapart.catalog import BENCHMARKS
    from tellapart.metrics.registry import METRICS, defined_for, headline
    from tellapart.stats.power import detectable_above_chance, detectable_difference

    rows = [
        "| benchmark | items | n | metric | chance | above chance | difference | resampled together | a tie, in its own code |",
        "|---|---|--:|---|--:|--:|--:|---|---|",
    ]
    for name in BENCHMARKS:
        one = find_benchmark(name)
        metric = METRICS[headline({metric.name for metric in defined_for(one.shape, "similarity")})[-1]]
        chance = metric.chance(one.shape)
        assert chance is not None
        above, between = detectable_above_chance(one.items, chance), detectable_difference(one.items, 0.2)
        assert above is not None
        assert between is not None
        rows.append(
            f"| `{name}` | {one.shape[0]}x{one.shape[1]} | {one.items:,} | `{metric.name}` | {100 * chance:.1f} | "
            f"{100 * above:.1f} | {100 * between:.1f} | {one.cluster} | {one.ties} |"
        )
    return "\n".join(rows) + "\n"


def sources_table() -> str:
    """Where each benchmark's files come from, and which it needs."""
    from tellapart.benchmarks.benchmark import find_benchmark
    from tellapart.catalog import BENCHMARKS

    rows = [
        "| benchmark | files (`a\\|b`: one of them) | images | hub, at revision | licence |",
        "|---|---|---|---|---|",
    ]
    for name in BENCHMARKS:
        one = find_benchmark(name)
        files = ", ".join(f"`{file}`".replace("|", "\\|") for file in one.files) or "embedded"
        hub = "" if one.hub is None else f"[{one.hub.repo}]({one.hub.page}) `{one.hub.revision[:12]}`"
        rows.append(
            f"| [`{name}`]({one.source}) | {files} | {one.images} | {hub}{' (gated)' if one.hub and one.hub.gated else ''} | {one.licence} |"
            if one.files
            else f"| `{name}` | {files} | {one.images or 'embedded'} | | {one.licence} |"
        )
    return "\n".join(rows) + "\n"


TABLES: dict[str, Callable[[], str]] = {
    "metrics": metrics_table,
    "benchmarks": benchmarks_table,
    "sources": sources_table,
}


def generated(text: str, folder: Path) -> str:
    """Fill every marked block of a document."""

    def fill(match: re.Match[str]) -> str:
        kind, what = match[2], match[3]
        return match[1] + (printed(what, folder) if kind == "run" else TABLES[what]()) + match[4]

    return BLOCK.sub(fill, text)


def main() -> int:
    """Write the documents, or check them."""
    check = "--check" in sys.argv[1:]
    stale = False
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        old = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as scratch:
            new = generated(old, Path(scratch))
        if new == old:
            continue
        stale = True
        if check:
            name = str(path.relative_to(ROOT))
            sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), name, "now"))
        else:
            path.write_text(new, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return int(check and stale)


if __name__ == "__main__":
    sys.exit(main())
