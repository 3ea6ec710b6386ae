"""HL7 version 2 (chapter 2 of the standard: delimiters, escape sequences; chapter 7: OBX): one message in a file.

Note text is OBX-5 of the types TX, FT and ST (and without a type), and NTE-3: all of a message, each field and each
repetition on a line of its own, and the words of OBX-3 beside its codes. Escape sequences are decoded. Everything else
is kept byte for byte, and named as kept unless its value is one of the standard (`structure.py`). A message with
encapsulated data (OBX-2 ED or RP), which may be a whole document, is refused, and so is whatever cannot be decoded.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from ensemble_deid.corpora.checks import check_text
from ensemble_deid.corpora.edits import Edit
from ensemble_deid.corpora.messages.content import EncodedText, FieldSlots, Message
from ensemble_deid.corpora.messages.hl7_fields import Delimiters, MappedFields
from ensemble_deid.corpora.messages.structure import SEGMENTS, is_age, is_hl7_code, is_hl7_structure
from ensemble_deid.corpora.record_map import FieldKind, FieldRule, FieldRules
from ensemble_deid.errors import CorpusError

_SEGMENT = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_NAME = re.compile(r"[A-Z][A-Z0-9]{2}")
_FREE_TEXT = {"", "FT", "ST", "TX"}
_DOCUMENTS = {"ED", "RP"}
_BATCH = {"FHS", "BHS", "BTS", "FTS"}
_CODES, _WORDS, _VERSIONS = ((0, 2), (3, 5)), (1, 4, 8), (6, 7)
"""The components of OBX-3: codes with the names of their systems, words, and versions of the systems."""
_VERSION = re.compile(r"[0-9]{0,4}(?:\.[0-9]{1,3})?")
_CHARACTER_SETS = {"": "utf-8", "ASCII": "utf-8", "UNICODE UTF-8": "utf-8", "UNICODE": "utf-8", "8859/1": "latin-1"}
_START_BLOCK, _END_BLOCK = "\x0b", "\x1c"
"""What a message is wrapped in when it is sent (MLLP), and may be when it is stored."""
_BREAK = re.compile(r"\.(?:br|ce|sp([0-9]{0,2}))")
_BLANKS = re.compile(r"\.sk ?\+?([0-9]{1,2})")
_LAYOUT = re.compile(r"H|N|\.(?:in|ti) ?[+-]?[0-9]{1,3}|\.fi|\.nf")
_HEX = re.compile(r"X((?:[0-9A-Fa-f]{2})+)")


def read_hl7(data: bytes, place: str, rules: FieldRules | None = None) -> Message:
    """Return the message; with `rules`, fields without a rule are left out, but for text and values of the standard.

    Raises CorpusError, which names file and segment and quotes nothing.
    """
    delimiters, charset = _header(data, place)
    try:
        content = data.decode(charset)
    except UnicodeDecodeError as error:
        raise CorpusError(f"{place}: byte {error.start} is not {charset}, which MSH-18 says or leaves unsaid") from None
    if rules is not None and "\0" in content:
        raise CorpusError(f"{place}: holds NUL characters")
    reader = _Reader(place, delimiters, charset, rules)
    for number, match in enumerate(_SEGMENT.finditer(content), start=1):
        reader.add(match.group(1), match.group(2), f"{place}:{number}")
    encoded, slots = reader.encoded, reader.slots
    check_text(encoded.text, place)
    if not encoded.characters and rules is None:
        raise CorpusError(f"{place}: has no note text (OBX-5 of the types TX, FT and ST, or NTE-3)")

    def written(edits: Sequence[Edit], values: Sequence[object] = ()) -> bytes:
        try:
            return slots.filled(encoded.edited(edits, delimiters.escaped), values).encode(charset)
        except UnicodeEncodeError:
            raise CorpusError(f"{place}: a replacement cannot be written in {charset}, the message's own") from None

    kept = tuple(dict.fromkeys(reader.kept))
    patient, authority = reader.patient or (None, None)
    rule = None if rules is None else rules.get("PID-3")
    if rule is not None and rule.authority and patient is not None:
        patient, authority = rule.identity(patient, authority or ""), rule.authority
    return Message(encoded.text, written, kept, patient, tuple(slots.fields), authority=authority)


def _header(data: bytes, place: str) -> tuple[Delimiters, str]:
    start = re.split(r"[\r\n]", data.decode("latin-1").lstrip(_START_BLOCK).removeprefix("ï»¿"), maxsplit=1)[0]
    if start[:3] in _BATCH:
        raise CorpusError(f"{place}:1: is a batch; each message needs a file of its own")
    signs = start[3:8]
    if start[:3] != "MSH" or len(set(signs)) != 5 or any(sign.isalnum() or sign.isspace() for sign in signs):
        raise CorpusError(f"{place}:1: is no HL7 message: it must begin with MSH and five different delimiters")
    delimiters = Delimiters(*signs)
    fields = start.split(delimiters.field)
    named = fields[17].split(delimiters.repetition)[0].strip() if len(fields) > 17 else ""
    if named not in _CHARACTER_SETS:
        known = ", ".join(sorted(filter(None, _CHARACTER_SETS)))
        raise CorpusError(f"{place}:1: MSH-18 names a character set that is not read (read are {known})")
    return delimiters, _CHARACTER_SETS[named]


@dataclass(slots=True)
class _Reader:
    """Adds one segment after another; fields with a value that is kept are added to `kept`."""

    place: str
    delimiters: Delimiters
    charset: str
    rules: FieldRules | None
    encoded: EncodedText = field(default_factory=EncodedText)
    slots: FieldSlots = field(default_factory=FieldSlots)
    kept: list[str] = field(default_factory=list)
    patient: tuple[str, str] | None = field(default=None, repr=False)
    seen: set[str] = field(default_factory=set)

    def add(self, segment: str, end: str, where: str) -> None:
        if not segment.strip(_START_BLOCK + _END_BLOCK + "\ufeff"):
            self.encoded.mark(segment + end)
            return
        name = segment.split(self.delimiters.field)[0].lstrip(_START_BLOCK + "\ufeff")
        if not _NAME.fullmatch(name):
            raise CorpusError(
                f"{where}: is no segment; a line end inside a field must be written as an escape sequence"
            )
        if name in _BATCH:
            raise CorpusError(f"{where}: is a batch; each message needs a file of its own")
        has_rules = any(place.startswith(f"{name}-") for place in self.rules or ())
        if self.rules is None or name in ("MSH", "OBX", "NTE") or has_rules:
            self._segment(name, segment, where)
            self.encoded.mark(end)
        if name == "MSH" and name in self.seen:
            raise CorpusError(f"{where}: another message begins here; each message needs a file of its own")
        if name == "PID":
            found = self._patient(segment, where)
            if name in self.seen and found != self.patient:
                raise CorpusError(f"{where}: is about another patient; each patient needs a file of its own")
            self.patient = found
        self.seen.add(name)

    def _segment(self, name: str, segment: str, where: str) -> None:
        encoded, delimiters = self.encoded, self.delimiters
        fields = segment.split(delimiters.field)
        # The first delimiter of MSH is a field itself.
        first = 1 if name == "MSH" else 0
        kind = fields[2].strip() if name == "OBX" and len(fields) > 2 else ""
        if kind in _DOCUMENTS and len(fields) > 5 and fields[5]:
            raise CorpusError(f"{where}: OBX-5 is encapsulated data ({kind}), in which no text can be found")
        text_field = 5 if name == "OBX" and kind in _FREE_TEXT else 3 if name == "NTE" else None
        for number, value in enumerate(fields):
            if number:
                encoded.mark(delimiters.field)
            place = f"{name}-{number + first}"
            rule = None if self.rules is None else self.rules.get(place)
            if rule is not None and rule.kind is FieldKind.CODES and place == "OBX-5" and _is_age(fields, delimiters):
                rule = FieldRule(FieldKind.AGE)
            if value and (number == text_field or (rule is not None and rule.kind is FieldKind.TEXT)):
                _add_text(value, f"{where}: {place}", encoded, delimiters, self.charset)
            elif name == "OBX" and number == 3:
                coded = value if self.rules is None else _standard_codes(value, delimiters)
                if not _add_coded(coded, f"{where}: OBX-3", encoded, delimiters, self.charset):
                    self.kept.append(place)
            else:
                plain = not number or not value.strip() or (name == "MSH" and _are_signs(value, delimiters))
                plain = plain or is_hl7_structure(name, number + first, delimiters.usual(value))
                encoded.mark(value if plain or self.rules is None else self._mapped(value, rule, place, where))
                if not plain and self.rules is None:
                    self.kept.append(f"{name if name in SEGMENTS else '?'}-{number + first}")
        if name not in SEGMENTS and self.rules is None:
            self.kept.append("?")

    def _mapped(self, value: str, rule: FieldRule | None, place: str, where: str) -> str:
        decode = partial(self._decoded, where=f"{where}: {place}")
        return "" if rule is None else MappedFields(self.delimiters, self.slots, decode).written(value, rule, place)

    def _decoded(self, component: str, where: str) -> str:
        encoded = EncodedText()
        _add_text(component, where, encoded, self.delimiters, self.charset)
        return " ".join(encoded.text.split())

    def _patient(self, segment: str, where: str) -> tuple[str, str] | None:
        """Return the patient's first id and its assigning authority ("" if none is named)."""
        fields, decode = segment.split(self.delimiters.field), partial(self._decoded, where=f"{where}: PID-3")
        for part in fields[3].split(self.delimiters.repetition) if len(fields) > 3 else ():
            components = [*part.split(self.delimiters.component), "", "", ""]
            if name := decode(components[0]):
                return name, decode(components[3].split(self.delimiters.subcomponent)[0])
        return None


