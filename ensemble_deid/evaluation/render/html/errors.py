"""The report's list of errors, grouped by kind, with the notes around them and what the submodels said."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

from ensemble_deid.evaluation.error_list import ERROR_KINDS, Error, ErrorKind, ErrorList
from ensemble_deid.evaluation.pairs import Pair
from ensemble_deid.evaluation.render.html.markup import Html, data_table, element, join, section
from ensemble_deid.note.digits import UNDEFINED, four_digits
from ensemble_deid.note.span import Span

AROUND = 90
"""Characters of context shown on either side of an error."""


def snippet(pair: Pair, start: int, end: int) -> Html:
    """Return the text around `[start, end)`, cut where words begin and end, all annotations in it marked."""
    text = pair.gold.text
    first, last = _widen(text, start, end)
    children: list[Html | str] = ["… " if first else ""]
    children += marked(text, first, last, pair.gold.spans, pair.system.spans, focus=(start, end))
    children.append(" …" if last < len(text) else "")
    return element("div", *children, class_="context", dir="auto")


def marked(
    text: str, first: int, last: int, golds: Sequence[Span], systems: Sequence[Span], *, focus: tuple[int, int]
) -> list[Html]:
    """Return `text[first:last]` in pieces, each marked g (gold), s (system) and f (in focus) where it is.

    Annotations may overlap: the text is cut wherever one begins or ends.
    """
    near = [span for span in (*golds, *systems) if span.start < last and first < span.end]
    edges = {edge for span in near for edge in (span.start, span.end)} | set(focus)
    cuts = sorted({first, last, *(edge for edge in edges if first < edge < last)})
    pieces: list[Html] = []
    for start, end in pairwise(cuts):
        gold = [span for span in golds if span.start < end and start < span.end]
        system = [span for span in systems if span.start < end and start < span.end]
        if not gold and not system:
            pieces.append(join([text[start:end]]))
            continue
        names = "g" * bool(gold), "s" * bool(system), "f" * (focus[0] < end and start < focus[1])
        labels = [f"gold {span.label}" for span in gold] + [f"system {span.label}" for span in system]
        css = " ".join(name for name in names if name)
        pieces.append(element("mark", text[start:end], class_=css, title="; ".join(labels)))
    return pieces


def _widen(text: str, start: int, end: int) -> tuple[int, int]:
    first, last = max(0, start - AROUND), min(len(text), end + AROUND)
    while 0 < first < start and not text[first - 1].isspace():
        first += 1
    while end < last < len(text) and not text[last].isspace():
        last -= 1
    return first, last


MOST_ERRORS = 500
"""Errors of one kind that the page lists; it says how many there are."""

Votes = Mapping[str, Mapping[str, Sequence[Span]]]
"""Submodel, then note id, to what that submodel proposed."""

_MEANING: Mapping[ErrorKind, str] = {
    "missed": "gold annotations without a counterpart, not even one with another label or other ends",
    "spurious": "annotations of the system without a counterpart in gold",
    "wrong label": "annotations at the right place with another label",
    "wrong boundary": "annotations with the right label that overlap, but not at the same place",
    "wrong label and boundary": "annotations that overlap, with another label",
}


def error_section(
    errors: ErrorList, pairs: Mapping[str, Pair], votes: Votes, openable: Mapping[str, int], *, include_text: bool
) -> Html:
    """List the errors. `openable` maps the notes that the page contains in full to their number there."""
    if not errors.errors:
        return section("errors", "Errors", element("p", "There are no errors."))
    groups: list[Html] = []
    number = 0
    for kind in ERROR_KINDS:
        found = errors.of_kind(kind)
        if not found:
            continue
        cards: list[Html] = []
        for error in found[:MOST_ERRORS]:
            number += 1
            pair = pairs[error.document_id]
            cards.append(_card(number, error, pair, votes=votes, openable=openable, include_text=include_text))
        groups.append(_group(kind, len(found), cards))
    near = errors.tokens_near
    share = UNDEFINED if near.share is None else f"{100 * near.share:.1f}%"
    return section(
        "errors",
        "Errors",
        element(
            "p",
            "Every annotation of gold and of the system that is not an exact match is in one error of this list. Of "
            f"{near.total:,} PHI tokens (here: tokens of the text that gold touches) that no annotation of the system "
            f"touches, {near.count:,} ({share}) stand directly before or after a token with the right label.",
        ),
        _legend() if include_text else None,
        _filters(errors),
        element("p", id="shown", class_="soft screen", role="status"),
        *groups,
    )


def _group(kind: ErrorKind, found: int, cards: Sequence[Html]) -> Html:
    more = f", the first {len(cards):,} of them listed" if len(cards) < found else ""
    title = f"{kind.capitalize()}: {found:,} annotation{'s' if found != 1 else ''}{more}"
    left, meaning = element("span", class_="left"), element("span", f" – {_MEANING[kind]}", class_="soft")
    summary = element("summary", title, left, meaning)
    return element("details", summary, *cards, class_=f"kind {_css(kind)}", open=True, data_all=len(cards))


def _card(number: int, error: Error, pair: Pair, votes: Votes, openable: Mapping[str, int], include_text: bool) -> Html:
    spans = [span for span in (error.gold, error.system) if span is not None]
    start, end = min(s.start for s in spans), max(s.end for s in spans)
    score = ""
    if error.system is not None:
        source = f", from {error.system.source}" if error.system.source else ""
        score = f"score {four_digits(error.system.score)}{source}"
    facts = [
        element("b", error.kind),
        element("span", _what(error)),
        element("span", f"note {error.document_id}"),
        element("span", f"characters {start}–{end}"),
        element("span", error.note_kind) if error.note_kind else None,
        element("span", score) if score else None,
        element("span", "beside a right token") if error.near else None,
    ]
    button = None
    if error.document_id in openable:
        button = element(
            "button",
            "Whole note",
            type="button",
            class_="screen",
            data_open=openable[error.document_id],
            data_at=f"{start}-{end}",
            aria_label=f"Whole note {error.document_id}, error {number}",
        )
    return element(
        "article",
        element("p", *facts, class_="facts"),
        snippet(pair, start, end) if include_text else None,
        _vote_list(votes, error.document_id, start, end),
        button,
        class_=f"error {_css(error.kind)}",
        id=f"e{number}",
        tabindex=-1,
        data_kind=error.kind,
        data_gold=error.gold.label if error.gold is not None else "",
        data_system=error.system.label if error.system is not None else "",
        data_note=error.note_kind or "",
    )


def _what(error: Error) -> str:
    labels = dict.fromkeys(span.label for span in (error.gold, error.system) if span is not None)
    return " taken for ".join(labels)


def _vote_list(votes: Votes, document_id: str, start: int, end: int) -> Html | None:
    """Say what each submodel proposed where the error is: the label, the place if it is another, and the score."""
    if not votes:
        return None
    items: list[Html] = []
    for model, notes in votes.items():
        here = [span for span in notes.get(document_id, ()) if span.start < end and start < span.end]
        if not here:
            items.append(element("li", f"{model}: nothing", class_="none"))
        for span in sorted(here):
            place = "" if (span.start, span.end) == (start, end) else f" at {span.start}–{span.end}"
            items.append(element("li", f"{model}: {span.label}{place}, {four_digits(span.score)}"))
    return element("ul", *items, class_="votes", aria_label="Votes of the submodels")


def _legend() -> Html:
    meanings = (
        ("g", "underlined", ": gold; "),
        ("s", "shaded", ": given by the system; "),
        ("g s", "both", ": found. In the error itself: "),
        ("f g", "thick line, not shaded", " is missed, "),
        ("f s", "dashed box", " is given without gold."),
    )
    marks = (part for css, look, meaning in meanings for part in (element("mark", look, class_=css), meaning))
    return element("p", *marks, class_="soft legend")


def _filters(errors: ErrorList) -> Html:
    kinds = [kind for kind in ERROR_KINDS if errors.of_kind(kind)]
    labels = sorted({s.label for e in errors.errors for s in (e.gold, e.system) if s is not None})
    notes = sorted({error.note_kind for error in errors.errors if error.note_kind})
    return element(
        "div",
        _select("f-kind", "Kind of error", kinds),
        _select("f-label", "Label", labels),
        _select("f-note", "Kind of note", notes) if notes else None,
        element("label", "Words, note or label", element("input", id="f-words", type="search")),
        element("div", element("button", "Clear", id="clear", type="button")),
        class_="filters screen",
        role="search",
        aria_label="Filter the errors",
    )


def _select(name: str, title: str, values: Sequence[str]) -> Html:
    options = [element("option", "all", value=""), *(element("option", value, value=value) for value in values)]
    return element("label", title, element("select", *options, id=name))


def _css(kind: ErrorKind) -> str:
    return kind.replace(" ", "-")


MOST_WORDS = 25
"""Lines of each table."""


def words_section(errors: ErrorList, pairs: Mapping[str, Pair]) -> Html:
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
        if (rows := _word_rows(errors, pairs, kind))
    ]
    nothing = element("p", "Nothing is missed or spurious.")
    return section("words", "Missed and spurious words", *(tables or [nothing]))


def _word_rows(errors: ErrorList, pairs: Mapping[str, Pair], kind: ErrorKind) -> list[tuple[str, ...]]:
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
