"""The commands of `tellapart annotate`: export a survey, import its answers, see how people agree."""

from __future__ import annotations

from tellapart.cli.command import Call, Commands
from tellapart.cli.options import BENCHMARK, Hint, Json, print_json
from tellapart.report.terminal import print_text

annotate_app = Commands(
    help="Human studies: surveys for Label Studio or as spreadsheets, their answers, and how people agree."
)


@annotate_app.declare("export", "annotate_export", survey="A survey (`tellapart annotate ls`).", pairs=BENCHMARK)
def _export(call: Call, *, as_json: Json = False) -> None:
    """Write a survey of a pair set: Label Studio projects and spreadsheets, one an annotator, and the key.

    Example: `tellapart annotate export match folder:my_pairs --to study`
    """
    written, to = call(), call.to
    study = written.study
    if as_json:
        counts = {"units": len(study.units), "tasks": len(study.tasks), "annotators": study.annotators}
        return print_json({"to": str(to), "survey": written.survey, **counts})
    print_text(f"{len(study.units):,} units, {len(study.tasks):,} tasks for {', '.join(study.annotators)} in {to}")
    print_text(f"Label Studio: a project an annotator, with {to}/label_studio/config.xml and tasks_NAME.json")
    if not call.embed:
        print_text(
            f"  its images need LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true and "
            f"LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT={to.resolve().parent}, and the folder as local storage; or --embed"
        )
    print_text(
        f"spreadsheets: {to}/sheets/NAME.csv, with {to}/images beside; keep study.json to yourself: it is the key"
    )
    return print_text(f"then: tellapart annotate import {to} ANSWERS...")


@annotate_app.declare(
    "import",
    "annotate_import",
    study="The study's folder.",
    files="Label Studio's exports (JSON, JSON_MIN), sheets and tables (CSV).",
    partial="Tasks without an answer are no error.",
    answer_list="question: the answers that are allowed, a JSON list or a line each.",
    records="Also write what the answers make for a benchmark: .json or .jsonl.",
)
def _import(call: Call, *, as_json: Json = False) -> None:
    """Add answers to those in a study's folder, strictly: nothing is guessed, dropped or taken twice.

    Example: `tellapart annotate import study answers.json`
    """
    read = call()
    if as_json:
        rows = [{"task": answer.task, "problems": answer.problems} for answer in read.broken]
        counts = {"answers": len(read.answers), "skipped": read.skipped, "of": read.of}
        return print_json({"to": str(read.to), **counts, "broken": rows})
    print_text(f"{len(read.answers):,} of {read.of:,} tasks answered, {read.skipped:,} of them skipped; in {read.to}")
    for answer in read.broken[:20]:
        print_text(f"  not used: task {answer.task}: {'; '.join(answer.problems)}")
    if read.broken:
        print_text(f"{len(read.broken):,} answers break a rule of the survey; they are kept, and not used")
    return None


@annotate_app.declare(
    "agree",
    "annotate_agree",
    studies="Study folders with answers, of one pair set.",
    groups='Groups of altered words, as JSON: {"human": ["girl", ...]}.',
    scores=Hint("Also write people's answers as scores, for `tellapart score` (.npz)."),
    seed="Of the bootstrap.",
)
def _agree(call: Call, *, as_json: Json = False) -> None:
    """Show how people agree, their errors, and the human row of a results table.

    Example: `tellapart annotate agree study`
    """
    from tellapart.annotate.findings import print_findings

    agreement = call()
    if as_json:
        return print_json(agreement.model_dump(mode="json"))
    print_findings(agreement)
    if call.scores:
        print_text(
            f"people's scores are in {call.scores}; tellapart score BENCHMARK --scores {call.scores} --name human"
        )
    return None


@annotate_app.declare("ls", "annotate_ls")
def _ls(call: Call, *, as_json: Json = False) -> None:
    """List the surveys.

    Example: `tellapart annotate ls`
    """
    surveys = call()
    if as_json:
        return print_json(surveys)
    wide = max(len(survey["name"]) for survey in surveys)
    for survey in surveys:
        print_text(f"{survey['name']:<{wide}}  {survey['title']} ({survey['source']})")
    return None
