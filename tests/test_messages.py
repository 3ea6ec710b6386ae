"""FHIR and HL7 v2: the note text is found and replaced, and every other byte of the message stays."""

import base64
import hashlib
import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny_stack
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_deid.cli.main import main
from ensemble_deid.corpora.edits import edited
from ensemble_deid.corpora.messages.content import EncodedText, Message
from ensemble_deid.corpora.messages.fhir import read_fhir
from ensemble_deid.corpora.messages.hl7 import read_hl7
from ensemble_deid.errors import CorpusError

SECRET = "Quillfeather"
TEXTS = st.text(
    st.sampled_from('ab ,;|^~\\&#<>"{}/\nß😀\u2028') | st.characters(exclude_categories=["Cs", "Cc"]), max_size=12
)
MSH = "MSH|^~\\&|LAB|HOSP|||20190304||ORU^R01|77|P|2.5||||||UNICODE UTF-8"
ESCAPES = {"|": "\\F\\", "^": "\\S\\", "&": "\\T\\", "~": "\\R\\", "\\": "\\E\\", "\n": "\\.br\\"}


def hl7_text(text: str) -> str:
    return "".join(ESCAPES.get(character, character) for character in text)


@st.composite
def changes(draw: st.DrawFn, text: str) -> list[tuple[int, int, str]]:
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=6)))
    return [(a, b, draw(TEXTS)) for a, b in list(itertools.pairwise(cuts))[::2]]


@given(data=st.data(), end=st.sampled_from(["\r", "\n", "\r\n"]), pid=st.booleans())
@settings(max_examples=150)
def test_hl7_text_is_replaced_and_the_rest_stays(data: st.DataObject, end: str, pid: bool) -> None:
    texts = data.draw(st.lists(TEXTS.filter(lambda text: bool(text.strip())), min_size=1, max_size=3))
    head = f"{MSH}{end}" + (f"PID|1||M1^^^A~M2||Bell^Anna{end}" if pid else "")
    kinds = itertools.cycle(["TX", "FT", "NM"])
    rows = [(f"OBX|{k}|{next(kinds)}|11502-2^^LN||", text, f"||{end}") for k, text in enumerate(texts)]

    def content(values: list[str]) -> str:
        return head + "".join(a + hl7_text(v) + b for (a, _, b), v in zip(rows, values, strict=True)) + f"NTE|1||x{end}"

    message = read_hl7(content(texts).encode(), "a.hl7")
    read = [text for (a, text, _) in rows if "|NM|" not in a]
    assert message.written([]) == content(texts).encode()
    assert message.patient == ("M1" if pid else None)
    position, edits, values = 0, [], []
    for a, text, _ in rows:
        if "|NM|" in a:
            values.append(text)
            continue
        start = message.text.index(text, position)
        own = data.draw(changes(text))
        edits += [(start + s, start + e, new) for s, e, new in own]
        values.append(edited(text, own))
        position = start + len(text)
    assert message.written(edits) == content(values).encode()
    assert "".join(message.text.split()) == "".join("".join([*read, "x"]).split())


def test_hl7_repetitions_escapes_and_formatting() -> None:
    value = r"Dr. \H\Ada\N\~Lee\.sp2\at 5\F\6\X4A6F\n^x"
    data = f"\x0b{MSH}\rOBX|1|FT|1||{value}\r\x1c\r".encode()
    message = read_hl7(data, "a.hl7")
    assert message.text == "Dr. Ada\nLee\n\nat 5|6Jon x"
    assert message.written([]) == data
    start = message.text.index("Ada")
    new = message.written([(start, start + 7, "[N]")]).decode()
    assert r"||Dr. \H\[N]\N\~\.sp2\at" in new
    # Characters of one escape sequence: what is left of it is written anew, and nothing of what was replaced.
    start = message.text.index("Jo")
    assert r"\F\6J[N]n^x" in message.written([(start + 1, start + 2, "[N]")]).decode()
    assert r"\F\6ABn^x" in message.written([(start, start + 1, "A"), (start + 1, start + 2, "B")]).decode()


def test_hl7_in_latin_1() -> None:
    data = (MSH.replace("UNICODE UTF-8", "8859/1") + "\rNTE|1||Zoë\r").encode("latin-1")
    message = read_hl7(data, "a.hl7")
    assert message.text == "Zoë"
    assert message.written([(0, 2, "é")]) == data.replace(b"Zo", b"\xe9")
    with pytest.raises(CorpusError, match=r"a\.hl7: a replacement cannot be written in latin-1"):
        message.written([(0, 1, "😀")])


