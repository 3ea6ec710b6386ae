"""Learns transformation rules: Brill's greedy search, exact and vectorised.

Every step takes the rule with the highest score (errors fixed less right tags broken), applies it everywhere at
once, and goes on from the tags it leaves (Brill 1995). The counts of all rules are kept exact from step to step:
only the places whose windows see a changed tag are counted anew (Ngai and Florian 2001). No rule's broken tags
are counted before its fixed ones alone could win (score <= fixed).

Rules of equal score are taken in this order: by the place of their template in the list; then by the present tag,
the new tag, and the values of the windows in the template's order, each compared as Python writes it (`repr`).
"""

from collections.abc import Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ensemble_deid.arrays import Flags, Int32s, Int64s
from ensemble_deid.taggers.tbed.broken import BrokenCounts
from ensemble_deid.taggers.tbed.candidates import Candidates
from ensemble_deid.taggers.tbed.instances import Indices, Instances
from ensemble_deid.taggers.tbed.keys import ContextKeys
from ensemble_deid.taggers.tbed.layout import GOLD, TAGS, CellMatrix, Layout, Strings, as_column, check_columns
from ensemble_deid.taggers.tbed.matching import RuleMatcher
from ensemble_deid.taggers.tbed.selection import Choice, Limits, Selection
from ensemble_deid.taggers.tbed.templates import Condition, Rule, Template

# Which pairs of a place and an instance see a changed tag.


class Neighbours:
    """Finds, for changed places, all pairs of a place and an instance whose context asks for a changed tag.

    Entry e says that instance `instance[e]` looks at the tag at `offset[e]`; `earlier[:, e]` are the offsets of
    the instance's entries before e (0 where there are fewer), by which a pair seen twice is kept once.
    """

    def __init__(self, instances: Instances) -> None:
        entries: list[tuple[int, int, list[int]]] = []
        for j in range(len(instances)):
            t = int(instances.template[j])
            # An instance asks for the tags before its own in a window too: it is left out where one is the same.
            beside = {
                offset
                for row, window, last in zip(instances.rows[t], instances.windows[t], instances.offsets[j], strict=True)
                for offset in range(window.first, last + 1)
                if row == TAGS and offset != 0
            }
            offsets = sorted(beside)
            entries += [(j, offset, offsets[:i]) for i, offset in enumerate(offsets)]
        depth = max((len(earlier) for *_, earlier in entries), default=0)
        self.instance: Indices = np.array([j for j, *_ in entries], np.intp)
        self._offset: Int64s = np.array([offset for _, offset, _ in entries], np.int64)
        # A changed place itself is looked at anew by all instances, so it is nobody's neighbour: offset 0 first.
        self._earlier: Int64s = np.zeros((1 + depth, 1, len(entries)), np.int64)
        for e, (_, _, earlier) in enumerate(entries):
            self._earlier[1 : 1 + len(earlier), 0, e] = earlier

        self._all: Indices = np.arange(len(instances))
        self._rows: Indices = self._all

    def pairs(self, places: Int64s, changed: Flags, real: Flags) -> tuple[Int64s, Indices]:
        """Return the places by all instances, and the pairs of places and instances beside them, each pair once.

        `changed` marks all changed places, `real` all places of tokens.
        """
        n = len(self._all)
        if len(places) == 1:
            near = places - self._offset
            keep = real.take(near)
            return (
                np.concatenate([places.repeat(n), near.compress(keep)]),
                np.concatenate([self._all, self.instance.compress(keep)]),
            )
        if len(self._rows) < n * len(places):
            self._rows = np.tile(self._all, len(places))
        near = places[:, None] - self._offset
        keep = real.take(near)
        # A neighbour by one entry may be changed itself, or a neighbour by an earlier entry.
        keep &= ~changed.take(near + self._earlier).any(axis=0)
        (kept,) = keep.ravel().nonzero()
        return (
            np.concatenate([places.repeat(n), near.take(kept)]),
            np.concatenate([self._rows[: n * len(places)], self.instance.take(kept % len(self.instance))]),
        )


# Changed places are recounted in blocks of about this many (place, instance) pairs, to bound the memory.
_BLOCK_PAIRS = 1 << 15


