"""`crossval` and `tune`: experiments of many trainings, each with a run folder that can be continued."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_deid.cli.sources import read_gold
from ensemble_deid.cli.terminal import percent, progress_bar, say
from ensemble_deid.config import Config
from ensemble_deid.config_files import load_config, named_configurations
from ensemble_deid.corpora.locate import locate_corpus
from ensemble_deid.corpora.outputs import refuse_output
from ensemble_deid.errors import ConfigError
from ensemble_deid.evaluation.render.publication import table

if TYPE_CHECKING:
    from ensemble_deid.evaluation.render.publication import Publication
    from ensemble_deid.training.crossval import CrossValidation
    from ensemble_deid.training.tune import Tuned

_HELP_CORPUS = "annotated notes: a folder or file, or demo, demo:train, demo:dev"


def add_commands(commands: Any) -> None:
    """Add this module's commands to the parser."""
    crossval = commands.add_parser("crossval", help="cross-validate the whole stack, by patient or site")
    crossval.add_argument("corpus", metavar="CORPUS", help=_HELP_CORPUS)
    crossval.add_argument("--folds", type=int, default=10, help="the stack's own folds are --set folds=N")
    crossval.add_argument(
        "--max-memory", metavar="GIB", type=float, help="run as many folds together as fit, judged by the first"
    )
    _add_common(crossval)
    crossval.set_defaults(run=run_crossval)

    tune = commands.add_parser("tune", help="search settings on dev notes within a budget of time")
    tune.add_argument("corpus", metavar="CORPUS", help=_HELP_CORPUS)
    tune.add_argument("--dev", metavar="DEV", required=True, help="notes to choose the settings by")
    tune.add_argument("--allow-overlap", action="store_true", help="accept dev notes or patients of the training notes")
    tune.add_argument(
        "--set-range",
        metavar="RANGE",
        action="append",
        required=True,
        dest="ranges",
        help="section.key=low..high, section.key=low..high:log, or section.key=a|b|c; several times",
    )
    tune.add_argument("--minutes", metavar="M", type=float, required=True, help="begin no trial that would end later")
    tune.add_argument("--trials", metavar="N", type=int, help="no more than N trials")
    _add_common(tune)
    tune.set_defaults(run=run_tune)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="the run folder")
    parser.add_argument("--resume", action="store_true", help="continue a run that was broken off")
    parser.add_argument(
        "--config", metavar="NAME_OR_FILE", help=f"{', '.join(named_configurations())}, or a .toml file"
    )
    parser.add_argument("--set", metavar="section.key=value", action="append", default=[], dest="overrides")
    parser.add_argument("--submodels", metavar="LIST", help="comma-separated")
    parser.add_argument("--group-by", choices=("auto", "patient", "site"), help="what folds keep together")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--seed", type=int)
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def _configure(options: argparse.Namespace, more: Sequence[str] = ()) -> Config:
    """Return the configuration that the options describe; `more` are overrides that come last."""
    return load_config(
        options.config,
        overrides=[*options.overrides, *more],
        submodels=None if options.submodels is None else [name.strip() for name in options.submodels.split(",")],
        group_by=options.group_by,
        jobs=options.jobs,
        device=options.device,
        seed=options.seed,
    )


def run_crossval(options: argparse.Namespace) -> int:
    """Cross-validate, write the run folder, print the figures."""
    from ensemble_deid.training.crossval import crossval

    if options.max_memory is not None and options.max_memory <= 0:
        raise ConfigError("--max-memory: must be above 0")
    config = _configure(options)
    refuse_output(options.out, locate_corpus(options.corpus))
    corpus = read_gold(options.corpus)
    with progress_bar(quiet=options.quiet) as show:
        result = crossval(
            corpus.documents,
            options.out,
            config=config,
            folds=options.folds,
            max_memory=options.max_memory,
            resume=options.resume,
            report=show,
        )
    published = _published_figures(result)
    published.write_all(options.out, "figures")
    say(published.render(".txt"))
    say(f"the out-of-fold predictions (with the notes' text) and all figures are in {options.out}")
    return 0


