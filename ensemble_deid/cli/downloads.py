"""`download` and `embeddings`: models of stanza, and word vectors of one's own notes."""

import argparse
from pathlib import Path
from typing import Any

from ensemble_deid.cli.terminal import counted, say, warn
from ensemble_deid.corpora.outputs import refuse_output_files


def add_commands(commands: Any) -> None:
    """Add this module's commands to the parser."""
    download = commands.add_parser("download", help="fetch models of other projects, for features")
    kinds = download.add_subparsers(dest="kind", required=True, metavar="KIND")
    stanza = kinds.add_parser("stanza", help="parts of speech and entities (text.stanza)")
    stanza.add_argument("name", metavar="LANGUAGE", help="en, es ..., or language/package")
    stanza.set_defaults(run=run_download_stanza)

    embeddings = commands.add_parser("embeddings", help="word vectors (neural.word_vectors) from unlabelled notes")
    actions = embeddings.add_subparsers(dest="action", required=True, metavar="ACTION")
    train = actions.add_parser("train", help="train them; the file holds words of the notes")
    train.add_argument("notes", metavar="NOTES", help="notes; annotations are not looked at")
    train.add_argument("--out", metavar="FILE", type=Path, required=True, help="in word2vec's text format")
    train.add_argument("--dimension", type=int, default=200, help="numbers of a vector; default: 200")
    train.add_argument("--window", type=int, default=5, help="words on each side; default: 5")
    train.add_argument("--epochs", type=int, default=5)
    train.add_argument("--min-count", metavar="N", type=int, default=10, help="leave out rarer words; default: 10")
    train.add_argument(
        "--min-patients", metavar="K", type=int, default=5, help="leave out words of fewer patients; default: 5"
    )
    train.add_argument("--keep-digits", action="store_true", help="do not write digits as 0 (neural.zero_digits=false)")
    train.add_argument("--seed", type=int, default=13)
    train.set_defaults(run=run_embeddings_train)


def run_download_stanza(options: argparse.Namespace) -> int:
    """Fetch the models and say where they are."""
    from ensemble_deid.features.stanza_tags import download_models

    folder = download_models(options.name)
    say(f"stanza's models {options.name} are in {folder}; use them with --set text.stanza={options.name}")
    return 0


def run_embeddings_train(options: argparse.Namespace) -> int:
    """Train, write the file and say what it holds."""
    from ensemble_deid.corpora.read import read_corpus
    from ensemble_deid.training.word_vectors import EmbeddingOptions, train_vectors

    chosen = EmbeddingOptions(
        dimension=options.dimension,
        window=options.window,
        epochs=options.epochs,
        min_count=options.min_count,
        min_patients=options.min_patients,
        digits_to_zero=not options.keep_digits,
        seed=options.seed,
    )
    refuse_output_files([options.out], options.notes)
    corpus = read_corpus(options.notes, gold=False)
    for warning in corpus.warnings:
        warn(warning)
    nameless = sum(document.patient_id is None for document in corpus.documents)
    if nameless and chosen.min_patients > 1:
        warn(f"{counted(nameless, 'note')} of unknown patients, each counted as one of its own: see --min-patients")
    vectors = train_vectors(corpus.documents, chosen)
    vectors.write(options.out)
    say(f"{counted(len(vectors.words), 'word')} written to {options.out}; {vectors.left_out:,} rarer ones left out")
    say("the file holds words of the notes: keep it as you keep them")
    return 0
