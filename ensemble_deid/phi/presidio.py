"""The entity types of Presidio that stand for our labels (those of its documentation, and of its clinical example)."""

from collections.abc import Mapping
from types import MappingProxyType

from ensemble_deid.phi.maps import to_i2b2

I2B2_TO_PRESIDIO: Mapping[str, str] = MappingProxyType(
    {
        "PATIENT": "PERSON",
        "DOCTOR": "PERSON",
        "USERNAME": "USERNAME",
        "PROFESSION": "PROFESSION",
        "HOSPITAL": "ORGANIZATION",
        "ORGANIZATION": "ORGANIZATION",
        "STREET": "LOCATION",
        "CITY": "LOCATION",
        "STATE": "LOCATION",
        "COUNTRY": "LOCATION",
        "ZIP": "LOCATION",
        "LOCATION-OTHER": "LOCATION",
        "AGE": "AGE",
        "DATE": "DATE_TIME",
        "PHONE": "PHONE_NUMBER",
        "FAX": "PHONE_NUMBER",
        "EMAIL": "EMAIL_ADDRESS",
        "URL": "URL",
        "IPADDR": "IP_ADDRESS",
        "SSN": "US_SSN",
        "OTHER": "OTHER",
    }
)


def to_presidio(label: str) -> str:
    """Return the entity type for a label: identifiers without a type of their own are `ID`, unknown labels as they are.

    >>> to_presidio("DOCTOR"), to_presidio("MEDICALRECORD"), to_presidio("WARD")
    ('PERSON', 'ID', 'WARD')
    """
    i2b2_type = to_i2b2(label)
    if i2b2_type is None:
        return label
    return I2B2_TO_PRESIDIO.get(i2b2_type, "ID")
