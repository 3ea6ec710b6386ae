"""The report's most frequent missed and spurious words."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from ensemble_deid.evaluation.error_list import ErrorKind, ErrorList
from ensemble_deid.evaluation.pairs import Pair
from ensemble_deid.evaluation.render.html.markup import Html, element
from ensemble_deid.evaluation.render.html.tables import data_table, section

MOST_FORMS = 25


def forms_section(errors: ErrorList, pairs: Mapping[str, Pair]) -> Html:
    """List the surface forms that are missed and made up most often, with their labels and in how many notes."""
    tables = [
        data_table(title, ("Form", "Label", "Times", "Notes"), rows, words=2)
        for title, kind in (("Most frequent missed forms", "missed"), ("Most frequent spurious forms", "spurious"))
        if (rows := _rows(errors, pairs, kind))  # type: ignore[arg-type]
    ]
    nothing = element("p", "Nothing is missed or spurious.")
    return section("forms", "Missed and spurious words", *(tables or [nothing]))


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
    most = sorted(times.items(), key=lambda item: (-item[1], item[0]))[:MOST_FORMS]
    return [(form, label, f"{n:,}", f"{len(notes[form, label]):,}") for (form, label), n in most]
