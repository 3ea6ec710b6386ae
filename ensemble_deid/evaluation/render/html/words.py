"""The report's most frequent missed and spurious words."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from ensemble_deid.evaluation.error_list import ErrorKind, ErrorList
from ensemble_deid.evaluation.pairs import Pair
from ensemble_deid.evaluation.render.html.markup import Html, element
from ensemble_deid.evaluation.render.html.tables import data_table, section

MOST_WORDS = 25
"""Lines of each table."""


def words_section(errors: ErrorList, pairs: Mapping[str, Pair]) -> Html:
    """List the words that are most often missed or spurious, with their labels and in how many notes."""
    kinds: tuple[ErrorKind, ...] = ("missed", "spurious")
    tables = [
        data_table(
            f"Most frequent {kind} words.",
            ("Words", "Label", "Annotations", "Notes"),
            rows,
            words=2,
            note=f"The annotations that the list of errors calls {kind}, by their text.",
        )
        for kind in kinds
        if (rows := _rows(errors, pairs, kind))
    ]
    nothing = element("p", "Nothing is missed or spurious.")
    return section("words", "Missed and spurious words", *(tables or [nothing]))


def _rows(errors: ErrorList, pairs: Mapping[str, Pair], kind: ErrorKind) -> list[tuple[str, ...]]:
    times: Counter[tuple[str, str]] = Counter()
    notes: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for error in errors.of_kind(kind):
        span = error.gold or error.system
        if span is None:
            continue
        words = " ".join(pairs[error.document_id].gold.text[span.start : span.end].split())
        times[words, span.label] += 1
        notes[words, span.label].add(error.document_id)
    most = sorted(times.items(), key=lambda item: (-item[1], item[0]))[:MOST_WORDS]
    return [(words, label, f"{n:,}", f"{len(notes[words, label]):,}") for (words, label), n in most]
