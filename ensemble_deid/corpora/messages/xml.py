"""Any XML, such as CDA, with the rules of a record map; one document a file.

A rule such as `patient.name` applies to every element whose path ends so, `id@extension` to an attribute; the longest
rule wins. An element of the kind `text` holds note text throughout. Everything without a rule is dropped: empty
elements, attributes, comments, processing instructions, namespace prefixes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from ensemble_deid.corpora.checks import check_text, decode_utf8
from ensemble_deid.corpora.edits import BETWEEN, Edit
from ensemble_deid.corpora.messages.content import INLINE, EncodedText, FieldSlots, Message
from ensemble_deid.corpora.messages.hl7_fields import day_of
from ensemble_deid.corpora.messages.structure import HTML_ELEMENTS, is_hl7_code
from ensemble_deid.corpora.record_map import PEOPLE, FieldKind, FieldRule, FieldRules
from ensemble_deid.corpora.xml_parser import XmlNode, tree_of
from ensemble_deid.errors import CorpusError

_NAMESPACES = ("urn:hl7-org:v3",)
_SURNAMES = frozenset("family familyname last lastname surname".split())
_AROUND_NAMES = frozenset("prefix suffix title".split())
_ADDRESS = {
    **dict.fromkeys(("streetAddressLine", "line", "street"), FieldKind.ADDRESS),
    "city": FieldKind.CITY,
    "state": FieldKind.STATE,
    **dict.fromkeys(("postalCode", "zip"), FieldKind.ZIP),
    "country": FieldKind.COUNTRY,
}
_CODE_SYSTEMS = {
    "2.16.840.1.113883.6.1": "LN",
    "2.16.840.1.113883.6.96": "SCT",
    "2.16.840.1.113883.6.90": "I10C",
    "2.16.840.1.113883.6.88": "RXNORM",
}
_IN_TEXT = HTML_ELEMENTS | frozenset("content footnote item linkHtml list paragraph text".split())
_WITHIN_LINES = INLINE | {"content", "linkHtml"}
_ENCODED = ("representation", "mediaType")
_PLAIN = ("TXT", "text/plain", "text/x-hl7-text+xml")


@dataclass(slots=True)
class _Written:
    """An element as it is written: its attributes and content; `text` where the content is the note's."""

    name: str
    attributes: str
    content: list["_Written | str"]
    is_text: bool = False


def read_xml(data: bytes, place: str, rules: FieldRules | None = None) -> Message:
    """Return the document. CorpusError names the file and the line or element, and quotes nothing."""
    if rules is None:
        raise CorpusError(f"{place}: XML is read with a --map that has a section xml")
    root = tree_of(decode_utf8(data, place).removeprefix("\ufeff"), place, local_names=True)
    reader = _Reader(rules, place)
    made = reader.element(root, ()) or _Written(root.name, "", [])
    namespace = root.attributes.get("xmlns", "")
    made.attributes += f' xmlns="{namespace}"' if namespace in _NAMESPACES else ""
    encoded, slots = EncodedText(), reader.slots
    encoded.mark('<?xml version="1.0" encoding="UTF-8"?>\n')
    _write(made, encoded)
    check_text(encoded.text, place)

    def written(edits: Sequence[Edit], values: Sequence[object] = ()) -> bytes:
        return slots.filled(encoded.edited(edits, escape), values).encode("utf-8")

    return Message(encoded.text, written, (), reader.patient(), tuple(slots.fields), authority=reader.authority)


