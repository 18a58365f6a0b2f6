"""A small mistake in any metric fails a test.

A sample of all such mistakes here, every one of them with `make mutants`.
"""

import os
from pathlib import Path

import mutants
import pytest

from scripts import run_python

CI = Path(__file__).parents[1] / "ci"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="each mutant runs in a fork")
def test_no_mistake_of_a_sample_goes_unnoticed():
    run_python(CI / "mutate.py", "--sample", 12)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return a > b", {"return a >= b", "return a < b"}),
        ("return a == b", {"return a != b"}),
        ("return a - b", {"return a + b"}),
        ("return a & b", {"return a | b"}),
        ("return a and (not b)", {"return a or not b", "return a and b"}),
        ("return s[:, a, b]", {"return s[a, :, b]", "return s[:, b, a]"}),
        ("return s[:, a, a]", {"return s[a, :, a]"}),
        ("return s.max(axis=0)", {"return s.min(axis=0)", "return s.max(axis=1)"}),
        ("return s.sum(axis=1)", {"return s.prod(axis=1)", "return s.sum(axis=0)", "return s.sum(axis=2)"}),
        ("return sum(s)", set()),
        ("return (0, 1, 5, 2.5, True)", {f"return ({v})" for v in ("1, 1, 5, 2.5, True", "0, 0, 5, 2.5, True")}
         | {f"return (0, 1, {v})" for v in ("6, 2.5, True", "5, 3.5, True", "5, 2.5, False")}),
        ("if a < b:\n  return a", {"if a <= b:", "if a > b:"}),
        ("a -= b", {"a += b"}),
        ("return 'a' + f'{a + 1}'", set()),
        ("raise ValueError(1 + 1)", set()),
        ("return zip(a, b, strict=True)", set()),
    ],
)  # fmt: skip
def test_each_small_mistake_is_made_once(body, expected):
    source = f'def f(s: int, a: int, b: int) -> int:\n "It is > 1."\n {body}'
    found = list(mutants.mutants_of(Path("scores.py"), source))
    assert ({mutant.after for mutant in found}, len(found)) == (expected, len(expected))
    assert {(mutant.where, mutant.at_import) for mutant in found} <= {("scores.f", False)}


def test_a_mutant_is_the_module_with_its_mistake():
    method = "    def right(self, score, than=HALF):\n        return score > than\n"
    source = f"HALF = 0.5\n\nclass Rule:\n    least: int = 3\n\n{method}"
    found = {mutant.after: mutant for mutant in mutants.mutants_of(Path("rules.py"), source)}
    outcomes = {}
    for after, mutant in found.items():
        module: dict[str, object] = {}
        exec(mutant.code, module)  # noqa: S102
        right = [module["Rule"]().right(score) for score in (0.4, 0.5, 1.0)]
        outcomes[after] = (mutant.where, mutant.at_import, right)
    assert outcomes == {
        "HALF = 1.5": ("rules", True, [False, False, False]),
        "least: int = 4": ("rules.Rule", True, [False, False, True]),
        "return score >= than": ("rules.Rule.right", False, [False, True, True]),
        "return score < than": ("rules.Rule.right", False, [True, False, False]),
    }


def test_probes_name_the_functions_that_run():
    source = '''class Rule:
    def right(self, score):
        """Say so."""
        return max([score], key=lambda each: each)

    @property
    def least(self):
        return 3

def unused():
    pass
'''
    called: list[str] = []
    module: dict[str, object] = {"probe": called.append}
    exec(mutants.with_probes(Path("rules.py"), source, "probe"), module)  # noqa: S102
    rule = module["Rule"]()
    assert (rule.right(4), rule.least, rule.right.__doc__) == (4, 3, "Say so.")
    assert called == ["rules.Rule.right", "rules.Rule.least"]
