"""FHIR (R4 and R5, JSON): one resource or Bundle in a file.

Note text is the narrative of any resource (`text.div`), `conclusion` of a DiagnosticReport, `description` of a
DocumentReference, annotations (`note.text`), and the attachments (`data` in base64) that are plain text or XHTML; of
RTF and PDF only the text is written; an attachment of another type is refused. Everything else is kept byte for byte,
except the `size` and `hash` of a changed attachment, and named as kept, except codes and other values of the standard
(`structure.py`).
"""

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from ensemble_deid.corpora.checks import check_text, decode_utf8
from ensemble_deid.corpora.edits import BETWEEN, Edit, edited, within
from ensemble_deid.corpora.formats import text_of_pdf, text_of_rtf
from ensemble_deid.corpora.json_fields import JsonValue, read_places
from ensemble_deid.corpora.messages.content import EncodedText, Message, add_xhtml
from ensemble_deid.corpora.messages.fhir_fields import MappedElements, read_reference, reference_targets
from ensemble_deid.corpora.messages.structure import CODES, ELEMENTS, TEXT_TYPE, is_code, is_fhir_structure
from ensemble_deid.corpora.record_map import FieldKind, FieldRules
from ensemble_deid.errors import CorpusError

_CHARACTER_SETS = {"utf-8": "utf-8", "us-ascii": "ascii", "iso-8859-1": "latin-1"}
_DOCUMENTS = {"application/pdf": text_of_pdf, "application/rtf": text_of_rtf, "text/rtf": text_of_rtf}
_HOLDERS = ("attachment", "presentedform", "binary")
_FREE_TEXT = (("DiagnosticReport", "conclusion"), ("DocumentReference", "description"))


@dataclass(frozen=True, slots=True)
class _Field:
    """A piece of note text, and how edits to it are written in the JSON."""

    text: str = field(repr=False)
    changes: Callable[[Sequence[Edit]], list[Edit]] = field(repr=False)
    """Returns the edits to the JSON that edits to the text make."""


@dataclass(slots=True)
class _Reading:
    raw: str = field(repr=False)
    place: str
    fields: list[_Field] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    patients: list[str] = field(default_factory=list, repr=False)
    others: list[str] = field(default_factory=list, repr=False)
    """What else a resource is about: a device, a group."""
    contained: set[str] = field(default_factory=set, repr=False)
    targets: Mapping[str, tuple[str, str]] = field(default_factory=dict, repr=False)
    unnamed: int = 0

    @property
    def about(self) -> int:
        """How many patients it is about: those that are named or referred to, and those that have no id."""
        return len(set(self.patients)) + self.unnamed


def read_fhir(data: bytes, place: str, rules: FieldRules | None = None) -> Message:
    """Return the resource; CorpusError names the file and the element, and quotes nothing."""
    raw = decode_utf8(data, place)
    mark = "\ufeff" if raw.startswith("\ufeff") else ""
    reading = _Reading(raw.removeprefix(mark), place)
    root = read_places(reading.raw, place)
    if root.string("resourceType") is None:
        raise CorpusError(f"{place}: is no FHIR resource: it has no 'resourceType'")
    reading.targets = dict(reference_targets(root))
    _find_patients(reading, root, ())
    if not reading.about:
        reading.patients = reading.others
    mapped = None if rules is None else _mapped(reading, root, rules)
    if mapped is None:
        _walk(reading, root, (), "")
    if not reading.fields and mapped is None:
        raise CorpusError(f"{place}: has no note text (a narrative, an attachment, a conclusion or a description)")
    if reading.about > 1:
        raise CorpusError(f"{place}: is about {reading.about} patients; each needs a file of its own")
    text = BETWEEN.join(item.text for item in reading.fields)
    check_text(text, place)

    def written(edits: Sequence[Edit], values: Sequence[object] = ()) -> bytes:
        changes: list[Edit] = []
        start = 0
        for item in reading.fields:
            changes += item.changes(within(edits, start, start + len(item.text)))
            start += len(item.text) + len(BETWEEN)
        if mapped is not None:
            return (mark + (mapped.rendered(reading.raw, root, sorted(changes), values) or "{}")).encode("utf-8")
        return (mark + edited(reading.raw, sorted(changes))).encode("utf-8")

    # The name of a contained patient is another's in the next file.
    patient = next((name for name in reading.patients if not name.startswith("#")), None)
    if mapped is None:
        return Message(text, written, tuple(dict.fromkeys(reading.kept)), patient)
    # A table or an HL7 message has the id alone.
    patient = None if patient is None else patient.removeprefix("Patient/")
    # Only attributes of XHTML are kept: no rule can name them.
    key = f"{root.string('resourceType')}/{root.string('id')}" if root.string("id") else None
    return Message(text, written, tuple(reading.kept), patient, tuple(mapped.fields), key=key)