@given(data=st.data())
@settings(max_examples=100)
def test_characters_written_together(data: st.DataObject) -> None:
    atoms = data.draw(st.lists(st.text("abc", min_size=1, max_size=3), max_size=6))
    encoded = EncodedText()
    for atom in atoms:
        encoded.add(atom, f"<{atom}>" if len(atom) > 1 else atom)
    edits = [(s, e, "X") for s, e, _ in data.draw(changes(encoded.text))]
    written = encoded.edited(edits, str)
    assert written.replace("<", "").replace(">", "") == edited(encoded.text, edits)


def narrative(div: str, **more: object) -> dict[str, object]:
    return {"resourceType": "DiagnosticReport", "status": "final", "text": {"status": "generated", "div": div}, **more}


def attachment(content: bytes, kind: str = "text/plain; charset=utf-8", **more: object) -> dict[str, object]:
    data = base64.b64encode(content).decode()
    return {
        "resourceType": "DocumentReference",
        "content": [{"attachment": {"contentType": kind, "data": data, **more}}],
    }


DIV = '<div xmlns="http://www.w3.org/1999/xhtml">'


@given(data=st.data(), ascii_only=st.booleans(), indent=st.sampled_from([None, 2]))
@settings(max_examples=150)
def test_fhir_text_is_replaced_and_the_rest_stays(data: st.DataObject, ascii_only: bool, indent: int | None) -> None:
    words, plain, note = (data.draw(TEXTS) for _ in range(3))

    def resource(words: str, plain: str, note: str) -> bytes:
        escaped = words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        content = narrative(f"{DIV}<b>{escaped}</b></div>", conclusion=plain, subject={"reference": "Patient/1"})
        content["presentedForm"] = attachment(note.encode())["content"][0]["attachment"]  # type: ignore[index]
        return json.dumps(content, ensure_ascii=ascii_only, indent=indent).encode()

    before = resource(words, plain, note)
    message = read_fhir(before, "a.json")
    # The break that an element makes before the first word is part of no field.
    first = words + ("" if not words or words[-1].isspace() else "\n")
    assert message.text == "\n\n".join([first, plain, note])
    assert message.written([]) == before
    assert (message.patient, message.kept) == ("Patient/1", ("subject.reference",))
    own = [data.draw(changes(text)) for text in (words, plain, note)]
    starts = [0, len(first) + 2, len(message.text) - len(note)]
    edits = [(s + a, s + b, new) for s, each in zip(starts, own, strict=True) for a, b, new in each]
    values = [edited(text, each) for text, each in zip((words, plain, note), own, strict=True)]
    assert json.loads(message.written(edits)) == json.loads(resource(*values))
    if ascii_only or not before.isascii():
        # A message of ASCII alone stays one.
        assert message.written(edits) == resource(*values)


def test_fhir_narrative_keeps_its_tags() -> None:
    div = f'{DIV}<p class="x">Dr.&nbsp;<i>A</i>da</p><table><tr><td>Lee</td><td>7&#8364;</td></tr></table></div>'
    raw = json.dumps(narrative(div)).replace("/p>", "\\/p>").encode()
    message = read_fhir(raw, "a.json")
    assert message.text.split() == ["Dr.", "Ada", "Lee", "7€"]
    assert message.text.index("Lee") > message.text.index("\n")
    start, end = message.text.index("Ada"), message.text.index("Lee") + 3
    made = message.written([(start, end, "[N<1>]")])
    expected = raw.decode().replace("<i>A</i>da", "<i>[N&lt;1&gt;]</i>").replace(">Lee<", "><")
    assert made == expected.encode()


def test_fhir_attachment_gets_its_new_size_and_hash() -> None:
    content = "Ada Lee".encode("latin-1")
    digest = base64.b64encode(hashlib.sha1(content).digest()).decode()
    raw = json.dumps(attachment(content, "text/plain;charset=ISO-8859-1", size=7, hash=digest)).encode()
    message = read_fhir(raw, "a.json")
    assert (message.text, message.kept) == ("Ada Lee", ())
    made = json.loads(message.written([(0, 3, "Zoë B")]))["content"][0]["attachment"]
    new = base64.b64decode(made["data"])
    assert (new, made["size"]) == ("Zoë B Lee".encode("latin-1"), 9)
    assert made["hash"] == base64.b64encode(hashlib.sha1(new).digest()).decode()


