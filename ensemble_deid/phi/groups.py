"""Named sets of PHI labels: categories, the HIPAA subset, and the groups A-D of Murugadoss et al. 2021 (table 1).

MEDDOCAN labels belong to the sets of their i2b2 counterparts (`phi.maps`).
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ensemble_deid.phi.maps import to_i2b2
from ensemble_deid.phi.taxonomy import (
    CATEGORY_OF_TYPE,
    HIPAA_TYPES,
    I2B2_CATEGORIES,
    I2B2_TYPES,
    MEDDOCAN_CATEGORY_OF_TYPE,
    MEDDOCAN_TYPES,
)

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
    """Return the category (NAME, DATE, ...) of an i2b2 or MEDDOCAN type, ignoring case, or None.

    A category's name is its own category, for corpora annotated at the level of categories.
    """
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


def known_labels() -> frozenset[str]:
    """Return every type that the taxonomy knows."""
    return frozenset(I2B2_TYPES) | frozenset(MEDDOCAN_TYPES)
