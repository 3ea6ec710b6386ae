"""`model threshold`, `members`, `patterns`, `inclusion`: a trained model is adjusted, and records it."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.cli.options import (
    CORPUS,
    SYSTEM,
    add_command,
    add_group,
    add_member,
    add_on_model,
    add_shared,
    add_target,
    members_of,
    target_of,
)
from ensemble_deid.cli.sources import read_gold, read_system
from ensemble_deid.cli.terminal import counted, say
from ensemble_deid.deidentify.outputs import refuse_output_files
from ensemble_deid.errors import ConfigError
from ensemble_deid.note.digits import four_digits, percent

_LEAST_NOTES, _LEAST_PATIENTS = 20, 5


def add_model_commands(commands: Any) -> None:
    threshold = add_on_model(commands, "threshold", run_threshold, example="model my/dev --max-false-positives 5")
    dev = threshold.add_argument(
        "dev", metavar="DEV", help="annotated notes to choose it on; default: the training notes, out of fold"
    )
    # With nargs="?" options could not stand before it.
    dev.required = False
    wanted = threshold.add_mutually_exclusive_group(required=True)
    add_target(wanted)
    wanted.add_argument("--reset", action="store_true", help="restore the threshold that it came with, or training's")
    add_shared(threshold, "allow-overlap")
    add_member(threshold)
    threshold.add_argument(
        "--few", action="store_true", help=f"accept fewer than {_LEAST_NOTES} notes of {_LEAST_PATIENTS} patients"
    )

    members = add_on_model(commands, "members", run_choose_members, example="model my/dev --top 2")
    members.add_argument("dev", metavar="DEV", help="annotated notes to choose them on")
    members.add_argument("--top", metavar="N", type=int, default=2, help="submodels for each label; default: 2")
    add_shared(members, "allow-overlap")
    _add_patterns(add_group(commands, "patterns", "check patterns on notes; add them to a model, or remove them"))
    _add_inclusion(add_group(commands, "inclusion", "sentences without PHI: check a list, put it into a model"))


def _add_patterns(actions: Any) -> None:
    check = add_command(actions, "check", run_check, example="ward.toml my/dev --out measured.toml")
    check.add_argument("file", metavar="FILE", type=Path, help="a file of patterns")
    check.add_argument("corpus", metavar="CORPUS", help=CORPUS)
    check.add_argument("--out", metavar="FILE.toml", type=Path, help="the patterns with the precision measured here")
    add = add_on_model(actions, "add", run_add, example="model ward.toml")
    add.add_argument("file", metavar="FILE", type=Path, help="a file of patterns")
    add.add_argument("--enforce", action="store_true", help="their matches always hold; labels may be new ones")
    add.add_argument(
        "--at-most", metavar="N", type=float, default=1.0, help="ordinary words in 1000 that each may take; default: 1"
    )
    add.add_argument(
        "--ordinary", metavar="CORPUS", default="demo:dev", help="annotated notes to measure that on; default: demo:dev"
    )
    remove = add_on_model(actions, "remove", run_remove, example="model ward_extension")
    remove.add_argument("name", metavar="NAME", help="of the pattern")
    add_on_model(actions, "show", run_show, example="model")
    for parser in (add, remove):
        add_shared(parser, "remark")


def _add_inclusion(actions: Any) -> None:
    check = add_command(actions, "check", run_inclusion_check, example="sentences.toml my/dev model")
    check.add_argument("file", metavar="FILE", type=Path, help="a list of sentences")
    check.add_argument("corpus", metavar="CORPUS", help=CORPUS)
    check.add_argument("system", metavar="SYSTEM", nargs="?", help=f"{SYSTEM}; default: the annotations")
    put = add_on_model(actions, "put", run_put, example="model sentences.toml")
    put.add_argument("file", metavar="FILE", type=Path, help="a list of sentences")
    remove = add_on_model(actions, "remove", run_inclusion_remove, example="model")
    add_on_model(actions, "show", run_inclusion_show, example="model")
    for parser in (put, remove):
        add_shared(parser, "remark")


def run_threshold(options: argparse.Namespace) -> None:
    """Choose a model's threshold on dev notes or out of fold, or reset it."""
    from ensemble_deid.training.thresholds import freeze_out_of_fold_threshold, freeze_threshold, reset_threshold

    if options.reset:
        if options.dev is not None:
            raise ConfigError("--reset takes no DEV: the threshold of training is recorded in the model")
        threshold, whose = reset_threshold(options.model)
        say(f"threshold {four_digits(threshold)}, which {whose}, is now in {options.model}")
        return
    target = target_of(options)
    if target is None:
        raise ConfigError("name a target or --reset")
    rule, wanted = target
    if options.dev is None:
        if options.allow_overlap:
            raise ConfigError("--allow-overlap goes with DEV")
        chosen, stored = freeze_out_of_fold_threshold(options.model, rule=rule, wanted=wanted)
        notes = stored.notes
    else:
        dev = read_gold(options.dev).documents
        patients = len({note.group for note in dev})
        if not options.few and (len(dev) < _LEAST_NOTES or patients < _LEAST_PATIENTS):
            raise ConfigError(
                f"{options.dev}: {len(dev)} notes of {patients} patients are too few to choose a threshold on; it "
                f"takes {_LEAST_NOTES} notes of {_LEAST_PATIENTS} patients, or --few if this is meant"
            )
        chosen = freeze_threshold(
            options.model,
            dev,
            rule=rule,
            wanted=wanted,
            allow_overlap=options.allow_overlap,
            members=members_of(options),
        )
        notes = options.dev
    point = chosen.chosen_at
    # Neither is missing: where no threshold reaches the target, freezing refuses.
    if chosen.threshold is not None:
        say(f"threshold {four_digits(chosen.threshold)} is now in {options.model}")
    if point is not None:
        counts, rate = point.counts, point.fp_per_1000
        recall, precision = percent(counts.recall, sign=""), percent(counts.precision, sign="")
        say(
            f"on {notes}: token recall {recall}, precision {precision}, "
            f"{'undefined' if rate is None else f'{rate:.2f}'} false positives in 1000 tokens"
        )


