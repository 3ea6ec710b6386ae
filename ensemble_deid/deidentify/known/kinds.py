"""The kinds of known identifiers: the label of each, and how its values are matched."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum

from ensemble_deid.deidentify.known.forms import address_forms, number_forms, phone_forms, string_forms
from ensemble_deid.note.labels import to_i2b2


class Matching(Enum):
    """How values of a kind are matched."""

    NAME = "name"
    NUMBER = "number"
    PHONE = "phone"
    ADDRESS = "address"
    DATE = "date"
    STRING = "string"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of identifier: its i2b2 type, and how it is matched."""

    type: str
    matching: Matching

    @property
    def needs_patient(self) -> bool:
        """Whether it says something of a single patient only."""
        return self.type in ("PATIENT", "MEDICALRECORD", "SSN", "DATE")

    @property
    def least(self) -> int:
        """The least number of letters and digits that a value must have."""
        return 4 if self.matching in (Matching.NUMBER, Matching.PHONE) else 2

    def forms(self, value: str) -> Iterator[tuple[str, str]]:
        """Yield the forms of a value that is neither name nor date, without separators, and the i2b2 type of each."""
        if self.matching is Matching.ADDRESS:
            yield from address_forms(value)
            return
        made = {Matching.NUMBER: number_forms, Matching.PHONE: phone_forms}.get(self.matching, string_forms)
        yield from ((form, self.type) for form in made(value))


KINDS = {
    "name": Kind("PATIENT", Matching.NAME),
    "relative": Kind("PATIENT", Matching.NAME),
    "staff": Kind("DOCTOR", Matching.NAME),
    "username": Kind("USERNAME", Matching.STRING),
    "mrn": Kind("MEDICALRECORD", Matching.NUMBER),
    "ssn": Kind("SSN", Matching.NUMBER),
    "account": Kind("ACCOUNT", Matching.NUMBER),
    "healthplan": Kind("HEALTHPLAN", Matching.NUMBER),
    "license": Kind("LICENSE", Matching.NUMBER),
    "vehicle": Kind("VEHICLE", Matching.NUMBER),
    "device": Kind("DEVICE", Matching.NUMBER),
    "id": Kind("IDNUM", Matching.NUMBER),
    "birthdate": Kind("DATE", Matching.DATE),
    "phone": Kind("PHONE", Matching.PHONE),
    "fax": Kind("FAX", Matching.PHONE),
    "email": Kind("EMAIL", Matching.STRING),
    "url": Kind("URL", Matching.STRING),
    "address": Kind("STREET", Matching.ADDRESS),
    "city": Kind("CITY", Matching.STRING),
    "zip": Kind("ZIP", Matching.NUMBER),
    "hospital": Kind("HOSPITAL", Matching.STRING),
    "organization": Kind("ORGANIZATION", Matching.STRING),
}
"""By the name that a file has in its column `kind`, in lower case, without blanks and hyphens."""


def find_kind(name: str) -> Kind | None:
    """Return the kind of that name, None where there is none."""
    return KINDS.get("".join(c for c in name.casefold() if c.isalnum()))


def label_for(type: str, labels: Collection[str]) -> str:
    """Return the label that a model has for an i2b2 type: the first that corresponds to it, else the type itself."""
    return type if type in labels else next((label for label in labels if to_i2b2(label) == type), type)
