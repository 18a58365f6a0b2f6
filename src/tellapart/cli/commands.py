"""Every command: its options beyond its function's parameters, and what it prints.

Modules of the rooms are imported when a command runs, so that `--help` answers at once.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tellapart.cli.command import Answer, Call, Commands, Json, command_line, new_run_folder, print_json
from tellapart.cli.once import name_options
from tellapart.cli.options import labels_of, read_mapping
from tellapart.errors import RunError
from tellapart.report.interchange.formats import FORMATS
from tellapart.report.paper_tables.layouts import AVERAGES, LAYOUTS
from tellapart.report.plots.prepare import KINDS, check_kind
from tellapart.report.terminal import print_template, print_text

if TYPE_CHECKING:
    from tellapart.api.run import Run

measure = Commands(panel="Measure")
publish = Commands(panel="Compare and publish")
build = Commands(panel="Build and check pairs")
train = Commands(panel="Train")
host = Commands(panel="Host")
tools = Commands(panel="Tools")
annotate = Commands(
    "annotate", help="Human studies: surveys for Label Studio or as spreadsheets, their answers, and how people agree."
)
board = Commands("board", help="The board's records as a static site; its users; backups of its state.")
storage = Commands(
    "cache", help="What runs keep: vectors and scores of models, prepared pictures; and how to delete it."
)

#: Commands by the reason to read their help, in each panel the most used first; a panel's groups come after.
PANELS = (measure, publish, build, train, host, tools)
GROUPS = {annotate: "Build and check pairs", board: "Host", storage: "Tools"}

Bundle = Annotated[
    bool, typer.Option("--bundle", help="Keep the report's pictures in the run folder, so that it can be sent.")
]


def _warn(text: object) -> None:
    print_text(text, error=True)


def _pick_form(**options: bool) -> str:
    """Return the format whose option is set, or nothing; refuse two of them."""
    forms = [form for form, is_set in options.items() if is_set]
    if len(forms) > 1:
        raise RunError(f"{' and '.join(f'--{form}' for form in forms)}: one format is written; choose one")
    return "".join(forms)


@measure.declare("run")
def _run(
    call: Call,
    *,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Keep embeddings in memory, for this run alone.")
    ] = False,
    bundle: Bundle = False,
) -> Answer | None:
    from tellapart.api.evaluate import describe_kept
    from tellapart.errors import StoreError

    if call.cache is not None and no_cache:
        raise StoreError("--cache and --no-cache were both given; give one of them")
    folder, command = call.out or new_run_folder(), command_line()
    store: Any = False if no_cache else call.cache
    if call.follow is not None and not call.quiet:
        _warn(f"following {call.follow}, every {call.every}, into {folder} (stop it with Ctrl-C)")
    measured = call(
        partial(describe_kept, folder, store),
        command if call.out else f"{command} --out {shlex.quote(str(folder))}",
        out=folder,
        cache=store,
        ready=None if call.quiet else lambda name: _warn(f"measured: {name}; {folder / 'report.html'}"),
    )
    if measured.plan is not None:
        planned = replace(measured.plan, problems=tuple(map(name_options, measured.plan.problems)))
        return Answer(planned, planned.show, passed=not planned.problems)
    # Of several ranks the first shows the run.
    return _show_run(measured, bundle=bundle, outside_images=call.outside_images) if measured.leads else None


def _show_run(run: Run, *, bundle: bool, outside_images: bool, every: bool = False, by: str | None = None) -> Answer:
    """Return a run's records, as tables or as one object with all of them; its report is made when they are printed."""
    write = cache(partial(run.write_report, bundle=bundle, outside_images=outside_images))

    def show_records(show: Any) -> Any:
        try:
            facts = show(write)
        except (Exception, SystemExit):  # rich's, when the reader of a pipe is gone (`| head`)
            write()
            raise
        for warning in write().warnings:
            _warn(f"warning: {name_options(warning)}")
        return facts

    return Answer(
        lambda: show_records(lambda write: run.to_json(write())),
        lambda: show_records(partial(run.show, every=every, by=by)),
    )


@measure.declare("score")
def _score(call: Call, *, bundle: Bundle = False) -> Answer:
    measured = call(benchmark=None, scores=_files_of(call.benchmark, call.scores), out=call.out or new_run_folder())
    return _show_run(measured, bundle=bundle, outside_images=call.outside_images)


