"""`compare-combiners` and `choose-members`: what makes one answer of the submodels' answers."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.cli.sources import overlap_warning, read_gold, training_overlap
from ensemble_deid.cli.terminal import percent, say, warn
from ensemble_deid.corpora.outputs import refuse_output_files
from ensemble_deid.errors import ConfigError
from ensemble_deid.evaluation.render.publication import FORMS, Table

if TYPE_CHECKING:
    from ensemble_deid.evaluation.bootstrap import PairedDifference
    from ensemble_deid.training.compare_combiners import CombinerFigures

_COLUMNS = (
    *("combiner", "view", "P", "R", "F1", "recall minus svm", "95% interval", "p"),
    *("F1 minus svm", "F1's 95% interval", "F1's p"),
)


def add_commands(commands: Any) -> None:
    """Add this module's commands to the parser."""
    compare = commands.add_parser("compare-combiners", help="the SVM, union, majority and per-type on the same notes")
    compare.add_argument("model", metavar="MODEL", type=Path)
    compare.add_argument("corpus", metavar="CORPUS", help="annotated notes that the model was not trained on")
    compare.add_argument("--out", metavar="TABLE", type=Path, help=".md, .json, .csv or .tex")
    compare.add_argument("--resamples", metavar="N", type=int, default=10_000, help="0 for no intervals")
    compare.add_argument("--seed", type=int, default=0)
    compare.set_defaults(run=run_compare_combiners)

    choose = commands.add_parser("choose-members", help="choose each label's best submodels for the combiner per-type")
    choose.add_argument("model", metavar="MODEL", type=Path)
    choose.add_argument("dev", metavar="DEV", help="annotated notes to choose them on")
    choose.add_argument("--best", metavar="N", type=int, default=2, help="submodels for each label (default: 2)")
    choose.add_argument("--allow-overlap", action="store_true", help="accept training notes or their patients")
    choose.set_defaults(run=run_choose_members)


def run_compare_combiners(options: argparse.Namespace) -> int:
    """Score every combiner, print the table, write it."""
    from ensemble_deid.training.compare_combiners import compare_combiners

    if options.resamples < 0:
        raise ConfigError(f"--resamples is 0 or more, not {options.resamples}")
    if options.out is not None and options.out.suffix not in (*FORMS, ".json"):
        raise ConfigError(f"--out {options.out}: .md, .json, .csv or .tex")
    refuse_output_files([options.out], options.model, options.corpus)
    corpus = read_gold(options.corpus)
    overlap = training_overlap(options.model, corpus.documents)
    if overlap:
        warn(overlap_warning(overlap))
    figures = compare_combiners(options.model, corpus.documents, resamples=options.resamples, seed=options.seed)
    if not any(figure.combiner == "per-type" for figure in figures):
        warn("the model does not say which submodels are best for each label: no row for per-type (choose-members)")
    caption = f"Combiners on {len(corpus.documents)} notes; differences with paired bootstrap intervals over patients."
    table = Table(caption, _COLUMNS, tuple(map(_cells, figures)))
    if options.out is not None:
        form = options.out.suffix
        write_text_atomically(options.out, _json(figures) if form == ".json" else table.render(form))
    say(table.to_markdown())
    return 0


def run_choose_members(options: argparse.Namespace) -> int:
    """Choose, store, and print the submodels of each label."""
    from ensemble_deid.training.compare_combiners import choose_members

    dev = read_gold(options.dev).documents
    members = choose_members(options.model, dev, best=options.best, allow_overlap=options.allow_overlap)
    there = {span.label for document in dev for span in document.spans}
    for label, names in members.items():
        say(f"{label}: {', '.join(names)}{'' if label in there else ' (not chosen: the dev notes have none)'}")
    say(f"these are now in {options.model}")
    return 0


def _cells(figures: "CombinerFigures") -> tuple[str, ...]:
    counts = figures.counts
    values = [percent(value) for value in (counts.precision, counts.recall, counts.f1)]
    return (figures.combiner, figures.view, *values, *_difference(figures.recall), *_difference(figures.f1))


def _difference(difference: "PairedDifference | None") -> tuple[str, str, str]:
    if difference is None:
        return ("", "", "")
    if difference.difference is None:
        return ("undefined", "", "")
    low, high = difference.interval.low, difference.interval.high
    interval = "undefined" if low is None or high is None else f"{100 * low:+.2f} to {100 * high:+.2f}"
    p = "" if difference.p_value is None else f"{difference.p_value:.4f}"
    return (f"{100 * difference.difference:+.2f}", interval, p)


def _json(figures: Sequence["CombinerFigures"]) -> str:
    return json.dumps([_as_dict(figure) for figure in figures], indent=1) + "\n"


def _as_dict(figures: "CombinerFigures") -> dict[str, Any]:
    counts = figures.counts
    content: dict[str, Any] = {"combiner": figures.combiner, "view": figures.view}
    content |= {"tp": counts.tp, "fp": counts.fp, "fn": counts.fn}
    content |= {"precision": counts.precision, "recall": counts.recall, "f1": counts.f1}
    for name, difference in (("recall", figures.recall), ("f1", figures.f1)):
        if difference is not None:
            content[f"{name}_minus_svm"] = difference.difference
            content[f"{name}_interval_95"] = [difference.interval.low, difference.interval.high]
            content[f"{name}_p_value"] = difference.p_value
    return content
