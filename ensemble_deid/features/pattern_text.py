"""Writing patterns as the text of a pattern file, and the checks that a pattern passes before a model takes it."""

import json
import re
from collections.abc import Iterable, Mapping

from ensemble_deid.errors import RuleError
from ensemble_deid.features.patterns import FLAGS, Pattern, TimeLimit
from ensemble_deid.note.reading import read

_RUNS = ("a", "A", "Aa ", "1", "1 ", " ", ".", "-", ", ", "\n")
_RUN_LENGTH = 2000
_SECONDS = 2.0


def patterns_text(
    patterns: Iterable[Pattern], *, name: str, description: str, remarks: Mapping[str, str] | None = None
) -> str:
    """Return the text of a pattern file: what `parse_patterns` reads back as equal patterns.

    Pieces of a `[words]` table stand in the regexes that call them. `remarks` has a line of comment for some patterns,
    by their names.
    """
    lines = [f"name = {toml_string(name)}", f"description = {toml_string(description)}"]
    for pattern in patterns:
        lines += ["", "[[pattern]]"]
        if remarks and pattern.name in remarks:
            # A comment of TOML has no escapes.
            lines.append("# " + "".join(c if c.isprintable() else "\ufffd" for c in remarks[pattern.name]))
        lines += [f"name = {toml_string(pattern.name)}", f"label = {toml_string(pattern.label)}"]
        lines.append(f"regex = {toml_string(pattern.regex.pattern)}")
        if flags := [flag for flag, value in FLAGS.items() if pattern.regex.flags & value]:
            lines.append(f"flags = {json.dumps(flags)}")
        if pattern.group != 0:
            lines.append(f"group = {toml_string(pattern.group) if isinstance(pattern.group, str) else pattern.group}")
        if pattern.confidence is not None:
            lines.append(f"confidence = {float(pattern.confidence)!r}")
        if pattern.enforce:
            lines.append("enforce = true")
        for key, examples in (("positive", pattern.positive), ("negative", pattern.negative)):
            if examples:
                lines.append(f"{key} = [{', '.join(map(toml_string, examples))}]")
    return "\n".join(lines) + "\n"


def toml_string(text: str) -> str:
    """Return a TOML string; without escapes where it can be written so."""
    if "'" not in text and text.isprintable():
        return f"'{text}'"
    # A JSON string is a basic string of TOML, but for the one control character that JSON leaves as it is.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def check_pattern(pattern: Pattern) -> None:
    """Raise RuleError for a pattern whose examples fail, or that is slow on long runs of one sign."""
    limit = TimeLimit(_SECONDS)
    try:
        for text in (f"{lead}{(run * _RUN_LENGTH)[:_RUN_LENGTH]}" for run in _RUNS for lead in _leads(pattern)):
            pattern.matches(text, limit=limit)
        problems = failed_examples(pattern, limit=limit)
    except TimeoutError:
        raise RuleError(
            f"{pattern.name}: takes more than {_SECONDS:.0f} s on its examples and on runs of {_RUN_LENGTH} characters"
        ) from None
    if problems:
        raise RuleError(problems[0])


def _leads(pattern: Pattern) -> tuple[str, ...]:
    """Return what a long run comes after: nothing, and what leads the pattern in by its first example."""
    return ("", pattern.positive[0].partition("«")[0]) if pattern.positive else ("",)


def failed_examples(pattern: Pattern, *, limit: TimeLimit | None = None) -> list[str]:
    """Return what is wrong with a pattern's own examples; an empty list when they all hold.

    `limit` as in `Pattern.matches`, which raises TimeoutError.
    """
    problems = []
    for number, example in enumerate(pattern.positive, 1):
        expected: list[tuple[int, int]] = []
        text = ""
        for part in re.split("([«»])", example):
            if part == "«":
                expected.append((len(text), -1))
            elif part == "»" and expected:
                expected[-1] = (expected[-1][0], len(text))
            elif part == "»":
                problems.append(f"{pattern.name}: positive example {number}: » without «")
            else:
                text += part
        found = _matches_read(pattern, text, limit)
        if not expected or found != expected:
            problems.append(f"{pattern.name}: positive example {number}: expected {expected}, {found}")
    for number, example in enumerate(pattern.negative, 1):
        if found := _matches_read(pattern, example, limit):
            problems.append(f"{pattern.name}: negative example {number} matches at {found}")
    return problems


def _matches_read(pattern: Pattern, text: str, limit: TimeLimit | None) -> list[tuple[int, int]]:
    """Return the matches in a text as it is read, by their places in the text."""
    reading = read(text)
    return [reading.original(start, end) for start, end in pattern.matches(reading.text, limit=limit)]
