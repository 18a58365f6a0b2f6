"""The commands of `tellapart annotate`: export a survey, import its answers, see how people agree."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellapart.cli.once import OnceCommand
from tellapart.cli.options import BenchmarkName, Columns, Data, Images, Json, Outside, columns_of, print_json
from tellapart.report.terminal import print_text

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")


@app.callback()
def _group_commands() -> None:
    """Human studies: surveys as pages, for Label Studio or as spreadsheets, their answers, and how people agree."""


@app.command("export", cls=OnceCommand)
def export_command(
    survey: Annotated[str, typer.Argument(help="A survey (`tellapart annotate ls`).")],
    pairs: BenchmarkName,
    to: Annotated[Path, typer.Option("--to", help="The study's folder; new or empty.")],
    annotators: Annotated[str, typer.Option("--annotators", help="How many (3), or their names (ann,bob).")] = "1",
    each: Annotated[
        int | None,
        typer.Option("--each", min=1, help="How many annotators see each unit; all if not given."),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option("--sample", min=1, help="Ask of so many items, drawn at random; of all if not given."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the sample, the orders and the sides.")] = 0,
    after: Annotated[
        Path | None,
        typer.Option("--after", help="The earlier study's folder (error-category: coco-cf; expression: box)."),
    ] = None,
    embed: Annotated[
        bool, typer.Option("--embed", help="Put the images into Label Studio's tasks; needs no file serving.")
    ] = False,
    prefix: Annotated[
        str, typer.Option("--prefix", help="The folder's path below Label Studio's local files; its name if not given.")
    ] = "",
    data: Data = None,
    images: Images = None,
    outside_images: Outside = False,
    as_json: Json = False,
) -> None:
    """Write a survey of a pair set: pages, Label Studio projects and spreadsheets, one an annotator, and the key.

    Example: `tellapart annotate export match folder:my_pairs --to study`
    """
    from tellapart.annotate.study import annotate_export

    written = annotate_export(
        survey,
        pairs,
        to,
        annotators=annotators,
        each=each,
        sample=sample,
        seed=seed,
        after=after,
        embed=embed,
        prefix=prefix,
        data=data,
        images=images,
        outside_images=outside_images,
    )
    study, largest = written.study, written.largest
    if as_json:
        counts = {"units": len(study.units), "tasks": len(study.tasks), "annotators": study.annotators}
        counts |= {"pages": str(to / "pages") if largest else None}
        return print_json({"to": str(to), "survey": written.survey, **counts})
    print_text(f"{len(study.units):,} units, {len(study.tasks):,} tasks for {', '.join(study.annotators)} in {to}")
    if largest:
        size = f"{largest / 1e6:.1f} MB at most"
        print_text(f"pages: {to}/pages/NAME.html ({size}), to open in a browser, offline; each saves a file of answers")
    else:
        print_text("pages: none, an annotator's pictures take over 100 MB; give fewer tasks (--each, --sample), or:")
    print_text(f"Label Studio: a project an annotator, with {to}/label_studio/config.xml and tasks_NAME.json")
    if not embed:
        print_text(
            f"  its images need LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true and "
            f"LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT={to.resolve().parent}, and the folder as local storage; or --embed"
        )
    print_text(
        f"spreadsheets: {to}/sheets/NAME.csv, with {to}/images beside; keep study.json to yourself: it is the key"
    )
    return print_text(f"then: tellapart annotate import {to} ANSWERS...")


@app.command("import", cls=OnceCommand)
def import_command(
    study: Annotated[Path, typer.Argument(help="The study's folder.")],
    files: Annotated[
        list[Path],
        typer.Argument(help="What pages saved, Label Studio's exports (JSON, JSON_MIN), sheets and tables (CSV)."),
    ],
    partial: Annotated[bool, typer.Option("--partial", help="Tasks without an answer are no error.")] = False,
    answer_list: Annotated[
        Path | None,
        typer.Option("--answer-list", help="question: the answers that are allowed, a JSON list or a line each."),
    ] = None,
    records: Annotated[
        Path | None,
        typer.Option("--records", help="Also write what the answers make for a benchmark: .json or .jsonl."),
    ] = None,
    columns: Columns = None,
    as_json: Json = False,
) -> None:
    """Add answers to those in a study's folder, strictly: nothing is guessed, dropped or taken twice.

    Example: `tellapart annotate import study answers.json`
    """
    from tellapart.annotate.study import annotate_import

    read = annotate_import(
        study, files, partial=partial, answer_list=answer_list, records=records, columns=columns_of(columns)
    )
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


@app.command("agree", cls=OnceCommand)
def agree_command(
    studies: Annotated[list[Path], typer.Argument(help="Study folders with answers, of one pair set.")],
    groups: Annotated[
        Path | None,
        typer.Option("--groups", help='Groups of altered words, as JSON: {"human": ["girl", ...]}.'),
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option("--scores", help="Also write people's answers as scores, for `tellapart score` (.npz)."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the bootstrap.")] = 0,
    as_json: Json = False,
) -> None:
    """Show how people agree, their errors, and the human row of a results table.

    Example: `tellapart annotate agree study`
    """
    from tellapart.annotate.findings import annotate_agree, print_findings

    agreement = annotate_agree(studies, groups=groups, scores=scores, seed=seed)
    if as_json:
        return print_json(agreement.model_dump(mode="json"))
    print_findings(agreement)
    if scores:
        print_text(f"people's scores are in {scores}; tellapart score BENCHMARK --scores {scores} --name human")
    return None


@app.command("ls", cls=OnceCommand)
def ls_command(as_json: Json = False) -> None:
    """List the surveys.

    Example: `tellapart annotate ls`
    """
    from tellapart.annotate.surveys import annotate_ls

    surveys = annotate_ls()
    if as_json:
        return print_json(surveys)
    wide = max(len(survey["name"]) for survey in surveys)
    for each in surveys:
        print_text(f"{each['name']:<{wide}}  {each['title']} ({each['source']})")
    return None
