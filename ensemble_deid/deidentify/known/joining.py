"""One span in the place of those that overlap: a label whose style hides comes first, then the ranks decide."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from ensemble_deid.deidentify.known.identifiers import Match
from ensemble_deid.deidentify.known.names import Certainty
from ensemble_deid.note.folding import visible
from ensemble_deid.note.overlaps import overlapping_groups, spanning
from ensemble_deid.note.span import Span
from ensemble_deid.surrogates.ages import capped_age
from ensemble_deid.surrogates.dates import DateText
from ensemble_deid.surrogates.patient import kind_of

Hides = Callable[[str], bool]
"""Whether the style of a label shows nothing of what its spans hold (`Styles.hides`)."""
_ANY_YEAR = 2000


class Rank(IntEnum):
    """How far a label counts: part of the name of one of many may be part of another's."""

    STAFF_PART = 0
    MODEL = 1
    OWN_PART = 2
    MODEL_NUMBER = 3
    DENY = 4
    STAFF = 5
    OWN = 6
    ENFORCED = 7

    @classmethod
    def of_match(cls, match: Match) -> "Rank":
        if match.certainty is Certainty.PART:
            return cls.OWN_PART if match.own else cls.STAFF_PART
        return cls.OWN if match.own else cls.STAFF

    @classmethod
    def of_model(cls, surface: str) -> "Rank":
        """Return the rank of a span of the model: `May 3` is a date also where the patient's name is May."""
        return cls.MODEL_NUMBER if any(map(str.isdigit, surface)) else cls.MODEL

    @classmethod
    def of_span(cls, span: Span, text: str) -> "Rank":
        """Return the rank of a span of the model, an enforced pattern or a recognizer."""
        return cls.ENFORCED if span.is_enforced else cls.of_model(text[span.start : span.end])


@dataclass(frozen=True, slots=True, order=True)
class RankedSpan:
    """A span with the rank of its label."""

    span: Span
    rank: Rank


def joined(spans: Iterable[RankedSpan], text: str, hides: Hides) -> list[Span]:
    """Return the spans of a text with those that overlap joined; the label is that of the highest rank that hides."""
    groups = overlapping_groups(spans, lambda ranked: ranked.span)
    return [_one(members, text, hides) for members in groups]


def stands_for_itself(part: Rank, label: str, surface: str) -> bool:
    """Whether a part of a name inside a span of that label may be taken for what the span says.

    So it is in what is nothing but a date or an age (`May 3`), and for one of many people in the name of a place, but
    not where a name and a date, or a number, have become one span (`Bell 3/4/2019`).
    """
    surface = visible(surface)
    kind = kind_of(label, surface)
    has_digit = any(map(str.isdigit, surface))
    if has_digit and kind == "DATE":
        return DateText(1, day_first=False).shift(surface, year=_ANY_YEAR) is not None
    if has_digit and kind == "AGE":
        return capped_age(surface) is not None
    return part is Rank.STAFF_PART and not has_digit


def _one(members: Sequence[RankedSpan], text: str, hides: Hides) -> Span:
    shown = [m.span for m in members if m.rank in (Rank.MODEL, Rank.MODEL_NUMBER) and not hides(m.span.label)]

    def order(member: RankedSpan) -> tuple[bool, Rank, int, Span]:
        span, rank = member.span, member.rank
        harmless = rank in (Rank.OWN_PART, Rank.STAFF_PART) and any(
            around.start <= span.start
            and span.end <= around.end
            and stands_for_itself(rank, around.label, text[around.start : around.end])
            for around in shown
        )
        return hides(span.label) and not harmless, rank, span.end - span.start, span

    return spanning([member.span for member in members], max(members, key=order).span)
