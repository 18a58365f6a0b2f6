"""Text of LaTeX tables: escaped for every engine, with a width that fits and the packages a document needs."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import groupby

_COMMANDS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\char34{}",  # \textquotedbl is not in LaTeX's first encoding
    # After a line's end, a bracket or a star would be read as part of the line.
    "[": "{[}",
    "*": "{*}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}

#: Ligatures if they follow each other: two hyphens are a dash, a question mark and an accent another mark.
_JOINED = frozenset("-`',?!")

#: Letters that pdflatex has in the encoding T1 only.
_T1 = frozenset("«»ÐÞðþĄąĐđĘęĮįŊŋŲų")

#: Letters that pdflatex sets in any document.
_KNOWN = frozenset(map(chr, range(0xA1, 0x17F))) - _T1 - frozenset("\xadĦħĸĿŀŉŦŧ") | frozenset("ȘșȚț–—‘’“”†‡•…€™←↑→↓")

#: Mathematics has them in every engine; capitals that look like Latin letters have no command.
_GREEK_COMMANDS = r"""
    \alpha \beta \gamma \delta \epsilon \zeta \eta \theta \iota \kappa \lambda \mu \nu \xi o \pi \rho \varsigma
    \sigma \tau \upsilon \phi \chi \psi \omega \mathrm{A} \mathrm{B} \Gamma \Delta \mathrm{E} \mathrm{Z} \mathrm{H}
    \Theta \mathrm{I} \mathrm{K} \Lambda \mathrm{M} \mathrm{N} \Xi \mathrm{O} \Pi \mathrm{P} \Sigma \mathrm{T}
    \Upsilon \Phi \mathrm{X} \Psi \Omega
"""
_GREEK = dict(zip("αβγδεζηθικλμνξοπρςστυφχψωΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩ", _GREEK_COMMANDS.split(), strict=True))


def latex_text(text: str) -> str:
    r"""Return text that pdflatex, xelatex and lualatex print unchanged.

    Letters that pdflatex lacks (Chinese, Cyrillic, emoji) are printed by the other two, and as code points by
    pdflatex; unprintable characters are their code points everywhere. Line ends and runs of spaces become one space.

    >>> latex_text("a_b & 50%"), latex_text("\\"), latex_text("[new] β-CLIP -- é")
    ('a\\_b \\& 50\\%', '\\textbackslash{}', '{[}new] \\ensuremath{\\beta}-CLIP -{}- é')
    >>> print(latex_text("模型\u200b"))
    \ifdefined\Umathcode 模型\else{[}U+6A21 U+578B]\fi{}{[}U+200B]
    """
    letters = unicodedata.normalize("NFC", " ".join(text.split()))
    return "".join(_WRITERS[kind]("".join(run)) for kind, run in groupby(letters, key=_letter_kind))


def fit_width(tabular: Sequence[str]) -> list[str]:
    r"""Return the lines of a tabular that is made smaller if it would be wider than the text."""
    *lines, last = tabular
    return [r"\noindent\resizebox{\ifdim\width>\linewidth \linewidth\else\width\fi}{!}{%", *lines, f"{last}}}"]


def latex_packages(latex: str) -> list[str]:
    r"""Return the lines, as comments, that a document's preamble must hold for a table.

    >>> latex_packages("a & 1.0"), latex_packages("ą")[2:]
    (['% \\usepackage{booktabs}', '% \\usepackage{graphicx}'], ['% \\usepackage[T1]{fontenc}'])
    """
    lines = [r"% \usepackage{booktabs}", r"% \usepackage{graphicx}"]
    if _T1 & frozenset(latex):
        lines.append(r"% \usepackage[T1]{fontenc}")
    if r"\ifdefined\Umathcode" in latex:
        lines.append(
            "% pdflatex prints code points, [U+...]; xelatex or lualatex and a font that has them print the letters"
        )
    return lines


def _letter_kind(letter: str) -> str:
    if not letter.isprintable():
        return "hidden"
    return "known" if letter.isascii() or letter in _KNOWN or letter in _T1 or letter in _GREEK else "foreign"


def _write_known(run: str) -> str:
    written = []
    for letter, following in zip(run, f"{run[1:]} ", strict=True):
        separator = "{}" if letter in _JOINED and following in _JOINED else ""
        greek = rf"\ensuremath{{{_GREEK[letter]}}}" if letter in _GREEK else letter
        written.append(_COMMANDS.get(letter, greek) + separator)
    return "".join(written)


def _write_foreign(run: str) -> str:
    # Both of the other engines have this command, and pdflatex has not.
    return rf"\ifdefined\Umathcode {run}\else{_write_hidden(run)}\fi{{}}"


def _write_hidden(run: str) -> str:
    return f"{{[}}{' '.join(f'U+{ord(letter):04X}' for letter in run)}]"


_WRITERS = {"known": _write_known, "foreign": _write_foreign, "hidden": _write_hidden}
