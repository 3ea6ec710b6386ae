"""`evaluate`, `model report`, `research compare`, `corpus agreement`: figures, and where they come from."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.cli.options import (
    SYSTEM,
    add_command,
    add_files,
    add_member,
    add_repeatable,
    add_resampling,
    add_shared,
    members_of,
)
from ensemble_deid.cli.sources import (
    System,
    check_out_files,
    overlap_warning,
    publish,
    read_gold,
    read_system,
    resampling,
    training_overlap,
)
from ensemble_deid.cli.terminal import say, warn
from ensemble_deid.corpora.read import Corpus
from ensemble_deid.deidentify.outputs import refuse_output_files
from ensemble_deid.errors import ConfigError
from ensemble_deid.evaluation.render.results import FILE_FORMS
from ensemble_deid.model.installed import model_of

if TYPE_CHECKING:
    from ensemble_deid.evaluation.operating_points import OperatingPoints

_GOLD = "the reference annotations (a corpus, or demo:test)"


def add_commands(commands: Any) -> None:
    evaluate = add_command(commands, "evaluate", run_evaluate, example="demo:test en --out f.json")
    _add_gold_and_system(evaluate)
    evaluate.add_argument("--full", action="store_true", help="print every table")
    evaluate.add_argument("--scheme", choices=("i2b2", "meddocan"), help="print what that task's script prints")
    add_shared(evaluate, "combiner")
    add_member(evaluate)
    add_files(evaluate, FILE_FORMS)


def add_research_commands(commands: Any) -> None:
    compare = add_command(commands, "compare", run_compare, example="demo:test model other --out difference.json")
    compare.add_argument("gold", metavar="GOLD", help=_GOLD)
    compare.add_argument("a", metavar="A", help=SYSTEM)
    compare.add_argument("b", metavar="B", help=SYSTEM)
    add_shared(compare, "labels")
    add_resampling(compare)
    add_files(compare, FILE_FORMS)


def add_corpus_commands(commands: Any) -> None:
    agreement = add_command(commands, "agreement", run_agreement, example="first/ second/ --out agreement.json")
    agreement.add_argument("a", metavar="A", help="one annotator's notes")
    agreement.add_argument("b", metavar="B", help="the other annotator's")
    add_resampling(agreement)
    add_files(agreement, FILE_FORMS)


def add_model_commands(commands: Any) -> None:
    report = add_command(commands, "report", run_report, example="demo:test en --out report.html --text")
    _add_gold_and_system(report)
    report.add_argument("--out", metavar="FILE.html", type=Path, required=True, help="the page")
    add_shared(report, "text")
    report.add_argument("--summary", action="store_true", help="a few printable pages; errors go into FILE-errors.html")
    rare = report.rare()
    meaning = "names of one origin, one a line, for subgroups; repeatable"
    add_repeatable(rare, "--name-list", "ORIGIN=FILE", meaning)
    rare.add_argument("--annotators", metavar="TEXT", help="who annotated the notes, for the first page")
    rare.add_argument("--agreement", metavar="TEXT", help="the annotators' agreement, for the first page")
    rare.add_argument("--date", metavar="YYYY-MM-DD", help="the report's day; default: SOURCE_DATE_EPOCH, or today")


def _add_gold_and_system(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("gold", metavar="GOLD", help=_GOLD)
    parser.add_argument("system", metavar="SYSTEM", help=SYSTEM)
    parser.add_argument(
        "--dev", nargs=2, metavar=("GOLD", "SYSTEM"), help="choose the thresholds of operating points on these"
    )
    parser.add_argument("--oracle", action="store_true", help="choose thresholds on the scored notes, and say so")
    add_shared(parser, "labels")
    add_resampling(parser)


def _operating(
    options: argparse.Namespace, gold: Corpus, system: System, members: Mapping[str, str] | None = None
) -> "OperatingPoints | None":
    """Return operating points where the user gave dev notes or asked for an oracle, over the labels of `--labels`."""
    from ensemble_deid.evaluation.operating_points import NoScoresError, find_operating_points

    if options.dev is None and not options.oracle:
        return None
    dev = None
    if options.dev is not None:
        dev_gold = read_gold(options.dev[0]).documents
        dev = (dev_gold, read_system(options.dev[1], dev_gold, members=members).scored)
    labels = resampling(options)["labels"]
    try:
        return find_operating_points(
            gold.documents, system.scored, dev=dev, oracle=options.oracle, threshold=system.threshold, labels=labels
        )
    except NoScoresError:
        # The whole system may carry scores, and its few annotations with these labels none that differ.
        if labels is None:
            raise
        warn(f"--labels {options.labels}: too few annotations to choose a threshold by: no operating points")
        return None


def _refuse_seen_dev(options: argparse.Namespace) -> None:
    """Raise ConfigError for dev notes that the model was trained on: thresholds chosen there hold nowhere else."""
    model = None if options.dev is None else model_of(options.dev[1])
    if model is None:
        return
    overlap = training_overlap(model, read_gold(options.dev[0]).documents)
    if overlap:
        raise ConfigError(f"--dev: {overlap_warning(overlap, where='of the dev notes')}; use other notes")


def run_evaluate(options: argparse.Namespace) -> None:
    """Score a system, or a model, against gold."""
    from ensemble_deid.deidentify.members import files_of_members
    from ensemble_deid.evaluation.evaluate import evaluate
    from ensemble_deid.evaluation.official import render_official, score_official
    from ensemble_deid.evaluation.render.blocks import evaluation_results

    scheme = options.scheme
    if scheme and options.full:
        raise ConfigError("--full prints the project's own tables and --scheme the task's: give one")
    if options.combiner != "svm" and (options.dev or options.oracle):
        raise ConfigError(f"--combiner {options.combiner} has no threshold to choose: leave out --dev and --oracle")
    members = members_of(options)
    check_out_files(
        options.out, FILE_FORMS, options.gold, options.system, *(options.dev or ()), *files_of_members(members)
    )
    gold = read_gold(options.gold)
    _refuse_seen_dev(options)
    system = read_system(options.system, gold.documents, combiner=options.combiner, members=members)
    official = score_official(gold.documents, system.answer, scheme=scheme) if scheme else None
    operating = _operating(options, gold, system, members if options.dev and options.dev[1] == options.system else None)
    evaluation = evaluate(gold.documents, system.answer, **resampling(options))
    results = evaluation_results(
        evaluation, full=options.full, official=official, operating=operating, warnings=system.warnings
    )
    publish(results, options.out, warnings=system.warnings, shown=render_official(official) if official else "")
    if not official and not options.full:
        say("\nEvery table: --full. All figures as data: --out FILE.json, FILE.csv.")


def run_compare(options: argparse.Namespace) -> None:
    """Compare two systems, with interval and p value."""
    from ensemble_deid.evaluation.compare import compare
    from ensemble_deid.evaluation.render.blocks import comparison_results

    check_out_files(options.out, FILE_FORMS, options.gold, options.a, options.b)
    gold = read_gold(options.gold)
    a, b = (read_system(name, gold.documents) for name in (options.a, options.b))
    comparison = compare(gold.documents, a.answer, b.answer, **resampling(options))
    warnings = [f"{name}: {line}" for name, system in (("A", a), ("B", b)) for line in system.warnings]
    results = comparison_results(comparison, name_a=options.a, name_b=options.b, warnings=warnings)
    publish(results, options.out, warnings=warnings)


def run_agreement(options: argparse.Namespace) -> None:
    """Measure agreement between two annotators."""
    from ensemble_deid.evaluation.compare import measure_agreement
    from ensemble_deid.evaluation.render.blocks import agreement_results

    check_out_files(options.out, FILE_FORMS, options.a, options.b)
    a, b = read_gold(options.a), read_gold(options.b)
    agreement = measure_agreement(a.documents, b.documents, resamples=options.resamples, seed=options.seed)
    publish(agreement_results(agreement), options.out)


def run_report(options: argparse.Namespace) -> None:
    """Write an HTML page with figures, curves and errors."""
    from ensemble_deid.cli.report_facts import read_name_lists, report_facts
    from ensemble_deid.evaluation.render.html.page import ReportPart, render_report

    parts: dict[ReportPart, Path] = {"whole": options.out}
    if options.summary:
        parts = {"summary": options.out, "errors": options.out.with_name(f"{options.out.stem}-errors.html")}
    lists = [Path(entry.partition("=")[2]) for entry in options.name_list]
    refuse_output_files(parts.values(), options.gold, options.system, *(options.dev or ()), *lists)
    name_lists = read_name_lists(options.name_list)
    gold = read_gold(options.gold)
    _refuse_seen_dev(options)
    facts = report_facts(options, gold)
    system = read_system(options.system, gold.documents, votes=True)
    operating = _operating(options, gold, system)
    for part, path in parts.items():
        page = render_report(
            gold.documents,
            system.answer,
            include_text=options.text,
            votes=system.votes or None,
            scored=system.scored,
            threshold=system.threshold,
            operating=operating,
            warnings=system.warnings,
            facts=facts,
            part=part,
            seen=system.seen,
            name_lists=name_lists,
            **resampling(options),
        )
        write_text_atomically(path, page)
        quotes = options.text and part != "summary"
        contains = "PHI: keep it where the notes are kept" if quotes else "no note text"
        say(f"the {'list of errors' if part == 'errors' else 'report'} is {path}; it contains {contains}")
