"""What harvested patterns and the sentence inclusion list each change in a model's figures on other notes.

    python research/harvest_effect.py MODEL TRAIN NOTES [--min-patients K] [--min-occurrences M]
        [--sentence-patients K] [--submodels NAMES]

Patterns and sentences are harvested from TRAIN, on which MODEL was trained, and the figures are those on NOTES, which
have no part in the harvest: without additions, with the patterns, with the list, and with both. No text is printed.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from ensemble_deid.cli.terminal import as_script
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.evaluation.evaluate import evaluate
from ensemble_deid.features.patterns import PatternSet
from ensemble_deid.model.additions import InclusionList
from ensemble_deid.model.ensemble import Ensemble
from ensemble_deid.note.document import Document
from ensemble_deid.training.harvest import (
    Harvest,
    HarvestLimits,
    count_hits,
    frequent_sentences,
    harvest_patterns,
    inclusion_effect,
)

FIGURES = ("precision", "recall", "F1", "token precision", "token recall")


def with_patterns(ensemble: Ensemble, harvest: Harvest) -> Ensemble:
    """Return the model with the harvested patterns."""
    known = [pattern for pattern in harvest.patterns if pattern.label in ensemble.scheme.labels]
    added = PatternSet("harvested", tuple(known), "")
    return replace(ensemble, feature_extractor=replace(ensemble.feature_extractor, added=added))


def figures_of(gold: Sequence[Document], found: Sequence[Document]) -> list[float | None]:
    """Return strict precision, recall and F1, and precision and recall of tokens as PHI or not."""
    evaluation = evaluate(gold, found, resamples=0)
    strict, tokens = evaluation.score(), evaluation.score("token-binary")
    return [
        estimate.value for estimate in (strict.precision, strict.recall, strict.f1, tokens.precision, tokens.recall)
    ]


def show(name: str, gold: Sequence[Document], found: Sequence[Document]) -> None:
    """Print a line of figures in per cent."""
    cells = ("undefined" if value is None else f"{100 * value:.2f}" for value in figures_of(gold, found))
    print(f"{name:<16}" + "".join(f"{cell:>17}" for cell in cells), flush=True)


@as_script
def main(arguments: Sequence[str] | None = None) -> int:
    """Harvest, predict twice, drop what the list names, print."""
    parser = argparse.ArgumentParser(description="What harvested patterns and sentences change on other notes.")
    parser.add_argument("model", metavar="MODEL", type=Path)
    parser.add_argument("train", metavar="TRAIN")
    parser.add_argument("notes", metavar="NOTES")
    parser.add_argument("--min-patients", type=int, default=5)
    parser.add_argument("--min-occurrences", type=int, default=10)
    parser.add_argument("--sentence-patients", type=int, default=10)
    parser.add_argument("--submodels", help="of the model, such as regex,tbed,crf,neural")
    options = parser.parse_args(arguments)
    train, notes = read_corpus(options.train).documents, read_corpus(options.notes).documents
    harvest = harvest_patterns(train, HarvestLimits(options.min_patients, options.min_occurrences))
    sentences = frequent_sentences(train, min_patients=options.sentence_patients)
    inclusion = InclusionList(frozenset(sentence for sentence, _ in sentences.patients), "")
    submodels = options.submodels.split(",") if options.submodels else None
    model = Deidentifier.load(options.model, submodels=submodels)
    hits = count_hits(harvest.patterns, notes).values()
    print(
        f"{len(harvest.patterns)} patterns of {len(harvest.templates)} templates, {len(sentences.patients)} sentences"
    )
    print(f"held-out folds of TRAIN: {harvest.elsewhere.found} spans, {harvest.elsewhere.wrong} wrong")
    print(f"NOTES: {sum(h.found for h in hits)} spans, {sum(h.wrong for h in hits)} wrong")
    print(f"{'':<16}" + "".join(f"{name:>17}" for name in FIGURES))
    for name, ensemble in (("neither", model.ensemble), ("patterns", with_patterns(model.ensemble, harvest))):
        found = Deidentifier(ensemble).predict(notes)
        show(name, notes, found)
        both = "inclusion list" if name == "neither" else "both"
        show(both, notes, [inclusion.apply(document)[0] for document in found])
        effect = inclusion_effect(inclusion, notes, found)
        print(
            f"{'':<16} {effect.sentences} of {effect.all_sentences} sentences listed, {effect.dropped} spans "
            f"dropped, {effect.annotated} of them PHI",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