def run_choose_members(options: argparse.Namespace) -> None:
    """Choose each label's best submodels for the combiner per-type."""
    from ensemble_deid.training.thresholds import choose_members

    dev = read_gold(options.dev).documents
    members = choose_members(options.model, dev, best=options.top, allow_overlap=options.allow_overlap)
    there = {span.label for document in dev for span in document.spans}
    for label, names in members.items():
        say(f"{label}: {', '.join(names)}{'' if label in there else ' (not chosen: the dev notes have none)'}")
    say(f"these are now in {options.model}")


def run_check(options: argparse.Namespace) -> None:
    """Count each pattern's right and wrong hits on annotated notes."""
    from ensemble_deid.features.pattern_text import patterns_text
    from ensemble_deid.features.patterns import read_patterns
    from ensemble_deid.training.harvest import PatternHits, count_hits
    from ensemble_deid.training.model_additions import check_patterns

    refuse_output_files([options.out], options.file, options.corpus)
    patterns = read_patterns(options.file)
    check_patterns(patterns, name=str(options.file))
    hits = count_hits(patterns.patterns, read_gold(options.corpus).documents)
    if options.out is not None:
        measured = [replace(p, confidence=round(hits[p.name].confidence, 4)) for p in patterns.patterns]
        description = "Patterns with the precision that was measured on annotated notes."
        write_text_atomically(options.out, patterns_text(measured, name=patterns.name, description=description))
    say(f"{'pattern':<28}{'label':<14}{'hits':>8}{'right':>8}{'wrong':>8}")
    for pattern in patterns.patterns:
        n = hits[pattern.name]
        say(f"{pattern.name:<28}{pattern.label:<14}{n.found:>8}{n.right:>8}{n.wrong:>8}")
    total = sum(hits.values(), PatternHits())
    say(f"{'all':<28}{'':<14}{total.found:>8}{total.right:>8}{total.wrong:>8}")


def run_add(options: argparse.Namespace) -> None:
    """Add patterns to a model, and record it."""
    from ensemble_deid.features.patterns import read_patterns
    from ensemble_deid.training.model_additions import add_patterns

    patterns = read_patterns(options.file)
    if options.enforce:
        patterns = replace(patterns, patterns=tuple(replace(p, enforce=True) for p in patterns.patterns))
    enforced = patterns.where(enforced=True) is not None
    added = add_patterns(
        options.model,
        patterns,
        ordinary=read_gold(options.ordinary).documents if enforced else (),
        most_taken=options.at_most,
        name=str(options.file),
        remark=options.remark,
    )
    for name, words in added.taken.items():
        say(f"{name}: enforced; takes {words.taken} of {words.words} ordinary words, {words.per_1000:.2f} in 1000")
    say(f"{options.model} now has {counted(added.total, 'added pattern')}; the change is on record")


def run_remove(options: argparse.Namespace) -> None:
    """Remove an added pattern from a model, and record it."""
    from ensemble_deid.training.model_additions import remove_pattern

    n = remove_pattern(options.model, options.name, remark=options.remark)
    say(f"{options.model} now has {counted(n, 'added pattern')}; the change is on record")


def run_show(options: argparse.Namespace) -> None:
    """Print a model's added patterns, as a pattern file."""
    from ensemble_deid.training.model_additions import added_patterns_text

    say(added_patterns_text(options.model).rstrip("\n") or f"{options.model}: no pattern was added after training")


def run_inclusion_check(options: argparse.Namespace) -> None:
    """Show which spans of a system a list would drop."""
    from ensemble_deid.model.additions import read_inclusion_list
    from ensemble_deid.training.harvest import inclusion_effect

    listed = read_inclusion_list(options.file)
    gold = read_gold(options.corpus).documents
    system = gold if options.system is None else read_system(options.system, gold).answer
    effect = inclusion_effect(listed, gold, system)
    say(f"{counted(effect.sentences, 'sentence')} of {effect.all_sentences} are on the list")
    say(f"{counted(effect.dropped, 'span')} would be dropped; {effect.annotated} of them overlap an annotation")


def run_put(options: argparse.Namespace) -> None:
    """Set a model's reviewed list."""
    from ensemble_deid.model.additions import read_inclusion_list
    from ensemble_deid.training.model_additions import put_inclusion_list

    listed = read_inclusion_list(options.file)
    put_inclusion_list(options.model, listed, remark=options.remark)
    say(f"{options.model} now has {counted(len(listed.sentences), 'sentence')} without PHI; the change is on record")


def run_inclusion_remove(options: argparse.Namespace) -> None:
    """Remove a model's list."""
    from ensemble_deid.training.model_additions import put_inclusion_list

    put_inclusion_list(options.model, None, remark=options.remark)
    say(f"{options.model} no longer has an inclusion list; the change is on record")


def run_inclusion_show(options: argparse.Namespace) -> None:
    """Print a model's list."""
    from ensemble_deid.model.additions import load_inclusion_list
    from ensemble_deid.model.manifest import read_manifest

    listed = load_inclusion_list(options.model, read_manifest(options.model))
    say(f"{options.model}: has no inclusion list" if listed is None else listed.source.rstrip("\n"))
