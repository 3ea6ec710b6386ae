"""Cross-validation of the whole stack: each fold's notes are predicted by a stack trained on all others.

The stack's own folds, from which the final estimator learns, lie within each training part. Folds keep the notes of a
patient (or site) together. Where several folds run at the same time, each does so in a process of its own. Predictions
go to disk as soon as a fold is done, so that a run which is broken off continues with the folds that are missing.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from ensemble_deid.config import Config, make_config
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.evaluation.bootstrap import Interval, PairedDifference, bootstrap_interval, paired_difference
from ensemble_deid.evaluation.render.figures import difference_record
from ensemble_deid.evaluation.views import count_view
from ensemble_deid.model.manifest import fingerprint
from ensemble_deid.model.options import PredictionOptions
from ensemble_deid.note.counts import Counts, strict_counts
from ensemble_deid.note.digits import rounded
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from ensemble_deid.parallel import Reporter, Step, delayed, in_processes
from ensemble_deid.seeds import generator, group_folds
from ensemble_deid.training.run_folder import RunFolder, damaged, read_part, write_json
from ensemble_deid.training.train import train
from ensemble_deid.training.training_notes import in_fold_groups

ENSEMBLE = "ensemble"
PREDICTIONS, FIGURES = "predictions.jsonl", "figures.json"
_KIB_IN_GIB = 2**20


@dataclass(frozen=True, slots=True)
class SystemFigures:
    """Strict figures of a submodel or the ensemble: of all notes together, and of each fold.

    `difference` is this system's F1 minus the ensemble's; None for the ensemble itself.
    """

    name: str
    counts: Counts
    interval: Interval
    difference: PairedDifference | None
    by_fold: tuple[Counts, ...]

    @property
    def mean_f1(self) -> float | None:
        """Mean F1 of the folds; None where a fold's is undefined."""
        values = [counts.f1 for counts in self.by_fold]
        defined = [value for value in values if value is not None]
        return fmean(defined) if len(defined) == len(values) else None

    @property
    def deviation(self) -> float | None:
        """Standard deviation (n - 1) of the folds' F1; None where a fold's is undefined."""
        return None if self.mean_f1 is None else stdev(counts.f1 or 0.0 for counts in self.by_fold)


@dataclass(frozen=True, slots=True)
class CrossValidation:
    """Figures by system, the ensemble last, and the notes with the ensemble's out-of-fold predictions."""

    systems: tuple[SystemFigures, ...]
    predictions: tuple[Document, ...] = field(repr=False)


def crossval(
    documents: Sequence[Document],
    out: Path,
    *,
    config: Config,
    folds: int = 10,
    max_memory: float | None = None,
    resume: bool = False,
    report: Reporter,
) -> CrossValidation:
    """Cross-validate and write the run folder `out`; `config.jobs` folds are trained at the same time.

    With `max_memory`, in GiB, the first fold runs alone, and as many others together as its peak allows. Raises
    ConfigError where `out` cannot be used or a fold needs more memory, and CorpusError for too few patients or sites.
    """
    documents = list(documents)
    fold_of = _fold_of_notes(documents, config, folds)
    settings = {
        "experiment": "crossval",
        "folds": folds,
        "config": config.model_dump(mode="json", exclude={"jobs"}),
        "corpus": {"notes": len(documents), "fingerprint": fingerprint(documents)},
    }
    run = RunFolder.begin(out, settings, resume=resume)
    missing = [k for k in range(folds) if not _fold_file(out, k).is_file()]
    run.log(f"{folds - len(missing)} of {folds} folds are done")
    report(Step(folds - len(missing), folds, "training the folds"))

    def done(fold: int) -> None:
        left = sum(not _fold_file(out, k).is_file() for k in range(folds))
        run.log(f"fold {fold + 1} done")
        report(Step(folds - left, folds, f"fold {fold + 1} of {folds}"))

    jobs = config.jobs
    if max_memory is not None and missing:
        first, *missing = missing
        peak = _run_all([first], documents, fold_of, out, config, jobs=1, done=done)
        jobs = min(jobs, _folds_that_fit(max_memory, peak))
        run.log(f"a fold takes up to {peak / _KIB_IN_GIB:.2f} GiB: {jobs} at the same time")
    _run_all(missing, documents, fold_of, out, config, jobs=jobs, done=done)
    return _finish(documents, fold_of, out, folds)


def _fold_of_notes(documents: Sequence[Document], config: Config, folds: int) -> list[int]:
    if len({document.id for document in documents}) < len(documents):
        raise CorpusError("several notes have the same id: predictions could not be told apart")
    groups = [d.group for d in in_fold_groups(documents, config=config.model_copy(update={"folds": folds}))]
    if folds < 2 or len(set(groups)) < folds:
        raise CorpusError(
            f"{folds} folds need at least two and no more than there are patients (or sites), here {len(set(groups))}"
        )
    fold_of: list[int] = group_folds(groups, folds, generator(config.seed, "cross-validation")).tolist()
    return fold_of


