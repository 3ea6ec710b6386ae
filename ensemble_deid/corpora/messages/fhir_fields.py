"""Elements of a FHIR resource with a rule of a record map; of others only text and values of the standard stay.

A rule holds for all that is inside its element. Ids and references have pseudonyms without one.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import isfinite

from ensemble_deid.corpora.edits import Edit, edited, within
from ensemble_deid.corpora.json_fields import JsonValue
from ensemble_deid.corpora.messages.structure import ELEMENTS, RESOURCES, is_age
from ensemble_deid.corpora.record_map import PEOPLE, Field, FieldKind, FieldRule, FieldRules

_Maker = Callable[[Sequence[object]], str | None]
_Path = tuple[str, ...]
_REFERENCE = re.compile(r"(?:https?://[^?#]*/)?([A-Z][A-Za-z]+)/([A-Za-z0-9.-]{1,64})(?:/_history/[^/]*)?")
_DATE = re.compile(
    r"([0-9]{4})(-[0-9]{2})?(-[0-9]{2})?"
    r"(T[0-2][0-9]:[0-5][0-9](?::[0-6][0-9](?:\.[0-9]{1,6})?)?(?:Z|[+-][0-9]{2}:[0-9]{2})?)?"
)
_OF = {"Patient": "patient", "Practitioner": "staff", "Encounter": "encounter"}
_ADDRESS = {
    "line": FieldKind.ADDRESS,
    "text": FieldKind.ADDRESS,
    "city": FieldKind.CITY,
    "state": FieldKind.STATE,
    "postalCode": FieldKind.ZIP,
    "country": FieldKind.COUNTRY,
}
_CODES = {
    "use": "usual official temp secondary old nickname anonymous maiden home work mobile billing".split(),
    "system": "phone fax email pager url sms other".split(),
}
_NAMED = {FieldKind.PSEUDONYM: ("value",), FieldKind.PHONE: ("value",), **dict.fromkeys(PEOPLE, ("display", "text"))}
"""The members that have the value, where a rule is that of the object around them."""


@dataclass(slots=True)
class MappedElements:
    """Collects a resource's fields and renders it; `is_structure` and `add_text` tell standard values and text."""

    rules: FieldRules
    is_structure: Callable[[JsonValue, _Path], bool]
    add_text: Callable[[JsonValue, _Path, str], bool]
    fields: list[Field] = field(default_factory=list, repr=False)
    _makers: dict[int, _Maker] = field(default_factory=dict, repr=False)
    _kept: set[int] = field(default_factory=set, repr=False)
    _targets: dict[str, tuple[str, str]] = field(default_factory=dict, repr=False)
    _told: str = field(default="", repr=False)
    _names: frozenset[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._names = ELEMENTS.union(*(place.split(".") for place in self.rules))

    def read(self, root: JsonValue) -> None:
        self._targets = dict(reference_targets(root))
        self._object(root, (), None)

    def rendered(self, raw: str, value: JsonValue, changes: Sequence[Edit], values: Sequence[object]) -> str | None:
        """Return a value as JSON, with changes to texts and new values of fields; None where nothing is left."""
        if value.members or value.items:
            members = ((f"{json.dumps(name)}: ", member) for name, member in value.members.items())
            items = (("", item) for item in value.items)
            inside = [
                f"{name}{made}"
                for name, part in (*members, *items)
                if (made := self.rendered(raw, part, changes, values)) is not None
            ]
            opened, closed = ("{", "}") if value.members else ("[", "]")
            return f"{opened}{', '.join(inside)}{closed}" if inside else None
        if value.start in self._makers:
            return self._makers[value.start](values or [None] * len(self.fields))
        if value.start not in self._kept:
            return None
        return edited(raw[value.start : value.end], within(changes, value.start, value.end))

    def _object(self, holder: JsonValue, names: _Path, rule: FieldRule | None) -> None:
        resource = holder.string("resourceType")
        if resource is not None:
            names, rule = (resource,), None
        around, code = self._told, holder.members.get("code")
        self._told = " ".join(_strings(code)) if code is not None and code.members else around
        if rule is not None and rule.kind in PEOPLE and holder.members.keys() & {"family", "given"}:
            self._name(holder, ".".join(names), rule)
        for name, member in holder.members.items():
            here = (*names, name)
            if name.removeprefix("_") not in self._names:
                # A name that neither the standard nor the map has may itself say something of a patient.
                continue
            own = self.rules.get(".".join(here))
            if (
                own is not None
                and own.kind is FieldKind.CODES
                and name == "value"
                and is_age(self._told, holder.string("unit") or holder.string("code") or "")
            ):
                own = FieldRule(FieldKind.AGE)
            if self.is_structure(holder, here):
                self._kept.add(member.start)
            elif own is not None and own.kind is FieldKind.DROP:
                continue
            elif self.add_text(holder, here, names[0]):
                self._kept.add(member.start)
            elif name == "id" and resource is not None and isinstance(member.plain, str):
                self._add(member, ".".join(here), _pseudonym(resource), member.plain, json.dumps)
            elif name == "reference" and isinstance(member.plain, str):
                self._reference(member, ".".join(here))
            else:
                self._member(member, here, own, rule)
        self._told = around

    def _member(self, member: JsonValue, here: _Path, own: FieldRule | None, around: FieldRule | None) -> None:
        """Look at a member with a rule of its own, or with that of the element `around` it."""
        name, rule = here[-1], own or around
        if own is None and around is not None:
            if around.kind is FieldKind.ADDRESS:
                rule = FieldRule(_ADDRESS[name]) if name in _ADDRESS else None
            elif around.kind in (*_NAMED, FieldKind.ADDRESS) and member.plain in _CODES.get(name, ()):
                rule = FieldRule(FieldKind.KEEP)
            elif around.kind in _NAMED and name not in _NAMED[around.kind] and not member.members:
                rule = None
        for item in member.items or [member]:
            if item.members:
                self._object(item, here, rule)
            elif item.plain is not None and item.start not in self._makers:
                self._leaf(item, ".".join(here), rule)

    def _leaf(self, value: JsonValue, place: str, rule: FieldRule | None) -> None:
        if rule is None or rule.kind in (FieldKind.DROP, FieldKind.TEXT):
            return
        plain = value.plain
        date = _DATE.fullmatch(plain) if rule.kind is FieldKind.DATE and isinstance(plain, str) else None
        if rule.kind is FieldKind.KEEP:
            self._kept.add(value.start)
        elif date is not None:
            year, month, day, rest = date.groups(default="")
            size = len(year + month + day)

            def written(new: str) -> str:
                return json.dumps(new[:size] + (rest if len(new) == len("2019-03-04") else ""))

            self._add(value, place, rule, f"{year}{month or '-07'}{day or '-15'}", written)
        elif isinstance(plain, str):
            self._add(value, place, rule, plain, json.dumps)
        elif rule.kind is FieldKind.CODES and rule.allows(json.dumps(plain)):
            self._kept.add(value.start)
        elif isinstance(plain, bool):
            return
        elif rule.kind is FieldKind.AGE and isinstance(plain, int | float) and isfinite(plain):
            self._add(value, place, rule, int(plain), str)

    def _add(self, value: JsonValue, place: str, rule: FieldRule, plain: object, written: Callable[[str], str]) -> None:
        number = len(self.fields)
        self._makers[value.start] = lambda values: None if values[number] is None else written(str(values[number]))
        self.fields.append(Field(place, rule, plain))

    def _name(self, holder: JsonValue, place: str, rule: FieldRule) -> None:
        """Add the parts of a HumanName as one name; a tag takes the surname's place."""
        given, family = holder.members.get("given"), holder.members.get("family")
        parts = [*(given.items if given is not None else ()), *([] if family is None else [family])]
        parts = [part for part in parts if isinstance(part.plain, str) and part.plain.strip()]
        if not parts:
            return
        for number, part in enumerate(parts):
            self._makers[part.start] = partial(_part, field=len(self.fields), number=number, count=len(parts))
        lines = "\n".join(" ".join(part.plain.split()) for part in parts)
        self.fields.append(Field(place, rule, lines))

    def _reference(self, member: JsonValue, place: str) -> None:
        known = self._targets.get(member.plain) or read_reference(member.plain)
        if known is not None:
            before = "#" if member.plain.startswith("#") else f"{known[0]}/"
            self._add(member, place, _pseudonym(known[0]), known[1], lambda new: json.dumps(before + new))


def _strings(value: JsonValue) -> Iterator[str]:
    for part in (*value.members.values(), *value.items):
        yield from _strings(part)
    if isinstance(value.plain, str):
        yield value.plain


def read_reference(reference: str) -> tuple[str, str] | None:
    """Return the type and id of a reference, also with a server or version; None for other references."""
    match = _REFERENCE.fullmatch(reference)
    return (match[1], match[2]) if match is not None and match[1] in RESOURCES else None


def reference_targets(value: JsonValue) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield by what names a bundle's and contained resources can be referred to, with the type and id of each."""
    resource = value.members.get("resource")
    type = None if resource is None else resource.string("resourceType")
    url = value.string("fullUrl")
    if resource is not None and type in RESOURCES and url is not None:
        yield url, (str(type), resource.string("id") or url.removeprefix("urn:uuid:"))
    contained = value.members.get("contained")
    for one in () if contained is None else contained.items:
        if one.string("resourceType") in RESOURCES and one.string("id"):
            yield f"#{one.string('id')}", (str(one.string("resourceType")), str(one.string("id")))
    for part in (*value.members.values(), *value.items):
        yield from reference_targets(part)


def _pseudonym(resource: str) -> FieldRule:
    return FieldRule(FieldKind.PSEUDONYM, of=_OF.get(resource, resource.lower()))


def _part(values: Sequence[object], *, field: int, number: int, count: int) -> str | None:
    new = values[field]
    lines = [] if new is None else str(new).split("\n")
    if len(lines) == count:
        return json.dumps(lines[number])
    return json.dumps(" ".join(lines)) if lines and number == count - 1 else None
