"""How many right tags each context would break, counted when first asked for and kept exact from then on."""

import numpy as np

from ensemble_deid.arrays import Flags, Int32s, Int64s
from ensemble_deid.compiled import has_core
from ensemble_deid.taggers.tbed.instances import Indices
from ensemble_deid.taggers.tbed.keyindex import KeyIndex, distinct
from ensemble_deid.taggers.tbed.keys import ContextKeys, Contexts
from ensemble_deid.taggers.tbed.matching import RuleMatcher

# A number that stands for a context not asked for: its count is 0.
UNKNOWN = -2
# Of the counts' own type: numpy adds it at many places without conversion, ten times faster.
_ONE = np.int32(1)
# So many contexts of one template are swept for one by one; more by one sweep for all.
_FEW_CONTEXTS = 12


class BrokenCounts:
    """The number of right tags in each context asked for, `counts[numbers_of(keys)]`.

    Templates of few keys have a table of all their contexts, filled when one of them is first asked for; a
    context in a table has its key for its number. Others are numbered, after the tables, when they are asked for.
    The last counts but one is always 0, for `UNKNOWN`; the last takes what counts nowhere.
    """

    def __init__(self, keys: ContextKeys, matcher: RuleMatcher, right: Flags) -> None:
        self.keys = keys
        self.matcher = matcher
        self._right = right
        self._in_tables = keys.table_size
        self._index = KeyIndex(first=self._in_tables)
        # By template: whether it has no table to be filled, or one that is.
        self._filled: Flags = np.array([not keys.has_table(t) for t in range(len(keys.instances.rows))], bool)
        self.counts: Int32s = np.zeros(self._in_tables + 1024, np.int32)

    def numbers_of(self, keys: Int64s, templates: Indices) -> Int64s:
        """Return the numbers of contexts, counting those not asked for before. Keys may repeat."""
        (unfilled,) = (~self._filled.take(templates)).nonzero()
        if len(unfilled):
            self._fill_tables(sorted(set(templates.take(unfilled).tolist())))
        numbers = self._find(keys)
        (missed,) = (numbers < 0).nonzero()
        if len(missed):
            self._count_new(distinct(keys.take(missed)))
            numbers[missed] = self._find(keys[missed])
        return numbers

    def move(self, before: Int64s, after: Int64s) -> None:
        """Take right tags out of the contexts `before` and put them into `after`, given by key; those not asked for,
        and -1, count for nothing."""
        numbers = self._find(np.concatenate([before, after]))
        np.subtract.at(self.counts, numbers[: len(before)], _ONE)
        np.add.at(self.counts, numbers[len(before) :], _ONE)

    def _find(self, keys: Int64s) -> Int64s:
        """Return the numbers of contexts, -1 where they have none."""
        return np.where(keys < self._in_tables, keys, self._index.find(keys))

    def _fill_tables(self, templates: list[int]) -> None:
        """Count the right tags in every context of these templates, all of which have tables."""
        for t in templates:
            keys = self.keys.range_of(t)
            self.counts[keys.start : keys.stop] = 0
            self._filled[t] = True
        if has_core():
            from ensemble_deid import _core

            _, instances = self.keys.instances.of_templates(np.asarray(templates, np.intp))
            _core.count_contexts(self.keys.compiled, self._right.nonzero()[0], instances, self.counts)
        else:
            for t in templates:
                keys = self.keys.range_of(t)
                for found in self._right_keys(t):
                    self.counts[keys.start : keys.stop] += np.bincount(found - keys.start, minlength=len(keys))

    def _count_new(self, keys: Int64s) -> None:
        """Count the right tags in contexts of no table and not asked for before; the keys are distinct."""
        contexts = self.keys.decode(keys)
        source, lengths = self.matcher.shortest_lists(contexts)
        counts = np.zeros(len(keys), np.int32)
        is_short = lengths <= self.matcher.longest_list
        (short,) = is_short.nonzero()
        if len(short):
            counts[short] = self.matcher.count_right(keys[short], contexts.select(short), source[short], self._right)
        templates = contexts.templates[~is_short]
        for t in sorted(set(templates.tolist())):
            mine = (~is_short).nonzero()[0][templates == t]
            counts[mine] = self._sweep(t, keys[mine], contexts.select(mine))
        first = self._in_tables + len(self._index)
        self._index.add(keys)
        used = first + len(keys)
        if used + 2 > len(self.counts):
            grown = np.zeros(used + len(self._index) + 2, np.int32)
            grown[:first] = self.counts[:first]
            self.counts = grown
        self.counts[first:used] = counts

    def _sweep(self, t: int, keys: Int64s, contexts: Contexts) -> Int64s:
        """Count contexts of one template that no short list leads to."""
        if len(keys) <= _FEW_CONTEXTS:
            cells = contexts.cells[: len(self.keys.instances.rows[t])].T.tolist()
            found = [
                self.matcher.places(t, tag, values) for tag, values in zip(contexts.tags.tolist(), cells, strict=True)
            ]
            return np.array([np.count_nonzero(self._right.take(places)) for places in found])
        index = KeyIndex()
        index.add(keys)
        numbers = np.concatenate([index.find(found) for found in self._right_keys(t)])
        return np.bincount(numbers[numbers >= 0], minlength=len(keys))

    def _right_keys(self, t: int) -> list[Int64s]:
        """Return, for each instance of a template, the keys of its contexts at right tags."""
        pad = self.keys.matrix.layout.pad
        inside = slice(pad, self.keys.matrix.size - pad)
        found: list[Int64s] = []
        for j in self.keys.instances.of_template(t):
            keys = self.keys.at(j, inside, number_new=False)
            found.append(keys[self._right[inside] & (keys >= 0)])
        return found
