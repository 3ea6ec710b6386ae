"""`combiners`, `disagreements`, `embeddings`: what the parts of a stack do, and word vectors for its network."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ensemble_deid.cli.options import (
    add_command,
    add_files,
    add_model,
    add_resampling,
    add_shared,
    submodels_of,
)
from ensemble_deid.cli.sources import check_out_files, publish, read_gold, read_system
from ensemble_deid.cli.terminal import counted, say, warn
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.deidentify.outputs import refuse_output_files
from ensemble_deid.errors import ConfigError
from ensemble_deid.evaluation.render.results import FILE_FORMS, render_blocks


def check_resamples(options: argparse.Namespace) -> None:
    """Raise ConfigError for a negative number of resamples."""
    if options.resamples < 0:
        raise ConfigError(f"--resamples is 0 or more, not {options.resamples}")


def add_commands(commands: Any) -> None:
    """Add this module's commands to the parser."""
    combiners = add_command(commands, "combiners", run_combiners, example="model my/dev --out combiners.csv")
    add_model(combiners)
    combiners.add_argument("corpus", metavar="CORPUS", help="annotated notes that the model was not trained on")
    add_files(combiners, FILE_FORMS)
    add_resampling(combiners)

    disagreements = add_command(
        commands,
        "disagreements",
        run_disagreements,
        example="my/dev model --rescued-by crf --out places.csv",
    )
    disagreements.add_argument("gold", metavar="GOLD", help="annotated notes")
    add_model(disagreements)
    add_shared(disagreements, "submodels")
    disagreements.add_argument("--rescued-by", metavar="NAME", help="only places where it alone was right")
    add_files(disagreements, FILE_FORMS)
    add_shared(disagreements, "text")

    vectors = add_command(commands, "embeddings", run_embeddings, example="notes --out vectors.txt")
    vectors.add_argument("notes", metavar="NOTES", help="notes; annotations are ignored")
    vectors.add_argument("--out", metavar="FILE", type=Path, required=True, help="output; it holds words of the notes")
    vectors.add_argument("--dimension", metavar="N", type=int, default=200, help="numbers of a vector; default: 200")
    vectors.add_argument("--window", metavar="N", type=int, default=5, help="words on each side; default: 5")
    vectors.add_argument("--epochs", metavar="N", type=int, default=5, help="default: 5")
    vectors.add_argument("--min-occurrences", metavar="M", type=int, default=10, help="of a word; default: 10")
    vectors.add_argument("--min-patients", metavar="N", type=int, default=5, help="of a word; default: 5")
    vectors.add_argument("--keep-digits", action="store_true", help="do not write digits as 0")
    add_shared(vectors, "seed", seed=13)


def run_combiners(options: argparse.Namespace) -> int:
    """Compare the SVM, union, majority and per-type on the same notes."""
    from research.combiners import combiners_results, compare_combiners

    check_resamples(options)
    check_out_files(options.out, FILE_FORMS, options.model, options.corpus)
    corpus = read_gold(options.corpus, model=options.model)
    figures = compare_combiners(options.model, corpus.documents, resamples=options.resamples, seed=options.seed)
    if not any(figure.combiner == "per-type" for figure in figures):
        warn("the model does not say which submodels are best for each label: no row for per-type (model members)")
    publish(combiners_results(figures, notes=len(corpus.documents)), options.out)
    return 0


def run_disagreements(options: argparse.Namespace) -> int:
    """List places where submodels disagree, and which were right."""
    from research.disagreements import disagreement_counts, disagreements_results, find_disagreements

    check_out_files(options.out, FILE_FORMS, options.gold, options.model)
    gold = read_gold(options.gold)
    system = read_system(str(options.model), gold.documents, votes=True)
    votes = system.votes
    wanted = submodels_of(options)
    if wanted is not None:
        _refuse_unknown("--submodels", wanted, votes)
        votes = {name: notes for name, notes in votes.items() if name in wanted}
    if options.rescued_by is not None:
        _refuse_unknown("--rescued-by", [options.rescued_by], votes)
    for warning in system.warnings:
        say(f"WARNING: {warning}.\n")
    cases = find_disagreements(gold.documents, votes, system.answer)
    solved = sum(case.solved for case in cases)
    say(f"{counted(len(cases), 'place')} where submodels disagree; the ensemble is right at {solved}")
    say("\n" + render_blocks(disagreement_counts(cases, list(votes))))
    for file in options.out:
        kept = [c for c in cases if options.rescued_by is None or c.rescued_by(options.rescued_by)]
        texts = {note.id: note for note in gold.documents} if options.text else None
        disagreements_results(kept, texts, list(votes)).write(file)
        contains = "it contains PHI" if options.text else "it contains no note text"
        say(f"\n{counted(len(kept), 'place')} written to {file}; {contains}")
    return 0


def _refuse_unknown(option: str, names: Sequence[str], known: dict[str, Any]) -> None:
    for name in names:
        if name not in known:
            raise ConfigError(f"{option}: the model has no submodel {name!r} here; it has {', '.join(known)}")


def run_embeddings(options: argparse.Namespace) -> int:
    """Train word vectors (neural.word_vectors) on unlabelled notes."""
    from research.word_vectors import EmbeddingOptions, train_vectors

    chosen = EmbeddingOptions(
        dimension=options.dimension,
        window=options.window,
        epochs=options.epochs,
        min_count=options.min_occurrences,
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
    say("the file holds words of the notes: keep it with them")
    return 0