def _fold_file(out: Path, fold: int) -> Path:
    return out / f"fold-{fold + 1:02}.json"


def _run_all(
    todo: Sequence[int],
    documents: Sequence[Document],
    fold_of: Sequence[int],
    out: Path,
    config: Config,
    *,
    jobs: int,
    done: Callable[[int], None],
) -> int:
    """Run folds in `jobs` processes; return the peak memory of a process, in KiB."""
    alone = make_config({**config.model_dump(mode="json"), "jobs": 1})
    calls = (delayed(_run_fold)(fold, documents, fold_of, _fold_file(out, fold), alone) for fold in todo)
    peak = 0
    # No more folds are handed out than run: each call carries the notes.
    for fold, memory in in_processes(calls, jobs=jobs, ordered=False, ahead="n_jobs"):
        peak = max(peak, memory)
        done(fold)
    return peak


def _run_fold(
    fold: int, documents: Sequence[Document], fold_of: Sequence[int], path: Path, config: Config
) -> tuple[int, int]:
    """Train without the fold, write what each submodel and the ensemble find in it; return it with the peak memory."""
    inside = [document for document, k in zip(documents, fold_of, strict=True) if k != fold]
    held_out = [document for document, k in zip(documents, fold_of, strict=True) if k == fold]
    ensemble = train(inside, config=config, notify=lambda message: None).ensemble
    found = {name: ensemble.predict(held_out, PredictionOptions(submodel=name)) for name in ensemble.taggers}
    found[ENSEMBLE] = ensemble.predict(held_out)
    notes = {
        document.id: {
            name: [[span.start, span.end, span.label, rounded(span.score)] for span in spans[d]]
            for name, spans in found.items()
        }
        for d, document in enumerate(held_out)
    }
    write_json(path, {"fold": fold + 1, "threshold": ensemble.stacker.threshold, "notes": notes})
    return fold, _peak_memory()


def _peak_memory() -> int:
    """Return the most memory that this process has had, in KiB; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:  # pragma: no cover (Windows)
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // 1024 if sys.platform == "darwin" else peak


def _folds_that_fit(max_memory: float, peak: int) -> int:
    """Return how many folds may run together, beside this process, which has run one and keeps its memory."""
    most = max_memory * _KIB_IN_GIB
    if not peak:
        raise ConfigError("--max-memory: this system does not tell how much memory a process takes")
    if peak > most:
        raise ConfigError(
            f"a fold takes {peak / _KIB_IN_GIB:.2f} GiB, more than --max-memory {max_memory:g}; its result is kept"
        )
    return max(1, int(most // peak) - 1)


def _finish(documents: Sequence[Document], fold_of: Sequence[int], out: Path, folds: int) -> CrossValidation:
    spans_of: dict[str, Mapping[str, Sequence[Sequence[Any]]]] = {}
    for fold in range(folds):
        spans_of |= _read_fold(
            _fold_file(out, fold), {d.id for d, k in zip(documents, fold_of, strict=True) if k == fold}
        )
    names = list(next(iter(spans_of.values())))
    answers = {
        name: [d.with_spans(Span(a, b, label, score) for a, b, label, score in spans_of[d.id][name]) for d in documents]
        for name in names
    }
    tables = {name: count_view(documents, answer, "strict") for name, answer in answers.items()}
    reference = tables[ENSEMBLE]
    systems = []
    for name in names:
        table = tables[name]
        interval = bootstrap_interval(table.per_document, table.groups)
        difference = None
        if name != ENSEMBLE:
            difference = paired_difference(table.per_document, reference.per_document, table.groups)
        by_fold = []
        for fold in range(folds):
            rows = [d for d, k in enumerate(fold_of) if k == fold]
            by_fold.append(strict_counts((documents[d].spans for d in rows), (answers[name][d].spans for d in rows)))
        systems.append(SystemFigures(name, table.total, interval, difference, tuple(by_fold)))
    result = CrossValidation(tuple(systems), tuple(answers[ENSEMBLE]))
    write_corpus(result.predictions, out / PREDICTIONS, "jsonl")
    write_json(out / FIGURES, as_records(result))
    return result


def _read_fold(path: Path, held_out: set[str]) -> dict[str, Mapping[str, Sequence[Sequence[Any]]]]:
    """Return each note's spans by system. Raises ConfigError for a file that is not of these notes."""
    content = read_part(path)
    notes = content.get("notes") if isinstance(content, dict) else None
    if not isinstance(notes, dict) or set(notes) != held_out:
        raise damaged(path, "other notes")
    return notes


def as_records(result: CrossValidation) -> list[dict[str, Any]]:
    return [
        {
            "system": system.name,
            **{name: getattr(system.counts, name) for name in ("precision", "recall", "f1")},
            "f1_interval_95": [system.interval.low, system.interval.high],
            **{name: getattr(system.counts, name) for name in ("tp", "fp", "fn")},
            "f1_by_fold": [fold.f1 for fold in system.by_fold],
            **difference_record(system.difference, "f1_difference_to_ensemble", "difference_interval_95", "p_value"),
        }
        for system in result.systems
    ]