def test_a_document_in_an_attachment_becomes_plain_text() -> None:
    rtf = rb"{\rtf1\ansi{\fonttbl{\f0 Arial;}}\f0 Dr. Ada Lee.\par Well.}"
    before = attachment(
        rtf, "application/rtf", size=len(rtf), hash=base64.b64encode(hashlib.sha1(rtf).digest()).decode()
    )
    message = read_fhir(json.dumps(before).encode(), "a.json")
    assert (message.text.strip(), message.kept) == ("Dr. Ada Lee.\nWell.", ())
    for edits, wanted in ([], message.text), ([(message.text.index("Ada"), message.text.index("."), "")], None):
        made = json.loads(message.written(edits))["content"][0]["attachment"]
        data = base64.b64decode(made["data"])
        assert made["contentType"] == "text/plain; charset=utf-8"
        assert made["size"] == len(data)
        assert made["hash"] == base64.b64encode(hashlib.sha1(data).digest()).decode()
        assert wanted is None or data.decode() == wanted


@pytest.mark.parametrize(
    "reference", ["Patient/7", "https://a.org/fhir/Patient/7", "Patient/7/_history/2", "urn:uuid:0-1", "urn:uuid:7"]
)
def test_every_form_of_reference_leads_to_the_patient(reference: str) -> None:
    report = narrative(f"{DIV}a</div>", subject={"reference": reference})
    patient = {"resourceType": "Patient", "id": "7"}
    entries = [{"fullUrl": "urn:uuid:0-1", "resource": patient}, {"resource": report}]
    bundle = {"resourceType": "Bundle", "type": "collection", "entry": entries}
    assert read_fhir(json.dumps(bundle).encode(), "a.json").patient == "Patient/7"


def test_a_patient_of_a_bundle_may_have_its_url_alone() -> None:
    def bundle(*entries: dict[str, object]) -> bytes:
        return json.dumps({"resourceType": "Bundle", "type": "transaction", "entry": entries}).encode()

    new = {"fullUrl": "urn:uuid:3f2b", "resource": {"resourceType": "Patient"}}
    other = {"fullUrl": "urn:uuid:77aa", "resource": {"resourceType": "Patient"}}
    report = {"resource": narrative(f"{DIV}a</div>", subject={"reference": "urn:uuid:3f2b"})}
    device = {"resource": {"resourceType": "Specimen", "subject": {"reference": "Device/3"}}}
    assert read_fhir(bundle(new, report, device), "a.json").patient == "Patient/3f2b"
    with pytest.raises(CorpusError, match="is about 2 patients"):
        read_fhir(bundle(new, other, report), "a.json")
    alone = narrative(f"{DIV}a</div>", subject={"reference": "Device/3"})
    assert read_fhir(json.dumps(alone).encode(), "a.json").patient == "Device/3"


def test_fhir_xhtml_attachment_in_a_bundle() -> None:
    raw = json.dumps(
        {
            "resourceType": "Bundle",
            "entry": [{"resource": attachment(b"<p>Ada</p>", "text/html")}, {"resource": {"resourceType": "Patient"}}],
        }
    ).encode()
    message = read_fhir(raw, "a.json")
    made = json.loads(message.written([(0, 3, "[N]")]))
    data = made["entry"][0]["resource"]["content"][0]["attachment"]["data"]
    assert base64.b64decode(data) == b"<p>[N]</p>"


def fhir_with(**fields: object) -> bytes:
    return json.dumps(narrative(f"{DIV}x</div>", **fields)).encode()


def coded(system: object, code: object) -> bytes:
    return fhir_with(code={"coding": [{"system": system, "code": code}]})


