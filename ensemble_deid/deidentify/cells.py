"""The cells beside the text: ids become keyed pseudonyms of the same type, dates are treated as those in the text."""

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import date, datetime

from ensemble_deid.corpora.record_map import Field, FieldKind, FieldRule
from ensemble_deid.corpora.records import Record, Value
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.corpora.tables.date_order import DateOrders, NumericDate
from ensemble_deid.deidentify.known.kinds import label_for
from ensemble_deid.deidentify.known.of_records import labelled
from ensemble_deid.deidentify.repeats import NOTHING, Known
from ensemble_deid.deidentify.replacement import Replacer
from ensemble_deid.deidentify.replacement.styles import Styles
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.note.document import Document, patient_of
from ensemble_deid.note.span import Span
from ensemble_deid.surrogates.ages import capped_age
from ensemble_deid.surrogates.choices import Keyed
from ensemble_deid.surrogates.patient import kind_of

_ROUNDS = 6
UNREADABLE_DATES = "dates that could not be read, and were emptied"
GREAT_AGE = "dates that show an age over 89, and were emptied"
NO_YEAR = "dates that name no year, and were emptied"
YEAR_ALONE = "dates whose column cannot hold a year alone, and were emptied"
NO_AGES = "ages that could not be read, and were emptied"
NO_CODES = "values that are no codes of their list, and were emptied"
NOT_WRITTEN = "values that a column of numbers cannot hold, and were emptied"
EMPTIED = (UNREADABLE_DATES, GREAT_AGE, NO_YEAR, YEAR_ALONE, NO_AGES, NO_CODES, NOT_WRITTEN)
"""Counts of values that the output lacks."""
NOBODY = "notes have a placeholder such as NULL for a patient, and were treated one by one"
"""Count of notes without a known patient."""


