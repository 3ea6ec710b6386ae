"""Chooses the next rule among the candidates that can still win."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

import numpy as np

from ensemble_deid.arrays import Flags, Int32s, Int64s
from ensemble_deid.taggers.tbed.broken import UNKNOWN, BrokenCounts
from ensemble_deid.taggers.tbed.candidates import Candidates
from ensemble_deid.taggers.tbed.keys import ContextKeys
from ensemble_deid.taggers.tbed.matching import RuleMatcher

# How many candidates are listed to begin with, how far the level drops when none of them can win, and for how
# many at most the broken tags are counted at once.
_FIRST_LISTED = 1024
_DROP = 0.7
_BATCH = 400
_LEAST_BATCH = 64


@dataclass(frozen=True, slots=True)
class Limits:
    """What a rule must reach: its score, its share of fixed tags among those it fixes or breaks, and the number of
    patients whose errors it fixes; `patients` numbers the patient of each token. `unsaid` has the values that no
    condition may name, by column."""

    min_score: int = 1
    min_accuracy: float = 0.0
    min_patients: int = 1
    patients: Int64s | None = None
    unsaid: Mapping[str, Set[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Choice:
    """The winning rule in codes: tags, the windows' cells, its counts and the places where it fires."""

    template: int
    tag: int
    new_tag: int
    cells: tuple[int, ...]
    fixed: int
    broken: int
    places: Int64s


