"""`corpus`: look at corpora, convert and enlarge them."""

import argparse
import json
from pathlib import Path
from typing import Any

from ensemble_deid.cli.terminal import counted, say, warn
from ensemble_deid.corpora.formats import ANNOTATED, WRITABLE
from ensemble_deid.corpora.locate import locate_corpus
from ensemble_deid.corpora.outputs import refuse_output, refuse_output_files
from ensemble_deid.corpora.read import Corpus, read_corpus
from ensemble_deid.errors import CorpusError


def add_commands(commands: Any) -> None:
    """Add this module's commands to the parser."""
    corpus = commands.add_parser("corpus", help="look at corpora, convert and enlarge them")
    actions = corpus.add_subparsers(dest="action", required=True, metavar="ACTION")
    stats = actions.add_parser("stats", help="size and PHI by category and type, of one corpus or of several splits")
    stats.add_argument("corpora", metavar="CORPUS", nargs="+", help="the others are compared with the first")
    stats.add_argument("--json", action="store_true", help="print JSON")
    stats.add_argument(
        "--out", metavar="FILE", type=Path, help="also write PHI by category and type: .csv, .tex, .md, .json, .svg"
    )
    stats.set_defaults(run=run_stats)
    convert = actions.add_parser("convert", help="write a corpus in another format, or with other labels")
    convert.add_argument("corpus", metavar="CORPUS")
    convert.add_argument("--out", metavar="DIR", type=Path, required=True)
    convert.add_argument("--format", choices=WRITABLE, required=True)
    convert.add_argument("--map", metavar="MAP", help="new labels: a .toml file, category, binary, i2b2 or hipaa")
    convert.set_defaults(run=run_convert)
    resample = actions.add_parser("resample", help="copies of the notes with every PHI replaced by a fresh value")
    resample.add_argument("corpus", metavar="CORPUS")
    resample.add_argument("--copies", metavar="N", type=int, default=1)
    resample.add_argument("--seed", metavar="S", type=int, default=13)
    resample.add_argument("--out", metavar="DIR", type=Path, required=True)
    resample.add_argument("--format", choices=ANNOTATED, default="i2b2")
    resample.set_defaults(run=run_resample)
    augment = actions.add_parser("augment", help="copies of the notes in another form: layout, case, typing errors")
    augment.add_argument("corpus", metavar="CORPUS")
    augment.add_argument(
        "--changes",
        metavar="LIST",
        help="comma-separated, of headers, formats, labels, sentences, wrap, noise, case; default: all",
    )
    augment.add_argument("--copies", metavar="N", type=int, default=1)
    augment.add_argument("--seed", metavar="S", type=int, default=13)
    augment.add_argument("--out", metavar="DIR", type=Path, required=True)
    augment.add_argument("--format", choices=ANNOTATED, default="i2b2")
    augment.set_defaults(run=run_augment)


def run_stats(options: argparse.Namespace) -> int:
    """Print the figures of one corpus, or of several splits beside each other."""
    from ensemble_deid.corpora.statistics import corpus_statistics, phi_table, render_statistics
    from ensemble_deid.evaluation.render.publication import Point, Publication, Table, check_form, draw_points
    from ensemble_deid.note.counts import ratio

    if options.out is not None:
        check_form(options.out.suffix)
    refuse_output_files([options.out], *options.corpora)
    splits: dict[str, Corpus] = {}
    for name in options.corpora:
        if name in splits:
            raise CorpusError(f"{name}: is named twice")
        splits[name] = read_corpus(name)
        for warning in splits[name].warnings:
            warn(warning)
    found = {name: corpus_statistics(corpus) for name, corpus in splits.items()}
    first = next(iter(found.values()))
    entries = {name: split.as_dict(known=None if split is first else first) for name, split in found.items()}
    if options.out is not None:
        head, *rows = phi_table(found)
        table = Table("PHI by category and type", tuple(head), tuple(map(tuple, rows)))
        points = [
            Point(f"{category}, {name}", ratio(label.spans, split.spans))
            for name, split in found.items()
            for category, label in split.categories.items()
        ]
        Publication(table, entries, draw_points(points, measure="share of all PHI")).write(options.out)
    if options.json:
        say(json.dumps(entries, indent=1))
        return 0
    say(render_statistics(found))
    return 0


def run_convert(options: argparse.Namespace) -> int:
    """Write a corpus in another format, or with other labels."""
    from ensemble_deid.corpora.write import write_corpus
    from ensemble_deid.note.label_map import load_label_map

    label_map = load_label_map(options.map) if options.map else None
    maps = [Path(options.map)] if options.map else []
    refuse_output(options.out, locate_corpus(options.corpus), *maps, format=options.format)
    corpus = read_corpus(options.corpus)
    for warning in corpus.warnings:
        warn(warning)
    documents = label_map.apply_all(corpus.documents) if label_map else corpus.documents
    paths = write_corpus(documents, options.out, options.format)
    if label_map:
        before, after = (sum(len(note.spans) for note in notes) for notes in (corpus.documents, documents))
        say(f"{counted(before, 'span')}, {after} after the map {label_map.name}")
    say(f"{counted(len(corpus), 'note')} written to {options.out} in {counted(len(paths), 'file')}")
    return 0


def run_resample(options: argparse.Namespace) -> int:
    """Write resampled copies of a corpus."""
    from ensemble_deid.corpora.resample import resample_corpus
    from ensemble_deid.corpora.write import write_corpus

    refuse_output(options.out, locate_corpus(options.corpus), format=options.format)
    corpus = read_corpus(options.corpus)
    copies = resample_corpus(corpus.documents, copies=options.copies, seed=options.seed)
    write_corpus(copies, options.out, options.format)
    say(f"{counted(len(copies), 'resampled note')} written to {options.out}")
    return 0


def run_augment(options: argparse.Namespace) -> int:
    """Write copies of a corpus in another form."""
    from ensemble_deid.corpora.augment import CHANGES, augment_corpus
    from ensemble_deid.corpora.write import write_corpus

    refuse_output(options.out, locate_corpus(options.corpus), format=options.format)
    corpus = read_corpus(options.corpus)
    changes = list(CHANGES) if options.changes is None else [name.strip() for name in options.changes.split(",")]
    copies = augment_corpus(corpus.documents, changes=changes, copies=options.copies, seed=options.seed)
    write_corpus(copies, options.out, options.format)
    say(f"{counted(len(copies), 'note')} in another form written to {options.out}")
    return 0
