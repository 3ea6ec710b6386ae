"""RTF and PDF: the text is read and handed out as plain text, or the note is withheld."""

import base64
import json
from pathlib import Path

import pytest

from ensemble_deid.cli.main import main
from ensemble_deid.corpora.messages.fhir import read_fhir
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.corpora.record_map import FieldKind, FieldRule
from ensemble_deid.errors import CorpusError

SECRET = "Quillfeather"


def pdf(*pages: str) -> bytes:
    """Return a PDF with a text on each page, an empty page for an empty one."""
    kids = " ".join(f"{10 + 2 * number} 0 R" for number in range(len(pages)))
    parts = [
        "1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj",
        f"2 0 obj\n<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>\nendobj",
        "3 0 obj\n<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>\nendobj",
    ]
    for number, text in enumerate(pages):
        own, content = 10 + 2 * number, f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET" if text else ""
        about = f"/Parent 2 0 R/MediaBox[0 0 600 200]/Contents {own + 1} 0 R/Resources<</Font<</F1 3 0 R>>>>"
        parts.append(f"{own} 0 obj\n<</Type/Page{about}>>\nendobj")
        parts.append(f"{own + 1} 0 obj\n<</Length {len(content)}>>\nstream\n{content}\nendstream\nendobj")
    body, places = "%PDF-1.4\n", {}
    for part in parts:
        places[int(part.split()[0])] = len(body)
        body += part + "\n"
    table = "xref\n0 1\n0000000000 65535 f \n"
    table += "".join(f"{number} 1\n{place:010} 00000 n \n" for number, place in places.items())
    return f"{body}{table}trailer\n<</Root 1 0 R/Size 99>>\nstartxref\n{len(body)}\n%%EOF\n".encode()


def test_the_text_of_a_pdf(tmp_path: Path) -> None:
    pytest.importorskip("pypdf")
    (tmp_path / "a.pdf").write_bytes(pdf("Seen by Dr. Bell.", "Back on 03/04/2019."))
    (note,) = read_corpus(str(tmp_path)).documents
    assert (note.id, note.text.split("\n")) == ("a", ["Seen by Dr. Bell.", "Back on 03/04/2019.", ""])


def test_a_pdf_in_a_fhir_attachment() -> None:
    pytest.importorskip("pypdf")
    data = base64.b64encode(pdf("Seen by Dr. Bell.")).decode()
    attachment = {"contentType": "application/pdf", "data": data, "title": SECRET}
    report = {"resourceType": "DiagnosticReport", "presentedForm": [attachment]}
    message = read_fhir(json.dumps(report).encode(), "a.json", {"Patient.name": FieldRule(FieldKind.PATIENT)})
    made = json.loads(message.written([]))["presentedForm"]
    assert base64.b64decode(made[0].pop("data")).decode() == message.text == "Seen by Dr. Bell.\n"
    assert made == [{"contentType": "text/plain; charset=utf-8"}]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (pdf("Seen.", ""), "page 2 has no text layer"),
        (SECRET.encode(), "cannot be read as PDF"),
        (b"%PDF-1.4\n" + SECRET.encode(), "cannot be read as PDF"),
    ],
)
def test_a_pdf_that_cannot_be_read_whole(data: bytes, said: str, tmp_path: Path) -> None:
    pytest.importorskip("pypdf")
    (tmp_path / "a.pdf").write_bytes(data)
    with pytest.raises(CorpusError, match=said) as raised:
        read_corpus(tmp_path / "a.pdf")
    assert SECRET not in str(raised.value)


def test_the_text_of_rtf(tmp_path: Path) -> None:
    path = tmp_path / "a.rtf"
    path.write_text("{\\rtf1\\ansi{\\fonttbl{\\f0 Arial;}}\\f0 Seen by Dr. B\\'e9ll.\\par Well.}")
    assert read_corpus(path).documents[0].text.split("\n") == ["Seen by Dr. Béll.", "Well."]
    path.write_text("{\\rtf1 Seen. {\\pict " + "0123456789abcdef" * 8 + "}}")
    with pytest.raises(CorpusError, match="holds a picture"):
        read_corpus(path)
    path.write_text("Seen.")
    with pytest.raises(CorpusError, match="not RTF"):
        read_corpus(path)


def test_documents_are_handed_out_as_text(tiny_model: Path, tmp_path: Path) -> None:
    pytest.importorskip("pypdf")
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.pdf").write_bytes(pdf("Date: 03/04/2019."))
    (folder / "b.pdf").write_bytes(pdf(""))
    command = ["deidentify", str(tiny_model), str(folder), "--out", str(tmp_path / "out"), "--accept-unfit"]
    assert main(command) == 3
    assert (tmp_path / "out" / "a.txt").read_text() == "Date: [DATE].\n"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.txt"]
    (failed,) = (tmp_path / "out.run" / "failed.jsonl").read_text().splitlines()
    assert "has no text layer" in json.loads(failed)["reason"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (r"{\rtf1\ansi\ansicpg1251 \'c8\'e2\'e0\'ed}", "another code page"),
        (r"{\rtf1{\fonttbl{\f0\fcharset204 A;}}Anna}", "another code page"),
        (r"{\rtf1 J\'6fhn}", "escapes or pictures"),
    ],
)
def test_rtf_that_cannot_be_read_as_written_is_withheld(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "a.rtf").write_text(content)
    with pytest.raises(CorpusError, match=said):
        read_corpus(tmp_path / "a.rtf")
