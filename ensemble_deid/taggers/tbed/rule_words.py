"""A rule in words that a clinician reads, beside the exact text of `rule_text.py`.

    change O to B-DOCTOR if the lower 1 before is "dr" and the short_shape is "Xx"
    where the word before is 'dr' and the word has the shape Xx (capitals, then small letters):
    tag the untagged word as the beginning of a DOCTOR

A *word* is any token: a word, a number or a punctuation mark. docs/rules.md has a table of all columns.
"""

import re
from collections.abc import Callable, Mapping
from itertools import groupby

from ensemble_deid.features.windows import Window
from ensemble_deid.taggers.tbed.rule_text import quote
from ensemble_deid.taggers.tbed.templates import TAG_COLUMN, Condition, Rule

_ORDINALS = ("", "", "second ", "third ", "fourth ")
_NUMBERS = ("", "one", "two", "three", "four")
_PLAIN = re.compile(r"\w+")
# What a column says of a word: from the word in words, and the value, to a clause; None for a value not foreseen.
_Clause = Callable[[str, str], str | None]


def rule_in_words(rule: Rule) -> str:
    """Return what a rule does as one sentence; values of the rule stand in single quotes.

    A column that is not in the feature table, and a value that its column never has, are named as they are.
    """
    clauses = [_clause(condition) for condition in rule.conditions]
    conditions = " and ".join([", ".join(clauses[:-1]), clauses[-1]] if len(clauses) > 1 else clauses)
    return f"where {conditions}: {_action(rule.from_tag, rule.to_tag)}"


def _clause(condition: Condition) -> str:
    window, value = condition.window, condition.value
    word = _which_word(window)
    clause = _CLAUSES[window.column](word, value) if window.column in _CLAUSES else None
    return clause or f"the column {window.column} of {word} is {_quoted(value)}"


def _which_word(window: Window) -> str:
    first, last = window.first, window.last
    if first == last:
        return _word_at(first)
    if first == 1 or last == -1:
        return f"at least one of the {_NUMBERS[last - first + 1]} words {'after' if first == 1 else 'before'}"
    ends = ["the word itself" if offset == 0 else _word_at(offset) for offset in (first, last)]
    return f"at least one word from {ends[0]} to {ends[1]}"


def _word_at(offset: int) -> str:
    if offset == 0:
        return "the word"
    return f"the {_ORDINALS[abs(offset)]}word {'before' if offset < 0 else 'after'}"


def _action(from_tag: str, to_tag: str) -> str:
    before, after = _tag(from_tag), _tag(to_tag)
    if before is None:
        return f"tag the untagged word as {after}"
    if after is None:
        return f"take the tag away from the word, which is tagged as {before}"
    return f"tag the word as {after}, no longer as {before}"


def _tag(tag: str) -> str | None:
    """Return a BIO tag in words, None for `O`."""
    place, _, label = tag.partition("-")
    if place == "O" and not label:
        return None
    if place not in ("B", "I") or not label:
        return _quoted(tag)
    # Labels are capitals: U is spoken as in USERNAME or URL.
    article = "an" if label[0] in "AEIO" else "a"
    return f"the {'beginning' if place == 'B' else 'continuation'} of {article} {label}"


def _quoted(value: str) -> str:
    """Return a value between quotes, with everything that cannot be seen escaped."""
    inner = quote(value)[1:-1].replace('\\"', '"')
    return quote(value) if "'" in value else f"'{inner}'"


def _same(text: str) -> _Clause:
    """Return the clause of a column whose every value fits one text."""
    return lambda word, value: text.format(word=word, value=_quoted(value))


def _one_of(texts: Mapping[str, str], other: str | None = None) -> _Clause:
    """Return the clause of a column of few values, and what it says for all others."""

    def clause(word: str, value: str) -> str | None:
        text = texts.get(value, other)
        return None if text is None else text.format(word=word, value=_quoted(value))

    return clause


def _affix(length: int, text: str) -> _Clause:
    def clause(word: str, value: str) -> str:
        # A shorter value is the affix of no longer word.
        return f"{word} is {_quoted(value)}" if len(value) < length else f"{word} {text} {_quoted(value)}"

    return clause


def _shape(signs: Mapping[str, tuple[str, str]], *, counted: bool) -> _Clause:
    """Return the clause of a shape; `signs` says what one and what several of a sign stand for."""

    def part(sign: str, count: int) -> str:
        if sign not in signs:
            return f"{count} times {_quoted(sign)}" if counted and count > 1 else _quoted(sign)
        one, several = signs[sign]
        return several if not counted else f"{count} {one if count == 1 else several}"

    def clause(word: str, value: str) -> str:
        parts = ", then ".join(part(sign, len(list(run))) for sign, run in groupby(value))
        shown = value if _PLAIN.fullmatch(value) else _quoted(value)
        return f"{word} has the shape {shown} ({parts})"

    return clause


def _count(text: str, zero: str | None = None) -> _Clause:
    """Return the clause of a column of counts in classes, such as 3, 4-5 and 40+."""

    def clause(word: str, value: str) -> str | None:
        if re.fullmatch(r"[0-9]+(-[0-9]+|\+)?", value) is None:
            return None
        if value == "0" and zero is not None:
            return zero.format(word=word)
        count = value.replace("-", " to ").replace("+", " or more")
        return text.format(word=word, count=count, s="" if value == "1" else "s")

    return clause


