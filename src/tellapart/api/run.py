"""`Run`, which `evaluate` and `score` return: a run folder's tables, its items with their pictures, its report."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tellapart.data.arguments import PathGiven, as_path
from tellapart.data.atomic import atomic_folder
from tellapart.diagnosis.probes import ProbeRow, probe_rows
from tellapart.diagnosis.samples import samples_rows
from tellapart.errors import RunError, TellapartError, UnknownNameError, nearest, plain, quote
from tellapart.evaluation.systems import System, gather, omit_references
from tellapart.evaluation.verified import read_result
from tellapart.records.result import Result, Sample, Value
from tellapart.records.run_folder import RESULTS, find_runs, write_text_file
from tellapart.records.samples import read_samples
from tellapart.records.zipped import archive_of, unpacked
from tellapart.report.followed import followed_rows
from tellapart.report.frame import Frame, Tabled, columns_of
from tellapart.report.image_sources import ImageSources, data_uri
from tellapart.report.items import true_pairs, true_texts
from tellapart.report.show import WrittenReport, group_systems, print_runs, result_tables, write_run_report
from tellapart.report.tables import Column, Table, text_table
from tellapart.tasks.registry import headline

if TYPE_CHECKING:
    from tellapart.dry_run.run import RunPlan
    from tellapart.training.train import Trained


def show(run: PathGiven, *, outside_images: bool = False) -> Run | Trained:
    """Open a run folder, or the folder of a training run or of its seeds; the result prints itself.

    Args:
        run: a run folder, or the folder of a training run or of its seeds.
        outside_images: of a training run: pictures of its page may lie outside of the folders of its data.

    Raises:
        RunError: it holds no run, or a training that has not ended.

    >>> import tellapart as ta
    >>> folder = getfixture("tmp_path") / "oracle"
    >>> _ = ta.evaluate("oracle", "demo", limit=10, out=folder)
    >>> ta.show(folder).models
    ['oracle']
    """
    if not (as_path(run, "run") / RESULTS).is_file():
        from tellapart.training.train import open_training  # with all of training, which the page of a run does without

        if (trained := open_training(run, outside_images=outside_images)) is not None:
            return trained
    return open_run(run)


def open_run(folder: PathGiven) -> Run:
    """Open a run folder that `evaluate`, `score` or the command line wrote, or a zip archive of one.

    Raises:
        RunError: it holds no run.

    >>> import tellapart as ta
    >>> folder = getfixture("tmp_path") / "oracle"
    >>> _ = ta.evaluate("oracle", "demo", out=folder, limit=10)
    >>> ta.open_run(folder).value("group_score")
    1.0
    """
    path = as_path(folder, "folder")
    with ExitStack() as stack:
        (inside,) = stack.enter_context(unpacked([path]))
        find_runs(inside)
        run = Run(inside, archive=path if archive_of(path) else None)
        weakref.finalize(run, stack.pop_all().close)
    return run


class Run(Tabled):
    """Models measured on benchmarks: the content of a run folder. It is read when it is first asked for.

    Attributes:
        folder: the run folder; of a dry run, the one that it would have.
        leads: whether this process writes and shows the run; of several ranks the first does.
        archive: the zip file that the folder was unpacked from, or a path into it; its report is written next to it.
        plan: of a dry run.

    >>> import tellapart as ta
    >>> run = ta.evaluate(["oracle", "constant"], "demo", limit=10)
    >>> run.models, run.benchmarks, run.value("group_score", model="constant")
    (['oracle', 'constant'], ['demo'], 0.0)
    >>> frame = run.table()
    >>> frame["model"][:2], frame["metric"][:2]
    (['oracle', 'oracle'], ['text_score', 'image_score'])
    """

    plan: RunPlan | None = None

    def __init__(
        self,
        folder: Path,
        *,
        scratch: bool = False,
        leads: bool = True,
        archive: Path | None = None,
        results: Mapping[Path, Result] | None = None,
    ) -> None:
        self.folder, self.leads, self.archive, self._measured = folder, leads, archive, results or {}
        if scratch:  # a temporary folder goes when nothing refers to the run any more
            weakref.finalize(self, shutil.rmtree, folder.parent, ignore_errors=True)

    @cached_property
    def systems(self) -> list[System]:
        """The models with their records, the subject first."""
        return gather([self.folder], results=self._results)

    @cached_property
    def _results(self) -> dict[Path, Result]:
        """The records, by their folders: each is read once, unless it was measured here."""
        return {run: self._measured.get(run) or read_result(run) for run in find_runs(self.folder)}

    @cached_property
    def _all_probes(self) -> list[ProbeRow]:
        """Each probe compared with the same model's measurement of the set itself."""
        return probe_rows(self.systems)

    @property
    def _probes(self) -> list[ProbeRow]:
        """The probes; those of reference models only if the run has no other models."""
        models = [system.label for system in omit_references(self.systems)]
        return [row for row in self._all_probes if row.model in models]

    @property
    def models(self) -> list[str]:
        """The models' names."""
        return [system.label for system in self.systems]

    @property
    def benchmarks(self) -> list[str]:
        """The names of the benchmarks that any of them was measured on."""
        return list(dict.fromkeys(name for system in self.systems for name in system.result.benchmarks))

    def result(self, model: str | None = None) -> Result:
        """Return a model's full record; the first model's if none is named.

        Raises:
            UnknownNameError: no model of that name.
        """
        return self._find_system(model).result

    def value(self, metric: str, benchmark: str | None = None, model: str | None = None) -> float:
        """Return one number; `record` has its interval and the rest.

        Raises:
            UnknownNameError: no such metric, benchmark or model.
            RunError: several benchmarks were measured and none was named.
        """
        return self.record(metric, benchmark, model).value

    def record(self, metric: str, benchmark: str | None = None, model: str | None = None) -> Value:
        """Return one number with its interval, n, ties and chance; errors as of `value`."""
        system = self._find_system(model)
        metrics = system.record(self._find_benchmark(benchmark)).metrics
        return metrics[_one_of(metric, metrics, "metric")]

    def table(self, *, every: bool = False) -> Frame:
        """Return a row for each model, benchmark and headline metric.

        Args:
            every: rows of all metrics.
        """
        keys = ("value", "low", "high", "reason", "n", "clusters", "effective", "ties", "tie_neutral", "chance")
        rows = [
            {"benchmark": name, "model": system.label, "metric": metric}
            | {key: getattr(measured[metric], key) for key in keys}
            for name in self.benchmarks
            for system in self.systems
            if name in system.result.benchmarks
            for measured in [system.result.benchmarks[name].metrics]
            for metric in (measured if every else headline(measured) or measured)
        ]
        return Frame(columns_of(rows), shown=self.tables())

    def to_pandas(self) -> Any:
        """Return every metric as a pandas data frame: `table(every=True).to_pandas()`.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        return self.table(every=True).to_pandas()

    def to_dict(self) -> dict[str, Any]:
        """Return every metric as arrays, one a column."""
        return self.table(every=True).to_dict()

    def items(self, benchmark: str | None = None, model: str | None = None) -> Items:
        """Return each item's scores, and whether it is right: a row an item, `[id]` for one with its pictures.

        Args:
            benchmark: which; the one there is, if none is named.
            model: which; the first if none is named.

        Raises:
            UnknownNameError: no such benchmark or model.
            RunError: several benchmarks were measured and none was named.
        """
        name, system = self._find_benchmark(benchmark), self._find_system(model)
        folder, record = system.folders.get(name), system.record(name)
        if folder is None:
            raise RunError(f"{self.folder}: {system.label} has no items of {name}")
        return Items(self, system, name, read_samples(folder, name, record))

    def write_report(self, *, bundle: bool = False, outside_images: bool = False) -> WrittenReport:
        """Write `report.html` into the run folder; return its path, its sentences on the numbers, and warnings.

        Args:
            bundle: keep the pictures that it shows in the folder, so that it can be sent.
            outside_images: read images at absolute paths and through links that leave the set's folder.
        """
        if self.archive is not None and bundle:
            raise RunError(f"bundle=True keeps pictures in a run folder, and {self.archive} is an archive; unpack it")
        report = write_run_report(
            self.folder, bundle=bundle, outside=outside_images, results=self._results, probes=self._probes
        )
        if self.archive is None or report.path is None:
            return report
        zipped = archive_of(self.archive) or self.archive
        beside = zipped.with_name("-".join([zipped.stem, *self.archive.relative_to(zipped).parts]) + ".html")
        write_text_file(beside, report.path.read_text(encoding="utf-8"))
        return replace(report, path=beside)

    def show(
        self, write: Callable[[], WrittenReport] | None = None, *, every: bool = False, by: str | None = None
    ) -> None:
        """Print it as `tellapart show` does: a table, a sentence on it, and the report's path.

        Args:
            write: writes the report, when the tables are printed; `write_report` if not given.
            every: print all tables: every headline metric, tags, equivariance, ties.
            by: print the table of this tag instead.

        Raises:
            RunError: no benchmark is broken down by that tag.
        """
        if self.plan is not None:
            self.plan.show()
        else:
            write = write or self.write_report
            print_runs(self.folder, self.systems, write, probes=self._probes, every=every, by=by, named=self.archive)

    def to_json(self, report: WrittenReport | None = None) -> dict[str, Any]:
        """Return the JSON of `tellapart show --json`: every record in full, and sentences on the numbers."""
        if self.plan is not None:
            return self.plan.to_json()
        report = report or self.write_report()
        runs = [result.model_dump(mode="json", by_alias=True) for result in self._results.values()]
        answer = [
            {"benchmark": conclusion.name, "metric": conclusion.metric, "sentences": conclusion.sentences}
            for conclusion in report.conclusions
        ]
        path = None if report.path is None else str(report.path)
        followed, probes = followed_rows(self.folder), [row.model_dump(mode="json") for row in self._all_probes]
        draws = [row.model_dump(mode="json") for row in samples_rows(self.systems)]
        return {
            "out": str(self.archive or self.folder), "report": path, "warnings": report.warnings, "answer": answer,
            "runs": runs, **({"checkpoints": followed} if followed else {}), **({"probes": probes} if probes else {}),
            **({"samples": draws} if draws else {}),
        }  # fmt: skip

    def save(self, folder: PathGiven) -> Run:
        """Copy the run to a new folder, and return it there.

        Raises:
            DataError: it cannot be written.
            RunError: there is such a folder.
        """
        to = as_path(folder, "folder")
        if to.exists():
            raise RunError(f"{to} is there already; name a new folder")
        with atomic_folder(to) as draft:
            shutil.copytree(self.folder, draft, ignore=shutil.ignore_patterns(".lock"), dirs_exist_ok=True)
        return Run(to)

    def picture(self, benchmark: str, reference: str) -> bytes:
        """Return an image file's bytes.

        Raises:
            DataError: it is not available.
        """
        name = self._find_benchmark(benchmark)
        measured = next(system.result for system in self.systems if name in system.result.benchmarks)
        sources = ImageSources.of(self.folder, measured, name)
        reader = sources.reader()
        if reader is None:
            raise RunError(sources.lost())
        return reader(reference)

    def _find_system(self, model: str | None) -> System:
        if model is None:
            return self.systems[0]
        return self.systems[self.models.index(_one_of(model, self.models, "model"))]

    def _find_benchmark(self, name: str | None) -> str:
        if name is None and len(self.benchmarks) != 1:
            raise RunError(f"{self.folder} measured {', '.join(self.benchmarks) or 'nothing'}; name one")
        return self.benchmarks[0] if name is None else _one_of(name, self.benchmarks, "benchmark")

    def tables(self) -> list[Table]:
        """Return the tables that are printed: a first look at each benchmark."""
        if self.plan is not None:
            return [*self.plan.sets.tables(), *self.plan.parts.tables()]
        return [table for same in group_systems(self.systems) for table in result_tables(same)]

    def __fspath__(self) -> str:
        """Return its folder: a run may be given wherever a run folder is."""
        return str(self.folder)

    def __repr__(self) -> str:
        return f"{super().__repr__()}\nrun: {self.archive or self.folder}"


class Items(Frame):
    """The items of one model on one benchmark: a row each; `items[3]` and `items["id"]` show one with its pictures."""

    def __init__(self, run: Run, system: System, benchmark: str, samples: Sequence[Sample]) -> None:
        self.samples, self._of = list(samples), (run, system, benchmark)
        tags = sorted({tag for sample in samples for tag in sample.tags})
        outcomes = list(dict.fromkeys(name for sample in samples for name in sample.outcomes))
        columns: dict[str, list[Any]] = {
            "id": [sample.id for sample in samples],
            "cluster": [sample.cluster for sample in samples],
            **{f"tag:{tag}": [sample.tags.get(tag, "") for sample in samples] for tag in tags},
            "texts": [" | ".join(sample.texts) for sample in samples],
            **{name: [sample.outcomes.get(name) for sample in samples] for name in outcomes},
            "tied": [", ".join(sample.tied) for sample in samples],
        }
        super().__init__(columns, f"{plain(system.label)} on {plain(benchmark)}")
        self._first = ["id", *(headline(outcomes) or outcomes[:4]), "tied"]

    def tables(self) -> list[Table]:
        """Return the table that is printed: its columns are id, headline metrics and ties."""
        return Frame({name: self.columns[name] for name in self._first}, self.title).tables()

    @property
    def scores(self) -> Any:
        """Every score, float32 `(item, image, text)`; of a task without scores an empty array."""
        return np.array([sample.scores for sample in self.samples], np.float32)

    def __iter__(self) -> Iterator[ShownItem]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, key: str | int) -> Any:
        if isinstance(key, str) and key in self.columns:
            return self.columns[key]
        if isinstance(key, str):
            key = self.columns["id"].index(_one_of(key, self.columns["id"], "item"))
        if isinstance(key, bool) or not isinstance(key, int) or not -len(self) <= key < len(self):
            raise UnknownNameError(f"items[{quote(key)}]: give a column, an item's id, or a number below {len(self)}")
        return ShownItem(self.samples[key], *self._of)


class ShownItem(Tabled):
    """One item as a model scored it: the matrix of its scores, with the pictures in a notebook.

    Attributes:
        sample: its record.
    """

    def __init__(self, sample: Sample, run: Run, system: System, benchmark: str) -> None:
        self.sample, self._run, self._system, self._benchmark = sample, run, system, benchmark

    @property
    def scores(self) -> Any:
        """The matrix, float32 `(images, texts)`; of a task without scores an empty array."""
        return np.array(self.sample.scores, np.float32)

    @property
    def pictures(self) -> list[bytes]:
        """The bytes of its images' files.

        Raises:
            DataError: one is not available.
        """
        return [self._run.picture(self._benchmark, reference) for reference in self.sample.images]

    def tables(self) -> list[Table]:
        """Return its scores as a table."""
        images = range(max(len(self.sample.images), len(self.sample.scores)))
        rows = [(text, *cells) for text, cells in self._text_rows()]
        text, names = Column("", "text", words=True, wraps=True), [f"image {k}" for k in images]
        return [text_table(text, *names, numbers_from=0, title=self._make_title(), rows=rows)]

    def _repr_html_(self) -> str:
        pictures = "".join(f"<th>{self._picture_tag(k)}</th>" for k in range(len(self.sample.images)))
        rows = "".join(
            f"<tr><th>{escape(plain(text))}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
            for text, cells in self._text_rows()
        )
        outcomes = ", ".join(f"{name} {value:g}" for name, value in self.sample.outcomes.items())
        return (
            f"<table><caption>{escape(plain(self._make_title()))}</caption><thead><tr><th></th>{pictures}</tr></thead>"
            f"<tbody>{rows}</tbody></table><p>{escape(plain(outcomes))}</p>"
        )

    def _make_title(self) -> str:
        return f"{self._benchmark}: {self.sample.id}, scored by {self._system.label}"

    def _text_rows(self) -> list[tuple[str, list[str]]]:
        """Return each text with its score for every image; true pairs have a mark. Without scores, texts and output."""
        sample = self.sample
        if not sample.scores:
            return [(text, []) for text in (*sample.texts, f"output: {sample.output}", f"right: {sample.gold}")]
        texts = sample.texts or [f"text {k}" for k in range(len(sample.scores[0]))]
        true = true_pairs((len(sample.scores), len(texts)), true_texts(sample.outcomes, len(texts)))
        return [
            (
                name,
                [f"{row[text]:.4g}{' ✓' if (image, text) in true else ''}" for image, row in enumerate(sample.scores)],
            )
            for text, name in enumerate(texts)
        ]

    def _picture_tag(self, row: int) -> str:
        with suppress(TellapartError, IndexError):
            reference = self.sample.images[row]
            uri = data_uri(self._run.picture(self._benchmark, reference), reference)
            return f'<img src="{uri}" style="max-width: 160px; max-height: 160px" alt="image {row}">'
        return f"image {row}"


def _one_of(name: Any, names: Any, noun: str) -> str:
    """Return a name if it is among the names; an error calls it by the noun, and lists the first twenty."""
    if not isinstance(name, str) or name not in names:
        hint = nearest(name, names) if isinstance(name, str) else ""
        listed = ", ".join(list(names)[:20]) + (", ..." if len(names) > 20 else "")
        raise UnknownNameError(f"no {noun} {quote(name)}{hint or ';'} there are {listed}")
    return name
