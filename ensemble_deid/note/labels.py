"""The PHI types of the 2014 i2b2/UTHealth corpus, their categories, and the HIPAA subset.

Source: Stubbs and Uzuner 2015 (J Biomed Inform 58 Suppl:S20-S29), as listed by Zhao et al. 2020, table 2.
"""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

I2B2_CATEGORIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "NAME": ("PATIENT", "DOCTOR", "USERNAME"),
        "PROFESSION": ("PROFESSION",),
        "LOCATION": tuple("HOSPITAL ORGANIZATION STREET CITY STATE COUNTRY ZIP LOCATION-OTHER".split()),
        "AGE": ("AGE",),
        "DATE": ("DATE",),
        "CONTACT": ("PHONE", "FAX", "EMAIL", "URL", "IPADDR"),
        "ID": tuple("SSN MEDICALRECORD HEALTHPLAN ACCOUNT LICENSE VEHICLE DEVICE BIOID IDNUM".split()),
        "OTHER": ("OTHER",),
    }
)
CATEGORY_OF_TYPE: Mapping[str, str] = MappingProxyType(
    {label: category for category, labels in I2B2_CATEGORIES.items() for label in labels}
)
I2B2_TYPES: tuple[str, ...] = tuple(CATEGORY_OF_TYPE)

HIPAA_TYPES: frozenset[str] = frozenset(
    "PATIENT CITY STREET ZIP ORGANIZATION DATE AGE PHONE FAX EMAIL SSN MEDICALRECORD HEALTHPLAN ACCOUNT "
    "LICENSE VEHICLE DEVICE BIOID".split()
)
"""What the 2014 evaluation script keeps under its HIPAA filter (not IDNUM: its pattern ends in a space)."""

# The i2b2 2014 types that correspond to the labels of other corpora.

MEDDOCAN_TO_I2B2: Mapping[str, str] = MappingProxyType(
    {
        "NOMBRE_SUJETO_ASISTENCIA": "PATIENT",
        "NOMBRE_PERSONAL_SANITARIO": "DOCTOR",
        "PROFESION": "PROFESSION",
        "HOSPITAL": "HOSPITAL",
        "INSTITUCION": "ORGANIZATION",
        "CENTRO_SALUD": "HOSPITAL",
        "CALLE": "STREET",
        "TERRITORIO": "CITY",
        "PAIS": "COUNTRY",
        "EDAD_SUJETO_ASISTENCIA": "AGE",
        "FECHAS": "DATE",
        "NUMERO_TELEFONO": "PHONE",
        "NUMERO_FAX": "FAX",
        "NUMERO_BUSCAPERSONAS": "PHONE",
        "CORREO_ELECTRONICO": "EMAIL",
        "DIREC_PROT_INTERNET": "IPADDR",
        "URL_WEB": "URL",
        "ID_SUJETO_ASISTENCIA": "MEDICALRECORD",
        "ID_CONTACTO_ASISTENCIAL": "IDNUM",
        "ID_ASEGURAMIENTO": "HEALTHPLAN",
        "ID_TITULACION_PERSONAL_SANITARIO": "LICENSE",
        "ID_EMPLEO_PERSONAL_SANITARIO": "IDNUM",
        "IDENTIF_VEHICULOS_NRSERIE_PLACAS": "VEHICLE",
        "IDENTIF_DISPOSITIVOS_NRSERIE": "DEVICE",
        "IDENTIF_BIOMETRICOS": "BIOID",
        "SEXO_SUJETO_ASISTENCIA": "OTHER",
        "FAMILIARES_SUJETO_ASISTENCIA": "OTHER",
        "OTROS_SUJETO_ASISTENCIA": "OTHER",
        "OTRO_NUMERO_IDENTIF": "IDNUM",
    }
)


MEDDOCAN_CATEGORY_OF_TYPE: Mapping[str, str] = MappingProxyType(
    {label: CATEGORY_OF_TYPE[i2b2_type] for label, i2b2_type in MEDDOCAN_TO_I2B2.items()}
    | {"OTRO_NUMERO_IDENTIF": "OTHER"}
)
"""The 29 types of MEDDOCAN (Marimon et al. 2019, IberLEF) with the XML element that carries each."""
MEDDOCAN_TYPES: tuple[str, ...] = tuple(MEDDOCAN_CATEGORY_OF_TYPE)


def to_i2b2(label: str) -> str | None:
    """Return the i2b2 type for a label of a known scheme, or None where there is none."""
    return label if label in I2B2_TYPES else MEDDOCAN_TO_I2B2.get(label)