def _mapped(reading: _Reading, root: JsonValue, rules: FieldRules) -> MappedElements:
    """Return the fields of a resource with the rules of a record map; texts and patients are added to the reading."""

    def add_text(holder: JsonValue, path: tuple[str, ...], resource: str) -> bool:
        member = holder.members[path[-1]]
        rule = rules.get(".".join(path))
        if rule is not None and rule.kind is FieldKind.TEXT and isinstance(member.plain, str):
            reading.fields.append(_free_text(reading, member))
            return True
        return _add_text(reading, holder, path, resource)

    def passes(holder: JsonValue, path: tuple[str, ...]) -> bool:
        # Of data that a rule leaves out, size and hash would tell which they were.
        return path[-1] not in ("size", "hash") and _is_structure(reading, holder, path)

    found = MappedElements(rules, passes, add_text)
    found.read(root)
    return found


def _walk(reading: _Reading, value: JsonValue, path: tuple[str, ...], resource: str) -> None:
    """Look at every value; each is a field of note text, or kept."""
    resource = value.string("resourceType") or resource
    for name, member in value.members.items():
        here = (*path, name)
        if name.removeprefix("_") not in ELEMENTS:
            reading.kept.append(_shown(here))
        if not _is_structure(reading, value, here) and not _add_text(reading, value, here, resource):
            _walk(reading, member, here, resource)
    for item in value.items:
        _walk(reading, item, path, resource)
    if value.plain not in (None, ""):
        reading.kept.append(_shown(path))


def _add_text(reading: _Reading, holder: JsonValue, path: tuple[str, ...], resource: str) -> bool:
    """Add a member that is note text; return whether it is."""
    member, name, around = holder.members[path[-1]], path[-1], path[:-1]
    if not isinstance(member.plain, str):
        return False
    if name == "data" and _is_attachment(holder, around, resource):
        reading.fields.append(_attachment(reading, holder, member, f"{reading.place}: {_shown(around)}"))
    elif name == "div" and around[-1:] == ("text",):
        reading.fields.append(_narrative(reading, member, path))
    elif (resource, path[-1]) in _FREE_TEXT or path[-2:] == ("note", "text"):
        reading.fields.append(_free_text(reading, member))
    else:
        return False
    return True


def _find_patients(reading: _Reading, value: JsonValue, path: tuple[str, ...], url: str | None = None) -> None:
    """Collect whom a resource is about; `url` is what a bundle calls it."""
    if value.string("resourceType") == "Patient":
        _add_patient(reading, value, path, url)
    reference = value.string("reference") if path[-1:] in (("subject",), ("patient",)) else None
    if reference is not None:
        type, _ = reading.targets.get(reference) or read_reference(reference) or ("Patient", "")
        (reading.patients if type == "Patient" else reading.others).append(_local(reading, reference))
    for name, member in value.members.items():
        _find_patients(reading, member, (*path, name), value.string("fullUrl") if name == "resource" else None)
    for item in value.items:
        _find_patients(reading, item, path)


def _add_patient(reading: _Reading, value: JsonValue, path: tuple[str, ...], url: str | None) -> None:
    """A patient's own resource, also one of a bundle or contained in another resource, is about that patient."""
    name = value.string("id")
    contained = f"#{name}"
    if not name and url is not None:
        reading.patients.append(_local(reading, url))
    elif not name or ("contained" in path and contained in reading.contained):
        # The name of a contained resource means something only where it is contained: a second one is another.
        reading.unnamed += 1
    elif "contained" in path:
        reading.contained.add(contained)
        reading.patients.append(contained)
    else:
        reading.patients.append(f"Patient/{name}")


def _local(reading: _Reading, reference: str) -> str:
    """Return a reference as `Type/id`, without the URN of a bundle, the server or the version."""
    if reference.startswith("#"):
        return reference
    type, id = reading.targets.get(reference) or read_reference(reference) or ("", "")
    return f"{type}/{id}" if type else reference.replace("urn:uuid:", "Patient/", 1)


def _is_attachment(holder: JsonValue, path: tuple[str, ...], resource: str) -> bool:
    # One without a type is one, too, and is refused.
    holds = (path[-1] if path else resource).lower().endswith(_HOLDERS)
    return holds or holder.string("contentType") is not None or resource == "Binary"


def _is_structure(reading: _Reading, holder: JsonValue, path: tuple[str, ...]) -> bool:
    """Whether a member is a value of the standard, which says nothing of a patient."""
    name = path[-1]
    value = holder.members[name].plain
    if name in ("size", "hash"):
        return _fits_attachment(reading, holder, name)
    if not isinstance(value, str):
        return False
    if path[-2:-1] == ("coding",) and name in ("system", "code"):
        return value in CODES if name == "system" else is_code(holder.string("system"), value)
    return is_fhir_structure(name, value)


