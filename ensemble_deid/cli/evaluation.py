"""`evaluate`, `compare`, `annotations` and `report`: figures, and where they come from."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.cli.sources import System, add_resampling, overlap_warning, read_gold, read_system, resampling
from ensemble_deid.cli.terminal import say, warn
from ensemble_deid.corpora.outputs import refuse_output_files
from ensemble_deid.corpora.read import Corpus
from ensemble_deid.errors import ConfigError

if TYPE_CHECKING:
    from ensemble_deid.evaluation.operating_points import OperatingPoints

_GOLD = "the reference annotations (a corpus, or demo:test)"
_SYSTEM = "a corpus with the system's annotations, or a MODEL"


def add_commands(commands: Any) -> None:
    """Add this module's commands to the parser."""
    _add_evaluate(commands)
    _add_compare(commands)
    _add_annotations(commands)
    _add_report(commands)


def _add_evaluate(commands: Any) -> None:
    evaluate = commands.add_parser("evaluate", help="score a system, or a model, against gold")
    _add_gold_and_system(evaluate)
    evaluate.add_argument("--scheme", choices=("i2b2", "meddocan"), help="count as that task's own script does")
    evaluate.add_argument("--official", action="store_true", help="print a table laid out as the i2b2 script's")
    evaluate.add_argument(
        "--combiner", metavar="NAME", default="svm", help="of a MODEL: svm (default), union, majority or per-type"
    )
    evaluate.add_argument("--full", action="store_true", help="print every table, not the summary alone")
    _add_files(evaluate)
    evaluate.set_defaults(run=run_evaluate)


def _add_compare(commands: Any) -> None:
    compare = commands.add_parser("compare", help="the difference between two systems, with interval and p value")
    compare.add_argument("gold", metavar="GOLD", help=_GOLD)
    compare.add_argument("a", metavar="A", help=_SYSTEM)
    compare.add_argument("b", metavar="B", help=_SYSTEM)
    add_resampling(compare)
    _add_files(compare)
    compare.set_defaults(run=run_compare)


def _add_annotations(commands: Any) -> None:
    annotations = commands.add_parser("annotations", help="agreement between two annotators")
    annotations.add_argument("a", metavar="GOLD_A")
    annotations.add_argument("b", metavar="GOLD_B")
    annotations.add_argument("--resamples", metavar="N", type=int, default=10_000, help="0 for no intervals")
    annotations.add_argument("--seed", type=int, default=0)
    _add_files(annotations)
    annotations.set_defaults(run=run_annotations)


def _add_report(commands: Any) -> None:
    report = commands.add_parser("report", help="one HTML page with figures, curves and errors; it contains PHI")
    _add_gold_and_system(report)
    report.add_argument("--out", metavar="FILE.html", type=Path, required=True)
    report.add_argument("--no-text", action="store_true", help="leave all note text out")
    report.add_argument(
        "--summary", action="store_true", help="a few printed pages; the errors go into FILE-errors.html beside it"
    )
    report.add_argument(
        "--name-list",
        metavar="ORIGIN=FILE",
        action="append",
        default=[],
        help="names of one origin, one a line, to compare how well names are hidden; several times",
    )
    report.add_argument("--annotators", metavar="TEXT", help="who annotated the notes, for the first page")
    report.add_argument("--agreement", metavar="TEXT", help="how far the annotators agree, for the first page")
    report.add_argument("--date", metavar="YYYY-MM-DD", help="the report's day (default: SOURCE_DATE_EPOCH, or today)")
    report.set_defaults(run=run_report)


