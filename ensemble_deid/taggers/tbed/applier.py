"""Applies a rule list to columns, rule after rule, each at all its places at once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ensemble_deid.features.table import Column
from ensemble_deid.taggers.tbed.layout import Integers, Layout, Strings, as_column, check_columns
from ensemble_deid.taggers.tbed.rule import Condition, Rule
from ensemble_deid.taggers.tbed.templates import TAG_COLUMN, Window


def apply_rules(
    rules: Sequence[Rule],
    columns: Mapping[str, Strings],
    initial_tags: Strings,
    sentence_starts: ArrayLike,
) -> list[str]:
    """Return the tags (one string a token) after all rules.

    `columns`, tags and `sentence_starts` are those of `learn_rules`. Raises RuleError when a rule asks for a
    column that is not there.
    """
    return RuleApplier(rules).apply(columns, initial_tags, sentence_starts).strings()


@dataclass(frozen=True, slots=True)
class Firing:
    """A rule that changed tags: its index in the list, and the tokens (rising) whose tags it changed."""

    rule: int
    tokens: Integers


class RuleApplier:
    """A rule list made ready for many batches."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        conditions = [condition for rule in self.rules for condition in rule.conditions]
        self._wanted: dict[str, set[str]] = {}
        for condition in conditions:
            self._wanted.setdefault(condition.window.column, set()).add(condition.value)
        ends = (abs(offset) for c in conditions for offset in (c.window.first, c.window.last))
        self._pad = max(ends, default=0)

    @property
    def columns(self) -> tuple[str, ...]:
        """The feature columns that the rules ask for."""
        return tuple(name for name in self._wanted if name != TAG_COLUMN)

    def apply(self, columns: Mapping[str, Strings], initial_tags: Strings, sentence_starts: ArrayLike) -> Column:
        """Return the tags after all rules; the values are the initial ones, then those that only rules give."""
        batch = self._batch(columns, initial_tags, sentence_starts)
        for rule in self.rules:
            batch.fire(rule)
        return batch.column()

    def firings(
        self, columns: Mapping[str, Strings], initial_tags: Strings, sentence_starts: ArrayLike
    ) -> Iterator[Firing]:
        """Apply the rules and yield, in their order, the rules that change a tag and where they do."""
        batch = self._batch(columns, initial_tags, sentence_starts)
        for index, rule in enumerate(self.rules):
            places = batch.fire(rule)
            if len(places):
                yield Firing(index, batch.token_of[places].astype(np.int64))

    def _batch(self, columns: Mapping[str, Strings], initial_tags: Strings, sentence_starts: ArrayLike) -> "_Batch":
        encoded = check_columns(columns, len(initial_tags), self.columns)
        layout = Layout(sentence_starts, len(initial_tags), pad=self._pad)
        return _Batch(layout, encoded, as_column(initial_tags), self._wanted, self.rules)