@dataclass(slots=True)
class Cells:
    """Treats ids and dates; `bits` are the sizes of integers in the columns of ids and patients.

    `labels` are the model's; with `mapped`, records have fields of a record map. Dates are kept, cut to years or
    shifted, as the labels for dates are: all alike, since kept dates beside shifted ones would show the shift. `counts`
    says what could not be treated, and so was emptied. Raises ConfigError when the labels for dates differ in this.
    """

    replacer: Replacer
    columns: Columns
    bits: tuple[int, int]
    labels: Collection[str] = ("DATE",)
    mapped: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    orders: DateOrders = field(init=False)
    _style: str = field(init=False, default="surrogate")

    def __post_init__(self) -> None:
        told = {True: "dmy", False: "mdy", None: None}[self.replacer.styles.settings.day_first]
        self.orders = DateOrders(self.columns.date_order or told)
        rules = (rule.kind for _, rule in self.columns.fields)
        if self.columns.dates or self.mapped or FieldKind.DATE in rules:
            self._style = _date_style(self.replacer.styles, self.labels)

    def id(self, record: Record) -> Value:
        """Return what stands for the record's id. Raises CorpusError for an integer that has no pseudonym."""
        return record.id if self.columns.keeps(self.columns.id) else self._pseudonym(record.id, "note", self.bits[0])

    def patient(self, record: Record) -> Value:
        """Return what stands for the patient's id: the same wherever that patient occurs; a placeholder stays."""
        if record.placeholder is not None:
            return record.placeholder
        if self.columns.keeps(self.columns.patient):
            return record.patient
        return self._pseudonym(record.patient, "patient", self.bits[1])

    def dates(self, record: Record, known: Known) -> tuple[Value, ...]:
        """Return the dates in their style; None for a value that is not a date or shows an age over 89.

        They are shifted as in the patient's notes; the patient's `known` identifiers decide which dates are long ago.
        Raises CorpusError when nothing says whether 3/4 is in March or in April.
        """
        patient = owner_of(record)
        return tuple(
            value if self.columns.keeps(name) else self._in_column(name, value, patient, known)
            for name, value in zip(self.columns.dates, record.dates, strict=False)
        )

    def fields(self, record: Record, known: Known) -> tuple[Value, ...]:
        """Return the replacements of the values with a rule, in their order. Raises as `dates`."""
        if not record.fields:
            return ()
        patient = owner_of(record)
        return tuple(self._field(field, patient, known) for field in record.fields)

    def _field(self, field: Field, patient: str, known: Known) -> Value:
        rule = field.rule
        value: Value = field.value
        if value is None or value == "" or rule.kind is FieldKind.KEEP:
            return value
        if rule.kind is FieldKind.DATE:
            return self._in_column(field.name, value, patient, known)
        if rule.kind is FieldKind.PSEUDONYM:
            return self._pseudonym(value, rule.of, 64)
        new = self._value(rule, str(value), patient, known)
        if isinstance(value, int) and new is not None:
            # A column of numbers holds the first number above 89, or nothing.
            new = new.removesuffix("+")
            number = int(new) if re.fullmatch(r"[0-9]{1,18}", new) else None
            self.counts[NOT_WRITTEN] += number is None
            return number
        return new

    def _value(self, rule: FieldRule, value: str, patient: str, known: Known) -> str | None:
        if rule.kind is FieldKind.CODES:
            self.counts[NO_CODES] += not rule.allows(value)
            return value if rule.allows(value) else None
        if rule.kind is FieldKind.AGE:
            new = capped_age(value)
            self.counts[NO_AGES] += new is None
            return new
        parts = labelled(rule.kind, value)
        spans = tuple(Span(start, end, label_for(type, self.labels), 1.0) for start, end, type in parts)
        document = Document("field", value, spans, patient_id=patient)
        return self.replacer.replace(document, taken=known.taken, numbered_by_note=False, doubted=()).text

    def _pseudonym(self, value: Value, kind: str, bits: int) -> Value:
        if value is None:
            return None
        if isinstance(value, int) and bits < 64:
            return self._permuted(value, kind, bits - 2)
        new = self.replacer.pseudonym(str(value), kind=kind)
        return int(new) if isinstance(value, int) else new

    def _permuted(self, value: int, kind: str, bits: int) -> int:
        """Return another integer of so few bits by a keyed permutation: hashes would collide. No patient becomes 0."""
        if not 0 <= value < 1 << bits:
            raise CorpusError(f"an integer id is negative or has more than {bits} bits: its column leaves no room")
        keyed = Keyed(self.replacer.key.secret, (self.replacer.scope, "pseudonym", kind, f"{bits} bits"))
        place = _permutation(value, keyed, bits, inverse=True)
        new = _permutation((place + 1) % (1 << bits), keyed, bits)
        if new == 0 and kind == "patient":
            new = _permutation((place + 2) % (1 << bits), keyed, bits)
        return new

    def _in_column(self, name: str, value: Value, patient: str, known: Known) -> Value:
        """Return what stands for a date of a column, whose order of day and month is known."""
        order, numbers = self.orders.of(name, value), NumericDate.read(value)
        if numbers is None or order is None:
            return self._shifted(value, patient, known, order)
        day = numbers.day(order)
        # A value that is not in its column's order is not a date.
        new = self._shifted("?" if day is None else day.isoformat(), patient, known)
        if self._style == "keep":
            return None if new is None else value
        return numbers.rewritten(date.fromisoformat(new), order) if isinstance(new, str) and len(new) > 4 else new

    def _shifted(self, value: Value, patient: str, known: Known = NOTHING, order: str | None = None) -> Value:
        """Return what stands for a date: a value of the same type, None where there is none that may be shown."""
        if value is None:
            return None
        if isinstance(value, datetime):
            day = self._shifted(value.date(), patient, known)
            return datetime.combine(day, value.timetz()) if isinstance(day, date) else None
        written = value.isoformat() if isinstance(value, date) else str(value)
        new, problem = self._written(written, patient, known, order)
        if new is not None and isinstance(value, date | int):
            try:
                return int(new) if isinstance(value, int) else date.fromisoformat(new)
            except ValueError:
                new, problem = None, UNREADABLE_DATES if self._style == "surrogate" else YEAR_ALONE
        if new is None:
            self.counts[problem] += 1
        return new

    def _written(self, written: str, patient: str, known: Known, order: str | None) -> tuple[str | None, str]:
        """Return a date in the style of dates, or None and what is counted."""
        replacer = self.replacer
        if order in ("dmy", "mdy"):
            settings = replace(replacer.styles.settings, day_first=order == "dmy")
            replacer = replace(replacer, styles=replace(replacer.styles, settings=settings))
        shifted = replacer.shift_date(written, patient=patient, taken=known.taken, spanish=known.spanish)
        if shifted is None:
            return None, UNREADABLE_DATES
        if self._style == "keep":
            return written, ""
        years = replacer.shown_years(written, patient=patient, taken=known.taken, spanish=known.spanish)
        if years is None:
            return None, GREAT_AGE
        if self._style == "surrogate":
            return shifted, ""
        return "-".join(map(str, years)) or None, NO_YEAR


def _permutation(value: int, keyed: Keyed, bits: int, *, inverse: bool = False) -> int:
    """Return where a keyed Feistel network (Luby and Rackoff 1988) puts an integer of an even number of bits."""
    half = bits // 2
    left, right = value >> half, value & ((1 << half) - 1)
    for number in reversed(range(_ROUNDS)) if inverse else range(_ROUNDS):
        if inverse:
            left, right = right ^ keyed.number(1 << half, f"round {number}", str(left)), left
        else:
            left, right = right, left ^ keyed.number(1 << half, f"round {number}", str(right))
    return left << half | right


def _date_style(styles: Styles, labels: Collection[str]) -> str:
    """Return the style of dates, `surrogate` where the labels of dates hide what they hold."""
    found = {styles.of(label) for label in labels if kind_of(label, "") == "DATE"} or {styles.of("DATE")}
    shown = found & {"keep", "year"}
    if not shown:
        return "surrogate"
    if len(found) > 1:
        raise ConfigError(f"date columns: the labels of dates have several styles ({', '.join(sorted(found))})")
    return found.pop()


def owner_of(record: Record) -> str:
    """Return the patient by whose shift dates are moved; one without a text, too, is known by what it holds."""
    patient = None if record.patient is None else str(record.patient)
    fields = [field.value for field in record.fields]
    return patient_of(patient, record.text or repr((record.id, record.dates, *fields)))
