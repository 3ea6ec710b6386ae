"""What a record says beside its text: identifiers to search in the patient's notes, and what their parts are."""

import re
from collections.abc import Iterator, Sequence

from ensemble_deid.corpora.record_map import AUTHORITY, BIRTH, Field, FieldKind, FieldRule
from ensemble_deid.corpora.records import Record
from ensemble_deid.deidentify.known.dates import read_date
from ensemble_deid.deidentify.known.identifiers import Identifier
from ensemble_deid.deidentify.known.kinds import KINDS, Matching
from ensemble_deid.deidentify.known.names import Person
from ensemble_deid.deidentify.known.words import compacted

_NAMES = {
    FieldKind.PATIENT: "name",
    FieldKind.STAFF: "staff",
    FieldKind.RELATIVE: "relative",
    FieldKind.ADDRESS: "address",
    FieldKind.CITY: "city",
    FieldKind.ZIP: "zip",
    FieldKind.ORGANIZATION: "hospital",
}
"""The kinds of known identifiers (`kinds.py`) by those of fields."""
_PATIENT = FieldRule(FieldKind.PSEUDONYM, of="patient")
_KIND_NAMES = {kind: name for name, kind in KINDS.items()}
_PLACES = (FieldKind.ZIP, FieldKind.CITY, FieldKind.STATE, FieldKind.COUNTRY)
_PART = re.compile(r"[^,;\n]+")
_ZIP = re.compile(r"\d{5}(?:-?\d{4})?")
_LEAST_CODE = 5


def labelled(kind: FieldKind, value: str) -> Iterator[tuple[int, int, str]]:
    """Yield the parts of a field's value that are replaced, each with its i2b2 type."""
    if kind is FieldKind.ADDRESS:
        parts = [match for match in _PART.finditer(value) if match.group().strip()]
        for number, match in enumerate(parts):
            start = match.start() + len(match.group()) - len(match.group().lstrip())
            yield from _of_address(value, start, match.start() + len(match.group().rstrip()), first=not number)
    elif kind is FieldKind.PHONE:
        yield 0, len(value), _type_of_contact(value)
    else:
        yield 0, len(value), kind.name if kind in _PLACES else KINDS[_NAMES[kind]].type


def _of_address(value: str, start: int, end: int, *, first: bool) -> Iterator[tuple[int, int, str]]:
    zip_code = _ZIP.search(value, start, end)
    if zip_code is not None and zip_code.end() == end and zip_code.start() > start:
        before = len(value[start : zip_code.start()].rstrip())
        if before:
            yield start, start + before, "STATE" if before == len("MA") else "CITY"
        yield *zip_code.span(), "ZIP"
    elif zip_code is not None and zip_code.span() == (start, end):
        yield start, end, "ZIP"
    else:
        yield start, end, "STREET" if first else "STATE" if end - start == len("MA") else "CITY"


def _type_of_contact(value: str) -> str:
    return "EMAIL" if "@" in value else "URL" if "://" in value else "PHONE"


def identifiers_of(field: Field) -> Iterator[Identifier]:
    """Yield what a field says of the patient of its record, if it is long enough to be searched."""
    kind, value = field.rule.kind, " ".join(str("" if field.value is None else field.value).split())
    value = value.split(AUTHORITY)[0] if kind is FieldKind.PSEUDONYM else value
    if kind in _NAMES:
        name = _NAMES[kind]
    elif kind is FieldKind.PHONE:
        name = _type_of_contact(value).lower()
    elif kind is FieldKind.PSEUDONYM:
        name = "mrn" if field.rule.of == "patient" else "id"
    elif kind is FieldKind.DATE and field.rule.of == BIRTH:
        name = "birthdate"
    else:
        return
    found = KINDS[name]
    least = _LEAST_CODE if kind is FieldKind.PSEUDONYM else found.least
    if len(compacted(value)) < least:
        return
    if found.matching is Matching.NAME and Person.of(value, 0) is None:
        return
    if found.matching is Matching.DATE and read_date(value) is None:
        return
    yield Identifier(found, value)


def identifiers_of_record(record: Record) -> list[Identifier]:
    fields = (Field("patient", _PATIENT, record.patient), *record.fields)
    return [identifier for field in fields for identifier in identifiers_of(field)]


def identifiers_to_json(identifiers: Sequence[Identifier]) -> list[list[str]]:
    """Return the kind and value of each."""
    return [[_KIND_NAMES[identifier.kind], identifier.value] for identifier in identifiers]


def identifiers_of_json(content: Sequence[Sequence[str]]) -> Iterator[Identifier]:
    return (Identifier(KINDS[name], value) for name, value in content)
