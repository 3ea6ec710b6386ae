"""What is written and read again is the same: text, offsets and labels."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_deid.corpora.read import Corpus, read_corpus
from ensemble_deid.corpora.write import write_corpus, write_document
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import I2B2_TYPES, MEDDOCAN_TYPES
from ensemble_deid.note.span import Span

LABELS = {"i2b2": I2B2_TYPES, "meddocan": MEDDOCAN_TYPES, "brat": ("DATE", "Some-thing", "ñ"), "jsonl": ("A b", "]]>")}
AWKWARD = st.sampled_from(
    [
        "]]>",
        "<![CDATA[",
        "\r\n",
        "\r",
        "\n",
        "\t",
        "&#13;",
        "&amp;",
        "<",
        '"',
        "'",
        "\x85",
        "\u2028",
        "\ufeff",
        "😀",
        "é",
    ]
)
XML_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufffe\uffff", min_codepoint=32))
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def texts(pieces: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(st.one_of(pieces, AWKWARD), min_size=0, max_size=8).map("".join)


@st.composite
def notes(draw: st.DrawFn, format: str) -> Document:
    text = draw(texts(XML_TEXT if format in ("i2b2", "meddocan") else ANY_TEXT))
    places = st.tuples(st.integers(0, len(text)), st.integers(0, len(text)), st.sampled_from(LABELS[format]))
    drawn = draw(st.lists(places, max_size=5)) if text else []
    spans = sorted({Span(min(a, b), max(a, b), label) for a, b, label in drawn if a != b})
    return Document("101-01", text, tuple(spans), patient_id="101")


@pytest.mark.parametrize("format", sorted(LABELS))
@given(data=st.data())
@settings(max_examples=40)
def test_what_is_written_is_read_again(format: str, data: st.DataObject) -> None:
    note = data.draw(notes(format))
    with TemporaryDirectory() as folder:
        write_document(note, Path(folder), format)
        again = read_corpus(Path(folder))
    assert again.format == format
    (document,) = again.documents
    assert document.text == note.text
    assert document.spans == note.spans
    assert document.patient_id == note.patient_id


@given(text=texts(ANY_TEXT))
@settings(max_examples=40)
def test_plain_text_keeps_its_bytes(text: str) -> None:
    with TemporaryDirectory() as folder:
        write_document(Document("a", text), Path(folder), "plain")
        assert (Path(folder) / "a.txt").read_bytes() == text.encode()
        assert read_corpus(folder).documents[0].text == text


@pytest.mark.parametrize("format", ["i2b2", "meddocan", "brat", "jsonl"])
def test_a_second_writing_gives_the_same_bytes(tmp_path: Path, format: str) -> None:
    label = LABELS[format][0]
    notes = [Document(f"10{i}-01", "Ada\r\nLee <b>", (Span(0, 3, label), Span(1, 8, label))) for i in range(3)]
    first = write_corpus(notes, tmp_path / "one", format)
    second = write_corpus(read_corpus(tmp_path / "one").documents, tmp_path / "two", format)
    assert [path.name for path in first] == [path.name for path in second]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


@pytest.mark.parametrize("format", ["i2b2", "jsonl"])
def test_metadata_patient_and_site_survive(tmp_path: Path, format: str) -> None:
    note = Document("visit", "ok", patient_id="P 7\n", site="St. <A>", metadata={"kind": 'discharge "summary"'})
    write_corpus([note], tmp_path, format)
    (again,) = read_corpus(tmp_path)
    assert (again.patient_id, again.site) == ("P 7\n", "St. <A>")
    assert dict(again.metadata) == {"kind": 'discharge "summary"'}


def test_scores_and_sources_survive_in_jsonl(tmp_path: Path) -> None:
    spans = (Span(0, 1, "A", 0.25, "crf"), Span(1, 2, "B"))
    write_corpus([Document("n", "xy", spans)], tmp_path / "out.jsonl", "jsonl")
    assert read_corpus(tmp_path / "out.jsonl").documents[0].spans == spans


@pytest.mark.parametrize("character", ["\x01", "\x0c", "\ufffe", "\uffff", "\ud800", "\0"])
def test_xml_refuses_what_it_cannot_carry(tmp_path: Path, character: str) -> None:
    with pytest.raises(CorpusError, match=r"character 5 .* cannot be written in XML"):
        write_document(Document("n", f"Ada S{character}"), tmp_path, "i2b2")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format", ["brat", "jsonl", "plain"])
def test_lone_surrogates_are_refused_everywhere(tmp_path: Path, format: str) -> None:
    with pytest.raises(CorpusError, match="surrogate"):
        write_document(Document("n", "Ada \ud800"), tmp_path, format)
    assert list(tmp_path.iterdir()) == []


def test_labels_of_another_scheme_go_through_the_map(tmp_path: Path) -> None:
    write_corpus([Document("n", "Madrid", (Span(0, 6, "TERRITORIO"),))], tmp_path, "i2b2")
    assert read_corpus(tmp_path).documents[0].spans == (Span(0, 6, "CITY"),)


@pytest.mark.parametrize(("format", "label"), [("i2b2", "PLANET"), ("meddocan", "CITY"), ("brat", "two words")])
def test_a_label_without_a_place_is_refused(tmp_path: Path, format: str, label: str) -> None:
    with pytest.raises(CorpusError, match=f"note n: the label '{label}'"):
        write_corpus([Document("n", "Madrid", (Span(0, 6, label),))], tmp_path, format)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("identity", ["", ".", "..", ".hidden", "a/b", "..\\b", "a\nb", "x" * 300])
@pytest.mark.parametrize("format", ["i2b2", "brat", "jsonl"])
def test_an_id_cannot_lead_out_of_the_folder(tmp_path: Path, identity: str, format: str) -> None:
    with pytest.raises(CorpusError, match=r"the id (cannot be a file name|is|has)|character \d+ of the id"):
        write_document(Document(identity, "x"), tmp_path, format)
    assert list(tmp_path.iterdir()) == []


def test_ids_that_are_there_twice_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="'n' occurs twice"):
        write_corpus([Document("n", "x"), Document("n", "y")], tmp_path, "jsonl")


def test_a_corpus_is_an_iterable_of_its_notes(tmp_path: Path) -> None:
    note = Document("n", "xy", (Span(0, 1, "B"), Span(1, 2, "A")))
    corpus = Corpus((note,), "jsonl", tmp_path)
    assert (len(corpus), list(corpus), corpus.labels) == (1, [note], ("A", "B"))