class Selection:
    """Keeps a list of all candidates that fix at least `level` errors.

    A listed candidate's broken tags are counted only when it would win without any: until then its score is taken
    to be its count of fixed errors. A candidate off the list fixes fewer errors than the level, so none of them
    beats or equals a score at or above it; when the best score is below the level, the level drops.
    """

    def __init__(
        self,
        keys: ContextKeys,
        candidates: Candidates,
        broken: BrokenCounts,
        matcher: RuleMatcher,
        gold: Int32s,
        limits: Limits,
    ) -> None:
        self._contexts = keys
        self._candidates = candidates
        self._broken = broken
        self._matcher = matcher
        self._gold = gold
        self._limits = limits
        self._patient: Int64s | None = None
        if limits.patients is not None and limits.min_patients > 1:
            self._patient = np.full(keys.matrix.size, -1)
            self._patient[keys.matrix.layout.places] = limits.patients
        # By candidate: whether it is on the list, and whether the limits forbid it.
        self._is_listed: Flags = np.zeros(candidates.size, bool)
        self._is_barred: Flags = np.zeros(candidates.size, bool)
        # By place in the list: the candidate, its template, its context's key and its new tag, and the number under
        # which its context's broken tags are counted.
        self._rows: Int64s = np.empty((5, 0), np.int64)
        self._touched: list[Int64s] = []
        # For each number of errors, how many candidates fix at most so many.
        at_most = np.bincount(candidates.fixed[1 : candidates.size]).cumsum()
        self._level = limits.min_score
        if len(at_most):
            self._level = max(self._level, int(at_most.searchsorted(at_most[-1] - _FIRST_LISTED, side="right")))
        self._list_from_level()

    def touch(self, numbers: Int64s) -> None:
        """Note candidates, perhaps new ones, whose count of fixed errors has grown: they may be chosen again."""
        if len(self._is_listed) < self._candidates.size:
            # Some more than there are now, so that not every step makes new arrays.
            more = np.zeros(self._candidates.size - len(self._is_listed) + len(self._is_listed) // 8, bool)
            self._is_listed = np.concatenate([self._is_listed, more])
            self._is_barred = np.concatenate([self._is_barred, more])
        self._is_barred[numbers] = False
        grown = numbers[(self._candidates.fixed[numbers] >= self._level) & ~self._is_listed[numbers]]
        grown = grown[grown > 0]
        if len(grown):
            self._touched.append(grown)

    def choose(self) -> Choice | None:
        """Return the rule with the highest score, ties in the documented order; None when none reaches the limits."""
        self._list_touched()
        floor = self._limits.min_score
        while True:
            scores = self._scores()
            best = int(scores.max()) if len(scores) else 0
            if best < self._level:
                if self._level == floor:
                    return None
                self._level = max(floor, min(int(_DROP * self._level), self._level - 1))
                self._list_from_level()
                continue
            top = self._first_of((scores == best).nonzero()[0])
            if self._context[top] == UNKNOWN:
                self._count_broken(scores, best)
                continue
            choice = self._choice(top)
            if self._has_patients(choice) and not self._names_unsaid(choice):
                return choice
            self._is_barred[self._listed[top]] = True

    def _count_broken(self, scores: Int32s, best: int) -> None:
        """Count the broken tags of candidates that might win: a batch of those with the highest upper bound.

        Of equal bounds, those earlier in the list go first: it is kept nearly in the order of ties, so that the
        first of them that breaks nothing ends the search.
        """
        (unknown,) = (self._context == UNKNOWN).nonzero()
        bounds = scores.take(unknown)
        batch = unknown[bounds == best][:_BATCH]
        if len(batch) < _BATCH // 2:
            best_known = int(scores.max(where=self._context != UNKNOWN, initial=self._level))
            batch = unknown[bounds >= best_known]
            size = max(_LEAST_BATCH, min(len(batch), _BATCH))
            if len(batch) > size or len(unknown) > size:
                batch = unknown[np.argpartition(-bounds, size)[:size]]
            else:
                batch = unknown
        self._context[batch] = self._broken.numbers_of(self._key.take(batch), self._template.take(batch))

    def _scores(self) -> Int32s:
        """Return the score of each listed candidate, below any level where it may not be taken."""
        fixed = self._candidates.fixed.take(self._listed)
        broken = self._broken.counts.take(self._context)
        scores: Int32s = fixed - broken
        if self._limits.min_accuracy > 0:
            with np.errstate(invalid="ignore"):
                scores[~(fixed / (fixed + broken) >= self._limits.min_accuracy)] = 0
        if self._patient is not None or self._limits.unsaid:
            scores[self._is_barred[self._listed]] = 0
        return scores

    def _first_of(self, ties: Int64s) -> int:
        """Return which of some places in the list holds the candidate that comes first in the order of ties."""
        if len(ties) == 1:
            return int(ties[0])
        templates = self._template.take(ties)
        t = int(templates.min())
        ties = ties[templates == t]
        keys = self._key.take(ties)
        rank = self._contexts.tags_of(t, keys) * self._contexts.n_tags + self._new_tag.take(ties)
        (kept,) = (rank == rank.min()).nonzero()
        if len(kept) == 1:
            return int(ties[kept[0]])
        ties = ties.take(kept)
        contexts = self._contexts.decode(keys.take(kept))
        kept = np.arange(len(ties))
        for c, row in enumerate(self._contexts.instances.rows[t]):
            if len(kept) == 1:
                break
            values = self._contexts.matrix.values[row]
            cells = contexts.cells[c].take(kept)
            least = min(set(cells.tolist()), key=lambda cell: repr(values[cell - 1]))
            kept = kept[cells == least]
        return int(ties[kept[0]])

    def _choice(self, at: int) -> Choice:
        """Return the candidate at a place in the list with its counts and its places."""
        t, number = int(self._template[at]), int(self._listed[at])
        tag, cells = self._contexts.decode_one(t, int(self._key[at]))
        fixed, broken = int(self._candidates.fixed[number]), int(self._broken.counts[self._context[at]])
        places = self._matcher.places(t, tag, cells)
        return Choice(
            template=t,
            tag=tag,
            new_tag=int(self._new_tag[at]),
            cells=tuple(cells),
            fixed=fixed,
            broken=broken,
            places=places,
        )

    def _has_patients(self, choice: Choice) -> bool:
        if self._patient is None:
            return True
        fixed = choice.places[self._gold[choice.places] == choice.new_tag]
        return len(np.unique(self._patient[fixed])) >= self._limits.min_patients

    def _names_unsaid(self, choice: Choice) -> bool:
        if not self._limits.unsaid:
            return False
        instances = self._contexts.instances
        values = self._contexts.matrix.values
        return any(
            values[row][cell - 1] in self._limits.unsaid.get(window.column, ())
            for window, row, cell in zip(
                instances.windows[choice.template], instances.rows[choice.template], choice.cells, strict=True
            )
        )

    def _list_touched(self) -> None:
        if self._touched:
            numbers = np.unique(np.concatenate(self._touched))
            self._touched.clear()
            self._list(numbers[~self._is_listed[numbers]])

    def _list_from_level(self) -> None:
        """List all candidates that fix at least as many errors as the level, and drop those that no longer do."""
        fixed = self._candidates.fixed[: self._candidates.size]
        keep = fixed[self._rows[0]] >= self._level
        self._is_listed[self._rows[0, ~keep]] = False
        self._rows = self._rows[:, keep]
        new = (fixed >= self._level) & ~self._is_listed[: self._candidates.size]
        new[0] = False
        self._list(np.flatnonzero(new))

    def _list(self, numbers: Int64s) -> None:
        keys, new_tags = self._candidates.rules_of(numbers)
        templates = self._contexts.templates_of(keys)
        order = templates.argsort(kind="stable")
        new = np.stack([numbers, templates, keys, new_tags, np.full(len(numbers), UNKNOWN)])[:, order]
        self._rows = np.concatenate([self._rows, new], axis=1)
        self._listed, self._template, self._key, self._new_tag, self._context = self._rows
        self._is_listed[numbers] = True
