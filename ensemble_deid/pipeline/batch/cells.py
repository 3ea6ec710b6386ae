"""The cells beside the text: ids become keyed pseudonyms of the same type, dates are shifted with their patient's."""

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from datetime import date, datetime

from ensemble_deid.corpora.records import Record, Value
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.errors import CorpusError
from ensemble_deid.pipeline.batch.patient_strings import NOTHING, Known
from ensemble_deid.pipeline.replacement import Replacer

_ROUNDS = 6
UNREADABLE_DATES = "dates that could not be read, and were emptied"


@dataclass(slots=True)
class Cells:
    """Treats ids and dates; `bits` are the sizes of integers in the columns of ids and patients.

    `counts` says what could not be treated, and so was emptied.
    """

    replacer: Replacer
    columns: Columns
    bits: tuple[int, int]
    counts: Counter[str] = field(default_factory=Counter)

    def id(self, record: Record) -> Value:
        """Return what stands for the record's id. Raises CorpusError for an integer that has no pseudonym."""
        return record.id if self.columns.keeps(self.columns.id) else self._pseudonym(record.id, "note", self.bits[0])

    def patient(self, record: Record) -> Value:
        """Return what stands for the patient's id: the same wherever that patient occurs."""
        if self.columns.keeps(self.columns.patient):
            return record.patient
        return self._pseudonym(record.patient, "patient", self.bits[1])

    def dates(self, record: Record, known: Known) -> tuple[Value, ...]:
        """Return the dates, shifted as those in the patient's notes are; None for what cannot be read as a date.

        `known` is what is known of the patient, which decides whether 3/4 is in March or in April.
        """
        patient = record.document().patient
        return tuple(
            value if self.columns.keeps(name) else self._shifted(value, patient, known)
            for name, value in zip(self.columns.dates, record.dates, strict=False)
        )

    def treated_or_empty(self, record: Record, known: Known) -> tuple[Value, Value, tuple[Value, ...]]:
        """Return id, patient and dates; all empty where one of them cannot be treated."""
        try:
            return self.id(record), self.patient(record), self.dates(record, known)
        except CorpusError:
            return None, None, tuple(None for _ in record.dates)

    def _pseudonym(self, value: Value, kind: str, bits: int) -> Value:
        if value is None:
            return None
        if isinstance(value, int) and bits < 64:
            return self._permuted(value, kind, bits - 2)
        new = self.replacer.pseudonym(str(value), kind=kind)
        return int(new) if isinstance(value, int) else new

    def _permuted(self, value: int, kind: str, bits: int) -> int:
        """Return another integer of the same few bits, and a different one for each.

        A Feistel network (Luby and Rackoff 1988) whose round function is the keyed pseudonym: with few bits, hashes
        would meet.
        """
        if not 0 <= value < 1 << bits:
            raise CorpusError(f"an integer id is negative or has more than {bits} bits: its column leaves no room")
        half = bits // 2
        mask = (1 << half) - 1
        left, right = value >> half, value & mask
        for number in range(_ROUNDS):
            keyed = self.replacer.pseudonym(f"{bits} bits, round {number}, {right}", kind=kind)
            mixed = int.from_bytes(hashlib.sha256(keyed.encode("utf-8")).digest()[:8], "big") & mask
            left, right = right, left ^ mixed
        return left << half | right

    def _shifted(self, value: Value, patient: str, known: Known = NOTHING) -> Value:
        if value is None:
            return None
        if isinstance(value, datetime):
            day = self._shifted(value.date(), patient, known)
            return datetime.combine(day, value.timetz()) if isinstance(day, date) else None
        written = value.isoformat() if isinstance(value, date) else str(value)
        new = self.replacer.shift_date(written, patient=patient, taken=known.taken, spanish=known.spanish)
        if new is not None and isinstance(value, date | int):
            try:
                return int(new) if isinstance(value, int) else date.fromisoformat(new)
            except ValueError:
                new = None
        if new is None:
            self.counts[UNREADABLE_DATES] += 1
        return new
