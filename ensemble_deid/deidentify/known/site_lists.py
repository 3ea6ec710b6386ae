"""What a site knows besides the model: known identifiers, what is never PHI, and what is always removed."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from ensemble_deid.corpora.checks import unknown_label
from ensemble_deid.deidentify.known.identifiers import KnownIdentifiers, Match
from ensemble_deid.deidentify.known.names import Certainty
from ensemble_deid.deidentify.known.table import SiteFile, StringIndex
from ensemble_deid.deidentify.known.words import Words, compacted
from ensemble_deid.deidentify.replacement.replacer import Replacement, Replacer
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.folding import same_string, visible
from ensemble_deid.note.labels import NEW_LABEL, is_label, known_labels
from ensemble_deid.note.overlaps import Covered, overlapping_groups, spanning
from ensemble_deid.note.span import Span
from ensemble_deid.surrogates.ages import capped_age
from ensemble_deid.surrogates.dates import DateText
from ensemble_deid.surrogates.patient import kind_of

# Allow and deny lists: strings that a site says are never PHI, and strings that it wants removed everywhere.

_LEAST = 2


@dataclass(frozen=True, slots=True)
class AllowList:
    """Strings that are no PHI: `lines` has the line of each in its file, by its letters and digits."""

    lines: Mapping[str, int] = field(repr=False)
    hash: str = ""

    @classmethod
    def read(cls, path: str | Path) -> "AllowList":
        """Read a file with one string a line, skipping blanks and `#` comments. CorpusError names file and line."""
        file = SiteFile.read(path)
        lines: dict[str, int] = {}
        for number, line in enumerate(file.text.split("\n"), start=1):
            if line.strip() and not line.startswith("#"):
                compact = compacted(line)
                file.check_value(number, len(compact), _LEAST)
                lines.setdefault(compact, number)
        if not lines:
            raise CorpusError(f"{path}: the list has no entries")
        return cls(lines, file.hash)

    def line_of(self, surface: str) -> int | None:
        """Return the line of the entry that a string equals but for case, accents and separators; None for none."""
        return self.lines.get(compacted(surface))


class DenyList:
    """Strings that are always removed, each with its label and its line in the file."""

    def __init__(self, entries: Mapping[str, tuple[str, int]], hash: str = "") -> None:
        self.hash = hash
        self.labels = frozenset(label for label, _ in entries.values())
        self._entries = list(entries.values())
        self._index = StringIndex((form, number) for number, form in enumerate(entries))

    @classmethod
    def read(cls, path: str | Path, *, labels: Collection[str]) -> "DenyList":
        """Read a CSV or TSV file with the columns label and value; `labels` are the model's.

        A row without a value declares a label of the site's own. Raises CorpusError, which names file and line.
        """
        file = SiteFile.read(path)
        entries: dict[str, tuple[str, int]] = {}
        rows, known = list(file.rows(("label", "value"))), known_labels().union(labels)
        own = {label for _, (label, value) in rows if not value and label not in known and is_label(label)}
        for line, (label, value) in rows:
            if label not in known | own:
                declare = f"declare a label of your own ({NEW_LABEL}) by a row with the label and no value"
                raise CorpusError(f"{path}:{line}: {unknown_label(label, known, 'the known labels')}; {declare}")
            if label in own and not value:
                continue
            compact = compacted(value)
            file.check_value(line, len(compact), _LEAST)
            entries.setdefault(compact, (label, line))
        if not entries:
            raise CorpusError(f"{path}: the list has no entries")
        return cls(entries, file.hash)

    def find(self, text: str) -> Iterator[tuple[int, int, str, int]]:
        """Yield start, end, label and line of every occurrence."""
        words = Words.of(text)
        for first, last, number in self._index.find(words):
            yield *words.original(first, last), *self._entries[number]


# One span in the place of those that overlap: a label whose style hides comes first, then the ranks decide.

Hides = Callable[[str], bool]
"""Whether the style of a label shows nothing of what its spans hold (`Styles.hides`)."""
_ANY_YEAR = 2000


class Rank(IntEnum):
    """How much a span's label counts where spans overlap; part of a staff name, perhaps another's, counts least."""

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
    def of_span(cls, span: Span, text: str) -> "Rank":
        """Return the rank of a span of the model, an enforced pattern or a recognizer."""
        if span.is_enforced:
            return cls.ENFORCED
        # `May 3` is a date also where the patient's name is May.
        return cls.MODEL_NUMBER if any(map(str.isdigit, text[span.start : span.end])) else cls.MODEL


@dataclass(frozen=True, slots=True, order=True)
class RankedSpan:
    """A span with the rank of its label."""

    span: Span
    rank: Rank


def joined(spans: Iterable[RankedSpan], text: str, hides: Hides) -> list[Span]:
    """Return the spans of a text, overlapping ones joined under the highest-ranked label whose style hides them."""
    groups = overlapping_groups(spans, lambda ranked: ranked.span)
    return [_one(members, text, hides) for members in groups]


def stands_for_itself(part: Rank, label: str, surface: str) -> bool:
    """Whether part of a name inside a span may be what the span says: `May 3` a date, but not `Bell 3/4/2019`."""
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


KNOWN, DENY = "known", "deny"
MATCHED = "known identifiers: found"
MISSED = "known identifiers: found where the model found nothing"
UNKNOWN = "known identifiers: notes of patients that have none"
LEFT = "known identifiers: left in the output"
WEAK = "known identifiers: ordinary words left in the output that are also in a name"
_ALLOWED, _DENIED = "allow list: line {} kept", "deny list: line {} removed"


@dataclass(frozen=True, slots=True)
class ListFiles:
    """The files of a site's lists, which each process reads for itself; `SiteLists.read` has what they are."""

    known: Path | None = None
    allow: Path | None = None
    deny: Path | None = None
    strict: bool = False

    def read(self, labels: Collection[str]) -> "SiteLists":
        """Read the files. Raises as `SiteLists.read`."""
        return SiteLists.read(known=self.known, allow=self.allow, deny=self.deny, strict=self.strict, labels=labels)


