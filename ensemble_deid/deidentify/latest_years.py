"""The latest year of each patient's dates in columns, beside which a birth date shows a great age."""

from dataclasses import dataclass, field
from datetime import date

from ensemble_deid.corpora.records import Record, Value
from ensemble_deid.surrogates.dates import POSSIBLE_YEARS, USUAL_YEAR, DateText


@dataclass(slots=True)
class LatestYears:
    """Years by patient, of all records; a record without a patient has its own dates only."""

    years: dict[str, int] = field(default_factory=dict, repr=False)

    def add(self, record: Record) -> None:
        """Take up the dates of a record, also of one without a text."""
        latest = _latest(record)
        if record.patient is not None and latest is not None:
            patient = str(record.patient)
            self.years[patient] = max(latest, self.years.get(patient, latest))

    def taken(self, record: Record) -> frozenset[str]:
        """Return what is to be among the strings known of the patient: a date of that year, where there is one."""
        latest = _latest(record) if record.patient is None else self.years.get(str(record.patient))
        return frozenset() if latest is None else frozenset({f"{latest:04d}-07-01"})


def _latest(record: Record) -> int | None:
    years = (year for value in record.dates for year in _years(value))
    return max((year for year in years if year in POSSIBLE_YEARS), default=None)


def _years(value: Value) -> list[int]:
    if isinstance(value, date):
        return [value.year]
    # The year is the same in either order of day and month.
    readings = (DateText(1, day_first=first) for first in (False, True))
    found = (reading.years(str(value), year=USUAL_YEAR) for reading in readings if value is not None)
    return next((years for years in found if years), [])
