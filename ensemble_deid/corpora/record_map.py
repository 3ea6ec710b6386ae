"""Record maps: what every column of a table, FHIR element and HL7 field holds, and so what takes its place.

A map is a TOML file with the sections `columns` (any table), `tables.NAME` (the table in the file NAME), `fhir`, `hl7`
and `xml`, each from a place to a rule: a kind, or `{ kind = ..., ... }`. What has no rule is left out of the output.
"""

import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from ensemble_deid.errors import ConfigError
from ensemble_deid.note.document import known_patient
from ensemble_deid.parsing import read_toml


class FieldKind(StrEnum):
    """What a field holds."""

    TEXT = "text"
    DROP = "drop"
    KEEP = "keep"
    PSEUDONYM = "pseudonym"
    PATIENT = "patient"
    STAFF = "staff"
    RELATIVE = "relative"
    DATE = "date"
    AGE = "age"
    ZIP = "zip"
    PHONE = "phone"
    ADDRESS = "address"
    CITY = "city"
    STATE = "state"
    COUNTRY = "country"
    ORGANIZATION = "organization"
    CODES = "codes"


PEOPLE = (FieldKind.PATIENT, FieldKind.STAFF, FieldKind.RELATIVE)
BIRTH = "birth"
AUTHORITY = "^^^"
"""Separates a patient's id from an authority other than the rule's."""
_SECTIONS = ("columns", "tables", "fhir", "hl7", "xml")
_KEYS = ("kind", "of", "values", "pattern", "authority", "row")
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}")
_FHIR_PATH = re.compile(r"[A-Z][A-Za-z]*(?:\.[A-Za-z]+)+")
_XML_NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
_XML_PLACE = re.compile(rf"{_XML_NAME}(?:\.{_XML_NAME})*(?:@{_XML_NAME})?")
_HL7_PLACE = re.compile(r"[A-Z][A-Z0-9]{2}-[1-9][0-9]?")


@dataclass(frozen=True, slots=True)
class FieldRule:
    """The treatment of a field.

    `of` says of what a pseudonym is (`patient`, `encounter`, ...): equal ids of the same thing have equal pseudonyms.
    A date `of` birth is searched in the patient's notes. Codes pass if they are among `values` or match `pattern`.
    Where HL7, or XML as `id@root`, names the assigning authority of a patient's id, ids of `authority` equal those in
    tables; the same id from another authority is another patient. With `row`, the value tells the rows of a table
    without notes apart, so that a project knows a corrected one.
    """

    kind: FieldKind
    of: str = ""
    values: tuple[str, ...] = ()
    pattern: str = ""
    authority: str = ""
    row: bool = False

    def allows(self, value: str) -> bool:
        return value in self.values or (bool(self.pattern) and re.fullmatch(self.pattern, value) is not None)

    @classmethod
    def parse(cls, given: object, place: str) -> "FieldRule":
        """Return the rule that TOML says. Raises ConfigError, naming the place."""
        said = {"kind": given} if isinstance(given, str) else given
        if not isinstance(said, dict):
            raise ConfigError(f'{place}: expected a kind such as "text", or {{ kind = ... }}')
        _refuse_unknown(said, _KEYS, place, "key")
        _refuse_unknown([said.get("kind", "")], list(FieldKind), place, "kind")
        kind, values = FieldKind(said["kind"]), said.get("values", [])
        of, pattern, authority = (said.get(name, "") for name in ("of", "pattern", "authority"))
        if not (all(isinstance(told, str) for told in (of, pattern, authority)) and isinstance(values, list)):
            raise ConfigError(f"{place}: of, pattern and authority are strings, values is a list")
        if not all(isinstance(value, str) for value in values):
            raise ConfigError(f"{place}: the values of a code list are strings")
        if kind is FieldKind.PSEUDONYM and not _NAME.fullmatch(of):
            raise ConfigError(f'{place}: say of what the pseudonym is, as in of = "patient"')
        if kind is FieldKind.DATE and of not in ("", BIRTH):
            raise ConfigError(f'{place}: a date may be of = "{BIRTH}", nothing else')
        if of and kind not in (FieldKind.PSEUDONYM, FieldKind.DATE):
            raise ConfigError(f"{place}: of goes with a pseudonym or a date")
        if authority and of != "patient":
            raise ConfigError(f"{place}: authority goes with the pseudonym of a patient")
        row = said.get("row", False)
        if row not in (True, False) or (row and kind is not FieldKind.PSEUDONYM):
            raise ConfigError(f"{place}: row = true goes with a pseudonym")
        if (values or pattern) and kind is not FieldKind.CODES:
            raise ConfigError(f"{place}: values and pattern go with codes")
        try:
            re.compile(pattern)
        except re.error:
            raise ConfigError(f"{place}: the pattern is no regular expression") from None
        return cls(kind, of, tuple(values), pattern, authority=authority, row=row)

    def identity(self, value: str, authority: str) -> str:
        """Return the id under which a patient is known here, with the authority if it is not the rule's."""
        apart = self.authority and authority not in ("", self.authority) and known_patient(value) is not None
        return f"{value}{AUTHORITY}{authority}" if apart else value


