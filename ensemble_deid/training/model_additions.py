"""Adding patterns and an inclusion list to a trained model, and taking them out again; each change is on record.

The manifest's `choices` have a list of records for each, `added_patterns` and `inclusion_list`: the SHA-256 of the file
before and after ("" for none), what was done, and a remark. Nothing holds back a match of an enforced pattern, so it is
measured first how many ordinary words it takes.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ensemble_deid.errors import ModelError, RuleError
from ensemble_deid.features.pattern_text import check_pattern, patterns_text
from ensemble_deid.features.patterns import Pattern, PatternSet, find_all, parse_patterns
from ensemble_deid.model.additions import (
    INCLUSION,
    PATTERNS,
    PROPOSER,
    InclusionList,
    load_added_patterns,
    load_inclusion_list,
)
from ensemble_deid.model.directory import update_model
from ensemble_deid.model.loading import load_model
from ensemble_deid.model.manifest import Manifest, file_hashes, read_manifest
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import NEW_LABEL, is_label
from ensemble_deid.note.overlaps import Covered
from ensemble_deid.note.reading import read

MOST_ADDED = 1000
MOST_TAKEN = 1.0
"""Ordinary words in 1000 that an enforced pattern may take, unless another number is asked for."""
_WORD = re.compile(r"\w+")
_RECORDS = {PATTERNS: "added_patterns", INCLUSION: "inclusion_list"}


def added_patterns(model: Path) -> tuple[Pattern, ...]:
    """Return the patterns that were added to a model. Raises ModelError and RuleError."""
    patterns = load_added_patterns(model, read_manifest(model))
    return () if patterns is None else patterns.patterns


def added_patterns_text(model: Path) -> str:
    patterns = added_patterns(model)
    return _text(patterns) if patterns else ""


@dataclass(frozen=True, slots=True)
class OrdinaryWords:
    """How many words of notes, outside of annotations, there are, and how many of them a pattern takes."""

    taken: int
    words: int

    @property
    def per_1000(self) -> float:
        return 1000 * self.taken / self.words


@dataclass(frozen=True, slots=True)
class AddedPatterns:
    """How many patterns a model has that were added, and what the new enforced ones take of ordinary words."""

    total: int
    taken: Mapping[str, OrdinaryWords] = field(default_factory=dict)


def add_patterns(
    model: Path,
    new: PatternSet,
    *,
    ordinary: Iterable[Document] = (),
    most_taken: float = MOST_TAKEN,
    name: str = "patterns",
    remark: str = "",
) -> AddedPatterns:
    """Add patterns to a model after those it has.

    Enforced ones are measured on the annotated notes `ordinary`, of which they may take `most_taken` words in 1000.
    Raises RuleError, which begins with `name`, for a pattern whose examples fail, that is slow, that takes too much, or
    whose label or name does not fit the model; ModelError for a model without the regex submodel, which proposes
    patterns that are not enforced.
    """
    ensemble, _ = load_model(model)
    if PROPOSER not in ensemble.taggers and new.where(enforced=False) is not None:
        raise ModelError(f"{model}: was trained without the submodel {PROPOSER}, whose candidates added patterns are")
    there = added_patterns(model)
    names = {pattern.name for pattern in (*ensemble.feature_extractor.patterns.patterns, *there)}
    for pattern in new.patterns:
        if not (is_label(pattern.label) if pattern.enforce else pattern.label in ensemble.scheme.labels):
            known = ", ".join(ensemble.scheme.labels)
            own = f"; a label of its own, for --enforce, has {NEW_LABEL}"
            raise RuleError(f"{name}: {pattern.name}: the model has no label {pattern.label!r}; it has: {known}{own}")
        if pattern.name in names:
            raise RuleError(f"{name}: {pattern.name}: the model has a pattern of this name")
    check_patterns(new, name=name)
    taken = _taken(new, ordinary, most=most_taken, name=name)
    if len(there) + len(new.patterns) > MOST_ADDED:
        raise RuleError(f"{name}: more than {MOST_ADDED} added patterns make a model slow: remove some first")
    text = _text((*there, *new.patterns))
    # What one file holds is parsed together, and its length is limited as a whole.
    parse_patterns(text, path=name)
    measured = {"ordinary_words_taken": ", ".join(f"{n}: {words.per_1000:.2f} in 1000" for n, words in taken.items())}
    record = {"added": str(len(new.patterns)), **(measured if taken else {}), "remark": remark}
    update_model(model, addition(PATTERNS, text, record))
    return AddedPatterns(len(there) + len(new.patterns), taken)


def _taken(patterns: PatternSet, ordinary: Iterable[Document], *, most: float, name: str) -> dict[str, OrdinaryWords]:
    """Measure each enforced pattern. Raises RuleError for one that takes too much, and where there are no words."""
    enforced = patterns.where(enforced=True)
    if enforced is None:
        return {}
    words, taken = 0, dict.fromkeys((pattern.name for pattern in enforced.patterns), 0)
    for note in ordinary:
        annotated, reading = Covered.by(note.spans), read(note.text)
        places = [match.span() for match in _WORD.finditer(note.text) if not annotated.overlaps(*match.span())]
        words += len(places)
        as_read = reading.document(note.with_spans(()))
        for pattern in enforced.patterns:
            found = find_all(PatternSet(patterns.name, (pattern,), ""), as_read)
            matched = Covered.by(reading.original_spans(found))
            taken[pattern.name] += sum(matched.overlaps(*place) for place in places)
    if not words:
        raise RuleError(f"{name}: no ordinary words to measure enforced patterns on")
    measured = {pattern: OrdinaryWords(number, words) for pattern, number in taken.items()}
    for pattern_name, found_words in measured.items():
        rate = found_words.per_1000
        if rate > most:
            raise RuleError(
                f"{name}: {pattern_name}: takes {rate:.2f} ordinary words in 1000, and at most {most:g} are allowed: "
                "make it narrower, or do not enforce it"
            )
    return measured


def check_patterns(patterns: PatternSet, *, name: str) -> None:
    """Raise RuleError for a pattern whose examples fail, or that is slow; `name` begins the message."""
    for pattern in patterns.patterns:
        try:
            check_pattern(pattern)
        except RuleError as error:
            raise RuleError(f"{name}: {error}") from None


def remove_pattern(model: Path, name: str, *, remark: str = "") -> int:
    """Take an added pattern out of a model, and return how many are left. Raises RuleError where there is none."""
    there = added_patterns(model)
    left = tuple(pattern for pattern in there if pattern.name != name)
    if len(left) == len(there):
        raise RuleError(f"{model}: no added pattern is named {name!r} (patterns of training cannot be removed)")
    update_model(model, addition(PATTERNS, _text(left) if left else "", {"removed": name, "remark": remark}))
    return len(left)


def put_inclusion_list(model: Path, new: InclusionList | None, *, remark: str = "") -> None:
    """Give a model an inclusion list in the place of the one it has, or none. Raises ModelError where it has none."""
    there = load_inclusion_list(model, read_manifest(model))
    if new is None and there is None:
        raise ModelError(f"{model}: has no inclusion list")
    load_model(model)
    text, n = ("", 0) if new is None else (new.source, len(new.sentences))
    update_model(model, addition(INCLUSION, text, {"sentences": str(n), "remark": remark}))


def _text(patterns: tuple[Pattern, ...]) -> str:
    return patterns_text(patterns, name="added", description="Patterns that were added after training.")


def addition(file: str, text: str, record: dict[str, str]) -> Callable[[Path, Manifest], Manifest]:
    """Return what writes an added file into a model's folder, or deletes it, and records that in the manifest."""

    def edit(directory: Path, manifest: Manifest) -> Manifest:
        before = file_hashes(directory).get(file, "")
        if text:
            (directory / file).write_text(text, encoding="utf-8")
        else:
            (directory / file).unlink()
        change = {"before": before, "after": file_hashes(directory).get(file, ""), **record}
        key = _RECORDS[file]
        return replace(manifest, choices={**manifest.choices, key: [*manifest.choices.get(key, []), change]})

    return edit
