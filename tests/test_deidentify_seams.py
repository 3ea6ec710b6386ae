"""Where the parts of `deidentify` meet: other notes' labels, lists of a site and of sentences, messages, tables."""

import json
from pathlib import Path

import pandas as pd
import pytest
from made_keys import KEY

from ensemble_deid import Deidentifier, SiteLists, deidentify_series
from ensemble_deid.cli.main import main
from ensemble_deid.corpora.messages.fhir import read_fhir
from ensemble_deid.corpora.messages.hl7 import read_hl7
from ensemble_deid.deidentify.one_pass import finish_together
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.deidentify.repeats import PatientStrings
from ensemble_deid.deidentify.replacement import Replacer
from ensemble_deid.errors import CorpusError
from ensemble_deid.model.additions import InclusionList, plain_sentence
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span


@pytest.mark.parametrize("source", ["crf+tbed", "regex", "tbed"])
def test_the_models_own_label_counts_before_another_notes(source: str) -> None:
    strings = PatientStrings()
    first = Document("a", "Lives in Austin now.", (Span(9, 15, "CITY", 0.99, source),), patient_id="7")
    second = Document("b", "Son Austin called.", (Span(4, 10, "PATIENT", 0.8, source),), patient_id="7")
    for note in (first, second):
        strings.add(note)
    (span,) = strings.of(second).search(second).spans
    assert (span.start, span.end, span.label) == (4, 10, "PATIENT")


@pytest.mark.parametrize(
    ("text", "spans", "known"),
    [
        ("At Springfield Heights Lee Ann called.", [(3, 30, "CITY")], ["Lee Ann"]),
        ("Near Jackson Park City today.", [(13, 22, "CITY")], ["Jackson Park"]),
        ("Lives in Austin now.", [(9, 15, "CITY")], ["Austin"]),
        ("Seen 4 May Lee.", [(5, 14, "DATE")], ["May Lee"]),
        ("Was Lee Ann City then.", [], ["Lee Ann", "Ann City"]),
    ],
)
def test_what_is_a_name_in_another_note_is_not_handed_out(
    text: str, spans: list[tuple[int, int, str]], known: list[str]
) -> None:
    replacer = Replacer.from_options(policy="limited-data-set", key=KEY)
    note = Document("b", text, tuple(Span(start, end, label, 0.99) for start, end, label in spans), patient_id="7")
    labels = ["PATIENT", "CITY"]
    others = [
        Document(f"a{i}", name, (Span(0, len(name), labels[i], 0.5),), patient_id="7") for i, name in enumerate(known)
    ]
    *_, outcome = finish_together([*others, note], RunOptions(replacer=replacer), None)
    assert outcome.text is not None
    assert "[PATIENT]" in outcome.text
    assert not any(word in outcome.text for word in known[0].split())


@pytest.mark.parametrize("order", [1, -1])
def test_a_string_that_is_a_name_and_a_town_is_hidden_in_a_third_note(order: int) -> None:
    replacer = Replacer.from_options(policy="limited-data-set", key=KEY)
    notes = [
        Document("a", "Lives in Austin now.", (Span(9, 15, "CITY", 0.99),), patient_id="7"),
        Document("b", "Son Austin called.", (Span(4, 10, "PATIENT", 0.8),), patient_id="7"),
        Document("c", "Austin came, too.", patient_id="7"),
    ]
    texts = [result.text or "" for result in finish_together(notes[::order], RunOptions(replacer=replacer), None)]
    assert all(texts)
    assert len(texts) == 3
    assert not any("Austin" in text for text in texts)


HEAD = b"MSH|^~\\&|A|B|C|D|20710102||ORU^R01|1|P|2.5\r"


def test_an_hl7_message_about_two_patients_is_refused() -> None:
    body = b"PID|1||7^^^H\rOBX|1|TX|N||Seen.\rPID|1||8^^^H\rOBX|1|TX|N||Seen.\r"
    with pytest.raises(CorpusError, match="notes:4: is about another patient"):
        read_hl7(HEAD + body, "notes")
    assert read_hl7(HEAD + body.replace(b"|8^", b"|7^"), "notes").patient == "7"
    assert read_hl7(HEAD + b"PID|1||^^^H~8^^^X\rOBX|1|TX|N||Seen.\r", "notes").patient == "8"


def test_a_patients_own_fhir_resource_is_about_the_patient() -> None:
    resource = {"resourceType": "Patient", "id": "7", "text": {"status": "generated", "div": "<div>Ada</div>"}}
    assert read_fhir(json.dumps(resource).encode(), "notes").patient == "Patient/7"


def test_integer_patients_with_gaps_are_known(tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "known.csv").write_text("patient_id,kind,value\n7,name,Adaeze Okonkwo\n", encoding="utf-8")
    model = Deidentifier.load(tiny_model)
    lists = SiteLists.read(known=tmp_path / "known.csv", labels=model.labels)
    notes = pd.Series(["Adaeze Okonkwo came.", "Well."])
    clean = deidentify_series(notes, model, patients=pd.Series([7, None]), lists=lists)
    assert "Okonkwo" not in clean[0]


def test_a_note_that_is_removed_whole_leaves_its_row(tiny_model: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "notes.csv", tmp_path / "clean.csv"
    (tmp_path / "deny.csv").write_text("label,value\nPATIENT,Quorvax\n", encoding="utf-8")
    source.write_text("text\nQuorvax\nwell\n", encoding="utf-8")
    arguments = ["deidentify", str(tiny_model), str(source), "--out", str(out), "--text-column", "text"]
    assert main([*arguments, "--style", "remove", "--deny", str(tmp_path / "deny.csv")]) == 0
    assert out.read_text(encoding="utf-8") == 'text\n""\nwell\n'


def test_a_finished_run_of_another_style_is_not_taken_for_done(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out, key = tmp_path / "notes.csv", tmp_path / "clean.csv", tmp_path / "key"
    source.write_text("text\nSeen on 03/04/2019.\n", encoding="utf-8")
    key.write_text(KEY.text, encoding="ascii")
    arguments = ["deidentify", str(tiny_model), str(source), "--out", str(out), "--text-column", "text", "--key-file"]
    assert main([*arguments, str(key), "--style", "tag"]) == 0
    assert main([*arguments, str(key), "--style", "tag", "--resume"]) == 0
    assert main([*arguments, str(key), "--style", "mask", "--resume"]) == 2
    assert "finished run with other settings: style" in capsys.readouterr().err


def test_what_a_site_denies_may_not_be_taken_away_by_listed_sentences(tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "deny.csv").write_text("label,value\nDOCTOR,Okonkwo\n", encoding="utf-8")
    model = Deidentifier.load(tiny_model)
    lists = SiteLists.read(deny=tmp_path / "deny.csv", labels=model.labels)
    note = Document("a", "Discussed with Dr. Jane Okonkwo.", (Span(19, 31, "DOCTOR"),))
    assert [(span.start, span.end) for span in lists.places(note)] == [(24, 31)]
    listed = InclusionList(frozenset({plain_sentence(note.text)}), "")
    assert listed.apply(note)[0].spans == ()
    assert listed.apply(note, must_stay=lists.places(note))[0].spans == note.spans