# What the standard allows, and the same place with PHI in it. LOINC and SNOMED CT have check digits.
LOINC, SNOMED, ICD = "http://loinc.org", "http://snomed.info/sct", "http://hl7.org/fhir/sid/"
STRUCTURE: list[tuple[Callable[[object], bytes], list[object], list[object], str]] = [
    (lambda v: fhir_with(status=v), ["final", "entered-in-error"], [SECRET, 7, [SECRET], ["final"]], "status"),
    (lambda v: fhir_with(docStatus=v), ["amended"], [SECRET], "docStatus"),
    (lambda v: fhir_with(language=v), ["en", "es-419", "zh-Hant-TW"], [SECRET, "en-quill", "en-Anna"], "language"),
    (lambda v: fhir_with(content={"contentType": v}), ["application/pdf"], [SECRET, "a/b"], "content.contentType"),
    (lambda v: coded(LOINC, v), ["11502-2", "8867-4"], [SECRET, "11502-3", "555-1234"], "code.coding.code"),
    (lambda v: coded(SNOMED, v), ["22298006", "73211009"], ["22298007", "5551234"], "code.coding.code"),
    (lambda v: coded(v, "11502-2"), [LOINC], [SECRET, f"{LOINC}/{SECRET}", None], "code.coding.code"),
    (lambda v: coded(f"{ICD}icd-10-cm", v), ["I21.9", "E11"], [SECRET, "123-45-6789"], "code.coding.code"),
    (lambda v: fhir_with(extension=[{"system": "urn:x", "code": v}]), [], ["final"], "extension.code"),
    (lambda v: fhir_with(contained=[{"resourceType": v}]), ["Patient"], [SECRET], "contained.resourceType"),
    (lambda v: fhir_with(meta={v: None}), ["tag"], [SECRET, ""], "meta.?"),
    (lambda v: fhir_with(**{v: []}), ["category"], [SECRET, f"_{SECRET}"], "?"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "good", "bad", "path"), STRUCTURE)
def test_a_fhir_value_passes_by_what_it_is_not_by_its_field(
    made: Callable[[object], bytes], good: list[object], bad: list[object], path: str
) -> None:
    for value in good:
        assert read_fhir(made(value), "x").kept == (), value
    for value in bad:
        kept = read_fhir(made(value), "x").kept
        assert path in kept, value
        assert SECRET not in str(kept)


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ({"size": 7}, ()),
        ({"size": 5551234}, ("size",)),
        ({"size": "7"}, ()),
        ({"hash": SECRET}, ("hash",)),
        ({"hash": base64.b64encode(hashlib.sha1(b"Ada Lee").digest()).decode()}, ()),
    ],
)
def test_a_size_and_a_hash_are_those_of_the_attachment(more: dict[str, object], kept: tuple[str, ...]) -> None:
    message = read_fhir(json.dumps(attachment(b"Ada Lee", **more)).encode(), "x")
    assert message.kept == tuple(f"content.attachment.{name}" for name in kept)


@pytest.mark.parametrize("kind", [f"text/plain; name={SECRET}; charset=utf-8", f"text/plain;charset=utf-8 {SECRET}"])
def test_a_content_type_has_no_other_parameters(kind: str) -> None:
    with pytest.raises(CorpusError, match="is neither text in a known character set"):
        read_fhir(json.dumps(attachment(b"Ada", kind)).encode(), "x")


@pytest.mark.parametrize(
    ("attribute", "kept"),
    [
        ('class="bold hapiHeaderText"', ()),
        (f'class="{SECRET}"', ("class",)),
        ("style='color: #aabb00; font-weight:bold;width:10.5%'", ()),
        (f'style="content: {SECRET}"', ("style",)),
        (f'style="font-family: {SECRET}"', ("style",)),
        ('colspan="2" dir="ltr" lang="en"', ()),
        ('width="5551234"', ("width",)),
        (f'id="{SECRET}"', ("id",)),
        (f'title="{SECRET}"', ("title",)),
        (f'{SECRET}="1"', ("?",)),
        (f'ä·class="{SECRET}"', ("?",)),
        (f'ä="{SECRET}"', ("?",)),
        (f'xmlns:x="{SECRET}"', ("?",)),
    ],
)
def test_an_attribute_passes_by_its_value(attribute: str, kept: tuple[str, ...]) -> None:
    raw = json.dumps(narrative(f"{DIV}<p {attribute}>x</p></div>"), ensure_ascii=False).encode()
    assert read_fhir(raw, "x").kept == tuple(f"text.div@{name}" for name in kept)


def test_an_element_that_html_lacks_is_refused() -> None:
    with pytest.raises(CorpusError, match=r"x: text\.div: has an element that HTML lacks"):
        read_fhir(json.dumps(narrative(f"{DIV}<{SECRET}/></div>")).encode(), "x")


