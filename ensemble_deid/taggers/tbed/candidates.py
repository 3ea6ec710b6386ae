"""Candidate rules: how many errors each would fix now.

A candidate is a context and a new tag; its key is `context key * number of tags + new tag`. Candidates come only
from errors (a rule that fixes nothing cannot win). Each error remembers, instance by instance, the number of the
candidate that would fix it, so that an error that goes takes its counts along without a search.
"""

import numpy as np

from ensemble_deid.arrays import Int32s, Int64s
from ensemble_deid.taggers.tbed.instances import Indices
from ensemble_deid.taggers.tbed.keyindex import KeyIndex, distinct
from ensemble_deid.taggers.tbed.keys import ContextKeys
from ensemble_deid.taggers.tbed.places import stable_order

# Of the counts' own type: numpy adds it at many places without conversion, ten times faster.
_ONE = np.int32(1)
_NO_KEY = np.int64(-1)


class Candidates:
    """Counts of the errors that each candidate fixes; candidate 0 is none, for places without a context.

    `fixed[c]` is exact at all times, for c below `size`.
    """

    def __init__(self, keys: ContextKeys, errors: Int64s, gold: Int32s) -> None:
        self._contexts = keys
        self._gold = gold
        self._row_of: Int32s = np.full(keys.matrix.size, -1, np.int32)
        self._row_of[errors] = np.arange(len(errors))
        self._n_rows = len(errors)
        # (instances, errors): which candidate would fix the error.
        self._numbers: Int32s = np.zeros((len(keys.instances), len(errors) + len(errors) // 8 + 16), np.int32)
        self._first_keys, self.fixed = self._count_errors(errors)
        self._later = KeyIndex(first=len(self._first_keys))
        self.size = len(self.fixed)

    def rules_of(self, numbers: Int32s | Int64s) -> tuple[Int64s, Int64s]:
        """Return the keys of the candidates' contexts (n,) and their new tags (n,)."""
        first = len(self._first_keys)
        keys = self._first_keys[np.minimum(numbers, first - 1)]
        later = numbers >= first
        if later.any():
            keys[later] = self._later.keys[numbers[later] - first]
        return np.divmod(keys, self._contexts.n_tags)

    def remove(self, instances: Indices, places: Int64s) -> None:
        """Take away what the errors at places, looked at by instances, count for."""
        at = instances * self._numbers.shape[1]
        at += self._row_of.take(places)
        np.subtract.at(self.fixed, self._numbers.take(at), _ONE)

    def add(self, instances: Indices, places: Int64s, keys: Int64s) -> Int64s:
        """Count the errors at places, with the keys of their contexts now; return their candidates."""
        rules = keys * self._contexts.n_tags
        rules += self._gold.take(places)
        numbers = self._number(np.where(keys < 0, _NO_KEY, rules))
        rows = self._rows(places)
        self._numbers[instances, rows] = numbers
        np.add.at(self.fixed, numbers, _ONE)
        return numbers

    def _rows(self, places: Int64s) -> Int32s:
        rows = self._row_of.take(places)
        if rows.min() < 0:
            new = np.unique(places[rows < 0])
            self._row_of[new] = np.arange(self._n_rows, self._n_rows + len(new))
            self._n_rows += len(new)
            room = self._numbers.shape[1]
            if self._n_rows > room:
                more = np.zeros((self._numbers.shape[0], max(self._n_rows - room, room // 4)), np.int32)
                self._numbers = np.concatenate([self._numbers, more], axis=1)
            rows = self._row_of[places]
        return rows

    def _number(self, keys: Int64s) -> Int64s:
        """Return the numbers of candidates by key, giving new ones to new keys; 0 for the key -1."""
        # The first key is -1, those counted at the start follow in rising order, and the last is above any.
        numbers = self._first_keys.searchsorted(keys)
        (missed,) = (self._first_keys.take(numbers) != keys).nonzero()
        if len(missed):
            missing = keys.take(missed)
            later = self._later.find(missing)
            (unknown,) = (later < 0).nonzero()
            if len(unknown):
                new = distinct(missing.take(unknown))
                later[unknown] = new.searchsorted(missing.take(unknown)) + self.size
                self._later.add(new)
                self._grow(self.size + len(new))
            numbers[missed] = later
        return numbers

    def _grow(self, size: int) -> None:
        self.size = size
        if size > len(self.fixed):
            more = max(size - len(self.fixed), len(self.fixed) // 8, 256)
            self.fixed = np.concatenate([self.fixed, np.zeros(more, np.int32)])

    def _count_errors(self, errors: Int64s) -> tuple[Int64s, Int32s]:
        """Return the keys of all first candidates, in rising order after a -1, and what each fixes."""
        all_keys, all_counts, count = [np.array([-1])], [np.zeros(1, np.int64)], 1
        n_tags = self._contexts.n_tags
        for t in self._contexts.templates_in_order():
            instances = np.asarray(self._contexts.instances.of_template(t))
            keys = np.concatenate([self._contexts.at(j, errors, number_new=True) for j in instances.tolist()])
            (valid,) = (keys >= 0).nonzero()
            rules = keys[valid] * n_tags
            rules += self._gold[errors][valid % max(len(errors), 1)]
            keys_of_template = self._contexts.range_of(t)
            base = keys_of_template.start * n_tags
            distinct, order, counts = _group(rules - base, len(keys_of_template) * n_tags)
            members = valid[order]
            numbers = np.repeat(np.arange(count, count + len(distinct), dtype=np.int32), counts)
            self._numbers[instances[members // max(len(errors), 1)], members % max(len(errors), 1)] = numbers
            all_keys.append(distinct + base)
            all_counts.append(counts)
            count += len(distinct)
        all_keys.append(np.array([np.iinfo(np.int64).max]))
        all_counts.append(np.zeros(1, np.int64))
        return np.concatenate(all_keys), np.concatenate(all_counts).astype(np.int32)


def _group(values: Int64s, bound: int) -> tuple[Int64s, Int64s, Int64s]:
    """Return the distinct values (below `bound`) in order, the indices of equal ones side by side, and their counts."""
    order = stable_order(values, bound)
    ordered = values[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    return ordered[first], order, np.diff(first, append=len(values))