def _are_signs(value: str, delimiters: Delimiters) -> bool:
    """Whether a field holds the delimiters, since HL7 2.7 also the sign of truncation."""
    more = value.removeprefix(delimiters.encoding)
    return value.startswith(delimiters.encoding) and len(more) < 2 and not (more.isalnum() or more.isspace())


def _standard_codes(value: str, delimiters: Delimiters) -> str:
    """Return a coded element without codes of unknown systems."""
    components = value.split(delimiters.component)[:9]
    padded = [*components, *[""] * 9]
    for code, system in _CODES:
        if not is_hl7_code(padded[code], padded[system]):
            padded[code] = padded[system] = ""
    for number in _VERSIONS:
        padded[number] = padded[number] if _VERSION.fullmatch(padded[number]) else ""
    return delimiters.component.join(padded[: len(components)])


def _add_coded(value: str, where: str, encoded: EncodedText, delimiters: Delimiters, charset: str) -> bool:
    """Add a coded element, whose words are text; return whether the rest are codes of known systems."""
    components = value.split(delimiters.component)
    for number, component in enumerate(components):
        if number:
            encoded.mark(delimiters.component)
        if number in _WORDS and component:
            _add_text(component, where, encoded, delimiters, charset)
        else:
            encoded.mark(component)
    padded = [*components, *[""] * 9]
    codes = [(padded[code], padded[system]) for code, system in _CODES]
    return (
        len(components) <= 9
        and all(pair == ("", "") or is_hl7_code(*pair) for pair in codes)
        and all(_VERSION.fullmatch(padded[number]) for number in _VERSIONS)
    )


