"""The replacement of each span of a note, by the style of its label."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from ensemble_deid.corpora.checks import check_text
from ensemble_deid.deidentify.replacement.styles import FIXED, INVENTING, Styles
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.folding import same_string
from ensemble_deid.note.span import Span
from ensemble_deid.surrogates.ages import capped_age
from ensemble_deid.surrogates.choices import Keyed
from ensemble_deid.surrogates.patient import PatientSurrogates, kind_of

_HASH_DIGITS = 12
_ZIP = re.compile(r"(\d{3})\d{2}([-\s]?\d{4})?")
_SPARSE_ZIP = frozenset("036 059 063 102 203 205 369 556 692 753 772 790 821 823 830 831 878 879 884 890 893".split())
"""First three digits of ZIP codes where at most 20,000 people live, by the census of 2000 (HHS guidance) or 2010."""


@dataclass(slots=True)
class Values:
    """The values for the spans of one note as it is read; `doubted` spans get a tag such as `[DOCTOR?]`."""

    styles: Styles
    make_surrogates: Callable[[], PatientSurrogates]
    text: str = field(repr=False)
    spans: Sequence[Span]
    numbered_by_note: bool
    doubted: Collection[Span] = ()
    _year: int | None = field(init=False, default=None)
    _surrogates: PatientSurrogates | None = field(init=False, default=None, repr=False)
    _numbers: dict[str, tuple[dict[str, int], dict[str, int]]] = field(init=False, default_factory=dict, repr=False)

    def of(self, span: Span, surface: str) -> str:
        """Return the value of a span whose text is `surface`; a tag where its style has none, so that no PHI stays."""
        style = self.styles.of(span.label)
        if style.startswith(FIXED):
            return style.removeprefix(FIXED)
        if style in self.styles.operators:
            return self._operated(style, surface, span.label)
        makers: dict[str, Callable[[Span], str | None]] = {
            "mask": lambda _: "".join(c if c.isspace() else "X" for c in surface),
            "remove": lambda _: "",
            "keep": lambda _: surface,
            "hash": self._hash,
            "numbered": self._numbered,
            "surrogate": lambda s: self.surrogates.value(self.text, s.start, s.end, s.label, year=self._year),
            "year": self._years,
            "cap-age": lambda s: capped_age(self._surface(s), following=self.text[s.end : s.end + 16]),
            "zip3": self._zip,
        }
        value = makers[style](span) if style in makers else None
        if value is None:
            return f"[{self.styles.name(span.label)}]"
        doubtful = style in INVENTING and span in self.doubted and value != surface
        return f"[{self.styles.name(span.label)}?]" if doubtful else value

    def _operated(self, name: str, surface: str, label: str) -> str:
        """Return what an operator makes of a string. Raises CorpusError, which quotes nothing."""
        try:
            value = self.styles.operators[name](surface, label)
        except Exception as error:  # noqa: BLE001 (whatever happens, the note is withheld; the message may quote it)
            raise CorpusError(f"operator {name}: failed ({type(error).__name__})") from None
        if not isinstance(value, str):
            raise CorpusError(f"operator {name}: returned {type(value).__name__}, not a string")
        check_text(value, f"operator {name}")
        return value

    @property
    def surrogates(self) -> PatientSurrogates:
        """The patient's surrogates, made when the first style needs them."""
        if self._surrogates is None:
            self._surrogates = self.make_surrogates()
            dates = [self._surface(span) for span in self.spans if kind_of(span.label, "") == "DATE"]
            self._year = self._surrogates.latest_year(dates)
        return self._surrogates

    def _surface(self, span: Span) -> str:
        return self.text[span.start : span.end]

    def _hash(self, span: Span) -> str:
        keyed = Keyed(self.surrogates.secret, (*self.surrogates.scope, "hash"))
        return f"[{self.styles.name(span.label)}:{keyed.digest(same_string(self._surface(span))).hex()[:_HASH_DIGITS]}]"

    def _numbered(self, span: Span) -> str:
        if span.label not in self._numbers:
            known = {} if self.numbered_by_note else self.surrogates.numbers(span.label)
            # What only the text around it tells (a title, capitals) is not among the patient's strings.
            new: dict[str, int] = {}
            for other in self.spans:
                if other.label == span.label and (identity := self._identity(other)) not in known:
                    new.setdefault(identity, len(known) + len(new) + 1)
            self._numbers[span.label] = (known, new)
        known, new = self._numbers[span.label]
        identity = self._identity(span)
        steady = None if self.numbered_by_note else self.surrogates.number(identity)
        return f"[{span.label}-{steady or known.get(identity) or new[identity]}]"

    def _identity(self, span: Span) -> str:
        return self.surrogates.identity(self.text, span.start, span.end, span.label)

    def _years(self, span: Span) -> str | None:
        surface = self._surface(span)
        surrogates = self.surrogates
        years = surrogates.dates.years(surface, year=self._year or surrogates.year)
        great_age = surrogates.shows_great_age(surface)
        return None if not years or great_age else "-".join(str(year) for year in years)

    def _zip(self, span: Span) -> str | None:
        match = _ZIP.fullmatch(self._surface(span).strip())
        return None if match is None else f"{'000' if match[1] in _SPARSE_ZIP else match[1]}**"
