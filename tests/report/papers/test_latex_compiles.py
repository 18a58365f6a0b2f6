"""Every table in LaTeX compiles with a real pdflatex under the preamble that it names, whatever models are called."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tellapart.report.paper_tables import table as written
from tellapart.report.paper_tables.layouts import lay_out
from tellapart.report.paper_tables.table import (
    PaperTable,
    TableCell,
    TableColumn,
    TableRow,
    fit_width,
    latex_packages,
    latex_text,
    write_latex,
)

ENGINES = [
    pytest.param(engine, marks=pytest.mark.skipif(shutil.which(engine) is None, reason=f"no {engine} on the PATH"))
    for engine in ("pdflatex", "xelatex")
]

NAMES = (
    "".join(map(chr, range(32, 127))),
    "[new] model",
    "*best*",
    "--- a--b ``c'' ?` !` ,, 'd'",
    "β-CLIP: ΑΩω",
    "Čelišće, naïve, Øre, ş, ț – “it’s” → 5 €",
    "Dąb « þing »",
    "模型-7B Кот 🤖 x̂ é",
    "z\u200bw \u202e\x07\ufeff \ue000\ufffd",
    "two\nlines\u00a0and\ttabs",
    "",
)


@pytest.fixture
def typeset(tmp_path: Path) -> Callable[..., str]:
    """Compile a table as its first lines say, and return its text; an error or a sign without a glyph fails."""

    def compile_(latex: str, engine: str = "pdflatex") -> str:
        preamble = re.findall(r"^% (\\usepackage.*)$", latex, re.MULTILINE)
        lines = [r"\documentclass{article}", *preamble, r"\begin{document}", latex, r"\end{document}", ""]
        (tmp_path / "paper.tex").write_text("\n".join(lines), encoding="utf-8")
        command = [engine, "-halt-on-error", "-interaction=nonstopmode", "paper.tex"]
        done = subprocess.run(
            command, check=False, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120
        )
        assert done.returncode == 0, done.stdout[-3000:]
        log = (tmp_path / "paper.log").read_text(encoding="utf-8", errors="replace")
        assert "Overfull \\hbox" not in log
        if engine == "pdflatex":  # another engine says so where its font has no such letter
            assert "Missing character" not in log
        return log

    return compile_


def table_of(names: tuple[str, ...], columns: int = 3, *, bounds: bool = True) -> PaperTable:
    numbers = np.random.default_rng(0).uniform(10, 90, (len(names), columns))
    rows = [
        TableRow(
            name,
            tuple(
                TableCell(n, n - 5, n + 5, best=not k, near=k > 1) if bounds else TableCell(n)
                for k, n in enumerate(row)
            ),
        )
        for name, row in zip(names, numbers, strict=True)
    ]
    rows.append(TableRow("chance", (TableCell(None),) * columns, plain=True))
    heads = tuple(TableColumn(f"{names[0]} {place // 3}", f"small-quant_{place}") for place in range(columns))
    # A caption breaks between words, and the first name has none.
    return PaperTable(" ".join(names[1:]), ("model",), heads, tuple(rows), notes=("dagger: a", *names[1:]))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("columns", [3, 6, 16])
def test_a_table_compiles_and_fits_whatever_its_models_are_called(typeset, engine, columns) -> None:
    for intervals in (False, True):
        typeset(write_latex(table_of(NAMES, columns), intervals=intervals), engine)


@pytest.mark.parametrize("engine", ENGINES[:1])
def test_every_letter_that_is_left_as_it_is_has_a_glyph(typeset, engine) -> None:
    letters = sorted(written._KNOWN | written._T1 | set(written._GREEK))
    rows = [rf"{latex_text(''.join(letters[place : place + 40]))} \\" for place in range(0, len(letters), 40)]
    lines = fit_width([r"\begin{tabular}{l}", *rows, r"\end{tabular}"])
    typeset("\n".join([*latex_packages("\n".join(lines)), *lines]), engine)


@pytest.mark.parametrize("engine", ENGINES[:1])
@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="no pdftotext on the PATH")
def test_what_a_reader_sees_is_the_name(typeset, engine, tmp_path) -> None:
    names = ("a & 50% of $x$ #1 {y}", "*best*", "[new] a--b ?", "模型 z\u200bw", "C:\\d")
    typeset(write_latex(table_of(names)), engine)
    command = ["pdftotext", "-layout", "paper.pdf", "-"]
    seen = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout.decode()
    lines = [line.strip() for line in seen.splitlines()]
    for name in (*names[:3], "[U+6A21 U+578B] z[U+200B]w", "C:\\d"):
        assert any(re.match(rf"{re.escape(name)}  +\d", line) for line in lines), seen


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES[:1])
def test_every_layout_compiles(typeset, engine, save, vlue, vlue_costs, publish) -> None:
    subsets = ("youcook2", "gebc", "ag", "kubric_location", "kubric_attribute", "kubric_counting", "sd")
    tags = [{"subset": value} for value in subsets]
    numbers = {("coco-captions", "bleu_4"): 0.399, ("coco-captions", "cider"): 1.34}
    recalls = {("coco-retrieval", f"{side}_recall@{k}"): k / 20 for side in ("i2t", "t2i") for k in (1, 5, 10)}
    tables = {
        "a paper's own": lay_out(
            [save(name, seed=k, benchmark="eqben", tags=tags, n=70) for k, name in enumerate("ab")]
        ),
        "none": lay_out([save("flat", scores=np.full((30, 2, 2), 0.5, np.float32)), save("b_c")]),
        "retrieval": lay_out([publish("m", recalls, "retrieval")]),
        "vlue": lay_out(vlue, "vlue"),
        "vlue-captions": lay_out([publish("m_1", numbers, "captions")], "vlue-captions"),
        "vlue-cost": lay_out(vlue, "vlue-cost", costs=vlue_costs),
        "many benchmarks": lay_out(
            [save(f"m_{k}", seed=k, benchmark=name) for name in ("winoground", "a_b") for k in range(2)], average=True
        ),
    }
    for table in tables.values():
        typeset("\n".join(write_latex(table, intervals=intervals) for intervals in (False, True)), engine)


def test_the_first_lines_name_the_packages_and_what_pdflatex_cannot_print() -> None:
    plain, polish, chinese = (write_latex(table_of((name,))).splitlines() for name in ("a", "ą", "模"))
    assert plain[:3] == [r"% \usepackage{booktabs}", r"% \usepackage{graphicx}", r"\begin{table}[t]"]
    assert polish[2] == r"% \usepackage[T1]{fontenc}"
    assert chinese[2].startswith("% pdflatex prints code points")


def test_two_names_that_pdflatex_cannot_print_stay_two_names() -> None:
    assert latex_text("模型") != latex_text("数据")
    assert latex_text("a\u200b") != latex_text("a\u200c")
