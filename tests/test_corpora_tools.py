"""The formats of annotation tools: what is written is read again, and what the tools themselves write is understood."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import bioc
import cassis
import pytest
from bioc import biocjson, biocxml
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_deid.cli.main import main
from ensemble_deid.corpora.json_fields import Utf16Offsets
from ensemble_deid.corpora.note_files import note_writer
from ensemble_deid.corpora.read import iterate_notes, locate_corpus, read_corpus
from ensemble_deid.corpora.write import write_corpus, write_document
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

SECRET = "Quillfeather"
pytestmark = pytest.mark.filterwarnings("ignore:open_binary is deprecated:DeprecationWarning")
NAMED_ENTITY = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"
TOOLS = ("labelstudio", "doccano", "conll", "bioc", "bioc-json", "cas")
XML = ("bioc", "cas")
SUFFIX = {
    "labelstudio": ".json",
    "doccano": ".jsonl",
    "conll": ".conll",
    "bioc": ".xml",
    "bioc-json": ".json",
    "cas": ".xmi",
}
AWKWARD = [
    "\r\n",
    "\r",
    "\n",
    "\t",
    " ",
    "😀",
    "👨🏻‍🚒",
    "é",
    "]]>",
    "&amp;",
    "<",
    '"',
    "# text = a",
    "#",
    "\x85",
    "\u2028",
    "\ufeff",
]
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
XML_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufffe\uffff", min_codepoint=32))


@st.composite
def notes(draw: st.DrawFn, format: str, identity: str = "101-01") -> Document:
    pieces = st.one_of(XML_TEXT if format in XML else ANY_TEXT, st.sampled_from(AWKWARD))
    text = draw(st.lists(pieces, max_size=8).map("".join))
    if format == "conll":
        text = text.replace("\r", "\n")
    places = st.tuples(
        st.integers(0, len(text)), st.integers(0, len(text)), st.sampled_from(["DATE", "ñ-😀", "O", "B-X"])
    )
    spans = {Span(min(a, b), max(a, b), label) for a, b, label in draw(st.lists(places, max_size=5)) if a != b}
    if format == "conll":
        kept: list[Span] = []
        for span in sorted(spans):
            surface = text[span.start : span.end]
            if surface == surface.strip() and (not kept or kept[-1].end <= span.start):
                kept.append(span)
        spans = set(kept)
    return Document(identity, text, tuple(sorted(spans)), patient_id=None if format == "cas" else "P 1")


@pytest.mark.parametrize("format", TOOLS)
@given(data=st.data())
@settings(max_examples=40)
def test_what_is_written_is_read_again(format: str, data: st.DataObject) -> None:
    note = data.draw(notes(format))
    with TemporaryDirectory() as folder:
        write_document(note, Path(folder), format)
        again = read_corpus(Path(folder))
        (unannotated,) = read_corpus(Path(folder), gold=False)
    assert again.format == format
    (document,) = again.documents
    assert (document.id, document.text, document.spans) == (note.id, note.text, note.spans)
    assert document.patient_id == ("101" if format == "cas" else "P 1")
    assert (unannotated.text, unannotated.spans) == (note.text, ())


@pytest.mark.parametrize("format", [format for format in TOOLS if format != "cas"])
@given(data=st.data())
@settings(max_examples=20)
def test_one_file_holds_many_notes(format: str, data: st.DataObject) -> None:
    written = [data.draw(notes(format, identity)) for identity in ("a", "b", "c")]
    with TemporaryDirectory() as folder:
        (path,) = write_corpus(written, Path(folder), format)
        with note_writer(Path(folder) / "streamed", format) as writer:
            for note in written:
                writer.write(note)
        assert (Path(folder) / "streamed" / path.name).read_bytes() == path.read_bytes()
        again = read_corpus(path)
    assert list(again.documents) == written


@pytest.mark.parametrize("format", TOOLS)
def test_corpus_convert_goes_there_and_back(format: str, tmp_path: Path) -> None:
    note = Document("n1", "Ada 😀 Lee,\nBern", (Span(0, 3, "A"), Span(6, 9, "B"), Span(11, 15, "C")))
    write_corpus([note], tmp_path / "in", "jsonl")
    assert main(["corpus", "convert", str(tmp_path / "in"), "--format", format, "--out", str(tmp_path / "tool")]) == 0
    assert main(["corpus", "convert", str(tmp_path / "tool"), "--format", "jsonl", "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "corpus.jsonl").read_bytes() == (tmp_path / "in" / "corpus.jsonl").read_bytes()


@pytest.mark.parametrize("format", ["labelstudio", "doccano", "bioc", "bioc-json"])
def test_site_and_metadata_survive(format: str, tmp_path: Path) -> None:
    note = Document("n", "ok", site="St. <A>", patient_id="7", metadata={"kind": 'discharge\n"summary"'})
    write_corpus([note], tmp_path, format)
    assert list(read_corpus(tmp_path)) == [note]


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
@settings(max_examples=50)
def test_utf16_offsets_are_those_of_an_encoder(text: str) -> None:
    offsets = Utf16Offsets(text)
    units = [len(text[:point].encode("utf-16-le")) // 2 for point in range(len(text) + 1)]
    assert [offsets.to_units(point) for point in range(len(text) + 1)] == units
    known = {unit: point for point, unit in enumerate(units)}
    assert [offsets.to_points(unit) for unit in range(-1, units[-1] + 2)] == [
        known.get(unit) for unit in range(-1, units[-1] + 2)
    ]


# Doccano's own example of what it counts: github.com/doccano/doccano/issues/2290
FIREMEN = "👨🏻‍🚒 firemen drive firetrucks"


def test_doccano_counts_as_javascript_does(tmp_path: Path) -> None:
    start = len(FIREMEN[: FIREMEN.index("firetrucks")].encode("utf-16-le")) // 2
    line = {"id": 7, "text": FIREMEN, "label": [[start, start + 10, "THING"]], "Comments": []}
    (tmp_path / "all.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    (note,) = read_corpus(tmp_path)
    assert note.id == "all-7"
    assert [note.text[span.start : span.end] for span in note.spans] == ["firetrucks"]


def test_doccano_entities_with_relations(tmp_path: Path) -> None:
    entity = {"id": 0, "label": "PERSON", "start_offset": 3, "end_offset": 6}
    line = {"id": 1, "text": "😀 Ada", "entities": [entity], "relations": [{"id": 0, "from_id": 0, "to_id": 0}]}
    (tmp_path / "all.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    assert read_corpus(tmp_path).documents[0].spans == (Span(2, 5, "PERSON"),)


def task(text: str, *regions: dict[str, object], **more: object) -> dict[str, object]:
    result = [{"id": "x", "from_name": "ner", "to_name": "text", "type": "labels", "value": r} for r in regions]
    annotation = {"id": 1, "completed_by": 1, "was_cancelled": False, "ground_truth": False, "result": result}
    return {"id": 12, "data": {"text": text}, "annotations": [annotation], "predictions": [], **more}


def read_tasks(folder: Path, *tasks: object) -> list[Document]:
    (folder / "export.json").write_text(json.dumps(tasks), encoding="utf-8")
    return list(read_corpus(folder))


# The offsets of Label Studio's own test of texts with emoji count code points.
@pytest.mark.parametrize(("start", "end"), [(2, 5), (3, 6)])
def test_label_studio_counts_code_points_and_older_versions_utf16(tmp_path: Path, start: int, end: int) -> None:
    region = {"start": start, "end": end, "text": "Ada", "labels": ["NAME"]}
    (note,) = read_tasks(tmp_path, task("😀 Ada Lee", region))
    assert (note.id, note.spans) == ("export-12", (Span(2, 5, "NAME"),))


def test_label_studio_without_texts_of_regions_is_in_code_points(tmp_path: Path) -> None:
    (note,) = read_tasks(tmp_path, task("😀 Ada Lee", {"start": 2, "end": 5, "labels": ["NAME", "FIRST"]}))
    assert note.spans == (Span(2, 5, "FIRST"), Span(2, 5, "NAME"))


def test_label_studio_takes_the_ground_truth_and_leaves_out_other_results(tmp_path: Path) -> None:
    entry = task("Ada\nLee", {"start": 0, "end": 7, "text": "Ada\\nLee", "labels": ["NAME"]})
    (good,) = entry["annotations"]  # type: ignore[misc]
    good["result"].append({"type": "choices", "value": {"choices": ["x"]}, "from_name": "c", "to_name": "text"})
    entry["annotations"] = [
        {**good, "ground_truth": True},
        {**good, "result": []},
        {**good, "result": [], "was_cancelled": True},
    ]
    assert read_tasks(tmp_path, entry)[0].spans == (Span(0, 7, "NAME"),)


def test_inception_xmi_of_cassis(tmp_path: Path) -> None:
    types = cassis.load_dkpro_core_typesystem()
    types.create_type("webanno.custom.Other", supertypeName="uima.tcas.Annotation")
    cas = cassis.Cas(typesystem=types)
    cas.sofa_string, cas.sofa_mime = "😀 Ada\r\nLee", "text/plain"
    cas.add(types.get_type(NAMED_ENTITY)(begin=2, end=5, value="NAME"))
    cas.add(types.get_type("de.tudarmstadt.ukp.dkpro.core.api.segmentation.type.Sentence")(begin=0, end=10))
    cas.add(types.get_type("webanno.custom.Other")(begin=0, end=1))
    cas.to_xmi(tmp_path / "101-01.xmi")
    assert 'begin="3"' in (tmp_path / "101-01.xmi").read_text(encoding="utf-8")
    for with_types in (False, True):
        if with_types:
            types.to_xml(tmp_path / "TypeSystem.xml")
        corpus = read_corpus(tmp_path)
        assert (corpus.format, corpus.warnings) == ("cas", ())
        (note,) = corpus
        assert (note.text, note.spans, note.patient_id) == ("😀 Ada\r\nLee", (Span(2, 5, "NAME"),), "101")


def test_cassis_reads_what_is_written(tmp_path: Path) -> None:
    (path,) = write_document(Document("a", "😀 Ada", (Span(2, 5, "A b"),)), tmp_path, "cas")
    cas = cassis.load_cas_from_xmi(path, typesystem=cassis.load_dkpro_core_typesystem())
    (entity,) = cas.select(NAMED_ENTITY)
    assert (entity.get_covered_text(), entity.value) == ("Ada", "A b")


@pytest.mark.parametrize(
    "passage", ["<text>Seen by <b>Ada Lee</b>.</text>", "<text>Seen by</text><text>Ada Lee.</text>"]
)
def test_a_bioc_document_whose_text_would_be_cut_is_withheld_alone(tmp_path: Path, passage: str) -> None:
    other = "<document><id>2</id><passage><offset>0</offset><text>Nothing.</text></passage></document>"
    wrong = f"<document>\n<id>1</id><passage><offset>0</offset>{passage}</passage></document>"
    path = tmp_path / "c.xml"
    path.write_text(f"<collection><source/><date/><key/>{wrong}{other}</collection>", encoding="utf-8")
    for gold in (True, False):
        first, second = iterate_notes(locate_corpus(path, format="bioc"), gold=gold)
        assert isinstance(first, CorpusError)
        assert str(first) == f"{path}:2: <passage> has more than one text, or an element inside it"
        assert not isinstance(second, CorpusError)


@pytest.mark.parametrize("format", ["bioc", "bioc-json"])
def test_bioc_of_its_library(tmp_path: Path, format: str) -> None:
    passages = [bioc.BioCPassage(), bioc.BioCPassage()]
    passages[0].offset, passages[0].text = 0, "😀 Title"
    passages[1].offset = 8
    sentence = bioc.BioCSentence()
    sentence.offset, sentence.text = 8, "Ada was seen, Lee not."
    annotation = bioc.BioCAnnotation()
    annotation.id, annotation.text, annotation.infons["type"] = "T1", "Ada Lee", "NAME"
    annotation.add_location(bioc.BioCLocation(8, 3))
    annotation.add_location(bioc.BioCLocation(22, 3))
    sentence.add_annotation(annotation)
    passages[1].add_sentence(sentence)
    document = bioc.BioCDocument()
    document.id, document.passages, document.infons["journal"] = "PMC1", passages, "x"
    collection = bioc.BioCCollection()
    collection.add_document(document)
    if format == "bioc":
        content = biocxml.dumps(collection)
        doctype = '<!DOCTYPE collection SYSTEM "BioC.dtd">\n<collection>'
        (tmp_path / "a.xml").write_text(content.replace("<collection>", doctype), encoding="utf-8")
    else:
        (tmp_path / "a.json").write_text(biocjson.dumps(collection), encoding="utf-8")
    corpus = read_corpus(tmp_path)
    (note,) = corpus
    assert (corpus.format, note.id, dict(note.metadata)) == (format, "PMC1", {"journal": "x"})
    assert note.text == "😀 Title\nAda was seen, Lee not."
    assert [note.text[span.start : span.end] for span in note.spans] == ["Ada", "Lee"]
    assert "discontinuous" in corpus.warnings[0]


@pytest.mark.parametrize(("format", "library"), [("bioc", biocxml), ("bioc-json", biocjson)])
def test_the_library_of_bioc_reads_what_is_written(tmp_path: Path, format: str, library: ModuleType) -> None:
    note = Document("a", "😀 Ada\r\n<Lee>", (Span(2, 5, "NAME"), Span(8, 11, "X y")))
    (path,) = write_corpus([note], tmp_path, format)
    (document,) = library.loads(path.read_text(encoding="utf-8")).documents
    (passage,) = document.passages
    bioc.validate(library.loads(path.read_text(encoding="utf-8")))
    assert passage.text == note.text
    assert [(a.total_span.offset, a.total_span.length, a.infons["type"]) for a in passage.annotations] == [
        (2, 3, "NAME"),
        (8, 3, "X y"),
    ]


def test_conll_of_others_is_put_together_from_its_words(tmp_path: Path) -> None:
    rows = [
        "-DOCSTART- -X- -X- O",
        "",
        "Ada NNP B-NP I-PER",
        "Lee NNP I-NP I-PER",
        "( NN O O",
        "# NN O O",
        "",
        "Bern NNP B-NP I-LOC",
        "Basel NNP B-NP B-LOC",
        "",
        "-DOCSTART- -X- -X- O",
        "",
        "Seen VB O O",
    ]
    (tmp_path / "eng.conll").write_bytes("\r\n".join(rows).encode())
    first, second = read_corpus(tmp_path)
    assert (first.id, first.text, second.id, second.text) == ("eng-1", "Ada Lee ( #\nBern Basel", "eng-2", "Seen")
    assert first.spans == (Span(0, 7, "PER"), Span(12, 16, "LOC"), Span(17, 22, "LOC"))


def test_conll_iobes(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("a\tB-X\nb\tE-X\nc\tI-X\nd\tS-X\ne\tI-Y\n", encoding="utf-8")
    assert read_corpus(tmp_path).documents[0].spans == (
        Span(0, 3, "X"),
        Span(4, 5, "X"),
        Span(6, 7, "X"),
        Span(8, 9, "Y"),
    )


def test_conll_is_what_other_tools_expect(tmp_path: Path) -> None:
    note = Document("a", "Dr. Ada-Lee\n\nseen", (Span(4, 7, "NAME"), Span(8, 17, "NAME")))
    (path,) = write_corpus([note], tmp_path, "conll")
    assert path.read_text(encoding="utf-8").splitlines() == [
        "# newdoc id = a",
        "# text = Dr. Ada-Lee",
        *("Dr\tO", ".\tO", "Ada\tB-NAME", "-\tO", "Lee\tB-NAME", ""),
        "# text = ",
        "",
        "# text = seen",
        *("seen\tI-NAME", ""),
    ]


@pytest.mark.parametrize(
    ("text", "spans", "said"),
    [
        ("a\r\nb", (), "character 1 is a CR"),
        ("ab cd", (Span(0, 3, "X"),), "the span 0-3 begins or ends with white space"),
        ("ab cd", (Span(0, 2, "X"), Span(1, 5, "X")), "the span 1-5 overlaps"),
        ("ab cd", (Span(0, 2, "X Y"),), "the span 0-2: its label"),
    ],
)
def test_conll_refuses_what_it_cannot_represent(tmp_path: Path, text: str, spans: tuple[Span, ...], said: str) -> None:
    with pytest.raises(CorpusError, match=f"note n: {said}"):
        write_corpus([Document("n", text, spans)], tmp_path, "conll")
    assert list(tmp_path.iterdir()) == []


XMI = (
    '<xmi:XMI xmlns:xmi="http://www.omg.org/XMI" xmlns:cas="http:///uima/cas.ecore" '
    'xmlns:type="http:///de/tudarmstadt/ukp/dkpro/core/api/ner/type.ecore">'
    '<cas:NULL xmi:id="0"/><type:NamedEntity xmi:id="2" sofa="1" {}/>'
    f'<cas:Sofa xmi:id="1" sofaNum="1" sofaID="_InitialView" sofaString="😀{SECRET}"/>'
    '<cas:View sofa="1" members="2"/></xmi:XMI>'
)
BIOC = (
    "<collection><document><id>a</id><passage><offset>{}</offset>"
    f"<text>{SECRET}</text>{{}}</passage></document></collection>"
)
BIOC_JSON = f'{{"documents": [{{"id": "a", "passages": [{{"offset": %s, "text": "{SECRET}", "annotations": [%s]}}]}}]}}'
DOCCANO = f'{{"text": "😀{SECRET}", "label": %s}}\n'
BAD = [
    ("doccano", DOCCANO % "[[0, 1, 2]]", r":1: label 0: 'label' must be a string"),
    ("doccano", DOCCANO % '[[0, 1, "X"]]', r":1: label 0: 0-1 \(in UTF-16 units\) do not fall between characters"),
    ("doccano", DOCCANO % '[[0, 99, "X"]]', r":1: label 0: 0-99 "),
    ("doccano", DOCCANO % '[[2, 2, "X"]]', r":1: label 0: its place 1-1 does not"),
    ("doccano", DOCCANO % '[[2, "X"]]', r":1: label 0: expected \[start, end, label\]"),
    ("doccano", DOCCANO % '{"a": 1}', r":1: 'label' must be a list"),
    ("labelstudio", "[{]", r": broken JSON at column 3"),
    ("labelstudio", "7", r"expected a list of tasks"),
    ("labelstudio", '[{"text": "a", "label": []}]', r"task 1: there is no 'data'"),
    ("labelstudio", json.dumps([{"data": {"text": SECRET}}]), r"task 1: has no annotation"),
    (
        "labelstudio",
        json.dumps([{"data": {"text": SECRET}, "annotations": [{"result": []}, {"result": []}]}]),
        r"task 1: has 2 annotations; mark",
    ),
    ("labelstudio", json.dumps([task(SECRET, {"start": 0, "end": 99, "labels": ["X"]})]), r"result 0: its place 0-99"),
    (
        "labelstudio",
        json.dumps([task(SECRET, {"start": 0, "end": 4, "text": "Quil", "labels": []})]),
        r"result 0: 'labels' must be",
    ),
    (
        "labelstudio",
        json.dumps([task(f"😀{SECRET}", {"start": 0, "end": 4, "text": "Pyre", "labels": ["X"]})]),
        r"result 0: its place 0-4 covers 4 characters of the text, but its own",
    ),
    ("conll", f"{SECRET}\n", r":1: expected a word and its tag"),
    ("conll", f"{SECRET}\tPERSON\n", r":1: the last column is no BIO tag"),
    ("conll", f"# newdoc id = a\n# text = {SECRET}\nother\tO\n", r":3: the word is not the next one"),
    ("conll", f"# text = {SECRET}\n\n{SECRET}\tO\n", r":3: a word stands outside"),
    ("conll", f"{SECRET} b\tO\n", r":1: the word is empty, or has white space"),
    ("bioc", BIOC.format("x", ""), r":1, passage 1: a passage has no offset"),
    ("bioc", BIOC.format("0", "<annotation><infon>X</infon></annotation>"), r":1, passage 1: infon 1 has no key"),
    (
        "bioc",
        BIOC.format("0", '<annotation><infon key="type">X</infon><location offset="0" length="99"/></annotation>'),
        r":1, passage 1: an annotation: its place 0-99 does not lie",
    ),
    ("bioc", "<collection><document></collection>", r":1: broken XML at column"),
    ("bioc", '<!DOCTYPE collection [<!ENTITY a "b">]><collection/>', r":1: a document type declaration is refused"),
    ("bioc-json", "[]", r": expected an object, not a list"),
    ("bioc-json", "{}", r": there are no 'documents'"),
    ("bioc-json", '{"documents": [{}]}', r"document 1"),
    ("bioc-json", BIOC_JSON % ('"0"', ""), r"document 1, passage 1: a passage has no offset"),
    ("bioc-json", BIOC_JSON % (99999, ""), r"passage 1: more than 10000 characters are missing"),
    ("bioc-json", BIOC_JSON % (0, "{}"), r"passage 1: an annotation has no infon 'type'"),
    ("bioc-json", BIOC_JSON % (0, '{"infons": {"type": ["X"]}}'), r"passage 1: infon 1 must be a string, not a list"),
    ("bioc-json", BIOC_JSON % (0, '{"infons": {"type": "X"}}'), r"passage 1: an annotation has no location"),
    (
        "bioc-json",
        BIOC_JSON % (0, '{"infons": {"type": "X"}, "locations": [{"offset": 0, "length": 99}]}'),
        r"passage 1: an annotation: its place 0-99 does not lie",
    ),
    (
        "bioc-json",
        BIOC_JSON % (0, '{"infons": {"type": "X"}, "locations": [{"offset": 0.0, "length": 1}]}'),
        r"'offset' and 'length' of a location must be whole numbers",
    ),
    ("cas", XMI.format('begin="0" end="1" value="X"'), r": an annotation's offsets lie outside the text, or inside"),
    ("cas", XMI.format('begin="0" end="99" value="X"'), r": an annotation's offsets lie outside the text, or inside"),
    ("cas", XMI.format('begin="0" end="2"'), r"NamedEntity with xmi:id 2: has no label"),
    ("cas", XMI.format('begin="2" end="2" value="X"'), r"xmi:id 2: its place 1-1 does not lie"),
    ("cas", XMI.format('begin="x" end="2" value="X"'), r": is no CAS of these types \(ValueError\)"),
    ("cas", "<a", r":1: broken XML at column"),
    ("cas", "<!DOCTYPE a SYSTEM 'b'><a/>", r":1: a document type declaration is refused"),
]


@pytest.mark.parametrize(("format", "content", "said"), BAD)
def test_bad_input_is_named_and_not_quoted(tmp_path: Path, format: str, content: str, said: str) -> None:
    path = tmp_path / f"bad{SUFFIX[format]}"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(CorpusError, match=said) as raised:
        read_corpus(tmp_path, format=format)
    assert str(raised.value).startswith(str(path))
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("format", ["labelstudio", "doccano", "conll", "bioc", "bioc-json"])
def test_one_bad_note_does_not_hide_the_others(tmp_path: Path, format: str) -> None:
    good, damaged = Document("good", "Ada", (Span(0, 3, "X"),)), Document("bad", "Lee", (Span(0, 3, "Y"),))
    (path,) = write_corpus([damaged, good], tmp_path, format)
    content = path.read_text(encoding="utf-8")
    damage = {"conll": ("Lee\t", "Lea\t"), "doccano": ('"Y"', "7"), "labelstudio": ('["Y"]', "[7]")}
    damage["bioc-json"] = ('"type": "Y"', '"type": null')
    content = content.replace(*damage.get(format, ('<infon key="type">Y', '<infon key="other">Y')), 1)
    path.write_text(content, encoding="utf-8")
    outcomes = list(iterate_notes(locate_corpus(path), gold=True))
    assert isinstance(outcomes[0], CorpusError)
    assert outcomes[1:] == [good]