def _files_of(benchmark: str | None, scores: list[str]) -> dict[str, Path]:
    """Read `--scores`: one file of the benchmark that is named, or any number of BENCHMARK=FILE.

    >>> _files_of(None, ["sugarcrepe=a.jsonl", "bivlc=b.npz"])
    {'sugarcrepe': PosixPath('a.jsonl'), 'bivlc': PosixPath('b.npz')}
    """
    if benchmark is None:
        files = read_mapping("--scores", scores, "BENCHMARK=FILE, or name one benchmark before it")
        return {name: Path(path) for name, path in files.items()}
    if len(scores) > 1:
        raise RunError(f"{benchmark} is measured from one file; got {len(scores)} --scores: write BENCHMARK=FILE")
    return {benchmark: Path(scores[0])}


@measure.declare("export")
def _export(call: Call) -> Answer:
    written = call()
    location = ["--data", str(call.data)] if call.data else []
    location += ["--images", str(call.images)] if call.images else []
    location += ["--outside-images"] if call.outside_images else []
    location += [f"--columns={column}" for column in call.columns or ()]
    next_command = shlex.join(["tellapart", "score", call.benchmark, "--scores", written.scores, *location])
    return Answer(
        {"to": str(call.to), written.noun: written.rows},
        f"{written.rows:,} {written.noun} in {call.to}; {written.todo}, then: {next_command}",
    )


measure.declare("time", shows="report.printing:print_timings")


@publish.declare("compare")
def _compare(
    call: Call,
    *,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="With --gate: print Markdown, for a pull request.")
    ] = False,
    as_json: Json = False,
) -> Answer:
    from tellapart.report.printing import gate_facts, gate_markdown

    if markdown and not call.gate:
        raise RunError("--markdown is of a gate: add --gate")
    _pick_form(markdown=markdown, json=as_json)
    compared = call()
    if not call.gate:
        return Answer(compared.two or compared.record, compared.show)
    rows = [row.model_dump(mode="json") | {"says": row.says} for row in compared.rows]
    facts = {"passed": compared.passed, **compared.model_dump(mode="json"), "rows": rows}
    shown = partial(print_template, "gate", **gate_facts(compared))
    if markdown:
        shown = partial(print_text, gate_markdown(compared), end="")
    return Answer(facts, shown, passed=compared.passed)


@publish.declare("items")
def _items(
    call: Call,
    *,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print a line for each item, as CSV.")] = False,
    as_json: Json = False,
) -> Answer:
    _pick_form(csv=as_csv, json=as_json)
    analysed = call()
    return Answer(analysed, partial(print_text, analysed.to_csv(), end="") if as_csv else analysed.show)


@publish.declare("curve")
@publish.declare("risk")
def _curve_or_risk(call: Call) -> Answer:
    measured = call()
    return Answer(measured, measured.show, f"picture: {call.out}" if call.out else None)


@publish.declare("verify")
def _verify(
    call: Call,
    *,
    strict: Annotated[bool, typer.Option("--strict", help="Also exit with 1 if a fact cannot be checked.")] = False,
) -> Answer:
    verified = call()
    return Answer(verified, name_options(verified), passed=verified.passed and not (strict and verified.unchecked))


publish.declare("why")
publish.declare("gap", shows="report.printing:print_gaps")


@publish.declare("show")
def _show(
    call: Call,
    *,
    every: Annotated[
        bool, typer.Option("--all", help="Every table: headline metrics, tags, equivariance, ties.")
    ] = False,
    by: Annotated[str | None, typer.Option("--by", help="The table of this tag alone.", metavar="TAG")] = None,
    bundle: Bundle = False,
    as_json: Json = False,
) -> Any:
    from tellapart.api.run import Run

    opened = call()
    if (every or by) and (as_json or not isinstance(opened, Run)):
        why = "JSON has every table" if as_json else f"{call.run} is a training run, which is printed in full"
        raise RunError(f"{why}: leave every= and by= out")
    if not isinstance(opened, Run):
        return Answer(opened, opened.show)
    return _show_run(opened, every=every, by=by, bundle=bundle, outside_images=call.outside_images)


