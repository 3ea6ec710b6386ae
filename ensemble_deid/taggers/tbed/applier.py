"""Applies a rule list to columns, rule after rule, each at all its places at once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress, count

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ensemble_deid.arrays import Flags, Int32s, Int64s
from ensemble_deid.features.table import Column
from ensemble_deid.taggers.tbed.keyindex import distinct
from ensemble_deid.taggers.tbed.layout import Layout, Strings, as_column, check_columns
from ensemble_deid.taggers.tbed.places import PlaceLists, list_places, places_seeing, shortest_way
from ensemble_deid.taggers.tbed.templates import TAG_COLUMN, Condition, Rule

# Below one place in so many, reading a list of places costs less than comparing all of them.
_LIST_FACTOR = 30


@dataclass(frozen=True, slots=True)
class Firing:
    """A rule that changed tags: its index in the list, and the tokens (rising) whose tags it changed."""

    rule: int
    tokens: Int64s


@dataclass(frozen=True, slots=True)
class _Test:
    """A condition made ready: `value` numbers a value of a column, or a tag where `column` is None."""

    column: str | None
    value: int
    offsets: tuple[int, ...]


class RuleApplier:
    """A rule list made ready for many batches.

    The columns, tags and `sentence_starts` of a batch are those of `learn_rules`. Applying raises RuleError when a rule
    asks for a column that is not there.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self._pad = 0
        # The tags that rules name, and by column the values that they ask for, numbered as they are met.
        self._tags: dict[str, int] = {}
        self._values: dict[str, dict[str, int]] = {}
        self._ready = [self._prepare(rule) for rule in self.rules]

    def _prepare(self, rule: Rule) -> tuple[int, int, tuple[_Test, ...]]:
        tags = [self._tags.setdefault(tag, len(self._tags)) for tag in (rule.from_tag, rule.to_tag)]
        return tags[0], tags[1], tuple(self._test(condition) for condition in rule.conditions)

    def _test(self, condition: Condition) -> _Test:
        window = condition.window
        self._pad = max(self._pad, -window.first, window.last)
        is_tag = window.column == TAG_COLUMN
        numbers = self._tags if is_tag else self._values.setdefault(window.column, {})
        number = numbers.setdefault(condition.value, len(numbers))
        return _Test(None if is_tag else window.column, number, tuple(window.offsets))

    @property
    def columns(self) -> tuple[str, ...]:
        """The feature columns that the rules ask for."""
        return tuple(self._values)

    def apply(self, columns: Mapping[str, Strings], initial_tags: Strings, sentence_starts: ArrayLike) -> Column:
        """Return the tags after all rules; the values are those that rules name, then the other initial ones."""
        batch = self._batch(columns, initial_tags, sentence_starts)
        for ready in self._ready:
            batch.fire(*ready)
        return batch.column()

    def firings(
        self, columns: Mapping[str, Strings], initial_tags: Strings, sentence_starts: ArrayLike
    ) -> Iterator[Firing]:
        """Apply the rules and yield, in their order, the rules that change a tag and where they do."""
        batch = self._batch(columns, initial_tags, sentence_starts)
        for index, ready in enumerate(self._ready):
            places = batch.fire(*ready)
            if len(places):
                yield Firing(index, batch.token_of[places].astype(np.int64))

    def _batch(self, columns: Mapping[str, Strings], initial_tags: Strings, sentence_starts: ArrayLike) -> "_Batch":
        encoded = check_columns(columns, len(initial_tags), self.columns)
        layout = Layout(sentence_starts, len(initial_tags), pad=self._pad)
        return _Batch(layout, encoded, as_column(initial_tags), self._tags, self._values)