@dataclass(slots=True)
class _Reader:
    """Decides what is written for each element."""

    rules: FieldRules
    place: str
    slots: FieldSlots = field(default_factory=FieldSlots)
    patients: dict[int, list[str]] = field(default_factory=dict, repr=False)
    authority: str | None = field(default=None, repr=False)

    def patient(self) -> str | None:
        """Return the first id of the patient. Raises CorpusError where ids in several elements differ."""
        ids = list(self.patients.values())
        if any(set(others).isdisjoint(ids[0]) for others in ids[1:]):
            raise CorpusError(f"{self.place}: describes several patients; put each into its own file")
        return ids[0][0] if ids else None

    def element(self, element: XmlNode, path: tuple[str, ...], around: int = 0) -> _Written | None:
        """Return an element as it is written; None if nothing is left of it."""
        here = (*path, element.name)
        rule = self._rule(here)
        if rule is not None and rule.kind is FieldKind.DROP:
            return None
        if rule is not None and rule.kind is FieldKind.TEXT:
            return self._note(element, ".".join(here))
        attributes = "".join(self._attributes(element, here, around))
        if rule is not None and rule.kind in PEOPLE and element.children:
            content = self._name(element, rule, ".".join(here))
        elif rule is not None and rule.kind is FieldKind.ADDRESS and element.children:
            filled = [part for part in element.children if part.text.strip()]
            content = [self._part(part, here) for part in filled if part.name in _ADDRESS]
        else:
            inside = (self.element(part, here, id(element)) for part in element.children)
            content = [part for part in inside if part is not None]
            if rule is not None and (value := element.text.strip()):
                content.insert(0, self._value(value, rule, ".".join(here), around))
        return _Written(element.name, attributes, content) if attributes or content else None

    def _rule(self, here: tuple[str, ...], attribute: str = "") -> FieldRule | None:
        ends = (".".join(here[start:]) + attribute for start in range(len(here)))
        return next((self.rules[end] for end in ends if end in self.rules), None)

    def _attributes(self, element: XmlNode, here: tuple[str, ...], around: int) -> Iterator[str]:
        for name, value in element.attributes.items():
            rule = self._rule(here, f"@{name}")
            if rule is None or not value.strip() or rule.kind in (FieldKind.DROP, FieldKind.TEXT):
                continue
            system, place = element.attributes.get("codeSystem", ""), f"{'.'.join(here)}@{name}"
            if rule.kind is FieldKind.CODES and name == "code" and is_hl7_code(value, _CODE_SYSTEMS.get(system, "")):
                yield f' code="{_quoted(value)}" codeSystem="{system}"'
            else:
                if name != "root" and rule.kind is FieldKind.PSEUDONYM and rule.of == "patient":
                    # The root of an id is who assigned it.
                    root = element.attributes.get("root", "")
                    value = rule.identity(value.strip(), root)
                    self.authority = self.authority or rule.authority or root
                yield f' {name}="{self._value(value.strip(), rule, place, around)}"'

    def _value(self, value: str, rule: FieldRule, place: str, around: int) -> str:
        if rule.kind is FieldKind.PSEUDONYM and rule.of == "patient":
            self.patients.setdefault(around, []).append(value)
        if rule.kind is FieldKind.KEEP:
            return _quoted(value)
        day = day_of(value) if rule.kind is FieldKind.DATE else None
        return self.slots.add(place, rule, value if day is None else day[0], _quoted if day is None else day[1])

    def _part(self, part: XmlNode, here: tuple[str, ...]) -> _Written:
        rule = FieldRule(_ADDRESS[part.name])
        return _Written(part.name, "", [self._value(part.text.strip(), rule, ".".join((*here, part.name)), 0)])

    def _name(self, element: XmlNode, rule: FieldRule, place: str) -> list["_Written | str"]:
        """Return the parts of a name; a tag replaces the surname."""
        parts = [part for part in element.children if part.text.strip() and part.name not in _AROUND_NAMES]
        order = sorted(parts, key=lambda part: part.name.casefold() in _SURNAMES)
        if not order:
            return []
        value = "\n".join(" ".join(part.text.split()) for part in order)
        marks = self.slots.add_lines(place, rule, value, _quoted)
        placed = {id(part): mark for part, mark in zip(order, marks, strict=True)}
        return [_Written(part.name, "", [placed[id(part)]]) for part in parts]

    def _note(self, element: XmlNode, place: str) -> _Written:
        said = [element.attributes[name] for name in _ENCODED if name in element.attributes]
        if any(value not in _PLAIN for value in said):
            raise CorpusError(f"{self.place}: {place}: is encoded, or not text")
        content: list[_Written | str] = [
            self._note(part, place) if isinstance(part, XmlNode) else part for part in element.content
        ]
        for part in content:
            if isinstance(part, _Written) and part.name not in _IN_TEXT:
                # Only the text of an unknown element is written.
                part.name = ""
        return _Written(element.name, "", content, is_text=True)


def _quoted(value: str) -> str:
    return escape(value, {'"': "&quot;"})


def _write(made: _Written, encoded: EncodedText, *, within: bool = False) -> None:
    encoded.mark(f"<{made.name}{made.attributes}>" if made.name else "")
    if made.is_text and not within and encoded.characters:
        # A title is not part of the sentence that follows.
        for character in BETWEEN:
            encoded.add(character, "")
    elif made.is_text and made.name not in _WITHIN_LINES:
        encoded.separate()
    for part in made.content:
        if isinstance(part, _Written):
            _write(part, encoded, within=made.is_text)
        elif not made.is_text:
            encoded.mark(part)
        else:
            for character in part:
                encoded.add(character, escape(character))
    encoded.mark(f"</{made.name}>" if made.name else "")
