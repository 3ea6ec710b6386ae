"""The PHI types of the 2014 i2b2/UTHealth corpus, their categories, and the HIPAA subset.

Source: Stubbs and Uzuner 2015 (J Biomed Inform 58 Suppl:S20-S29), as listed by Zhao et al. 2020, table 2.
"""

from collections.abc import Mapping
from types import MappingProxyType

I2B2_CATEGORIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "NAME": ("PATIENT", "DOCTOR", "USERNAME"),
        "PROFESSION": ("PROFESSION",),
        "LOCATION": (
            "HOSPITAL",
            "ORGANIZATION",
            "STREET",
            "CITY",
            "STATE",
            "COUNTRY",
            "ZIP",
            "LOCATION-OTHER",
        ),
        "AGE": ("AGE",),
        "DATE": ("DATE",),
        "CONTACT": ("PHONE", "FAX", "EMAIL", "URL", "IPADDR"),
        "ID": (
            "SSN",
            "MEDICALRECORD",
            "HEALTHPLAN",
            "ACCOUNT",
            "LICENSE",
            "VEHICLE",
            "DEVICE",
            "BIOID",
            "IDNUM",
        ),
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

MEDDOCAN_CATEGORIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "NAME": ("NOMBRE_SUJETO_ASISTENCIA", "NOMBRE_PERSONAL_SANITARIO"),
        "PROFESSION": ("PROFESION",),
        "LOCATION": ("HOSPITAL", "INSTITUCION", "CENTRO_SALUD", "CALLE", "TERRITORIO", "PAIS"),
        "AGE": ("EDAD_SUJETO_ASISTENCIA",),
        "DATE": ("FECHAS",),
        "CONTACT": (
            "NUMERO_TELEFONO",
            "NUMERO_FAX",
            "NUMERO_BUSCAPERSONAS",
            "CORREO_ELECTRONICO",
            "DIREC_PROT_INTERNET",
            "URL_WEB",
        ),
        "ID": (
            "ID_SUJETO_ASISTENCIA",
            "ID_CONTACTO_ASISTENCIAL",
            "ID_ASEGURAMIENTO",
            "ID_TITULACION_PERSONAL_SANITARIO",
            "ID_EMPLEO_PERSONAL_SANITARIO",
            "IDENTIF_VEHICULOS_NRSERIE_PLACAS",
            "IDENTIF_DISPOSITIVOS_NRSERIE",
            "IDENTIF_BIOMETRICOS",
        ),
        "OTHER": (
            "SEXO_SUJETO_ASISTENCIA",
            "FAMILIARES_SUJETO_ASISTENCIA",
            "OTROS_SUJETO_ASISTENCIA",
            "OTRO_NUMERO_IDENTIF",
        ),
    }
)
"""The 29 types of MEDDOCAN (Marimon et al. 2019, IberLEF) by the XML element that carries them."""
MEDDOCAN_CATEGORY_OF_TYPE: Mapping[str, str] = MappingProxyType(
    {label: category for category, labels in MEDDOCAN_CATEGORIES.items() for label in labels}
)
MEDDOCAN_TYPES: tuple[str, ...] = tuple(MEDDOCAN_CATEGORY_OF_TYPE)
