"""Chooses the next rule among the candidates that can still win."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.taggers.tbed.broken import BrokenCounts
from ensemble_deid.taggers.tbed.candidates import Candidates, Numbers
from ensemble_deid.taggers.tbed.layout import Integers

# How many candidates are listed to begin with, and how far the level sinks when none of them can win.
_FIRST_LISTED = 256
_SINK = 0.8


@dataclass(frozen=True, slots=True)
class Choice:
    """The winning rule in codes: tags, the windows' cells, its counts and the places where it fires."""

    template: int
    tag: int
    new_tag: int
    cells: tuple[int, ...]
    fixed: int
    broken: int
    places: Integers


class Selection:
    """Keeps a list of all candidates that fix at least `level` errors, with their broken tags counted.

    A candidate off the list fixes fewer errors than the level, so none of them beats or equals a score at or above
    it. When the best score on the list is below the level, the level sinks and more candidates are listed.
    """

    def __init__(self, candidates: Candidates, broken: BrokenCounts, gold: NDArray[np.int32]) -> None:
        self.candidates = candidates
        self.broken = broken
        self.contexts = candidates.contexts
        self.gold = gold
        self._listed: Integers = np.empty(0, np.int64)
        self._context: NDArray[np.int32] = np.empty(0, np.int32)
        self._touched: list[Numbers] = []
        self.set_limits(min_score=1, min_accuracy=0.0, min_patients=1, patients=None)

    def set_limits(self, *, min_score: int, min_accuracy: float, min_patients: int, patients: Integers | None) -> None:
        """Set what a rule must reach; `patients` numbers the patient of each token."""
        self.floor = min_score
        self.min_accuracy = min_accuracy
        self.min_patients = min_patients
        self._patient: Integers | None = None
        if patients is not None and min_patients > 1:
            self._patient = np.full(self.contexts.matrix.size, -1)
            self.contexts.matrix.layout.spread(patients, self._patient)
        fixed = self.candidates.fixed[1 : self.candidates.size]
        rank = max(0, len(fixed) - _FIRST_LISTED)
        self.level = max(self.floor, int(np.partition(fixed, rank)[rank])) if len(fixed) else self.floor
        self._list_from(self.level)

    def touch(self, numbers: Numbers) -> None:
        """Note candidates whose count of fixed errors has grown; they are listed before the next choice."""
        grown = numbers[(self.candidates.fixed[numbers] >= self.level) & ~self.candidates.listed[numbers]]
        grown = grown[grown > 0]
        if len(grown):
            self._touched.append(grown)

    def choose(self) -> Choice | None:
        """Return the rule with the highest score, ties in the documented order; None when none reaches the floor."""
        self._list_touched()
        while True:
            scores = self._scores()
            best = int(scores.max()) if len(scores) else 0
            if best >= self.level:
                number = self._first_of(self._listed[scores == best])
                choice = self._choice(number)
                if self._has_patients(choice):
                    return choice
                self.candidates.barred[number] = True
            elif self.level > self.floor:
                sunk = max(best, int(_SINK * (best if best >= self.floor else self.level)))
                self.level = max(self.floor, min(sunk, self.level - 1))
                self._list_from(self.level)
            else:
                return None

    def _scores(self) -> NDArray[np.int64]:
        """Return the score of each listed candidate, below any level where it may not be taken."""
        fixed = self.candidates.fixed.take(self._listed)
        broken = self.broken.counts.take(self._context)
        scores = fixed - broken
        if self.min_accuracy > 0:
            with np.errstate(invalid="ignore"):
                scores[~(fixed / (fixed + broken) >= self.min_accuracy)] = 0
        if self._patient is not None:
            scores[self.candidates.barred[self._listed]] = 0
        return scores

    def _first_of(self, ties: Integers) -> int:
        """Return the candidate that comes first in the order of ties."""
        contexts, new_tags = np.divmod(self.candidates.keys_of(ties), self.contexts.n_tags)
        templates = self.contexts.templates_of(contexts)
        t = int(templates.min())
        kept = np.flatnonzero(templates == t)
        tags, cells = self.contexts.decode(t, contexts[kept])
        rank = tags * self.contexts.n_tags + new_tags[kept]
        first = rank == rank.min()
        kept, cells = kept[first], cells[:, first]
        for c, row in enumerate(self.contexts.window_rows[t]):
            if len(kept) == 1:
                break
            values = self.contexts.matrix.values[row]
            least = min(np.unique(cells[c]).tolist(), key=lambda cell: repr(values[cell - 1]))
            first = cells[c] == least
            kept, cells = kept[first], cells[:, first]
        return int(ties[kept[0]])

    def _choice(self, number: int) -> Choice:
        """Return a candidate with its counts and its places."""
        context, new_tag = divmod(int(self.candidates.keys_of(np.array([number]))[0]), self.contexts.n_tags)
        key = np.array([context])
        t = int(self.contexts.templates_of(key)[0])
        tags, cells = self.contexts.decode(t, key)
        tag, values = int(tags[0]), [int(cell) for cell in cells[:, 0]]
        fixed = int(self.candidates.fixed[number])
        broken = int(self.broken.counts[self.broken.numbers_of(key)[0]])
        places = self.broken.matcher.places(t, tag, values)
        return Choice(t, tag, new_tag, tuple(values), fixed, broken, places)

    def _has_patients(self, choice: Choice) -> bool:
        if self._patient is None:
            return True
        mended = choice.places[self.gold[choice.places] == choice.new_tag]
        return len(np.unique(self._patient[mended])) >= self.min_patients

    def _list_touched(self) -> None:
        if self._touched:
            numbers = np.unique(np.concatenate(self._touched)).astype(np.int64)
            self._touched.clear()
            self._list(numbers[~self.candidates.listed[numbers]])

    def _list_from(self, level: int) -> None:
        """List all candidates that fix at least `level`, and drop those that no longer do."""
        fixed = self.candidates.fixed[: self.candidates.size]
        keep = fixed[self._listed] >= level
        self.candidates.listed[self._listed[~keep]] = False
        self._listed, self._context = self._listed[keep], self._context[keep]
        new = (fixed >= level) & ~self.candidates.listed[: self.candidates.size]
        new[0] = False
        self._list(np.flatnonzero(new))

    def _list(self, numbers: Integers) -> None:
        contexts = self.broken.numbers_of(self.candidates.keys_of(numbers) // self.contexts.n_tags)
        self._listed = np.concatenate([self._listed, numbers])
        self._context = np.concatenate([self._context, contexts])
        self.candidates.listed[numbers] = True
