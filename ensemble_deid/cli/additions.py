"""`harvest`, `patterns`, `inclusion`: patterns and sentences without PHI, from annotated notes into a trained model."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.cli.output import refuse_output_files
from ensemble_deid.cli.sources import read_gold
from ensemble_deid.cli.terminal import counted, say
from ensemble_deid.errors import ConfigError


def add_commands(commands: Any) -> None:
    """Add this module's commands to the parser."""
    harvest = commands.add_parser(
        "harvest", help="patterns from sentences with PHI at fixed places (docs/templates.md)"
    )
    harvest.add_argument("corpus", metavar="CORPUS", help="annotated notes, or what `predict` wrote")
    harvest.add_argument("--out", metavar="FILE.toml", type=Path, help="the patterns, to be reviewed")
    harvest.add_argument("--sentences", metavar="FILE.toml", type=Path, help="an inclusion list, to be reviewed")
    harvest.add_argument("--min-patients", metavar="K", type=int, default=5, help="of a template; default: 5")
    harvest.add_argument("--min-occurrences", metavar="M", type=int, default=10, help="of a template; default: 10")
    harvest.add_argument("--most", metavar="N", type=int, default=200, help="templates; default: 200")
    harvest.add_argument("--sentence-patients", metavar="K", type=int, default=10, help="of a sentence; default: 10")
    harvest.add_argument("--most-sentences", metavar="N", type=int, default=1600, help="default: 1600")
    harvest.set_defaults(run=run_harvest)
    _add_patterns(commands)
    _add_inclusion(commands)


def _add_patterns(commands: Any) -> None:
    patterns = commands.add_parser(
        "patterns", help="check patterns on notes; add them to a trained model, or remove them"
    )
    actions = patterns.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser("check", help="hits of each pattern on annotated notes, right and wrong")
    check.add_argument("file", metavar="FILE", type=Path)
    check.add_argument("corpus", metavar="CORPUS")
    check.add_argument("--out", metavar="FILE.toml", type=Path, help="the patterns with the precision measured here")
    check.set_defaults(run=run_check)
    add = actions.add_parser("add", help="add patterns to a model, which records it")
    add.add_argument("model", metavar="MODEL", type=Path)
    add.add_argument("file", metavar="FILE", type=Path)
    add.set_defaults(run=run_add)
    remove = actions.add_parser("remove", help="take an added pattern out of a model, which records it")
    remove.add_argument("model", metavar="MODEL", type=Path)
    remove.add_argument("name", metavar="NAME")
    remove.set_defaults(run=run_remove)
    show = actions.add_parser("show", help="print a model's added patterns, as a pattern file")
    show.add_argument("model", metavar="MODEL", type=Path)
    show.set_defaults(run=run_show)
    for parser in (add, remove):
        parser.add_argument("--remark", default="", help="who wanted it, and why")


def _add_inclusion(commands: Any) -> None:
    inclusion = commands.add_parser("inclusion", help="sentences without PHI: check a list, put it into a model")
    actions = inclusion.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser("check", help="what a list would drop of a system's spans on annotated notes")
    check.add_argument("file", metavar="FILE", type=Path)
    check.add_argument("corpus", metavar="CORPUS", help="annotated notes")
    check.add_argument("system", metavar="SYSTEM", nargs="?", help="a model or a folder; default: the annotations")
    check.set_defaults(run=run_inclusion_check)
    put = actions.add_parser("put", help="put a reviewed list into a model, in the place of the one it has")
    put.add_argument("model", metavar="MODEL", type=Path)
    put.add_argument("file", metavar="FILE", type=Path)
    put.set_defaults(run=run_put)
    remove = actions.add_parser("remove", help="take the list out of a model")
    remove.add_argument("model", metavar="MODEL", type=Path)
    remove.set_defaults(run=run_inclusion_remove)
    show = actions.add_parser("show", help="print a model's list")
    show.add_argument("model", metavar="MODEL", type=Path)
    show.set_defaults(run=run_inclusion_show)
    for parser in (put, remove):
        parser.add_argument("--remark", default="", help="who wanted it, and why")


def run_harvest(options: argparse.Namespace) -> int:
    """Write what the corpus yields, and say how precise it was on notes held out."""
    from ensemble_deid.training.harvest import HarvestLimits, harvest_patterns
    from ensemble_deid.training.harvest_sentences import frequent_sentences

    if options.out is None and options.sentences is None:
        raise ConfigError("harvest: --out or --sentences is needed")
    refuse_output_files([options.out, options.sentences], options.corpus)
    limits = HarvestLimits(options.min_patients, options.min_occurrences, options.most)
    documents = read_gold(options.corpus).documents
    if options.out is not None:
        harvest = harvest_patterns(documents, limits)
        write_text_atomically(options.out, harvest.text(name=options.corpus))
        say(
            f"{counted(len(harvest.patterns), 'pattern')} of {counted(len(harvest.templates), 'template')} written to "
            f"{options.out}; {harvest.ambiguous} templates were ambiguous, {harvest.refuted} wrong in other sentences"
        )
        hits = harvest.elsewhere
        say(f"on notes held out such patterns found {counted(hits.found, 'span')}, {hits.wrong} of them wrong")
    if options.sentences is not None:
        found = frequent_sentences(documents, min_patients=options.sentence_patients, most=options.most_sentences)
        write_text_atomically(options.sentences, found.text(name=options.corpus, least=options.sentence_patients))
        say(
            f"{counted(len(found.patients), 'sentence')} written to {options.sentences}; left out: {found.with_phi} "
            f"that were seen with PHI, {found.with_phi_string} that hold a string which is PHI elsewhere"
        )
    return 0