@dataclass(frozen=True, slots=True)
class SiteLists:
    """The lists that a site gives for its notes; without any, nothing changes.

    >>> from pathlib import Path
    >>> from ensemble_deid import Deidentifier, SiteLists
    >>> model = Deidentifier.load("model")
    >>> rows = ["patient_id,kind,value", "7,phone,(555) 555-0142", ",staff,Adaeze Okonkwo"]
    >>> _ = Path("known.csv").write_text("\\n".join(rows))
    >>> lists = SiteLists.read(known="known.csv", labels=model.labels)
    >>> model.deidentify("Call 555.555.0142 or OKONKWO.", patient="7", lists=lists).text
    'Call [PHONE] or [DOCTOR].'
    """

    known: KnownIdentifiers | None = field(default=None, repr=False)
    allow: AllowList | None = None
    deny: DenyList | None = field(default=None, repr=False)
    strict: bool = False

    @classmethod
    def read(
        cls,
        *,
        known: str | Path | None = None,
        allow: str | Path | None = None,
        deny: str | Path | None = None,
        strict: bool = False,
        labels: Collection[str],
    ) -> "SiteLists":
        """Read the files for a model's `labels`; `strict` withholds a note that still holds a known identifier.

        Raises CorpusError, which names file and line, and ConfigError for `strict` without known identifiers.
        """
        if strict and known is None:
            raise ConfigError("strict: needs known identifiers to look for in the output")
        return cls(
            None if known is None else KnownIdentifiers.read(known, labels=labels),
            None if allow is None else AllowList.read(allow),
            None if deny is None else DenyList.read(deny, labels=labels),
            strict,
        )

    @property
    def labels(self) -> frozenset[str]:
        return frozenset() if self.deny is None else self.deny.labels

    def to_json(self) -> dict[str, str | bool | None]:
        """Return what a run records: a short hash of each file, by which a change is seen."""
        return {
            "known": None if self.known is None else self.known.hash,
            "allow": None if self.allow is None else self.allow.hash,
            "deny": None if self.deny is None else self.deny.hash,
            "strict": self.strict,
        }

    def places(self, document: Document) -> tuple[Span, ...]:
        """Return where something known or denied stands: spans that no list of sentences may take away."""
        return self.apply(document.with_spans(())).spans

    def apply(
        self,
        document: Document,
        counts: Counter[str] | None = None,
        *,
        hides: Hides = lambda label: True,
        by_model: Sequence[Span] | None = None,
        others: Sequence[Span] = (),
    ) -> Document:
        """Return the note with what is known added to its spans, and without those that are allowed.

        `others` are spans of enforced patterns and of recognizers, which may overlap; what is enforced stays. Spans
        that overlap are joined under a label that hides them, where there is one. `counts` counts what acted, entries
        of lists by line; `by_model` are the model's own spans, where the document has those from other notes, too.
        """
        count: Counter[str] = Counter() if counts is None else counts
        matches = [] if self.known is None else self._matches(document, self.known, count, by_model)
        ranked = [
            RankedSpan(Span(match.start, match.end, match.label, 1.0, KNOWN), Rank.of_match(match)) for match in matches
        ]
        for start, end, label, line in () if self.deny is None else self.deny.find(document.text):
            ranked.append(RankedSpan(Span(start, end, label, 1.0, DENY), Rank.DENY))
            count[_DENIED.format(line)] += 1
        for span in others:
            count[span.source] += 1
        given = document.with_spans((*document.spans, *others)) if others else document
        must_stay = [member.span for member in ranked] + [span for span in others if span.is_enforced]
        kept = self._not_allowed(given, must_stay, count)
        if not ranked and not others:
            return document if len(kept) == len(document.spans) else document.with_spans(kept)
        found = (RankedSpan(span, Rank.of_span(span, document.text)) for span in kept)
        return document.with_spans(joined([*ranked, *found], document.text, hides))

    def taken(self, patient: str | None) -> frozenset[str]:
        """Return the values known of a patient as `Replacer.replace` takes them: no surrogate may equal one."""
        return frozenset() if self.known is None else frozenset(map(same_string, self.known.avoided(patient)))

    def left(self, document: Document, replacement: Replacement, replacer: Replacer) -> Counter[str]:
        """Count the known identifiers that are left in the output of a document.

        Outside replacements all count. Inside, the patient's own count in a surrogate or an operator's value, and any
        that is kept under a label other than its own.
        """
        counts: Counter[str] = Counter()
        if self.known is None:
            return counts
        text, taken = replacement.text, self.taken(document.patient_id)
        # Replacements stand in text order, and none reaches into another.
        ends = [span.new_end for span in replacement.spans]
        for match in self.known.find(text, document.patient_id):
            place = bisect_left(ends, match.end)
            around = replacement.spans[place] if place < len(ends) else None
            if around is None or around.new_start > match.start:
                counts[WEAK if match.certainty is Certainty.WEAK else LEFT] += 1
                continue
            style = replacer.styles.of(around.label)
            if style == "surrogate" or style in replacer.styles.operators:
                counts[LEFT] += match.own and same_string(text[match.start : match.end]) in taken
            elif style == "keep" and match.certainty is not Certainty.WEAK:
                harmless = match.certainty is Certainty.PART and stands_for_itself(
                    Rank.of_match(match), around.label, text[around.new_start : around.new_end]
                )
                counts[LEFT] += not harmless and replacer.styles.of(match.label) != "keep"
        return counts

    def _matches(
        self, document: Document, known: KnownIdentifiers, count: Counter[str], by_model: Sequence[Span] | None
    ) -> list[Match]:
        count[UNKNOWN] += not known.has(document.patient_id)
        matches = [m for m in known.find(document.text, document.patient_id) if m.certainty is not Certainty.WEAK]
        count[MATCHED] += len(matches)
        found = Covered.by(document.spans if by_model is None else by_model)
        count[MISSED] += sum(not found.overlaps(match.start, match.end) for match in matches)
        return matches

    def _not_allowed(self, document: Document, listed: Sequence[Span], count: Counter[str]) -> list[Span]:
        if self.allow is None:
            return list(document.spans)
        kept: list[Span] = []
        must_stay = Covered.by(listed)
        for span in document.spans:
            line = self.allow.line_of(document.text[span.start : span.end])
            if line is None or span.is_enforced or must_stay.overlaps(span.start, span.end):
                kept.append(span)
            else:
                count[_ALLOWED.format(line)] += 1
        return kept
