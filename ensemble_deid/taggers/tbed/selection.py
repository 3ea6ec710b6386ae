"""Chooses the next rule among the candidates that can still win."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.taggers.tbed.broken import UNKNOWN, BrokenCounts
from ensemble_deid.taggers.tbed.candidates import Candidates
from ensemble_deid.taggers.tbed.keys import Indices
from ensemble_deid.taggers.tbed.layout import Integers

# How many candidates are listed to begin with, how far the level sinks when none of them can win, and for how
# many at most the broken tags are counted at once.
_FIRST_LISTED = 1024
_SINK = 0.7
_BATCH = 400
_LEAST_BATCH = 64


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
    """Keeps a list of all candidates that fix at least `level` errors.

    A listed candidate's broken tags are counted only when it would win without any: until then its score is taken
    to be its count of fixed errors. A candidate off the list fixes fewer errors than the level, so none of them
    beats or equals a score at or above it; when the best score is below the level, the level sinks.
    """

    def __init__(self, candidates: Candidates, broken: BrokenCounts, gold: NDArray[np.int32]) -> None:
        self.candidates = candidates
        self.broken = broken
        self.contexts = candidates.contexts
        self.gold = gold
        # By place in the list: the candidate, its template and its key, and the number of its context.
        self._listed: Integers = np.empty(0, np.int64)
        self._template: Indices = np.empty(0, np.intp)
        self._keys: Integers = np.empty(0, np.int64)
        self._context: Integers = np.empty(0, np.int64)
        self._touched: list[Integers] = []
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

    def touch(self, numbers: Integers) -> None:
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
            if best < self.level:
                if self.level == self.floor:
                    return None
                self.level = max(self.floor, min(int(_SINK * self.level), self.level - 1))
                self._list_from(self.level)
                continue
            top = self._first_of((scores == best).nonzero()[0])
            if self._context[top] == UNKNOWN:
                self._count_broken(scores, best)
                continue
            choice = self._choice(top)
            if self._has_patients(choice):
                return choice
            self.candidates.barred[self._listed[top]] = True

    def _count_broken(self, scores: NDArray[np.int32], best: int) -> None:
        """Count the broken tags of candidates that might win: a batch of those with the best hopes.

        Of equal hopes, those earlier in the list go first: it is kept nearly in the order of ties, so that the
        first of them that breaks nothing ends the search.
        """
        (unknown,) = (self._context == UNKNOWN).nonzero()
        hopes = scores.take(unknown)
        batch = unknown[hopes == best][:_BATCH]
        if len(batch) < _BATCH // 2:
            best_known = int(scores.max(where=self._context != UNKNOWN, initial=self.level))
            batch = unknown[hopes >= best_known]
            size = max(_LEAST_BATCH, min(len(batch), _BATCH))
            if len(batch) > size or len(unknown) > size:
                batch = unknown[np.argpartition(-hopes, size)[:size]]
            else:
                batch = unknown
        keys = self._keys.take(batch) // self.contexts.n_tags
        self._context[batch] = self.broken.numbers_of(keys, self._template.take(batch))

    def _scores(self) -> NDArray[np.int32]:
        """Return the score of each listed candidate, below any level where it may not be taken."""
        fixed = self.candidates.fixed.take(self._listed)
        broken = self.broken.counts.take(self._context)
        scores: NDArray[np.int32] = fixed - broken
        if self.min_accuracy > 0:
            with np.errstate(invalid="ignore"):
                scores[~(fixed / (fixed + broken) >= self.min_accuracy)] = 0
        if self._patient is not None:
            scores[self.candidates.barred[self._listed]] = 0
        return scores

    def _first_of(self, ties: Integers) -> int:
        """Return which of some places in the list holds the candidate that comes first in the order of ties."""
        if len(ties) == 1:
            return int(ties[0])
        # In the keys the present tag is the highest digit below the template, and the new tag the lowest of all.
        templates = self._template.take(ties)
        t = int(templates.min())
        ties = ties[templates == t]
        keys = self._keys.take(ties)
        per_tag = self.contexts.sizes[t]
        tags, n_tags = (keys - self.contexts.bases[t] * self.contexts.n_tags) // per_tag, self.contexts.n_tags
        rank = tags * n_tags + keys % n_tags
        (kept,) = (rank == rank.min()).nonzero()
        if len(kept) == 1:
            return int(ties[kept[0]])
        ties = ties.take(kept)
        contexts = self.contexts.decode(keys.take(kept) // n_tags)
        kept = np.arange(len(ties))
        for c, row in enumerate(self.contexts.window_rows[t]):
            if len(kept) == 1:
                break
            values = self.contexts.matrix.values[row]
            cells = contexts.cells[c].take(kept)
            least = min(set(cells.tolist()), key=lambda cell: repr(values[cell - 1]))
            kept = kept[cells == least]
        return int(ties[kept[0]])

    def _choice(self, at: int) -> Choice:
        """Return the candidate at a place in the list with its counts and its places."""
        t, number = int(self._template[at]), int(self._listed[at])
        key, new_tag = divmod(int(self._keys[at]), self.contexts.n_tags)
        tag, cells = self.contexts.decode_one(t, key)
        fixed, broken = int(self.candidates.fixed[number]), int(self.broken.counts[self._context[at]])
        places = self.broken.matcher.places(t, tag, cells)
        return Choice(t, tag, new_tag, tuple(cells), fixed, broken, places)

    def _has_patients(self, choice: Choice) -> bool:
        if self._patient is None:
            return True
        mended = choice.places[self.gold[choice.places] == choice.new_tag]
        return len(np.unique(self._patient[mended])) >= self.min_patients

    def _list_touched(self) -> None:
        if self._touched:
            numbers = np.unique(np.concatenate(self._touched))
            self._touched.clear()
            self._list(numbers[~self.candidates.listed[numbers]])

    def _list_from(self, level: int) -> None:
        """List all candidates that fix at least `level`, and drop those that no longer do."""
        fixed = self.candidates.fixed[: self.candidates.size]
        keep = fixed[self._listed] >= level
        self.candidates.listed[self._listed[~keep]] = False
        self._listed, self._template = self._listed[keep], self._template[keep]
        self._keys, self._context = self._keys[keep], self._context[keep]
        new = (fixed >= level) & ~self.candidates.listed[: self.candidates.size]
        new[0] = False
        self._list(np.flatnonzero(new))

    def _list(self, numbers: Integers) -> None:
        keys = self.candidates.keys_of(numbers)
        templates = self.contexts.templates_of(keys // self.contexts.n_tags)
        order = templates.argsort(kind="stable")
        self._listed = np.concatenate([self._listed, numbers.take(order)])
        self._template = np.concatenate([self._template, templates.take(order)])
        self._keys = np.concatenate([self._keys, keys.take(order)])
        self._context = np.concatenate([self._context, np.full(len(numbers), UNKNOWN)])
        self.candidates.listed[numbers] = True