FieldRules = Mapping[str, FieldRule]


@dataclass(frozen=True, slots=True)
class Field:
    """A value beside the text with its rule; `name` is its place. Parts of a name are lines, given names first."""

    name: str
    rule: FieldRule
    value: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordMap:
    """The rules of a map, by place; with `optional`, a table may lack columns that the map names.

    >>> from ensemble_deid import RecordMap
    >>> sorted(RecordMap.read("omop").tables)
    ['note', 'note_nlp', 'person']
    """

    place: str
    columns: FieldRules = field(default_factory=dict)
    tables: Mapping[str, FieldRules] = field(default_factory=dict)
    fhir: FieldRules = field(default_factory=dict)
    hl7: FieldRules = field(default_factory=dict)
    xml: FieldRules = field(default_factory=dict)
    optional: bool = False

    @classmethod
    def of(cls, given: "RecordMap | str | Path") -> "RecordMap":
        """Return a map as it is, or read it (`read`)."""
        return given if isinstance(given, RecordMap) else cls.read(given)

    @classmethod
    def read(cls, given: str | Path) -> "RecordMap":
        """Return a named map, or a file's, whose rules override its `base`. ConfigError names file and place."""
        named = named_maps()
        close = difflib.get_close_matches(str(given), named, n=1)
        meant = f"; did you mean {close[0]}?" if close else f", and none of the maps {', '.join(named)}"
        path = Path(named.get(str(given), given))
        content = read_toml(path, ConfigError, missing=f"no such file{meant}")
        place, base = str(path) if path == Path(given) else str(given), content.pop("base", None)
        if base is None:
            return cls.parse(content, place)
        if not isinstance(base, str) or base not in named:
            raise ConfigError(f"{place}: base is one of the maps {', '.join(named)}")
        return cls.parse(_merged(_folded(read_toml(named[base], ConfigError), base), _folded(content, place)), place)

    @classmethod
    def parse(cls, content: Mapping[str, Any], place: str) -> "RecordMap":
        """Return the map that TOML says. Raises ConfigError, naming the place."""
        content = _folded(content, place)
        _refuse_unknown(content, (*_SECTIONS, "optional"), place, "section")
        if not any(content.get(section) for section in _SECTIONS):
            raise ConfigError(f"{place}: has no rule; there are the sections {', '.join(_SECTIONS)}")
        optional = content.get("optional", False)
        if not isinstance(optional, bool):
            raise ConfigError(f"{place}: optional is true or false")
        made = cls(
            place=place,
            columns=_rules(content, "columns", place),
            tables={
                name: _rules(content["tables"], name, f"{place}: tables") for name in _section(content, "tables", place)
            },
            fhir=_rules(content, "fhir", place, _FHIR_PATH, 'a resource\'s element, as in "Patient.name"'),
            hl7=_rules(content, "hl7", place, _HL7_PLACE, 'a field, as in "PID-5"'),
            xml=_rules(
                content, "xml", place, _XML_PLACE, 'the end of an element\'s path, as in "patient.name" or "id@root"'
            ),
            optional=optional,
        )
        if made.columns and made.tables:
            raise ConfigError(f"{place}: has both columns and tables: columns are those of any table")
        return made

    @property
    def digest(self) -> str:
        """A hash of all rules, which a run records."""
        told = [self.columns, self.tables, self.fhir, self.hl7, self.xml]
        plain = json.dumps(told, sort_keys=True, default=lambda rule: [getattr(rule, key) for key in _KEYS])
        return hashlib.sha256(plain.encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return the map as `parse` reads it.

        >>> from ensemble_deid import RecordMap
        >>> RecordMap.parse({"columns": {"sex": "keep"}}, "a.toml").to_json()
        {'columns': {'sex': {'kind': 'keep'}}, 'optional': False}
        """
        tables = {name: _rules_json(rules) for name, rules in self.tables.items()}
        sections = {"columns": self.columns, "fhir": self.fhir, "hl7": self.hl7, "xml": self.xml}
        return {
            **{name: _rules_json(rules) for name, rules in sections.items() if rules},
            **({"tables": tables} if tables else {}),
            "optional": self.optional,
        }

    def of_table(self, name: str) -> FieldRules:
        """Return the rules of the table in a file of that name. Raises ConfigError where there are none."""
        if not self.columns and not self.tables:
            raise ConfigError(f"{self.place}: says nothing of a table's columns, and the input is a table")
        rules = self.columns or self.tables.get(name.casefold())
        if not rules:
            raise ConfigError(
                f"{self.place}: says nothing of a table {name}; it has the tables {', '.join(self.tables)}"
            )
        return rules

    def of_messages(self, format: str) -> FieldRules:
        """Return the rules of `fhir`, `hl7` or `xml`. Raises ConfigError where there are none."""
        rules = {"fhir": self.fhir, "hl7": self.hl7, "xml": self.xml}[format]
        if not rules:
            raise ConfigError(f"{self.place}: has no section {format}, and the input is {format}")
        return rules


def named_maps() -> dict[str, Path]:
    """Return the files of the maps that have a name, such as `fhir-r4` and `omop`."""
    folder = Path(__file__).parents[1] / "record_maps"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def _folded(content: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    """Return a map's content with the names of tables in small letters. Raises ConfigError where two are then one."""
    tables: dict[str, Any] = {}
    for name, rules in _section(content, "tables", place).items():
        if tables.setdefault(name.casefold(), rules) is not rules:
            raise ConfigError(f"{place}: tables.{name}: there are two sections of this name, but for capitals")
    return {**content, "tables": tables} if tables else content


def _merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sections of both; each rule of `own` overrides that of `base`."""
    return {**base, **{name: _joined(base.get(name), said, 1 + (name == "tables")) for name, said in own.items()}}


def _joined(base: Any, own: Any, levels: int) -> Any:
    """Return a section of both, whose rules are so many levels down."""
    if not (levels and isinstance(base, dict) and isinstance(own, dict)):
        return own
    return {**base, **{name: _joined(base.get(name), said, levels - 1) for name, said in own.items()}}


def _rules_json(rules: FieldRules) -> dict[str, dict[str, Any]]:
    found = {}
    for place, rule in rules.items():
        said = {key: getattr(rule, key) for key in _KEYS} | {"kind": str(rule.kind), "values": list(rule.values)}
        found[place] = {name: value for name, value in said.items() if value}
    return found


def _section(content: Mapping[str, Any], section: str, place: str) -> Mapping[str, Any]:
    found = content.get(section, {})
    if not isinstance(found, dict):
        raise ConfigError(f"{place}: {section} is a table of rules")
    return found


def _rules(
    content: Mapping[str, Any], section: str, place: str, form: re.Pattern[str] | None = None, expected: str = ""
) -> dict[str, FieldRule]:
    rules: dict[str, FieldRule] = {}
    for name, given in _section(content, section, place).items():
        if form is not None and not form.fullmatch(name):
            raise ConfigError(f"{place}: {section}.{name}: expected {expected}")
        rules[name] = FieldRule.parse(given, f"{place}: {section}.{name}")
    return rules


def _refuse_unknown(given: Iterable[Any], known: Iterable[str], place: str, what: str) -> None:
    names = [str(name) for name in known]
    for name in given:
        if name not in names:
            close = difflib.get_close_matches(str(name), names, n=1)
            raise ConfigError(
                f"{place}: unknown {what} {str(name)[:40]!r}; "
                + (f"did you mean {close[0]}?" if close else f"known are {', '.join(names)}")
            )