@publish.declare(
    "table",
    average_as=f"Add an average that papers take of parts: {', '.join(AVERAGES)}.",
    layout=f"Instead of a benchmark's own: {', '.join(LAYOUTS)}.",
)
def _table(
    call: Call,
    *,
    latex: Annotated[bool, typer.Option("--latex", help="For the packages booktabs and graphicx.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="The default.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Numbers in full, without marks.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Numbers in full, with intervals and marks.")] = False,
) -> Answer | None:
    form = _pick_form(latex=latex, markdown=markdown, csv=as_csv, json=as_json)
    text = call(form=form or "markdown", with_tiers=call.with_tiers and not as_csv)
    if call.out is None:
        print_text(text, end="")
        return None
    return Answer({"out": str(call.out)}, f"table: {call.out}")


# Checked as it is read: a misspelt kind is named before an option that is missing.
@publish.declare(
    "plot", kind={"help": f"{'; '.join(': '.join(kind) for kind in KINDS.items())}.", "callback": check_kind}
)
def _plot(call: Call) -> Answer:
    from tellapart.report.plots.agreement import agreement

    call()

    def list_facts() -> dict[str, Any]:
        facts = {"kind": call.kind, "out": str(call.out)}
        if call.kind != "agree":
            return facts
        return facts | asdict(agreement(call.runs, benchmarks=call.benchmarks or (), labels=labels_of(call.labels)))

    return Answer(list_facts, f"picture: {call.out}")


@publish.declare("import", "import_results")
def _import_results(call: Call) -> Answer:
    result = call()
    notes = {name: record.notes for name, record in result.benchmarks.items()}
    lines = [*(of_set[-1] for of_set in notes.values()), f"{result.model.name}: {', '.join(notes)}; run: {call.out}"]
    facts = {"out": str(call.out), "model": result.model.name, "benchmarks": [*notes], "notes": notes}
    return Answer(facts, *lines)


@publish.declare("push")
def _push(call: Call) -> Answer:
    done = call()
    files, left_out = dict(done.files.files), done.files.left_out
    if done.unseen:
        _warn(f"warning: HF_HUB_OFFLINE is set: as for a page without a card: {done.page}")
    lines = [f"==> {path}\n{text}" for path, text in files.items()]
    if not call.dry_run:
        same = f"{done.page} has these files as they are: nothing to propose"
        lines = [same if done.request is None else f"pull request: {done.request}"]
    if left_out:
        lines.append(f"not in .eval_results, which knows only datasets on the hub: {', '.join(left_out)}")
    about = {"repository": done.page, "left_out": left_out, "pull_request": done.request, "files": files}
    return Answer(about, *lines)


@build.declare("build")
def _build(
    call: Call,
    *,
    open_card: Annotated[bool, typer.Option("--open", help="As --card, and show card.html in a browser.")] = False,
) -> Answer:
    from tellapart.api.build import Built, default_folder
    from tellapart.builders.pipeline import describe_kept
    from tellapart.report.printing import answer_build, answer_caption_pairs
    from tellapart.report.terminal import open_in_browser

    folder = default_folder(call.recipe, call.out) if call.pairs is None else call.pairs
    built = call(partial(describe_kept, folder), card=call.card or open_card)
    if not isinstance(built, Built):
        return Answer(*answer_caption_pairs(built))
    if open_card and built.page is not None:
        open_in_browser(built.page)
    return Answer(*answer_build(built.result, built.page, built.verdict))


@build.declare("audit")
def _audit(
    call: Call,
    *,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if a check warns.")] = False,
    open_card: Annotated[bool, typer.Option("--open", help="With --to: show its card.html in a browser.")] = False,
) -> Answer:
    from tellapart.report.terminal import open_in_browser

    if open_card and call.to is None:
        raise typer.BadParameter("--open shows the card that --to DIR writes; name a DIR")
    audited = call()
    if open_card:
        open_in_browser(call.to / "card.html")
    return Answer(audited, audited.show, passed=not (strict and audited.record.warnings))


build.declare("detect", shows="auditing.show:print_detection")


@train.declare("train")
def _train(call: Call) -> Answer:
    from tellapart.training.train import default_folder, describe_kept

    folder = call.out if call.dry_run else default_folder(call.config, call.out)
    describe = partial(describe_kept, folder or Path())

    def command_again() -> str:
        arguments = [argument for argument in sys.argv[1:] if argument != "--resume"]
        return shlex.join(["tellapart", *arguments, *(["--resume"] if describe() else [])])

    trained = call(describe, command_again, out=folder)
    if trained.plan is not None:
        trained.plan = replace(trained.plan, problems=tuple(map(name_options, trained.plan.problems)))
    if not (trained.records or call.dry_run):  # of several ranks the first prints
        raise typer.Exit(not trained.passed)
    return Answer(trained, trained.show, passed=trained.passed)


@train.declare("mine")
def _mine(call: Call) -> Answer:
    mined = call()
    paths = f"their image paths are relative to {mined.images} (data.images of a training file)"
    return Answer(
        {"out": str(call.out), "rows": mined.rows, "images": str(mined.images)},
        f"{mined.rows:,} rows in {call.out}; {paths}",
    )


@annotate.declare("export")
def _annotate_export(call: Call) -> Answer:
    written, to = call(), call.to
    study = written.study
    counts = {"units": len(study.units), "tasks": len(study.tasks), "annotators": study.annotators}
    serving = (
        f"  its images need LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true and "
        f"LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT={to.resolve().parent}, and the folder as local storage; or --embed"
    )
    lines = (
        f"{len(study.units):,} units, {len(study.tasks):,} tasks for {', '.join(study.annotators)} in {to}",
        f"Label Studio: a project an annotator, with {to}/label_studio/config.xml and tasks_NAME.json",
        *([] if call.embed else [serving]),
        f"spreadsheets: {to}/sheets/NAME.csv, with {to}/images beside; keep study.json to yourself: it is the key",
        f"then: tellapart annotate import {to} ANSWERS...",
    )
    return Answer({"to": str(to), "survey": written.survey, **counts}, *lines)


@annotate.declare("import")
def _annotate_import(call: Call) -> Answer:
    read = call()
    counts = {"answers": len(read.answers), "skipped": read.skipped, "of": read.of}
    rows = [{"task": answer.task, "problems": answer.problems} for answer in read.broken]
    lines = [
        f"{len(read.answers):,} of {read.of:,} tasks answered, {read.skipped:,} of them skipped; in {read.to}",
        *(f"  not used: task {answer.task}: {'; '.join(answer.problems)}" for answer in read.broken[:20]),
    ]
    if rows:
        lines.append(f"{len(rows):,} answers break a rule of the survey; they are kept, and not used")
    return Answer({"to": str(read.to), **counts, "broken": rows}, *lines)


@annotate.declare("agree")
def _annotate_agree(call: Call) -> Answer:
    from tellapart.annotate.findings import print_findings

    agreement, to = call(), call.scores
    written = f"people's scores are in {to}; tellapart score BENCHMARK --scores {to} --name human"
    return Answer(agreement, partial(print_findings, agreement), written if to else None)


@annotate.declare("ls")
def _annotate_ls(call: Call) -> Answer:
    surveys = call()
    wide = max(len(survey["name"]) for survey in surveys)
    lines = (f"{survey['name']:<{wide}}  {survey['title']} ({survey['source']})" for survey in surveys)
    return Answer(surveys, *lines)


@host.declare("serve")
def _serve(call: Call) -> None:
    call(ready=lambda address: print_text(f"the board is at {address} (stop it with Ctrl-C)"))


@board.declare("new")
def _board_new(call: Call) -> Answer:
    from tellapart.board.submissions.hidden import in_points
    from tellapart.data.rows import read_toml

    file = call()
    hidden = read_toml(file)["hidden"][0]
    step, total = hidden["step"], hidden["total"]
    return Answer(
        {"board": str(file), "step": step, "total": total},
        f"{file}: numbers are rounded to {in_points(step)}; files of a user that count: {total}\n"
        "more files or finer numbers could reveal over half of the public labels; more pairs allow both\n"
        "private numbers are published when it closes: set `closes` in the file, or close it as an admin\n"
        f"tokens for those who take part: tellapart board user NAME... --board {file}\n"
        f"serve it: tellapart serve --board {file}",
    )


@board.declare("user")
def _board_user(call: Call, *, as_json: Json = False) -> None:
    rows: list[dict[str, str]] = []
    try:
        for user in dict.fromkeys(call.name):
            issued = call(name=user)
            rows.append({"user": user, "role": call.role, "token_id": issued.token_id, "token": issued.token})
            if not as_json:
                print_text(f"token {issued.token_id} of {user}, shown this once: {issued.token}")
    finally:  # a token is shown once: a later name that is refused must not lose those before it
        if as_json and rows:
            print_json(rows if len(call.name) > 1 else rows[0])


@board.declare("backup")
def _board_backup(call: Call) -> Answer:
    done = call()
    return Answer(
        {"to": str(call.target), "files": done.files, "bytes": done.bytes},
        f"{done.files:,} files, {done.bytes:,} bytes in {call.target}; it holds the secret: keep it private",
    )


@board.declare("check")
def _board_check(call: Call) -> Answer:
    report = call()
    place, problems = report.checked, [*report.problems]
    whole = f"{place}: everything is there, and as it was written"
    return Answer({"checked": str(place), "problems": problems}, *(problems or [whole]), passed=not problems)


@board.declare("accept")
def _board_accept(call: Call) -> Answer:
    accepted = call()
    listed = ", ".join(f"{number:,} {name}" for name, number in accepted.counters.items())
    text = f"{accepted.state} is accepted: {listed}. Tokens of another secret are void"
    return Answer({"state": str(accepted.state), **accepted.counters}, text)


@board.declare("retry")
def _board_retry(call: Call) -> Answer:
    again = [*call()]
    waiting = f"{len(again):,} files wait again: {', '.join(again)}"
    return Answer({"files": again}, waiting if again else "no file failed")


@board.declare("export")
def _board_export(call: Call) -> Answer:
    pages = call()
    return Answer({"out": str(call.out), "pages": pages}, f"{pages:,} pages; open {call.out / 'index.html'}")


@tools.declare("ls")
def _ls(call: Call) -> Answer:
    from tellapart.report.printing import print_listing

    rows = call()
    return Answer(rows, partial(print_listing, call.what, rows))


@tools.declare("check")
def _check(call: Call) -> Answer:
    gates = call()
    passed = all(gate.passed for gate in gates)
    shown = partial(print_template, "gates", gates=gates)
    return Answer({"passed": passed, "gates": [*map(asdict, gates)]}, shown, passed=passed)


tools.declare("doctor")


@tools.declare("parity")
def _parity(
    call: Call,
    *,
    most: Annotated[
        float, typer.Option("--most", min=0, max=1, help="Exit with 1 if a larger share of outcomes differs.")
    ] = 0.0,
) -> Answer:
    compared = call()
    facts = {"first": compared.first and compared.first.step, "flipped": compared.flipped}
    shown = partial(print_template, "parity", parity=compared)
    return Answer(compared.model_dump(mode="json") | facts, shown, passed=compared.flipped <= most)


@tools.declare("convert", to=f"Of a run: {'; '.join(': '.join(form) for form in FORMATS.items())}.")
def _convert(call: Call) -> Answer:
    done, folder = call(), call.folder
    if done.folder is not None:
        opened = f"onnx:{folder}" if call.source.startswith("compact:") else str(folder)
        text = f"written: {folder}, {done.parameters:,} parameters; it is opened with -m {opened}"
        return Answer({"out": str(folder), "parameters": done.parameters}, text)
    if call.out is None:
        return Answer({"format": call.to, "text": done.text}, partial(print_text, done.text, end=""))
    return Answer({"format": call.to, "out": str(call.out)}, f"written: {call.out}")


@tools.declare("regions")
def _regions(call: Call) -> Answer:
    imported = call()
    lines = [f"{imported.images} images have regions: {call.out}"]
    if imported.without_regions:
        lines.append(f"{imported.without_regions} images in {call.images} have none")
    if imported.without_image:
        lines.append(f"{imported.without_image} images of the files are not in {call.images}, and were left out")
    return Answer({"out": str(call.out), **asdict(imported)}, *lines)


@storage.declare("ls")
def _cache_ls(call: Call) -> Answer:
    listed = call()
    lines = [f"{listed['folder']}/{file}: {size:,} bytes" for file, size in listed["bytes"].items()]
    for model in listed["models"]:
        name = f"{model['name'] or 'a model'} ({model['fingerprint'][:40]})"
        lines.append(f"{name}: {model['vectors']:,} vectors, {model['scores']:,} scores")
    for row in listed["prepared"]:
        day = datetime.fromtimestamp(row["used"], UTC).date()
        lines.append(f"{row['pictures']:,} prepared pictures, {row['bytes']:,} bytes, used on {day}: {row['name']}")
    return Answer(listed, *lines)


@storage.declare("prune")
def _cache_prune(call: Call) -> Answer:
    done = call()
    return Answer(done, f"{done['freed']:,} bytes freed in {done['folder']}")