# Named sets of PHI labels: categories, the HIPAA subset, and the groups A-D of Murugadoss et al. 2021 (table 1).
#
# MEDDOCAN labels belong to the sets of their i2b2 counterparts.

_GROUP_A = HIPAA_TYPES | {"URL", "IPADDR", "IDNUM"}
_GROUP_B = _GROUP_A | {"DOCTOR", "USERNAME", "STATE"}
_GROUP_C = _GROUP_B | {"HOSPITAL", "COUNTRY"}
_GROUP_D = _GROUP_C | {"PROFESSION"}
GROUPS: Mapping[str, frozenset[str]] = MappingProxyType({"A": _GROUP_A, "B": _GROUP_B, "C": _GROUP_C, "D": _GROUP_D})
"""The groups as i2b2 2014 types; each holds the one before.

Table 1 names kinds of PHI, not i2b2 types. Read here: employer names are ORGANIZATION; every numeric identifier
that table 1 names, and IDNUM for those it calls "account/certificate/license", is in A; D's holidays and days of
the week are annotated as DATE in i2b2 2014, so they count from A on. A's "age over 89" keeps every AGE, because a
label does not tell the age. LOCATION-OTHER and OTHER are named in no group.
"""


def category_of(label: str) -> str | None:
    """Return the category (NAME, DATE, ...) of an i2b2 or MEDDOCAN type, or of a category, in any case; else None."""
    name = label.upper()
    if name in I2B2_CATEGORIES:
        return name
    return CATEGORY_OF_TYPE.get(name) or MEDDOCAN_CATEGORY_OF_TYPE.get(name)


def is_hipaa(label: str) -> bool:
    """True where the 2014 i2b2 script's HIPAA filter keeps the type."""
    return to_i2b2(label.upper()) in HIPAA_TYPES


def labels_in_group(group: str, labels: Iterable[str]) -> frozenset[str]:
    """Return those of `labels` that belong to group A, B, C or D. Raises KeyError for another group."""
    members = GROUPS[group]
    return frozenset(label for label in labels if to_i2b2(label.upper()) in members)


_NEW_LABEL = re.compile(r"[A-Z][A-Z0-9_-]{0,39}")
NEW_LABEL = "capitals, digits, - and _, 40 at most"
"""What the name of a site's own label may hold; it is in the output, so it must quote nothing."""


def is_label(name: str) -> bool:
    """Whether a name is a label of the taxonomy, or such as a site may give a label of its own."""
    return bool(_NEW_LABEL.fullmatch(name)) or name in known_labels()


def known_labels() -> frozenset[str]:
    """Return every type that the taxonomy knows."""
    return frozenset(I2B2_TYPES) | frozenset(MEDDOCAN_TYPES)


# Labels as identifiers: those that name somebody by themselves, and those that do so together with others.

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
    """Return the kind of identifier that a label is for: `names`, `places`, `labels of your own`."""
    name = to_i2b2(label.upper())
    if name is not None:
        return _OF_TYPE[name]
    return _OF_CATEGORY.get(category_of(label) or "", UNKNOWN)


def is_direct(label: str) -> bool:
    """Whether a label's identifiers name somebody by themselves."""
    return identifier_of(label) not in QUASI


# The entity types of Presidio that stand for our labels (those of its documentation, and of its clinical example).

I2B2_TO_PRESIDIO: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("PATIENT", "DOCTOR"), "PERSON"),
        **{same: same for same in ("USERNAME", "PROFESSION", "ORGANIZATION", "AGE", "URL", "OTHER")},
        **dict.fromkeys(("STREET", "CITY", "STATE", "COUNTRY", "ZIP", "LOCATION-OTHER"), "LOCATION"),
        "HOSPITAL": "ORGANIZATION",
        "DATE": "DATE_TIME",
        "PHONE": "PHONE_NUMBER",
        "FAX": "PHONE_NUMBER",
        "EMAIL": "EMAIL_ADDRESS",
        "IPADDR": "IP_ADDRESS",
        "SSN": "US_SSN",
    }
)


def to_presidio(label: str) -> str:
    """Return Presidio's entity type for a label: `ID` for identifiers without a type; unknown labels are unchanged."""
    i2b2_type = to_i2b2(label)
    if i2b2_type is None:
        return label
    return I2B2_TO_PRESIDIO.get(i2b2_type, "ID")