def _add_gold_and_system(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("gold", metavar="GOLD", help=_GOLD)
    parser.add_argument("system", metavar="SYSTEM", help=_SYSTEM)
    parser.add_argument(
        "--dev",
        nargs=2,
        metavar=("DEV_GOLD", "DEV_SYSTEM"),
        help="choose the thresholds of operating points on these notes",
    )
    parser.add_argument("--oracle", action="store_true", help="choose thresholds on the reported notes, and say so")
    add_resampling(parser)


def _add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", metavar="FILE", type=Path)
    parser.add_argument("--csv", metavar="FILE", type=Path)


def _write_files(options: argparse.Namespace, as_json: object, as_csv: str) -> None:
    if options.json:
        write_text_atomically(options.json, json.dumps(as_json, indent=1, ensure_ascii=False) + "\n")
    if options.csv:
        write_text_atomically(options.csv, as_csv)


def _say_warnings(warnings: Sequence[str]) -> None:
    for line in warnings:
        say(f"WARNING: {line}.\n")


def _operating(options: argparse.Namespace, gold: Corpus, system: System) -> "OperatingPoints | None":
    """Return operating points where the user gave dev notes or asked for an oracle, over the labels of `--labels`.

    Raises ConfigError for dev notes that the model was trained on: thresholds chosen there hold nowhere else.
    """
    from ensemble_deid.evaluation.operating_points import NoScoresError, find_operating_points

    if options.dev is None and not options.oracle:
        return None
    dev = None
    if options.dev is not None:
        dev_gold = read_gold(options.dev[0])
        dev_system = read_system(options.dev[1], dev_gold.documents)
        if dev_system.overlap:
            raise ConfigError(
                f"--dev: {overlap_warning(dev_system.overlap, where='of the dev notes')}; use other notes"
            )
        dev = (dev_gold.documents, dev_system.scored)
    labels = resampling(options)["labels"]
    try:
        return find_operating_points(
            gold.documents,
            system.scored,
            dev=dev,
            oracle=options.oracle,
            threshold=system.threshold,
            labels=labels,
        )
    except NoScoresError:
        # The whole system may carry scores, and its few annotations with these labels none that differ.
        if labels is None:
            raise
        warn(f"--labels {options.labels}: too few annotations to choose a threshold by: no operating points")
        return None


def run_evaluate(options: argparse.Namespace) -> int:
    """Print a summary, or with `--full` every table; with a scheme, or `--official`, those of the task's own script.

    The files of `--json` and `--csv` always hold all figures. Raises ConfigError where `--full` comes with a scheme.
    """
    from ensemble_deid.evaluation.evaluate import evaluate
    from ensemble_deid.evaluation.official import score_official
    from ensemble_deid.evaluation.official.rows import render_official
    from ensemble_deid.evaluation.render.csv import evaluation_to_csv
    from ensemble_deid.evaluation.render.json import evaluation_to_json
    from ensemble_deid.evaluation.render.text import render_full, render_summary

    scheme = options.scheme or ("i2b2" if options.official else None)
    if scheme and options.full:
        raise ConfigError("--full prints the project's own tables and --scheme (or --official) the task's: give one")
    if options.combiner != "svm" and (options.dev or options.oracle):
        raise ConfigError(f"--combiner {options.combiner} has no threshold to choose: leave out --dev and --oracle")
    refuse_output_files([options.json, options.csv], options.gold, options.system, *(options.dev or ()))
    gold = read_gold(options.gold)
    system = read_system(options.system, gold.documents, combiner=options.combiner)
    official = score_official(gold.documents, system.answer, scheme=scheme) if scheme else None
    operating = _operating(options, gold, system)
    evaluation = evaluate(gold.documents, system.answer, **resampling(options))
    _say_warnings(system.warnings)
    if official:
        say(render_official(official))
    elif options.full:
        say(render_full(evaluation, operating=operating))
    else:
        say(render_summary(evaluation, operating=operating))
        say("\nEvery table: --full. All figures as data: --json FILE, --csv FILE.")
    as_json = {"warnings": system.warnings, **evaluation_to_json(evaluation, official=official, operating=operating)}
    _write_files(options, as_json, evaluation_to_csv(evaluation, official=official, operating=operating))
    return 0


def run_compare(options: argparse.Namespace) -> int:
    """Print the differences between two systems."""
    from ensemble_deid.evaluation.compare import compare
    from ensemble_deid.evaluation.render.csv import comparison_to_csv
    from ensemble_deid.evaluation.render.json import comparison_to_json
    from ensemble_deid.evaluation.render.text import render_comparison

    refuse_output_files([options.json, options.csv], options.gold, options.a, options.b)
    gold = read_gold(options.gold)
    a, b = (read_system(name, gold.documents) for name in (options.a, options.b))
    comparison = compare(gold.documents, a.answer, b.answer, **resampling(options))
    warnings = [f"{name}: {line}" for name, system in (("A", a), ("B", b)) for line in system.warnings]
    _say_warnings(warnings)
    say(render_comparison(comparison, name_a=options.a, name_b=options.b))
    as_json = {"warnings": warnings, **comparison_to_json(comparison)}
    _write_files(options, as_json, comparison_to_csv(comparison))
    return 0


def run_annotations(options: argparse.Namespace) -> int:
    """Print how far two annotators agree."""
    from ensemble_deid.evaluation.agreement import measure_agreement
    from ensemble_deid.evaluation.render.csv import agreement_to_csv
    from ensemble_deid.evaluation.render.json import agreement_to_json
    from ensemble_deid.evaluation.render.text import render_agreement

    refuse_output_files([options.json, options.csv], options.a, options.b)
    a, b = read_gold(options.a), read_gold(options.b)
    agreement = measure_agreement(a.documents, b.documents, resamples=options.resamples, seed=options.seed)
    say(render_agreement(agreement))
    _write_files(options, agreement_to_json(agreement), agreement_to_csv(agreement))
    return 0


def run_report(options: argparse.Namespace) -> int:
    """Write the HTML page, or with `--summary` two: the figures for print, and the errors."""
    from ensemble_deid.cli.report_facts import read_name_lists, report_facts
    from ensemble_deid.evaluation.render.html.front import FrontPage
    from ensemble_deid.evaluation.render.html.page import ReportPart, render_report

    parts: dict[ReportPart, Path] = {"whole": options.out}
    if options.summary:
        parts = {"summary": options.out, "errors": options.out.with_name(f"{options.out.stem}-errors.html")}
    lists = [Path(entry.partition("=")[2]) for entry in options.name_list]
    refuse_output_files(parts.values(), options.gold, options.system, *(options.dev or ()), *lists)
    name_lists = read_name_lists(options.name_list)
    gold = read_gold(options.gold)
    front = FrontPage(report_facts(options, gold))
    system = read_system(options.system, gold.documents, votes=True)
    operating = _operating(options, gold, system)
    for part, path in parts.items():
        page = render_report(
            gold.documents,
            system.answer,
            include_text=not options.no_text,
            votes=system.votes or None,
            scored=system.scored,
            threshold=system.threshold,
            operating=operating,
            warnings=system.warnings,
            front=front,
            part=part,
            seen=system.seen,
            name_lists=name_lists,
            **resampling(options),
        )
        write_text_atomically(path, page)
        quotes = not options.no_text and part != "summary"
        contains = "PHI: keep it where the notes are kept" if quotes else "no note text"
        say(f"the {'list of errors' if part == 'errors' else 'report'} is {path}; it contains {contains}")
    return 0