HL7_STRUCTURE = [
    ("MSH|^~\\&", "OBX|1|TX|11502-2^^LN|1|x||||||F\rNTE|1|L|x", ()),
    ("MSH|^~\\&", "OBX|1|TX|22298006^^SCT|1.2|x|||LL|||F", ()),
    ("MSH|^~\\&", f"OBX|{SECRET}|TX|||x", ("OBX-1",)),
    ("MSH|^~\\&", f"OBX|1|TX||{SECRET}|x", ("OBX-4",)),
    ("MSH|^~\\&", "OBX|1|TX||05.03.1950|x", ("OBX-4",)),
    ("MSH|^~\\&", f"OBX|1|{SECRET}|||x\rNTE|1||x", ("OBX-2", "OBX-5")),
    ("MSH|^~\\&", f"OBX|1|TX|{SECRET}|1|x", ("OBX-3",)),
    ("MSH|^~\\&", f"OBX|1|TX|{SECRET}^^LN|1|x", ("OBX-3",)),
    ("MSH|^~\\&", f"OBX|1|TX|11502-2^^{SECRET}|1|x", ("OBX-3",)),
    ("MSH|^~\\&", f"OBX|1|TX|11502-2^^LN^^^^^{SECRET}|1|x", ("OBX-3",)),
    ("MSH|^~\\&", f"OBX|1|TX|||x|||{SECRET}|||{SECRET}", ("OBX-8", "OBX-11")),
    ("MSH|^~\\&", f"NTE|1|{SECRET}|x", ("NTE-2",)),
    ("MSH|^~\\&", f"NTE|1||x\rZOE||\rPV1||{SECRET}", ("?", "PV1-2")),
    (f"MSH|^~\\&{SECRET}|", "NTE|1||x", ("MSH-2",)),
    (f"MSH|^~\\&|||||||ORU^R01^{SECRET}||P|2.5", "NTE|1||x", ("MSH-9",)),
    ("MSH|^~\\&|||||||ORU^R01^ORU_R01||P|2.5.1", "NTE|1||x", ()),
    ("MSH|^~\\&|||||||ORU^R01||P|2.5", "NTE|1||x", ()),
    (f"MSH|^~\\&|||||||ORU^R01||{SECRET}|2.5", "NTE|1||x", ("MSH-11",)),
    (f"MSH|^~\\&|||||||ORU^R01||P|2.5^{SECRET}", "NTE|1||x", ("MSH-12",)),
    (f"MSH|^~\\&|||||||ORU^R01||P|2.5||||||UNICODE UTF-8~{SECRET}", "NTE|1||x", ("MSH-18",)),
]


@pytest.mark.parametrize(("header", "segments", "kept"), HL7_STRUCTURE)
def test_an_hl7_value_passes_by_what_it_is_not_by_its_field(header: str, segments: str, kept: tuple[str, ...]) -> None:
    assert read_hl7(f"{header}\r{segments}\r".encode(), "x").kept == kept


def test_the_words_of_an_observation_identifier_are_text() -> None:
    data = f"{MSH}\rOBX|1|TX|11502-2^Report of Ada^LN^1^Lee^L|1|x\r".encode()
    message = read_hl7(data, "x")
    assert message.text.split("\n") == ["Report of Ada", "Lee", "x"]
    assert message.written([(10, 13, "[N]")]) == data.replace(b"Ada", b"[N]")
    assert "OBX-3" in message.kept