class _Batch:
    """One batch while rules change its tags; tag numbers + 1 lie in narrow cells, 0 between sentences.

    Places are found from lists: for the values of columns that rules ask for, and for each tag the places that have
    had it, some of which may have lost it since.
    """

    def __init__(
        self,
        layout: Layout,
        columns: Mapping[str, Column],
        initial: Column,
        tags: Mapping[str, int],
        values: Mapping[str, Mapping[str, int]],
    ) -> None:
        self.layout = layout
        self.columns = columns
        self._longest_list = layout.size // _LIST_FACTOR
        numbers = dict(tags)
        for tag in initial.values:
            numbers.setdefault(tag, len(numbers))
        self.tags = tuple(numbers)
        cell_type = np.min_scalar_type(len(numbers))
        self.cells: NDArray[np.unsignedinteger] = np.zeros(layout.size, cell_type)
        cells = initial.lookup(numbers, unknown=0).astype(cell_type)
        cells += cell_type.type(1)
        self.cells[layout.places] = cells
        listed = list_places(cells - cell_type.type(1), len(numbers), layout.places)
        self._tag_places = [listed[number] for number in range(len(listed))]
        # By tag: the places that rules have given it since its list was made.
        self._more: dict[int, list[Int64s]] = {}
        # By column and number of a value: its places, and its code.
        self.listed: dict[str, PlaceLists] = {}
        self.codes: dict[str, Int64s] = {}
        for name, column in columns.items():
            self._list_values(name, column, values[name])

    def _list_values(self, name: str, column: Column, numbers: Mapping[str, int]) -> None:
        self.codes[name] = codes = np.full(len(numbers), -1, np.int64)
        for code in compress(count(), map(numbers.__contains__, column.values)):
            codes[numbers[column.values[code]]] = code
        narrow = np.full(len(column.values), len(numbers), np.min_scalar_type(len(numbers)))
        narrow[codes[codes >= 0]] = np.flatnonzero(codes >= 0)
        self.listed[name] = list_places(narrow.take(column.codes), len(numbers), self.layout.places)

    @cached_property
    def token_of(self) -> Int32s:
        """The token at each place, -1 between sentences."""
        token_of: Int32s = np.full(self.layout.size, -1, np.int32)
        token_of[self.layout.places] = np.arange(len(self.layout), dtype=np.int32)
        return token_of

    def column(self) -> Column:
        """Return the tags as they are now."""
        return Column(self.cells.take(self.layout.places).astype(np.int32) - np.int32(1), self.tags)

    def fire(self, from_tag: int, to_tag: int, tests: Sequence[_Test]) -> Int64s:
        """Apply one rule, and return the places it changed, in rising order."""
        places = self._places(from_tag, tests)
        if len(places):
            self.cells[places] = to_tag + 1
            self._more.setdefault(to_tag, []).append(places)
        return places

    def _places(self, tag: int, tests: Sequence[_Test]) -> Int64s:
        """Return the places where a tag and the conditions of a rule hold now, in rising order."""
        # The list of the rule's own tag, then those of its tests.
        lists, offsets = [self._having(tag)], [_HERE]
        for test in tests:
            lists.append(self._having(test.value) if test.column is None else self.listed[test.column][test.value])
            offsets.append(test.offsets)
        shortest, length = shortest_way(lists, offsets)
        if not length:
            return _NOWHERE
        if length > self._longest_list:
            return self._sweep(tag, tests)
        source = tests[shortest - 1] if shortest else None
        places: Int64s = places_seeing(lists[shortest], offsets[shortest])
        places = places[self.cells.take(places) == tag + 1]
        for test in tests:
            # A list of a column's values is exact; one of tags may be out of date.
            if len(places) and (test is not source or test.column is None):
                places = places[self._holds(test, places)]
        return places

    def _having(self, tag: int) -> Int64s:
        """Return all places that have a tag, in rising order, among some that have lost it."""
        # A long list is not read, only measured: it need not be kept.
        if tag in self._more and len(self._tag_places[tag]) <= self._longest_list:
            places = distinct(np.concatenate([self._tag_places[tag], *self._more.pop(tag)]))
            self._tag_places[tag] = places[self.cells.take(places) == tag + 1]
        return self._tag_places[tag]

    def _holds(self, test: _Test, places: Int64s) -> Flags:
        holds: Flags = self._equals(test, places + test.offsets[0])
        for offset in test.offsets[1:]:
            holds |= self._equals(test, places + offset)
        return holds

    def _equals(self, test: _Test, places: Int64s) -> Flags:
        if test.column is None:
            has_tag: Flags = self.cells.take(places) == test.value + 1
            return has_tag
        tokens = self.token_of.take(places)
        codes = self.columns[test.column].codes.take(tokens)
        equals: Flags = codes == self.codes[test.column][test.value]
        equals &= tokens >= 0
        return equals

    def _sweep(self, tag: int, tests: Sequence[_Test]) -> Int64s:
        """Find the places of a rule without a short list, by comparing the tags of all of them."""
        pad, size = self.layout.pad, self.layout.size
        holds = self.cells[pad : size - pad] == tag + 1
        for test in tests:
            if test.column is None:
                seen = self.cells[pad + test.offsets[0] : size - pad + test.offsets[0]] == test.value + 1
                for offset in test.offsets[1:]:
                    seen |= self.cells[pad + offset : size - pad + offset] == test.value + 1
                holds &= seen
        places: Int64s = holds.nonzero()[0] + pad
        for test in tests:
            if test.column is not None and len(places):
                places = places[self._holds(test, places)]
        return places


# The offsets at which a place sees its own tag.
_HERE: tuple[int, ...] = (0,)
_NOWHERE: Int64s = np.empty(0, np.int64)
