"""Write a page of findings again, with its picture, from the published data.

    python -m examples.findings PAGE --data DIR     writes docs/findings/PAGE.md and PAGE.svg
    python -m examples.findings counts --data DIR   writes counts.json, which tests read without DIR
    python -m examples.findings index               writes docs/findings.md from the pages' answers

DIR holds a folder for each source (`sugarcrepe`, `winoground_scores`, `vl_compo`, ...); a page names its files and
their SHA-256.
"""

import argparse
from pathlib import Path

from examples.findings.counts import write_counts
from examples.findings.pages import PAGES, count_published, index_page, write_page

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", choices=[*PAGES, "counts", "index", "all"])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    given = parser.parse_args()
    if given.page in {"counts", "all"}:
        write_counts(count_published(given.data))
    for name in PAGES if given.page == "all" else [given.page]:
        if name in PAGES:
            write_page(PAGES[name](given.data))
    index_page()
