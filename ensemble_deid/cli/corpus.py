"""`corpus`: look at corpora, convert and enlarge them, and harvest patterns from them."""

import argparse
from pathlib import Path
from typing import Any

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.cli.options import CORPUS, CommandParser, add_command, add_files, add_shared
from ensemble_deid.cli.sources import check_out_files, read_gold
from ensemble_deid.cli.terminal import counted, say
from ensemble_deid.corpora.formats import ANNOTATED, WRITABLE
from ensemble_deid.corpora.read import Corpus, locate_corpus, read_corpus
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.deidentify.outputs import refuse_output, refuse_output_files
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.evaluation.render.results import FILE_FORMS, Point, Results, Table, draw_points
from ensemble_deid.note.counts import ratio
from ensemble_deid.note.label_map import load_label_map


def add_commands(actions: Any) -> None:
    stats = add_command(actions, "stats", run_stats, example="demo:train demo:dev --out phi.tex")
    stats.add_argument("corpora", metavar="CORPUS", nargs="+", help="the others are compared with the first")
    add_files(stats, FILE_FORMS)
    convert = add_command(
        actions, "convert", run_convert, example="my/notes --format brat --label-map hipaa --out converted"
    )
    _add_in_and_out(convert)
    convert.add_argument("--format", choices=WRITABLE, required=True, help="of the notes to write")
    convert.add_argument("--label-map", metavar="MAP", help="new labels: a .toml file, category, binary, i2b2 or hipaa")
    resample = add_command(actions, "resample", run_resample, example="demo:train --copies 2 --out resampled")
    augment = add_command(actions, "augment", run_augment, example="demo:train --changes wrap,case --out augmented")
    augment.add_argument(
        "--changes", metavar="LIST", help="changes to make, such as wrap,noise (docs/corpora.md); default: all"
    )
    for parser in (resample, augment):
        _add_in_and_out(parser)
        parser.add_argument("--format", choices=ANNOTATED, default="i2b2", help="default: i2b2")
        parser.add_argument("--copies", metavar="N", type=int, default=1, help="of each note; default: 1")
        add_shared(parser, "seed", seed=13)
    _add_harvest(actions)


def _add_in_and_out(parser: CommandParser) -> None:
    parser.add_argument("corpus", metavar="CORPUS", help=CORPUS)
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="folder for the notes")


def _add_harvest(actions: Any) -> None:
    harvest = add_command(actions, "harvest", run_harvest, example="my/train --out harvested.toml")
    harvest.add_argument("corpus", metavar="CORPUS", help="annotated notes, or what `predict` wrote")
    harvest.add_argument("--out", metavar="FILE.toml", type=Path, help="the patterns, to be reviewed")
    harvest.add_argument("--sentences", metavar="FILE.toml", type=Path, help="an inclusion list, to be reviewed")
    harvest.add_argument("--min-patients", metavar="N", type=int, default=5, help="of a template; default: 5")
    harvest.add_argument("--min-occurrences", metavar="M", type=int, default=10, help="of a template; default: 10")
    harvest.add_argument("--top", metavar="N", type=int, default=200, help="templates; default: 200")
    harvest.add_argument("--sentence-patients", metavar="K", type=int, default=10, help="of a sentence; default: 10")
    harvest.add_argument("--top-sentences", metavar="N", type=int, default=1600, help="default: 1600")


def run_stats(options: argparse.Namespace) -> None:
    """Count notes and PHI by category and type, in one or several corpora."""
    from ensemble_deid.corpora.statistics import corpus_statistics, phi_table, render_statistics

    check_out_files(options.out, FILE_FORMS, *options.corpora)
    splits: dict[str, Corpus] = {}
    for name in options.corpora:
        if name in splits:
            raise CorpusError(f"{name}: named twice")
        splits[name] = read_gold(name)
    found = {name: corpus_statistics(corpus) for name, corpus in splits.items()}
    first = next(iter(found.values()))
    entries = {name: split.as_dict(known=None if split is first else first) for name, split in found.items()}
    if options.out:
        head, *rows = phi_table(found)
        table = Table("PHI by category and type", tuple(head), tuple(map(tuple, rows)))
        points = [
            Point(f"{category}, {name}", ratio(label.spans, split.spans))
            for name, split in found.items()
            for category, label in split.categories.items()
        ]
        published = Results([[table]], entries, draw_points(points, measure="share of all PHI"))
        for file in options.out:
            published.write(file)
    say(render_statistics(found))


def run_convert(options: argparse.Namespace) -> None:
    """Write a corpus in another format, or with other labels."""
    label_map = load_label_map(options.label_map) if options.label_map else None
    maps = [Path(options.label_map)] if options.label_map else []
    refuse_output(options.out, locate_corpus(options.corpus), *maps, format=options.format)
    corpus = read_gold(options.corpus)
    documents = label_map.apply_all(corpus.documents) if label_map else corpus.documents
    paths = write_corpus(documents, options.out, options.format)
    if label_map:
        before, after = (sum(len(note.spans) for note in notes) for notes in (corpus.documents, documents))
        say(f"{counted(before, 'span')}, {after} after the map {label_map.name}")
    say(f"{counted(len(corpus), 'note')} written to {options.out} in {counted(len(paths), 'file')}")


def run_resample(options: argparse.Namespace) -> None:
    """Copy the notes with surrogates in place of PHI."""
    from ensemble_deid.corpora.resample import resample_corpus

    refuse_output(options.out, locate_corpus(options.corpus), format=options.format)
    corpus = read_corpus(options.corpus)
    copies = resample_corpus(corpus.documents, copies=options.copies, seed=options.seed)
    write_corpus(copies, options.out, options.format)
    say(f"{counted(len(copies), 'resampled note')} written to {options.out}")


def run_augment(options: argparse.Namespace) -> None:
    """Copy the notes in another form: layout, case, typing errors."""
    from ensemble_deid.corpora.augment import CHANGES, augment_corpus

    refuse_output(options.out, locate_corpus(options.corpus), format=options.format)
    corpus = read_corpus(options.corpus)
    changes = list(CHANGES) if options.changes is None else [name.strip() for name in options.changes.split(",")]
    copies = augment_corpus(corpus.documents, changes=changes, copies=options.copies, seed=options.seed)
    write_corpus(copies, options.out, options.format)
    say(f"{counted(len(copies), 'note')} in another form written to {options.out}")


def run_harvest(options: argparse.Namespace) -> None:
    """Make patterns from sentences with PHI at fixed places (docs/rules.md)."""
    from ensemble_deid.training.harvest import HarvestLimits, frequent_sentences, harvest_patterns

    if options.out is None and options.sentences is None:
        raise ConfigError("--out or --sentences is required")
    refuse_output_files([options.out, options.sentences], options.corpus)
    limits = HarvestLimits(options.min_patients, options.min_occurrences, options.top)
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
        found = frequent_sentences(documents, min_patients=options.sentence_patients, most=options.top_sentences)
        write_text_atomically(options.sentences, found.text(name=options.corpus, least=options.sentence_patients))
        say(
            f"{counted(len(found.patients), 'sentence')} written to {options.sentences}; left out: {found.with_phi} "
            f"that were seen with PHI, {found.with_phi_string} that hold a string which is PHI elsewhere"
        )