def _digits(word: str, value: str) -> str | None:
    named = {
        "none": "is not a whole number",
        "year": "is a year from 1900 to 2199",
        "day": "is a number of one or two digits, at most 31",
        "digits2": "is a number of 2 digits, above 31",
        "digits4": "is a number of 4 digits that is not a year from 1900 to 2199",
        "digits10": "is a number of 10 or more digits",
    }
    if value not in named and re.fullmatch(r"digits[0-9]+", value) is None:
        return None
    return f"{word} {named.get(value) or f'is a number of {value[6:]} digits'}"


def _tagged(text: str, untagged: str) -> _Clause:
    def clause(word: str, value: str) -> str:
        tag = _tag(value)
        return (untagged if tag is None else text).format(word=word, tag=tag)

    return clause


def _in_note(word: str, value: str) -> str:
    if value == "-":
        return f"the patterns tag {word} nowhere in the note, or it is not written like a name"
    return f"the patterns tag {word} as {value} more often in this note than as anything else"


def _lexicon(word: str, value: str) -> str | None:
    place, _, label = value.partition("-")
    if value == "O":
        return f"{word} is in no phrase that the training notes annotate"
    how = {"B": "begins", "I": "continues"}.get(place)
    return f"{word} {how} a phrase that the training notes annotate as {label}" if how and label else None


def _known_word(word: str, value: str) -> str | None:
    if value == "-":
        return f"the training notes never annotate {word}"
    label, _, quarters = value.rpartition(":")
    shares = {
        "4": "every time",
        "3": "at least three times in four",
        "2": "at least every second time",
        "1": "at least every fourth time",
        "0": "less than every fourth time",
    }
    if not label or quarters not in shares:
        return None
    return f"the training notes annotate {word} as {label} {shares[quarters]}"


def _frequency(name: str) -> _Clause:
    def clause(word: str, value: str) -> str | None:
        if value == "-":
            return f"{word} is not on the public list of {name}"
        return f"{word} has frequency {value} of 9 on the public list of {name}" if value in "123456789" else None

    return clause


def _entry(name: str) -> _Clause:
    def clause(word: str, value: str) -> str | None:
        if value == "-":
            return f"{word} is in no entry of the public list of {name}"
        how = {"B": "begins", "I": "continues"}.get(value.upper())
        small = ", in small letters" if value.islower() else ""
        return f"{word} {how} an entry of the public list of {name}{small}" if how else None

    return clause


_SIGNS = {"X": ("capital", "capitals"), "x": ("small letter", "small letters"), "d": ("digit", "digits")}
_CLAUSES: Mapping[str, _Clause] = {
    TAG_COLUMN: _tagged("{word} is tagged as {tag}", "{word} has no tag"),
    "word": _same("{word} is exactly {value}"),
    "lower": _same("{word} is {value}"),
    "shape": _shape(_SIGNS, counted=True),
    "short_shape": _shape(_SIGNS, counted=False),
    "length": _count("{word} has {count} character{s}"),
    "digits": _digits,
    "case": _one_of(
        {
            "upper": "{word} is all in capitals",
            "initial": "{word} is a single capital",
            "title": "{word} is a capital followed by small letters",
            "lower": "{word} is all in small letters",
            "mixed": "{word} mixes capitals and small letters",
            "none": "{word} is not made of letters alone",
        }
    ),
    **{f"prefix{n}": _affix(n, "begins with") for n in (2, 3, 4)},
    **{f"suffix{n}": _affix(n, "ends with") for n in (2, 3, 4)},
    "position_in_line": _count("{word} has {count} word{s} before it in its line", "{word} is the first of its line"),
    "sentence_length": _count("{word} is in a sentence of {count} word{s}"),
    "spaced": _one_of(
        {
            "spaced": "{word} comes after white space or begins a line",
            "glued": "{word} follows the word before it without white space",
        }
    ),
    "line_prefix": _one_of(
        {"-": "no label such as 'Name:' comes before {word} in its line"},
        "{word} comes after the label {value}, the first of its line",
    ),
    "field": _one_of(
        {"-": "no label such as 'Name:' comes before {word} in its line, and it is under no heading of a table"},
        "the nearest label before {word} in its line, or its heading in a table, is {value}",
    ),
    "section": _one_of({"-": "{word} comes before the note's first heading"}, "{word} is in the section {value}"),
    "initial": _tagged("the patterns tag {word} as {tag}", "the patterns do not tag {word}"),
    "pattern": _one_of({"-": "no pattern matches {word}"}, "the first pattern that matches {word} is {value}"),
    "in_note": _in_note,
    "lexicon": _lexicon,
    "known_word": _known_word,
    "knowledge_given": _frequency("given names"),
    "knowledge_surname": _frequency("surnames"),
    "knowledge_english": _frequency("English words"),
    "knowledge_medical": _frequency("medical words"),
    "knowledge_hospital": _frequency("words of hospital names"),
    "knowledge_place": _entry("places"),
    "knowledge_occupation": _entry("occupations"),
    "knowledge_institution": _entry("institutions"),
    "knowledge_abbreviation": _frequency("clinical abbreviations"),
    "knowledge_device": _frequency("devices and their makers"),
    "knowledge_drug": _frequency("drugs"),
    "knowledge_eponym": _frequency("eponyms"),
    "knowledge_institution_short": _frequency("short names of institutions"),
    "knowledge_world_given": _frequency("given names by origin"),
    "knowledge_world_surname": _frequency("surnames by origin"),
    "knowledge_clinical": _entry("clinical terms"),
    "knowledge_hospital_name": _entry("hospitals"),
    "knowledge_profession": _entry("professions"),
    "pos": _one_of({"-": "{word} has no part of speech"}, "the part of speech of {word} is {value}"),
    "ner": _one_of({"-": "stanza gives {word} no entity tag"}, "stanza's entity tag of {word} is {value}"),
}