BAD: list[tuple[Callable[[bytes, str], Message], object, str]] = [
    (read_hl7, f"PID|1||{SECRET}", r"x:1: is no HL7 message"),
    (read_hl7, f"MSH|^^\\&|{SECRET}", r"x:1: is no HL7 message"),
    (read_hl7, "FHS|^~\\&|\r", r"x:1: is a batch"),
    (read_hl7, f"{MSH}\rNTE|1||{SECRET}\r{MSH}\r", r"x:3: another message begins here"),
    (read_hl7, f"{MSH}\rNTE|1||{SECRET}\n{SECRET}\r", r"x:3: is no segment"),
    (read_hl7, f"{MSH}\rOBX|1|TX|1||{SECRET}\\\r", r"x:2: OBX-5: an escape sequence does not end"),
    (read_hl7, f"{MSH}\rOBX|1|TX|1||3\\{SECRET}\\6\r", r"x:2: OBX-5: an escape sequence is not known"),
    (read_hl7, f"{MSH}\rOBX|1|TX|1||\\XFF\\\r", r"x:2: OBX-5: an escape sequence of bytes is not utf-8"),
    (read_hl7, f"{MSH}\rOBX|1|ED|1||^TEXT^^Base64^{SECRET}\r", r"x:2: OBX-5 is encapsulated data \(ED\)"),
    (read_hl7, f"{MSH}\rPID|1||{SECRET}\r", r"x: has no note text"),
    (read_hl7, MSH.replace("UNICODE UTF-8", "ISO IR87"), r"x:1: MSH-18 names a character set that is not read"),
    (read_hl7, f"{MSH}\rNTE|1||".encode() + b"\xe9\r", r"x: byte \d+ is not utf-8"),
    (read_fhir, "{", r"x: broken JSON at column 2"),
    (read_fhir, {"a": SECRET}, r"x: is no FHIR resource"),
    (read_fhir, {"resourceType": "Patient", "name": SECRET}, r"x: has no note text"),
    (read_fhir, '{"resourceType": "A", "resourceType": "B"}', r"x: broken JSON: a key occurs twice"),
    (read_fhir, narrative(f"<div>{SECRET}"), r"x: text\.div: is no well-formed XHTML"),
    (read_fhir, narrative(f"<div><!-- {SECRET} --></div>"), r"x: text\.div: has a comment"),
    (read_fhir, attachment(b"%PDF", "application/pdf"), r"x: content\.attachment: cannot be read as PDF"),
    (
        read_fhir,
        attachment(b"{\\rtf1{\\pict %s}}" % (b"0f" * 40), "text/rtf"),
        r"x: content\.attachment: holds a picture or an object",
    ),
    (read_fhir, attachment(b"GIF", "image/gif"), r"x: content\.attachment: an attachment is neither text"),
    (read_fhir, attachment(b"\xff"), r"x: content\.attachment: an attachment is not text in utf-8"),
    (
        read_fhir,
        {"resourceType": "DocumentReference", "content": [{"attachment": {"data": "QQ=="}}]},
        r"x: content\.attachment: an attachment is neither",
    ),
    (
        read_fhir,
        narrative("<div>a</div>", subject={"reference": "Patient/1"}, patient={"reference": "Patient/2"}),
        r"x: is about 2 patients",
    ),
]


@pytest.mark.parametrize(("read", "content", "said"), BAD)
def test_what_cannot_be_processed_whole_is_refused(
    read: Callable[[bytes, str], Message], content: object, said: str
) -> None:
    if not isinstance(content, bytes):
        content = (content if isinstance(content, str) else json.dumps(content)).encode()
    with pytest.raises(CorpusError, match=said) as raised:
        read(content, "x")
    assert SECRET not in str(raised.value)


def write_messages(folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    (note, *_) = tiny_stack.notes(patients=1)
    oru = f"{MSH}\rPID|1||M1||{SECRET}\rOBX|1|TX|1||{hl7_text(note.text)}\r".encode()
    report = json.dumps(narrative(f"{DIV}<pre>{note.text}</pre></div>", subject={"reference": f"Patient/{SECRET}"}))
    contents = {"a.hl7": oru, "b.hl7": oru[:-1] + b"\\\r", "r.json": report.encode()}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return contents


def test_deidentify_withholds_unless_fields_are_kept(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contents = write_messages(tmp_path / "in")
    for name, out, kept in (("a.hl7", "a.out.hl7", "PID-5"), ("r.json", "r.out.json", "subject.reference")):
        command = ["deidentify", str(tiny_model), str(tmp_path / "in" / name), "--out", str(tmp_path / out)]
        assert main(command) == 3
        said = capsys.readouterr().err
        assert "--keep-fields" in said
        assert SECRET not in said
        assert not (tmp_path / out).exists()
        assert main([*command, "--keep-fields"]) == 0
        said = capsys.readouterr().err
        assert "handed out as they are" in said
        assert kept in said
        made = (tmp_path / out).read_bytes()
        assert SECRET.encode() in made
        assert made != contents[name]
        head = contents[name].index(b"OBX|") if name == "a.hl7" else contents[name].index(b"<pre>")
        assert made[:head] == contents[name][:head]


def test_deidentify_takes_a_folder_of_messages(tiny_model: Path, tmp_path: Path) -> None:
    write_messages(tmp_path / "in")
    (tmp_path / "in" / "r.json").unlink()
    command = ["deidentify", str(tiny_model), str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--keep-fields"]
    assert main(command) == 3
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.hl7"]