def run_check(options: argparse.Namespace) -> int:
    """Print a line for each pattern, and the sum."""
    from ensemble_deid.features.pattern_text import patterns_text
    from ensemble_deid.features.patterns import read_patterns
    from ensemble_deid.training.harvest import PatternHits, count_hits
    from ensemble_deid.training.model_additions import check_patterns

    refuse_output_files([options.out], options.file, options.corpus)
    patterns = read_patterns(options.file)
    check_patterns(patterns, name=str(options.file))
    hits = count_hits(patterns.patterns, read_gold(options.corpus).documents)
    say(f"{'pattern':<28}{'label':<14}{'hits':>8}{'right':>8}{'wrong':>8}")
    for pattern in patterns.patterns:
        n = hits[pattern.name]
        say(f"{pattern.name:<28}{pattern.label:<14}{n.found:>8}{n.right:>8}{n.wrong:>8}")
    total = sum(hits.values(), PatternHits())
    say(f"{'all':<28}{'':<14}{total.found:>8}{total.right:>8}{total.wrong:>8}")
    if options.out is not None:
        measured = [replace(p, confidence=round(hits[p.name].confidence, 4)) for p in patterns.patterns]
        description = "Patterns with the precision that was measured on annotated notes."
        write_text_atomically(options.out, patterns_text(measured, name=patterns.name, description=description))
    return 0


def run_add(options: argparse.Namespace) -> int:
    """Add patterns to a model."""
    from ensemble_deid.features.patterns import read_patterns
    from ensemble_deid.training.model_additions import add_patterns

    patterns = read_patterns(options.file)
    n = add_patterns(options.model, patterns, name=str(options.file), remark=options.remark)
    say(f"{options.model} now has {counted(n, 'added pattern')}; the change is on record")
    return 0


def run_remove(options: argparse.Namespace) -> int:
    """Take a pattern out of a model."""
    from ensemble_deid.training.model_additions import remove_pattern

    n = remove_pattern(options.model, options.name, remark=options.remark)
    say(f"{options.model} now has {counted(n, 'added pattern')}; the change is on record")
    return 0


def run_show(options: argparse.Namespace) -> int:
    """Print the added patterns."""
    from ensemble_deid.training.model_additions import added_patterns_text

    say(added_patterns_text(options.model).rstrip("\n") or f"{options.model}: no pattern was added after training")
    return 0


def run_inclusion_check(options: argparse.Namespace) -> int:
    """Count what the list would drop."""
    from ensemble_deid.cli.sources import read_system
    from ensemble_deid.model.inclusion import read_inclusion_list
    from ensemble_deid.training.harvest_sentences import inclusion_effect

    listed = read_inclusion_list(options.file)
    gold = read_gold(options.corpus).documents
    system = gold if options.system is None else read_system(options.system, gold).answer
    effect = inclusion_effect(listed, gold, system)
    say(f"{counted(effect.sentences, 'sentence')} of {effect.all_sentences} are on the list")
    say(f"{counted(effect.dropped, 'span')} would be dropped; {effect.annotated} of them overlap an annotation")
    return 0


def run_put(options: argparse.Namespace) -> int:
    """Put a list into a model."""
    from ensemble_deid.model.inclusion import read_inclusion_list
    from ensemble_deid.training.model_additions import put_inclusion_list

    listed = read_inclusion_list(options.file)
    put_inclusion_list(options.model, listed, remark=options.remark)
    say(f"{options.model} now has {counted(len(listed.sentences), 'sentence')} without PHI; the change is on record")
    return 0


def run_inclusion_remove(options: argparse.Namespace) -> int:
    """Take the list out of a model."""
    from ensemble_deid.training.model_additions import put_inclusion_list

    put_inclusion_list(options.model, None, remark=options.remark)
    say(f"{options.model} has no inclusion list any more; the change is on record")
    return 0


def run_inclusion_show(options: argparse.Namespace) -> int:
    """Print the list."""
    from ensemble_deid.model.additions import load_inclusion_list
    from ensemble_deid.model.manifest import read_manifest

    listed = load_inclusion_list(options.model, read_manifest(options.model))
    say(f"{options.model}: has no inclusion list" if listed is None else listed.source.rstrip("\n"))
    return 0
