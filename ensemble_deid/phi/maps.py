"""The i2b2 2014 types that correspond to the labels of other corpora."""

from collections.abc import Mapping
from types import MappingProxyType

from ensemble_deid.phi.taxonomy import I2B2_TYPES

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


def to_i2b2(label: str) -> str | None:
    """Return the i2b2 type for a label of a known scheme, or None where there is none."""
    return label if label in I2B2_TYPES else MEDDOCAN_TO_I2B2.get(label)
