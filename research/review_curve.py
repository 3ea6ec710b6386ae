"""How much a model gains from reviewed notes of a new site, by their number: misses on the site's other notes.

    python -m research.review_curve en demo:site --draws 5

Patients are drawn at random until there are enough notes; the model learns from their annotations, as from notes that
people reviewed, and both models are scored on all other notes at the same rate of false positives. The submodels read
each note once.
"""

import argparse
import sys
from pathlib import Path
from statistics import mean

from ensemble_deid.cli.terminal import as_script
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.evaluation.curve import trace_curve
from ensemble_deid.evaluation.operating_points import find_point
from ensemble_deid.model.ensemble import Ensemble
from ensemble_deid.model.installed import find_model
from ensemble_deid.model.loading import load_model
from ensemble_deid.note.document import Document
from ensemble_deid.reproducible import one_thread
from ensemble_deid.seeds import generator
from ensemble_deid.training.learn import Lists, ReviewedNote, SiteLearner, prepare

SIZES = (10, 20, 40, 80)
EVERYTHING = Lists(rules=True, patterns=True, sentences=True)


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

    def __init__(self, model: Path, ensemble: Ensemble, notes: list[ReviewedNote], rate: float) -> None:
        self.model, self.ensemble, self.rate, self.notes = model, ensemble, rate, notes
        stacker = ensemble.stacker
        self.before = {note.document.id: note.found(ensemble, stacker, note.scored(stacker)) for note in notes}

    def counts(self, size: int, seed: int) -> tuple[int, int]:
        """Return the misses on the notes that were not drawn, before and after learning from those that were."""
        chosen = drawn(self.notes, size, seed)
        inside = [note for note in self.notes if note.document.id in chosen]
        learned = SiteLearner(self.model, self.ensemble, inside, self.rate).fit(EVERYTHING)
        others = [note for note in self.notes if note.document.id not in chosen]
        ruled = others if learned.tagger is None else [note.with_rules(learned.tagger) for note in others]
        stacker = learned.stackers[""]
        found = [note.found(self.ensemble, stacker, note.scored(stacker)) for note in ruled]
        gold = [note.document for note in others]
        after = [learned.additions.applied(note) for note in found]
        return misses(gold, [self.before[note.id] for note in gold], self.rate), misses(gold, after, self.rate)


def misses(gold: list[Document], system: list[Document], rate: float) -> int:
    """Return how many tokens of PHI are missed at so many false positives in 1000 tokens."""
    point = find_point(trace_curve(gold, system, view="token-binary"), rule="false-positives", wanted=rate)
    if point is None:
        raise ValueError(f"no threshold reaches {rate:g} false positives in 1000 tokens")
    return point.counts.fn


@as_script
def main() -> None:
    """Print a line for each draw and size, and the mean of each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("corpus")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--false-positives", type=float, default=5.0)
    options = parser.parse_args()
    model = find_model(options.model)
    ensemble, _ = load_model(model)
    notes = prepare(ensemble, read_corpus(options.corpus, gold=True).documents, lambda done: None)
    with one_thread():
        curve = Curve(model, ensemble, notes, options.false_positives)
        for size in SIZES:
            counts = [curve.counts(size, seed) for seed in range(options.draws)]
            print(f"{size} notes:", *(f"{before}>{after}" for before, after in counts), end=" ")
            falls = [1 - after / before for before, after in counts]
            print(
                f"fall {100 * mean(falls):.1f}% (lowest {100 * min(falls):.1f}, highest {100 * max(falls):.1f})",
                flush=True,
            )


if __name__ == "__main__":
    sys.exit(main())