def _fits_attachment(reading: _Reading, holder: JsonValue, name: str) -> bool:
    try:
        data = base64.b64decode("".join((holder.string("data") or "").split()), validate=True)
    except ValueError:
        return False
    member = holder.members[name]
    written = reading.raw[member.start : member.end]
    return bool(data) and written.strip('"') == (str(len(data)) if name == "size" else _sha1(data))


def _sha1(data: bytes) -> str:
    # The standard's hash protects nothing here: it only has to fit the data.
    return base64.b64encode(hashlib.sha1(data, usedforsecurity=False).digest()).decode("ascii")


def _shown(path: tuple[str, ...]) -> str:
    # Where somebody has put something else, it may be PHI.
    return ".".join(name if name.removeprefix("_") in ELEMENTS else "?" for name in path)


def _json_string(reading: _Reading, value: JsonValue) -> tuple[list[str], Callable[[str], str]]:
    """Return how each character is written, and how new ones are: as ASCII alone where the old ones are."""
    pieces = value.pieces(reading.raw)
    ascii_only = reading.raw.isascii()
    return pieces, lambda text: json.dumps(text, ensure_ascii=ascii_only)[1:-1]


def _in_place(value: JsonValue, encoded: EncodedText, encode: Callable[[str], str]) -> _Field:
    def changes(edits: Sequence[Edit]) -> list[Edit]:
        return [Edit(value.start + 1, value.end - 1, encoded.edited(edits, encode))] if edits else []

    return _Field(encoded.text, changes)


def _free_text(reading: _Reading, value: JsonValue) -> _Field:
    pieces, encode = _json_string(reading, value)
    return _in_place(value, EncodedText(list(value.plain), pieces), encode)


def _narrative(reading: _Reading, value: JsonValue, path: tuple[str, ...]) -> _Field:
    pieces, encode = _json_string(reading, value)
    check_text(value.plain, f"{reading.place}: {_shown(path)}")
    encoded = EncodedText()
    attributes = add_xhtml(encoded, value.plain, pieces, f"{reading.place}: {_shown(path)}")
    reading.kept += [f"{_shown(path)}@{name}" for name in attributes]
    return _in_place(value, encoded, lambda text: encode(escape(text)))


def _attachment(reading: _Reading, holder: JsonValue, value: JsonValue, where: str) -> _Field:
    document = _DOCUMENTS.get(holder.string("contentType") or "")
    if document is not None:
        return _read_document(holder, value, where, document)
    kind = TEXT_TYPE.fullmatch(holder.string("contentType") or "")
    if kind is None:
        raise CorpusError(f"{where}: an attachment is neither text in a known character set nor XHTML, RTF or PDF")
    charset = _CHARACTER_SETS[(kind["charset"] or "utf-8").lower()]
    try:
        content = _decoded(value, where).decode(charset)
    except ValueError:
        raise CorpusError(f"{where}: an attachment is not text in {charset}") from None
    check_text(content, where)
    encoded = EncodedText()
    xhtml = kind["type"].lower() != "text/plain"
    if xhtml:
        attributes = add_xhtml(encoded, content, content, where)
        reading.kept += [f"{where.removeprefix(reading.place + ': ')}@{name}" for name in attributes]
    else:
        encoded = EncodedText(list(content), list(content))

    def changes(edits: Sequence[Edit]) -> list[Edit]:
        if not edits:
            return []
        try:
            new = encoded.edited(edits, escape if xhtml else str).encode(charset)
        except UnicodeEncodeError:
            raise CorpusError(f"{where}: a replacement cannot be written in {charset}, the attachment's own") from None
        return _attachment_changes(holder, value, new)

    return _Field(encoded.text, changes)


def _read_document(holder: JsonValue, value: JsonValue, where: str, text_of: Callable[[bytes, str], str]) -> _Field:
    """Return the text of a document, which plain text replaces."""
    content, kind = text_of(_decoded(value, where), where), holder.members["contentType"]

    def changes(edits: Sequence[Edit]) -> list[Edit]:
        plain = Edit(kind.start, kind.end, '"text/plain; charset=utf-8"')
        return [plain, *_attachment_changes(holder, value, edited(content, edits).encode("utf-8"))]

    return _Field(content, changes)


def _decoded(value: JsonValue, where: str) -> bytes:
    try:
        return base64.b64decode("".join(value.plain.split()), validate=True)
    except ValueError:
        raise CorpusError(f"{where}: an attachment is not base64") from None


def _attachment_changes(holder: JsonValue, value: JsonValue, new: bytes) -> list[Edit]:
    found = [Edit(value.start, value.end, json.dumps(base64.b64encode(new).decode("ascii")))]
    size, digest = holder.members.get("size"), holder.members.get("hash")
    if size is not None:
        written = str(len(new))
        found.append(Edit(size.start, size.end, f'"{written}"' if isinstance(size.plain, str) else written))
    if digest is not None:
        found.append(Edit(digest.start, digest.end, json.dumps(_sha1(new))))
    return found