def _published_figures(result: "CrossValidation") -> "Publication":
    """Return the figures of the systems; the JSON is the run folder's `figures.json` as the experiment wrote it."""
    from ensemble_deid.evaluation.render.publication import Point, Publication, Table, draw_points
    from ensemble_deid.training.crossval import as_records

    rows = []
    for system in result.systems:
        counts, interval = system.counts, system.interval
        figures = (percent(value) for value in (counts.precision, counts.recall, counts.f1))
        folds = f"{percent(system.mean_f1)} ({percent(system.deviation)})"
        difference = ""
        if system.difference is not None and system.difference.difference is not None:
            p = system.difference.p_value
            difference = f"{100 * system.difference.difference:+.2f} ({'undefined' if p is None else f'{p:.3g}'})"
        rows.append((system.name, *figures, _interval(interval.low, interval.high), folds, difference))
    heads = ("system", "P", "R", "F1", "95% interval", "mean of folds (sd)", "F1 minus ensemble (p)")
    points = [Point(s.name, s.counts.f1, s.interval.low, s.interval.high) for s in result.systems]
    return Publication(
        Table("Strict entity figures of the cross-validation, in per cent", heads, tuple(rows)),
        as_records(result),
        draw_points(points, measure="strict F1, 95% interval"),
        text="\n".join(table(heads, rows)) + "\n",
    )


def _interval(low: float | None, high: float | None) -> str:
    return "undefined" if low is None or high is None else f"{100 * low:.2f} to {100 * high:.2f}"


def run_tune(options: argparse.Namespace) -> int:
    """Search, write the run folder, print the trials, the best first."""
    from ensemble_deid.training.tune import parse_range, tune

    if options.minutes <= 0:
        raise ConfigError("--minutes: must be above 0")
    if options.trials is not None and options.trials < 1:
        raise ConfigError("--trials: at least 1")
    ranges = [parse_range(text) for text in options.ranges]
    refuse_output(options.out, locate_corpus(options.corpus), locate_corpus(options.dev))
    corpus, dev = read_gold(options.corpus), read_gold(options.dev)
    with progress_bar(quiet=options.quiet) as show:
        tuned = tune(
            corpus.documents,
            dev.documents,
            options.out,
            ranges=ranges,
            configure=lambda more: _configure(options, more),
            minutes=options.minutes,
            max_trials=options.trials,
            resume=options.resume,
            allow_overlap=options.allow_overlap,
            report=show,
        )
    published = _published_trials(tuned)
    published.write_all(options.out, "trials")
    say(published.render(".txt"))
    say(f"the best configuration is {options.out / 'best.toml'}; its F1 was chosen on dev, and is optimistic")
    return 0


def _published_trials(tuned: "Tuned") -> "Publication":
    """Return the trials, the best first; the JSON is the run folder's `trials.json`, in their order."""
    from dataclasses import asdict

    from ensemble_deid.evaluation.render.publication import Point, Publication, Table, draw_points

    ordered = sorted(enumerate(tuned.trials, 1), key=lambda entry: -entry[1].f1)
    rows = []
    for number, trial in ordered:
        settings = ", ".join(f"{key}={value}" for key, value in trial.settings.items()) or "as given"
        rows.append((str(number), percent(trial.f1), settings))
    heads = ("trial", "strict F1 on dev", "settings")
    return Publication(
        Table("Trials, chosen on dev: the best figure is optimistic", heads, tuple(rows)),
        [asdict(trial) for trial in tuned.trials],
        draw_points([Point(f"trial {number}", trial.f1) for number, trial in ordered], measure="strict F1 on dev"),
        text="\n".join(table(heads, rows)) + "\n",
    )
