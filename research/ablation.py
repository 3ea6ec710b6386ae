"""Each part of a trained stack left out in turn, on sites that its final estimator did not see.

    python -m research.ablation MODEL NOTES

NOTES is a corpus that has the notes of the model's training. Nothing but final estimators is trained: on the
out-of-fold candidates among the model's private files, in three folds that keep sites together, with the C, gamma and
class weights of the model, and statistics counted without the fold that is scored. The frozen threshold of a site is
chosen on the other sites (of more than 25, on those of the other folds of 25), for five false positives in 1000
tokens. Brackets: the difference to the whole, a 95% interval over sites.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from ensemble_deid.arrays import Floats, log_odds
from ensemble_deid.cli.terminal import as_script
from ensemble_deid.config import Config, make_config
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.errors import ModelError
from ensemble_deid.evaluation.bootstrap import Measure, paired_difference
from ensemble_deid.evaluation.curve import just_below, keep_above, trace_curve
from ensemble_deid.evaluation.operating_points import find_point
from ensemble_deid.evaluation.render.figures import difference_cells
from ensemble_deid.evaluation.views import count_view
from ensemble_deid.model.manifest import fingerprint, private_files, read_manifest
from ensemble_deid.note.digits import figure, percent
from ensemble_deid.note.document import Document
from ensemble_deid.note.overlaps import drop_overlaps, suppressed_scores
from ensemble_deid.note.reading import as_read
from ensemble_deid.seeds import generator, group_folds
from ensemble_deid.stacking.context import KINDS, MENTIONS
from ensemble_deid.stacking.dataset import FILES, StackingDataset
from ensemble_deid.stacking.features import candidate_features, measure_statistics
from ensemble_deid.stacking.net import alone
from ensemble_deid.stacking.search import choose, with_settings
from ensemble_deid.stacking.sequence_scores import pooled_with_sequences
from ensemble_deid.stacking.stacker import Stacker
from ensemble_deid.stacking.text_tables import COLUMN
from ensemble_deid.submodels import row_of
from ensemble_deid.training.training_notes import in_fold_groups, training_notes

FROZEN, BOUNDS = 5.0, (2.0, 5.0, 10.0)
MOST_FOLDS = 25
LISTS = ("list", "known", "words")
HEAD = "| | recall, frozen | false positives | strict F1, frozen | oracle: recall at 2 | 5 | 10 |"
Row = tuple[str, StackingDataset, Floats]


def notes_of(dataset: StackingDataset, notes: Sequence[Document], model: Path, config: Config) -> list[Document]:
    """Return the notes that the model was trained on, in their order. Raises ModelError where some are missing."""
    groups = set(dataset.context.groups)
    found = [note for note in in_fold_groups(training_notes(notes), config=config) if note.group in groups]
    if fingerprint(found) != read_manifest(model).fingerprint:
        raise ModelError(f"{model}: was trained on other notes")
    return [as_read(note) for note in found]


def without_kinds(dataset: StackingDataset, *kinds: str) -> StackingDataset:
    """Return the dataset without some kinds of columns, and without the net's candidates where `net` is one."""
    more = dataset.context.more
    rows = np.flatnonzero(~alone(more)) if "net" in kinds else np.arange(len(dataset))
    gone = [name for name in more.names if name.partition(":")[0] in kinds]
    return replace(dataset, context=replace(dataset.context, more=more.without(gone))).select(rows)


def without_statistics(dataset: StackingDataset) -> StackingDataset:
    """Return the dataset with the same key for every candidate: the statistics tell how often its label is right."""
    keys = {kind: [""] * len(dataset) for kind in KINDS}
    return replace(dataset, context=replace(dataset.context, keys=keys))


def mean_log_odds(dataset: StackingDataset) -> Floats:
    """Return the sequence models' mean log odds of PHI over each candidate's tokens, as probabilities.

    Of candidates that overlap, the one with the highest mean log odds of the span itself has its borders and label.
    """
    table = dataset.table
    learners = [k for k, name in enumerate(table.submodels) if row_of(name).has_marginals]
    rank = 1 / (1 + np.exp(-log_odds(table.confidence[:, learners], bound=1e-6).mean(axis=1)))
    return suppressed_scores(rank, pooled_with_sequences(rank, dataset.context.more, 1.0), table)


