"""Write a page of findings again, with its picture, from the published data.

    python -m examples.findings PAGE --data DIR     writes docs/findings/PAGE.md and PAGE.svg
    python -m examples.findings index               writes docs/findings.md from the pages' answers

DIR holds a folder for each source (`sugarcrepe`, `winoground_scores`, `vl_compo`, ...); a page names its files and
their SHA-256.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from examples.findings.pages import PAGES, index_page, write_page

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", choices=[*PAGES, "index", "all"])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    given = parser.parse_args()
    for name in PAGES if given.page == "all" else [given.page]:
        if name != "index":
            write_page(PAGES[name](given.data))
    index_page()
