"""How much a model gains from reviewed notes of a new site, by their number: misses on the site's other notes.

    python -m research.review_curve en demo:site --draws 10

Patients are drawn at random until there are enough notes; the model learns from their annotations, as from notes that
people reviewed, and both models are scored on all other notes at the same rate of false positives. The submodels read
each note once.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from statistics import mean

from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.evaluation.curve import trace_curve
from ensemble_deid.evaluation.operating_points import find_point
from ensemble_deid.model.ensemble import Ensemble
from ensemble_deid.model.installed import find_model
from ensemble_deid.model.loading import load_model
from ensemble_deid.note.document import Document
from ensemble_deid.reproducible import one_thread
from ensemble_deid.seeds import generator
from ensemble_deid.stacking.site_stage import SiteStage
from ensemble_deid.training.learn import ReviewedNote, prepare

SIZES = (10, 20, 40, 80)


def drawn(notes: list[ReviewedNote], size: int, seed: int) -> set[str]:
    """Return the ids of at least `size` notes, of whole patients."""
    patients = sorted({note.document.patient for note in notes})
    chosen: set[str] = set()
    for row in generator(seed, "review curve").permutation(len(patients)).tolist():
        if len(chosen) < size:
            chosen |= {note.document.id for note in notes if note.document.patient == patients[row]}
    return chosen


class Curve:
    """All notes with what the model finds in them before it learns."""

    def __init__(self, ensemble: Ensemble, notes: list[ReviewedNote], rate: float) -> None:
        self.ensemble, self.rate = ensemble, rate
        self.notes = [(note, note.scored(ensemble.stacker)) for note in notes]
        self.before = {note.document.id: note.found(ensemble, ensemble.stacker, one) for note, one in self.notes}

    def counts(self, size: int, seed: int) -> tuple[int, int]:
        """Return the misses on the notes that were not drawn, before and after learning from those that were."""
        chosen = drawn([note for note, _ in self.notes], size, seed)
        stage = SiteStage.fit([(note.view, one) for note, one in self.notes if note.document.id in chosen])
        stacker = replace(self.ensemble.stacker, site=stage)
        others = [(note, one) for note, one in self.notes if note.document.id not in chosen]
        gold = [note.document for note, _ in others]
        after = [note.found(self.ensemble, stacker, one) for note, one in others]
        before = [self.before[note.id] for note in gold]
        return misses(gold, before, self.rate), misses(gold, after, self.rate)


def misses(gold: list[Document], system: list[Document], rate: float) -> int:
    """Return how many tokens of PHI are missed at so many false positives in 1000 tokens."""
    point = find_point(trace_curve(gold, system, view="token-binary"), rule="false-positives", wanted=rate)
    if point is None:
        raise ValueError(f"no threshold reaches {rate:g} false positives in 1000 tokens")
    return point.counts.fn


def main() -> None:
    """Print a line for each draw and size, and the mean of each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("corpus")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--false-positives", type=float, default=5.0)
    options = parser.parse_args()
    ensemble, _ = load_model(find_model(options.model))
    notes = prepare(ensemble, read_corpus(options.corpus, gold=True).documents, lambda done: None)
    with one_thread():
        curve = Curve(ensemble, notes, options.false_positives)
        for size in SIZES:
            counts = [curve.counts(size, seed) for seed in range(options.draws)]
            print(f"{size} notes:", *(f"{before}>{after}" for before, after in counts), end=" ")
            falls = [1 - after / before for before, after in counts]
            print(
                f"fall {100 * mean(falls):.1f}% (lowest {100 * min(falls):.1f}, highest {100 * max(falls):.1f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