def _is_age(fields: Sequence[str], delimiters: Delimiters) -> bool:
    unit = fields[6].split(delimiters.component)[0] if len(fields) > 6 else ""
    return is_age(fields[3], unit)


def _add_text(value: str, where: str, encoded: EncodedText, delimiters: Delimiters, charset: str) -> None:
    encoded.separate()
    position = 0
    while position < len(value):
        sign = value[position]
        if sign == delimiters.escape:
            end = value.find(delimiters.escape, position + 1)
            if end < 0:
                raise CorpusError(f"{where}: an escape sequence does not end")
            _add_escape(value[position : end + 1], where, encoded, delimiters, charset)
            position = end + 1
            continue
        if sign == delimiters.repetition:
            encoded.mark(sign)
            encoded.separate()
        elif sign in (delimiters.component, delimiters.subcomponent):
            encoded.mark(sign)
            encoded.separate(" ")
        else:
            encoded.add(sign, sign)
        position += 1


def _add_escape(written: str, where: str, encoded: EncodedText, delimiters: Delimiters, charset: str) -> None:
    code = written[1:-1]
    if code in delimiters.codes:
        encoded.add(delimiters.codes[code], written)
    elif match := _BREAK.fullmatch(code):
        encoded.add("\n" * max(int(match.group(1) or 1), 1), written)
    elif match := _BLANKS.fullmatch(code):
        encoded.add(" " * max(int(match.group(1)), 1), written)
    elif _LAYOUT.fullmatch(code):
        encoded.mark(written)
    elif match := _HEX.fullmatch(code):
        try:
            encoded.add(bytes.fromhex(match.group(1)).decode(charset), written)
        except UnicodeDecodeError:
            raise CorpusError(f"{where}: an escape sequence of bytes is not {charset}") from None
    else:
        raise CorpusError(f"{where}: an escape sequence is not known (a lone escape character is written as one, too)")
