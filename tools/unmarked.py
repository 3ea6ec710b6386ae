"""Find PHI that was left unmarked in a note: strings that are marked elsewhere in it, and forms that are always PHI."""

import re
from collections.abc import Collection, Iterator, Sequence

from ensemble_deid.note.span import Span

_WORD_OF_NAME = re.compile(r"[^\W\d_]{3,}")
_NAMES = ("PATIENT", "DOCTOR")
_SHORTEST = 3
_FORMS = {
    "PHONE": re.compile(r"(?:\(\d{3}\) ?|(?<!\w)\d{3}[-.])?(?<!\w)555[-.]\d{4}(?!\w)"),
    "SSN": re.compile(r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])"),
    "URL": re.compile(r"(?:https?://|(?<!\w)www\.)\S+"),
    "DATE": re.compile(r"(?<![\w/])\d{1,2}/\d{1,2}/\d{4}(?![\w/])|(?<![\w-])\d{4}-\d\d-\d\d(?![\w-])"),
}
"""Only unambiguous forms: short dates, for example, look like test results (4/5, 31/44/71)."""


def unmarked_repeats(text: str, spans: Sequence[Span], *, excused: Collection[str]) -> Iterator[tuple[int, int, Span]]:
    """Yield (offset, length, the span that marks it) for every unmarked occurrence of a marked string.

    The search is for whole words and is case-sensitive. It covers strings of three characters or more: the text of each
    span, and each word of a name, since a surname alone identifies a person too. Longer strings are searched first, and
    nothing within one of their occurrences is reported again.
    """
    wanted: dict[str, Span] = {}
    for span in spans:
        surface = text[span.start : span.end]
        words = _WORD_OF_NAME.findall(surface) if span.label in _NAMES else []
        for string in (surface, *words):
            if len(string.strip()) >= _SHORTEST and string not in excused:
                wanted.setdefault(string, span)
    unmarked = _without_marked(text, spans)
    for string, span in sorted(wanted.items(), key=lambda item: (-len(item[0]), item[1].start, item[0])):
        if string not in unmarked:
            continue
        whole_word = re.compile(rf"(?<!\w){re.escape(string)}(?!\w)")
        for found in whole_word.finditer(unmarked):
            yield found.start(), len(string), span
        unmarked = whole_word.sub("\0" * len(string), unmarked)


def unmarked_forms(text: str, spans: Sequence[Span], *, excused: Collection[str]) -> Iterator[tuple[int, int, str]]:
    """Yield (offset, length, label) of unmarked telephone and social security numbers, URLs and full dates."""
    unmarked = _without_marked(text, spans)
    for label, form in _FORMS.items():
        for found in form.finditer(unmarked):
            if found.group() not in excused:
                yield found.start(), found.end() - found.start(), label


def _without_marked(text: str, spans: Sequence[Span]) -> str:
    """Return the text with marked parts overwritten by a character that no note contains, so that offsets stay."""
    rest = list(text)
    for span in spans:
        rest[span.start : span.end] = "\0" * (span.end - span.start)
    return "".join(rest)