def rows_of(dataset: StackingDataset, config: Config) -> Iterator[Row]:
    """Yield a name, the candidates and their scores, of the whole stack, then without each part."""
    least, names = config.stack.min_confidence, dataset.table.submodels
    rules = [name for name in names if not row_of(name).has_marginals]

    def changed(**settings: object) -> Config:
        return config.model_copy(update={"stack": config.stack.model_copy(update=settings)})

    def fitted(name: str, part: StackingDataset, own: Config = config) -> Row:
        # Only their columns matter: `choose` counts the statistics without each fold.
        statistics = measure_statistics(part.table, part.context, part.correct)
        features = candidate_features(part.table, part.context, statistics, counted=part.correct)
        return name, part, choose(part, features, config=own, progress=lambda message: None).probability

    yield fitted("whole", dataset)
    yield "mean log odds, no SVM", dataset, mean_log_odds(dataset)
    lonely = dataset.without([name for name in names if name != names[-1]], min_confidence=least)
    yield f"{names[-1]} alone", lonely, mean_log_odds(lonely)
    if config.stack.trees:
        yield fitted("without the trees", dataset, changed(trees=False))
        yield fitted("without PHI around", without_kinds(dataset, "density"))
        yield fitted("without columns of tables", without_kinds(dataset, COLUMN))
    yield fitted("without trees and pooling", dataset, changed(trees=False, pool_weight=0.0))
    for gone in [*([name] for name in names), rules]:
        yield fitted(f"without {' and '.join(gone)}", dataset.without(gone, min_confidence=least))
    yield fitted("without the net", without_kinds(dataset, "net"))
    yield fitted("without lists", without_kinds(dataset, *LISTS))
    yield fitted("without other mentions", without_kinds(dataset, *MENTIONS))
    yield fitted("without training statistics", without_statistics(dataset))


def at_frozen(notes: Sequence[Document], system: Sequence[Document]) -> list[Document]:
    """Return each fold's answer at the threshold that keeps within `FROZEN` on the sites of the others."""
    kept: dict[str, Document] = {}
    sites = [note.group for note in notes]
    folds = group_folds(sites, min(MOST_FOLDS, len(set(sites))), generator(0, "frozen thresholds"))
    for fold in np.unique(folds).tolist():
        others, inside = np.flatnonzero(folds != fold).tolist(), np.flatnonzero(folds == fold).tolist()
        curve = trace_curve([notes[k] for k in others], [system[k] for k in others])
        point = find_point(curve, rule="false-positives", wanted=FROZEN)
        own = [system[k] for k in inside]
        kept |= {a.id: a for a in keep_above(own, 1.1 if point is None else just_below(point.threshold))}
    return [kept[note.id] for note in notes]


def answers_of(notes: Sequence[Document], system: Sequence[Document]) -> list[Sequence[Document]]:
    """Return the answer at the frozen thresholds, and that at each bound, chosen on these notes."""
    curve = trace_curve(notes, system)
    points = [find_point(curve, rule="false-positives", wanted=bound) for bound in BOUNDS]
    oracle = [keep_above(system, 1.1 if point is None else point.threshold) for point in points]
    return [at_frozen(notes, system), *oracle]


def cell(notes: Sequence[Document], own: Sequence[Document], whole: Sequence[Document], *, view: str) -> str:
    """Return token recall, or strict F1, and its difference to the whole stack's, with the interval over sites."""
    table, base = count_view(notes, own, view), count_view(notes, whole, view)
    measure: Measure = "f1" if view == "strict" else "recall"
    value = percent(table.total.f1 if view == "strict" else table.total.recall, sign="")
    if own is whole:
        return value
    group = {note.id: note.group for note in notes}
    sites = [group[note] for note in table.document_ids]
    change = paired_difference(table.per_document, base.per_document, sites, measure=measure)
    return f"{value} ({' ['.join(difference_cells(change)[:2])}])"


@as_script
def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each part left out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("notes")
    parser.add_argument("--rows", type=int, help="print only so many")
    parser.add_argument("--fit-candidates", type=int, help="fit SVMs to so many candidates, not to as many as training")
    options = parser.parse_args(arguments)
    manifest = read_manifest(options.model)
    config = make_config({**manifest.config, "jobs": 1})
    dataset = StackingDataset.load(private_files(options.model, *FILES, purpose="an ablation"))
    notes = notes_of(dataset, read_corpus(options.notes, gold=True).documents, options.model, config)
    config = with_settings(config, Stacker.load(options.model).svm.settings)
    if options.fit_candidates:
        stack = config.stack.model_copy(update={"fit_candidates": options.fit_candidates})
        config = config.model_copy(update={"stack": stack})
    # Changed copies of notes come after the notes: they teach, and are not scored.
    n_documents = max(len(notes), int(dataset.table.document.max(initial=-1)) + 1)
    sys.stdout.write(f"{HEAD}\n| --- | --- | --- | --- | --- | --- | --- |\n")
    whole: list[Sequence[Document]] = []
    for name, part, scores in islice(rows_of(dataset, config), options.rows):
        found = part.table.spans(scores, np.ones(len(part), bool), n_documents)[: len(notes)]
        system = [note.with_spans(drop_overlaps(spans)) for note, spans in zip(notes, found, strict=True)]
        answers = answers_of(notes, system)
        whole = whole or answers
        recall, *oracles = [cell(notes, *pair, view="token-binary") for pair in zip(answers, whole, strict=True)]
        counts, tokens = count_view(notes, answers[0], "token-binary").total, trace_curve(notes, system).tokens
        rate, f1 = figure(1000 * counts.fp / tokens, 1), cell(notes, answers[0], whole[0], view="strict")
        sys.stdout.write(f"| {name} | {' | '.join([recall, rate, f1, *oracles])} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
