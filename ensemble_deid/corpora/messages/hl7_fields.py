"""HL7 v2 fields with a rule: names XPN, staff XCN or NDL, addresses XAD, phones XTN, ids CX, dates DTM (chapter 2A)."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ensemble_deid.corpora.messages.content import FieldSlots
from ensemble_deid.corpora.messages.structure import is_hl7_code
from ensemble_deid.corpora.record_map import FieldKind, FieldRule

_NULL = '""'
_ADDRESS = {0: FieldKind.ADDRESS, 2: FieldKind.CITY, 3: FieldKind.STATE, 4: FieldKind.ZIP, 5: FieldKind.COUNTRY}
_DAY = re.compile(
    r"([0-9]{4})([0-9]{2})?([0-9]{2})?"
    r"((?:[0-2][0-9](?:[0-5][0-9](?:[0-6][0-9](?:\.[0-9]{1,4})?)?)?)?(?:[+-][0-9]{4})?)"
)


@dataclass(frozen=True, slots=True)
class Delimiters:
    """The delimiters that a message's header names."""

    field: str
    component: str
    repetition: str
    escape: str
    subcomponent: str

    @property
    def encoding(self) -> str:
        """The field of MSH that names the delimiters."""
        return self.component + self.repetition + self.escape + self.subcomponent

    def usual(self, value: str) -> str:
        """Return a field with the usual delimiters of components and repetitions."""
        return value.translate({ord("^"): "", ord("~"): "", ord(self.component): "^", ord(self.repetition): "~"})

    @property
    def codes(self) -> dict[str, str]:
        """The letters of the escape sequences for the delimiters."""
        return dict(
            zip("FSTRE", (self.field, self.component, self.subcomponent, self.repetition, self.escape), strict=True)
        )

    def escaped(self, text: str) -> str:
        codes = {sign: f"{self.escape}{letter}{self.escape}" for letter, sign in self.codes.items()}
        lines = re.split(r"\r\n|\r|\n", text)
        written = ("".join(codes.get(character, character) for character in line) for line in lines)
        return f"{self.escape}.br{self.escape}".join(written)


@dataclass(frozen=True, slots=True)
class MappedFields:
    """Writes fields as their rules say; `decode` returns a component as it is read."""

    delimiters: Delimiters
    slots: FieldSlots
    decode: Callable[[str], str]

    def written(self, value: str, rule: FieldRule, place: str) -> str:
        """Return a field with marks (`FieldSlots`) where its new values go."""
        if rule.kind is FieldKind.KEEP or value.strip() in ("", _NULL):
            return value
        if rule.kind in (FieldKind.DROP, FieldKind.TEXT):
            return ""
        sign = self.delimiters.repetition
        return sign.join(self._repetition(one, rule, place) for one in value.split(sign)).rstrip(sign)

    def _repetition(self, value: str, rule: FieldRule, place: str) -> str:
        parts = value.split(self.delimiters.component)
        inner = parts[0].split(self.delimiters.subcomponent)
        if rule.kind is FieldKind.STAFF and len(inner) > 1:
            # NDL: the id and the name are parts of the first component.
            return self.delimiters.subcomponent.join(self._staff(inner, rule, place))
        if rule.kind is FieldKind.STAFF:
            made = self._staff(parts, rule, place)
        elif rule.kind in (FieldKind.PATIENT, FieldKind.RELATIVE):
            made = self._name(parts[:3], rule, place)
        elif rule.kind is FieldKind.ADDRESS:
            made = [
                self._value(part, FieldRule(_ADDRESS[at]), place) if at in _ADDRESS else ""
                for at, part in enumerate(parts)
            ]
        elif rule.kind is FieldKind.PHONE:
            made = [self._value(part, rule, place) if number in (0, 3) else "" for number, part in enumerate(parts[:4])]
        elif rule.kind is FieldKind.DATE:
            made = [self._date(parts[0], rule, place)]
        elif rule.authority and len(parts) > 3:
            own = self.decode(parts[3].split(self.delimiters.subcomponent)[0])
            made = [self._value(parts[0], rule, place, own)]
        elif rule.kind is FieldKind.CODES and len(parts) > 2 and is_hl7_code(parts[0], parts[2]):
            made = [parts[0], "", parts[2]]
        else:
            made = [self._value(parts[0], rule, place)]
        return self.delimiters.component.join(made).rstrip(self.delimiters.component)

    def _value(self, part: str, rule: FieldRule, place: str, authority: str = "") -> str:
        value = rule.identity(self.decode(part), authority)
        return self.slots.add(place, rule, value, self.delimiters.escaped) if value else ""

    def _staff(self, parts: Sequence[str], rule: FieldRule, place: str) -> list[str]:
        first = self.decode(parts[0])
        if len(parts) == 1 and first and not any(map(str.isdecimal, first)):
            return [self._value(parts[0], rule, place)]
        return [
            self._value(parts[0], FieldRule(FieldKind.PSEUDONYM, of="staff"), place),
            *self._name(parts[1:4], rule, place),
        ]

    def _name(self, parts: Sequence[str], rule: FieldRule, place: str) -> list[str]:
        """Return the surname, the given and the middle name, of which a tag takes the first place."""
        names = {number: name for number, part in enumerate(parts) if (name := self.decode(part))}
        order = [*(number for number in names if number), *(number for number in names if not number)]
        if not order:
            return []
        value = "\n".join(names[number] for number in order)
        marks = self.slots.add_lines(place, rule, value, self.delimiters.escaped)
        placed = dict(zip(order, marks, strict=True))
        return [placed.get(number, "") for number in range(len(parts))]

    def _date(self, part: str, rule: FieldRule, place: str) -> str:
        day = day_of(part)
        return self._value(part, rule, place) if day is None else self.slots.add(place, rule, *day)


def day_of(value: str) -> tuple[str, Callable[[str], str]] | None:
    """Return the day of an HL7 date and a function that writes another day in its form; None for other forms."""
    match = _DAY.fullmatch(value.strip())
    if match is None:
        return None
    year, month, day, rest = match.groups(default="")

    def written(new: str) -> str:
        digits = new.replace("-", "")[: len(year + month + day)]
        return digits + rest if day and len(digits) == len("20190304") else digits

    return f"{year}-{month or '07'}-{day or '15'}", written
