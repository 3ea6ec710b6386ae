"""The pass over rows, lines and files: the note, and the ids and dates beside it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date

from ensemble_deid.corpora.record_map import FieldKind
from ensemble_deid.corpora.records import NewRecord, Record, Value
from ensemble_deid.corpora.tables.columns import Columns
from ensemble_deid.deidentify.cells import Cells
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.known.identifiers import KnownIdentifiers
from ensemble_deid.deidentify.known.of_records import identifiers_of_record
from ensemble_deid.deidentify.one_pass import DeidentificationResult, NotePass, failure_of
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.deidentify.prediction import Note
from ensemble_deid.deidentify.repeats import NOTHING
from ensemble_deid.errors import DeidError
from ensemble_deid.note.document import Document
from ensemble_deid.surrogates.dates import POSSIBLE_YEARS, USUAL_YEAR, DateText


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What takes a record's place, and its note's `result`; `emptied` counts dates left without a value, by reason."""

    new: NewRecord
    result: DeidentificationResult
    emptied: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class RowPass:
    """One pass over records of one scope: `see` all and let `notes` learn from theirs first, then `rewrite` each."""

    notes: NotePass
    cells: Cells
    years: "LatestYears" = field(default_factory=lambda: LatestYears())

    @classmethod
    def of(
        cls,
        model: Deidentifier,
        options: RunOptions,
        columns: Columns,
        bits: tuple[int, int],
        *,
        mapped: bool = False,
    ) -> "RowPass":
        """Return a pass for a model; `bits` are sizes of integer ids; fields of `mapped` records are identifiers."""
        cells = Cells(options.replacer, columns, bits, model.labels, mapped=mapped or bool(columns.fields))
        return cls(model.note_pass(_with_records(options, cells)), cells)

    def fresh(self) -> "RowPass":
        """Return a pass over another scope, which knows nothing yet."""
        options = _with_records(self.notes.options, self.cells)
        return RowPass(NotePass(options, self.notes.gate, self.notes.inclusion), self.cells)

    def see(self, record: Record) -> None:
        """Remember the dates of a record, also of one without a text, and what its fields say of its patient."""
        self.years.add(record)
        owner = record.document().patient_id
        if owner is not None:
            self.notes.options.add_known(owner, identifiers_of_record(record) if self.cells.mapped else ())

    def rewrite(self, record: Record, note: Note) -> Rewritten:
        """Return what takes a record's place, whose note the model has read."""
        before = Counter(self.cells.counts)
        result = self.notes.finish(note, self.years.taken(record))
        if result.error is None:
            try:
                new = NewRecord(result.edits, *self._beside(record, note))
                return Rewritten(new, result, self.cells.counts - before)
            except DeidError as error:
                problem = f"{record.name}: {str(error).removeprefix(f'{record.name}: ')}"
                result = DeidentificationResult(None, (), problem, counts=result.counts)
            except Exception as error:  # noqa: BLE001 (whatever happens to a note, it is withheld and reported)
                problem = f"{record.name}: {failure_of(error)}"
                result = DeidentificationResult(None, (), problem, counts=result.counts)
        return self.withheld(record, note, result, tried=self.cells.counts - before)

    def withheld(
        self, record: Record, note: Note, result: DeidentificationResult, *, tried: Mapping[str, int] | None = None
    ) -> Rewritten:
        """Return what takes the place of a record without its text; ids that cannot be treated are emptied too.

        `tried` counts the dates emptied in a failed attempt to write the record, so that they are not counted twice.
        """
        self.cells.counts.subtract(tried or {})
        before = Counter(self.cells.counts)
        try:
            beside = self._beside(record, note)
        except Exception as error:  # noqa: BLE001 (the record is withheld already)
            failure_of(error)
            beside = None, None, tuple(None for _ in record.dates), tuple(None for _ in record.fields)
        return Rewritten(NewRecord(None, *beside), result, self.cells.counts - before)

    def without_text(self, record: Record) -> Rewritten:
        """Return what takes the place of a record that has no text."""
        made = self.withheld(record, record.document(), DeidentificationResult(""))
        return replace(made, new=replace(made.new, edits=()))

    def _beside(self, record: Record, note: Note) -> tuple[Value, Value, tuple[Value, ...], tuple[Value, ...]]:
        """Return what takes the place of a record's id, patient, dates and fields."""
        known = NOTHING
        if record.dates or record.fields:
            document = note if isinstance(note, Document) else record.document()
            known = self.notes.known(document, self.years.taken(record))
        dates, fields = self.cells.dates(record, known), self.cells.fields(record, known)
        return self.cells.id(record), self.cells.patient(record), dates, fields


def _with_records(options: RunOptions, cells: Cells) -> RunOptions:
    """Return options whose known identifiers can be added to, where records have fields of a record map."""
    if not cells.mapped:
        return options
    known = options.lists.known
    own = KnownIdentifiers({}, labels=cells.labels) if known is None else known.copy()
    return replace(options, lists=replace(options.lists, known=own))


@dataclass(slots=True)
class LatestYears:
    """The latest year in all of a patient's date columns, beside which a birth date shows a great age."""

    years: dict[str, int] = field(default_factory=dict, repr=False)

    def add(self, record: Record) -> None:
        latest = latest_year(record)
        if record.patient is not None and latest is not None:
            patient = str(record.patient)
            self.years[patient] = max(latest, self.years.get(patient, latest))

    def taken(self, record: Record) -> frozenset[str]:
        """Return what is to be among the strings known of the patient: a date of that year, where there is one."""
        latest = latest_year(record) if record.patient is None else self.years.get(str(record.patient))
        return year_taken(latest)


def year_taken(latest: int | None) -> frozenset[str]:
    """Return the strings that tell the latest year of a patient's dates in columns."""
    return frozenset() if latest is None else frozenset({f"{latest:04d}-07-01"})


def latest_year(record: Record) -> int | None:
    """Return the latest year among a record's date fields."""
    fields = (field.value for field in record.fields if field.rule.kind is FieldKind.DATE)
    years = (year for value in (*record.dates, *fields) for year in _years(value))
    return max((year for year in years if year in POSSIBLE_YEARS), default=None)


def _years(value: Value) -> list[int]:
    if isinstance(value, date):
        return [value.year]
    # The year is the same in either order of day and month.
    readings = (DateText(1, day_first=first) for first in (False, True))
    found = (reading.years(str(value), year=USUAL_YEAR) for reading in readings if value is not None)
    return next((years for years in found if years), [])