class _Batch:
    """One batch while rules change its tags; tag codes lie in narrow cells, 0 between sentences."""

    def __init__(
        self,
        layout: Layout,
        columns: Mapping[str, Column],
        initial: Column,
        wanted: Mapping[str, set[str]],
        rules: Sequence[Rule],
    ) -> None:
        self.layout = layout
        self.columns = columns
        self.tags = {tag: code for code, tag in enumerate(initial.values, 1)}
        for rule in rules:
            self.tags.setdefault(rule.to_tag, len(self.tags) + 1)
        self.cells: NDArray[np.unsignedinteger] = np.zeros(layout.size, np.min_scalar_type(len(self.tags)))
        layout.spread(initial.codes + 1, self.cells)
        self.present = set(initial.values)
        self.token_of: NDArray[np.int32] = np.full(layout.size, -1, np.int32)
        self.token_of[layout.places] = np.arange(len(layout))
        self.codes: dict[str, dict[str, int]] = {}
        self.listed: dict[str, dict[int, Integers]] = {}
        for name, column in columns.items():
            values = wanted[name]
            self.codes[name] = {v: code for code, v in enumerate(column.values) if v in values}
            self.listed[name] = self._list_places(column, list(self.codes[name].values()))

    def column(self) -> Column:
        """Return the tags as they are now."""
        return Column(self.cells[self.layout.places].astype(np.int32) - 1, tuple(self.tags))

    def fire(self, rule: Rule) -> Integers:
        """Apply one rule, and return the places it changed, in rising order."""
        places = self._places(rule) if rule.from_tag in self.present else _NOWHERE
        if len(places):
            self.cells[places] = self.tags[rule.to_tag]
            self.present.add(rule.to_tag)
        return places

    def _list_places(self, column: Column, codes: Sequence[int]) -> dict[int, Integers]:
        """Return the places of each of these codes, in rising order."""
        if not codes:
            return {}
        narrow = np.full(len(column.values), len(codes), np.min_scalar_type(len(codes)))
        narrow[codes] = np.arange(len(codes))
        numbers = narrow[column.codes]
        (tokens,) = (numbers < len(codes)).nonzero()
        numbers = numbers[tokens]
        places = self.layout.places[tokens[np.argsort(numbers, kind="stable")]]
        ends = np.bincount(numbers, minlength=len(codes)).cumsum().tolist()
        return {code: places[ends[i - 1] if i else 0 : ends[i]] for i, code in enumerate(codes)}

    def _places(self, rule: Rule) -> Integers:
        """Return the places where a rule's tag and conditions hold now, in rising order."""
        tag = self.tags[rule.from_tag]
        source, best = None, 0
        for i, condition in enumerate(rule.conditions):
            if condition.window.column == TAG_COLUMN:
                if condition.value not in self.present:
                    return _NOWHERE
                continue
            count = len(self._listed(condition))
            if not count:
                return _NOWHERE
            if source is None or count < best:
                source, best = i, count
        if source is None:
            return self._sweep(tag, rule.conditions)
        places: Integers = _shifted(self._listed(rule.conditions[source]), rule.conditions[source].window)
        places = places[self.cells[places] == tag]
        for i, condition in enumerate(rule.conditions):
            if i != source and len(places):
                places = places[self._holds(condition, places)]
        return places

    def _listed(self, condition: Condition) -> Integers:
        name = condition.window.column
        code = self.codes[name].get(condition.value)
        return _NOWHERE if code is None else self.listed[name][code]

    def _holds(self, condition: Condition, places: Integers) -> NDArray[np.bool_]:
        holds: NDArray[np.bool_] = np.zeros(len(places), bool)
        name = condition.window.column
        for offset in condition.window.offsets:
            seen = places + offset
            if name == TAG_COLUMN:
                holds |= self.cells[seen] == self.tags[condition.value]
            else:
                tokens = self.token_of[seen]
                values = self.columns[name].codes[tokens] == self.codes[name][condition.value]
                holds |= values & (tokens >= 0)
        return holds

    def _sweep(self, tag: int, conditions: Sequence[Condition]) -> Integers:
        """Find the places of a rule that asks for tags alone, by comparing all of them."""
        pad, size = self.layout.pad, self.layout.size
        holds = self.cells[pad : size - pad] == tag
        for condition in conditions:
            window, value = condition.window, self.tags[condition.value]
            seen = self.cells[pad + window.first : size - pad + window.first] == value
            for offset in window.offsets[1:]:
                seen |= self.cells[pad + offset : size - pad + offset] == value
            holds &= seen
        return np.flatnonzero(holds) + pad


def _shifted(places: Integers, window: Window) -> Integers:
    """Return the places that see one of `places` in the window, in rising order, each once."""
    if window.first == window.last:
        return places - window.first
    return np.unique(np.concatenate([places - offset for offset in window.offsets]))


_NOWHERE: Integers = np.empty(0, np.int64)
