"""The page of what the ablation found: the answer, its picture, the tables, and how far they reach."""

from functools import partial

from examples.eqsim_ablation import results
from examples.eqsim_ablation.answer import advice, answer, name_rates, other_rates
from examples.eqsim_ablation.design_page import DESIGN, design_page, differences_there
from examples.eqsim_ablation.plan import Plan
from examples.findings.frame import FOLDER, write_pages_text
from tellapart.report.plots.style import write_picture

#: The page that is made of the record, and its picture.
PAGE = FOLDER / "eqsim-ablation.md"
PICTURE = PAGE.with_suffix(".svg")


def page(plan: Plan) -> str:
    """Return the page in markdown, of the pieces that the record has."""
    runs = results.runs_of(plan, plan.methods)
    rates = other_rates(plan, runs)
    plan = name_rates(plan, rates)
    compared, checked = results.against_first(plan, runs), results.check_rows(plan, runs)
    blocks = [results.render("introduction"), answer(plan, runs, compared, checked, rates)]
    if compared:
        alt = f"Differences from {plan.methods[0].title}, of the rows and of the checks' changes, with 95 % intervals"
        blocks.append(f"![{alt}]({PICTURE.name})")
    if any(runs.values()):
        known = {row.name for row in plan.methods}
        pairs = [(plan.row(one), plan.row(other)) for one, other in plan.contrasts if {one, other} <= known]
        gains = [each.gain for each in checked if each.gain is not None]
        rows = [*plan.methods, *(row for each in checked for row in each.rows)]
        every = {name: done for each in checked for name, done in each.runs.items()} | dict(runs)
        blocks += [results.scores_table(plan, every, rows), results.differences_table(plan, compared)]
        again = results.pairs_at_one_rate(plan, checked, pairs)
        blocks += [
            results.aspects_table(plan, runs, compared, gains),
            results.contrasts_table(results.compare_rows(plan, runs, pairs), again),
        ]
        blocks += [results.checks_text(checked)]
    blocks += [results.render("setting"), differences_there(plan), advice(plan, compared, checked, rates)]
    blocks += [f"**Next:** [Its design and its power](../{DESIGN.name})"]
    return write_pages_text(filter(None, blocks))


def write_ablation(plan: Plan) -> None:
    """Write the page, its picture, and the page of the design."""
    PAGE.write_text(page(plan), encoding="utf-8")
    DESIGN.write_text(design_page(plan), encoding="utf-8")
    runs = results.runs_of(plan, plan.methods)
    plan = name_rates(plan, other_rates(plan, runs))
    if compared := results.against_first(plan, runs):
        gains = [each.gain for each in results.check_rows(plan, runs) if each.gain is not None]
        write_picture(PICTURE, partial(results.draw_differences, plan, [*compared, *gains]))
