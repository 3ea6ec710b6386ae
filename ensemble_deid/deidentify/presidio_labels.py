"""Who a predicted span comes from, in words for other systems."""

from collections.abc import Mapping
from types import MappingProxyType

from ensemble_deid.deidentify.known.site_lists import DENY, KNOWN
from ensemble_deid.deidentify.repeats import SOURCE as REPEAT
from ensemble_deid.note.labels import to_i2b2
from ensemble_deid.stacking.sequence_scores import SOURCE

_OTHERS = {
    SOURCE: "the score of a single word that no candidate covers",
    REPEAT: "a repeat of what was found elsewhere",
    KNOWN: "the site's list of known identifiers",
    DENY: "the site's deny list",
}


def predicted_by(source: str) -> str:
    """Return who predicted a span, by its `source`: submodels, or what stands beside them."""
    if source in _OTHERS:
        return _OTHERS[source]
    return source.replace("+", ", ") or "the final estimator alone, in no submodel's own answer"


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
    """Return the entity type for a label; identifiers without a type of their own are `ID`, unknown labels stay."""
    i2b2_type = to_i2b2(label)
    if i2b2_type is None:
        return label
    return I2B2_TO_PRESIDIO.get(i2b2_type, "ID")
