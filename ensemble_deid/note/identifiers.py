"""Labels as identifiers: those that name somebody by themselves, and those that do so together with others."""

from collections.abc import Mapping
from types import MappingProxyType

from ensemble_deid.note.labels import category_of, to_i2b2

DIRECT: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "names": ("PATIENT",),
        "street addresses": ("STREET",),
        "telephone numbers": ("PHONE",),
        "fax numbers": ("FAX",),
        "e-mail addresses": ("EMAIL",),
        "social security numbers": ("SSN",),
        "medical record numbers": ("MEDICALRECORD",),
        "health plan numbers": ("HEALTHPLAN",),
        "account numbers": ("ACCOUNT",),
        "certificate and licence numbers": ("LICENSE",),
        "vehicle identifiers": ("VEHICLE",),
        "device identifiers": ("DEVICE",),
        "web addresses": ("URL",),
        "IP addresses": ("IPADDR",),
        "biometric identifiers": ("BIOID",),
        "other unique numbers and codes": ("IDNUM", "USERNAME"),
    }
)
"""What even a limited data set may not have (45 CFR 164.514(e)(2)); photographs cannot be in a text."""
QUASI: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "places": ("CITY", "ZIP", "STATE", "COUNTRY", "LOCATION-OTHER"),
        "dates": ("DATE",),
        "ages": ("AGE",),
        "institutions": ("HOSPITAL", "ORGANIZATION"),
        "occupations": ("PROFESSION",),
        "staff": ("DOCTOR",),
        "other": ("OTHER",),
    }
)
"""The rest of HIPAA's 18 (places, dates, ages over 89), and what else describes a person."""
_OF_TYPE = {label: name for group in (DIRECT, QUASI) for name, labels in group.items() for label in labels}
# Of corpora that are annotated at the level of categories.
_OF_CATEGORY = {
    "NAME": "names",
    "ID": "other unique numbers and codes",
    "CONTACT": "telephone numbers",
    "LOCATION": "places",
    "DATE": "dates",
    "AGE": "ages",
    "PROFESSION": "occupations",
}
UNKNOWN = "labels of your own"
"""Counts as direct: nothing tells what it names."""


def identifier_of(label: str) -> str:
    """Return the kind of identifier that a label is for.

    >>> from ensemble_deid.note.identifiers import identifier_of
    >>> identifier_of("PATIENT"), identifier_of("CITY"), identifier_of("BADGE")
    ('names', 'places', 'labels of your own')
    """
    name = to_i2b2(label.upper())
    if name is not None:
        return _OF_TYPE[name]
    return _OF_CATEGORY.get(category_of(label) or "", UNKNOWN)


def is_direct(label: str) -> bool:
    """Whether a label's identifiers name somebody by themselves."""
    return identifier_of(label) not in QUASI