def learn_rules(
    columns: Mapping[str, Strings],
    initial_tags: Strings,
    gold_tags: Strings,
    sentence_starts: ArrayLike,
    templates: Sequence[Template],
    *,
    max_rules: int = 200,
    min_score: int = 2,
    min_accuracy: float = 0.0,
    min_patients: int = 1,
    patients: Sequence[int] | NDArray[np.integer[Any]] | None = None,
    unsaid: Mapping[str, Set[str]] = MappingProxyType({}),
) -> list[Rule]:
    """Learn an ordered list of rules that turn the initial tags into the gold tags.

    `columns` maps a feature's name to one string a token, or to a `Column`; the tags are given the same way;
    `sentence_starts` are the rising positions of the sentences' first tokens, from 0. A rule is learned while at most
    `max_rules` are, it scores at least `min_score` (and at least 1), fixes at least `min_accuracy` of the tags it fixes
    or breaks, and fixes errors of at least `min_patients` patients, `patients` being the number of each token's
    patient; no condition names a value that is `unsaid` of its column. Raises RuleError when a template names a column
    that is not there, and ValueError when lengths or limits do not fit.
    """
    n_tokens = len(gold_tags)
    if len(initial_tags) != n_tokens:
        raise ValueError(f"there are {len(initial_tags)} initial tags and {n_tokens} gold tags")
    if min_patients > 1 and (patients is None or len(patients) != n_tokens):
        raise ValueError("min_patients needs `patients`, one patient number a token")
    windows = [window for template in templates for window in template.windows]
    encoded = check_columns(columns, n_tokens, [window.column for window in windows])
    pad = max((abs(o) for window in windows for o in (window.first, window.last)), default=0)
    layout = Layout(sentence_starts, n_tokens, pad=pad)
    if not n_tokens or not templates:
        return []
    tags, initial, gold = _encode_tags(initial_tags, gold_tags)
    numbers = None if patients is None else np.asarray(patients, np.int64)
    limits = Limits(max(1, min_score), min_accuracy, min_patients, numbers, unsaid)
    return _Learner(CellMatrix(layout, encoded, tags, initial, gold), templates, limits).learn(max_rules)


def _encode_tags(initial: Strings, gold: Strings) -> tuple[tuple[str, ...], Int32s, Int32s]:
    """Return all tags in the order of ties, and both taggings as indices into them."""
    first, second = as_column(initial), as_column(gold)
    tags = tuple(sorted({*first.values, *second.values}, key=repr))
    index = {tag: code for code, tag in enumerate(tags)}
    return tags, first.lookup(index, unknown=-1), second.lookup(index, unknown=-1)


class _Learner:
    """The state between two rules: tags, the counts of all candidates, and those that may win next."""

    def __init__(self, matrix: CellMatrix, templates: Sequence[Template], limits: Limits) -> None:
        self.matrix = matrix
        self.keys = ContextKeys(templates, matrix)
        current, gold = matrix.cells[TAGS], matrix.cells[GOLD]
        self.gold: Int32s = gold - np.int32(1)
        self.real: Flags = gold > 0
        self.right: Flags = current == gold
        self.right &= self.real
        self.matcher = RuleMatcher(self.keys)
        errors = np.flatnonzero(self.real & ~self.right)
        self.candidates = Candidates(self.keys, errors, self.gold)
        self.broken = BrokenCounts(self.keys, self.matcher, self.right)
        self.neighbours = Neighbours(self.keys.instances)
        self.changed: Flags = np.zeros(matrix.size, bool)
        self.selection = Selection(self.keys, self.candidates, self.broken, self.matcher, gold=self.gold, limits=limits)

    def learn(self, max_rules: int) -> list[Rule]:
        rules: list[Rule] = []
        while len(rules) < max_rules:
            choice = self.selection.choose()
            if choice is None:
                break
            rules.append(self._rule(choice))
            self._fire(choice.places, choice.new_tag)
        return rules

    def _rule(self, choice: Choice) -> Rule:
        tags = self.matrix.values[TAGS]
        instances = self.keys.instances
        windows, rows = instances.windows[choice.template], instances.rows[choice.template]
        conditions = tuple(
            Condition(window, self.matrix.values[row][cell - 1])
            for window, row, cell in zip(windows, rows, choice.cells, strict=True)
        )
        return Rule(tags[choice.tag], tags[choice.new_tag], conditions, choice.fixed, choice.broken)

    def _fire(self, places: Int64s, new_tag: int) -> None:
        """Give the places their new tag and bring all counts up to date."""
        self.changed[places] = True
        step = max(1, _BLOCK_PAIRS // (len(self.keys.instances) + len(self.neighbours.instance)))
        starts = range(0, len(places), step)
        blocks = [self._uncount(places[start : start + step]) for start in starts]
        self.matrix.cells[TAGS, places] = new_tag + 1
        self.matcher.set_tag(places, new_tag)
        self.right[places] = self.gold.take(places) == new_tag
        for block in blocks:
            self._recount(*block)
        self.changed[places] = False

    def _uncount(self, places: Int64s) -> tuple[Int64s, Indices, Int64s]:
        """Take away the errors among all pairs that see the places change.

        Return the pairs' places and instances, and the keys of the right tags among them.
        """
        pair_places, instances = self.neighbours.pairs(places, self.changed, self.real)
        right = self.right.take(pair_places)
        (wrong,) = (~right).nonzero()
        self.candidates.remove(instances.take(wrong), pair_places.take(wrong))
        keys = self.keys.seen(pair_places[right], instances[right], number_new=False)
        return pair_places, instances, keys

    def _recount(self, places: Int64s, instances: Indices, right_before: Int64s) -> None:
        """Count the pairs again with the tags as they are now."""
        keys = self.keys.seen(places, instances, number_new=True)
        right = self.right.take(places)
        self.broken.move(right_before, keys[right])
        (wrong,) = (~right).nonzero()
        if len(wrong):
            numbers = self.candidates.add(instances.take(wrong), places.take(wrong), keys.take(wrong))
            self.selection.touch(numbers)
