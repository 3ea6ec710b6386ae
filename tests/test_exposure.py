"""The exposure of missed PHI: where it stands among surrogates, what the rules see, and what the figures count."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny_stack
from every_command import main
from made_keys import KEY

from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.deidentify.replacement import Replacer
from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from research.exposure import _figures, measure_exposure
from research.exposure_crf import informed, parrot
from research.exposure_places import HiddenNote, Place, hide
from research.exposure_rules import readers_rules

REPLACER = Replacer.from_options("surrogate", key=KEY)


def shown(note: HiddenNote) -> list[tuple[str, str, bool]]:
    return [(note.document.text[p.start : p.end], p.category, p.missed) for p in note.places]


def test_what_is_left_of_an_annotation_is_a_missed_place() -> None:
    gold = tiny_stack.note(
        "1", "Seen by ", ("Adaeze Okonkwo", "DOCTOR"), " on ", ("3/14/2026", "DATE"), ", age ", ("44", "AGE"), "."
    )
    found = gold.with_spans((Span(8, 14, "DOCTOR"), Span(26, 35, "DATE")))
    (note,) = hide([gold], [found], REPLACER)
    (given, date, left) = (note.places[0], note.places[2], note.places[1])
    text = note.document.text
    assert [place.missed for place in note.places] == [False, True, False]
    assert text[left.start : left.end] == "Okonkwo"
    assert (given.category, date.category) == ("NAME", "DATE")
    assert text == f"Seen by {text[given.start : given.end]} Okonkwo on {text[date.start : date.end]}, age 44."
    assert "Adaeze" not in text
    assert "3/14/2026" not in text


def test_a_string_found_in_another_note_of_the_patient_is_not_missed() -> None:
    one = replace(tiny_stack.note("1", ("Okonkwo", "PATIENT"), " came."), patient_id="7")
    two = replace(tiny_stack.note("2", "Call ", ("Okonkwo", "PATIENT"), "."), patient_id="7")
    first, second = hide([one, two], [one, two.with_spans(())], REPLACER)
    assert [place.missed for note in (first, second) for place in note.places] == [False, False]
    alone = replace(two, patient_id="8")
    _, other = hide([one, alone], [one, alone.with_spans(())], REPLACER)
    assert shown(other) == [("Okonkwo", "NAME", True)]


def test_what_became_a_tag_hides_nothing() -> None:
    gold = tiny_stack.note("1", "Due ", ("the ides", "DATE"), "; ", ("blue", "OTHER"))
    (note,) = hide([gold], [gold], REPLACER)
    assert (note.document.text, note.places) == ("Due [DATE]; [OTHER]", ())


@pytest.mark.parametrize(
    ("surface", "category", "suspect"),
    [
        ("Okonkwo-Xyz", "NAME", True),
        ("Dr. Mary Johnson", "NAME", False),
        ("(309) 523-8842", "CONTACT", True),
        ("(309) 555-0142", "CONTACT", False),
        ("523-8842", "CONTACT", True),
        ("123-45-6789", "ID", True),
        ("912-45-6789", "ID", False),
        ("10.1.2.3", "ID", True),
        ("192.0.2.3", "ID", False),
        ("a@mercy.org", "CONTACT", True),
        ("a@willow.example.org", "CONTACT", False),
        ("4471123", "ID", False),
        ("Quuxberg General Hospital", "LOCATION", True),
        ("Willow General Hospital", "LOCATION", False),
        ("Chicago, IL", "LOCATION", False),
        ("MGH", "LOCATION", False),
    ],
)
def test_the_rules_know_lists_and_ranges(surface: str, category: str, suspect: bool) -> None:
    note = HiddenNote(Document("1", surface), (Place(0, len(surface), category, missed=False),))
    assert readers_rules([note]) == [[float(suspect)]]


def test_a_date_of_another_year_is_suspect() -> None:
    text = "3/14/2021, May 2021, 2/2/2017, Monday"
    starts = [0, 12, 22, 31]
    places = tuple(Place(s, s + len(t), "DATE", missed=False) for s, t in zip(starts, text.split(", "), strict=True))
    assert readers_rules([HiddenNote(Document("1", text), places)]) == [[0.0, 0.0, 1.0, 0.0]]


def test_the_figures_of_a_ranking() -> None:
    """Misses by falling suspicion, then surrogates: checked against all pairs, and by hand."""
    missed, surrogates = [2, 1, 0, 1], [0, 1, 5, 1]
    picked, tenth, auc = (float(value[0]) for value in _figures(np.array([missed + surrogates], dtype=float)))
    # The four most suspect places: two misses, then two of which one is a miss, in no order.
    assert picked == pytest.approx(3 / 4)
    assert tenth == pytest.approx(1.1 / 4)
    ranks = [k for k, n in enumerate(missed) for _ in range(n)], [k for k, n in enumerate(surrogates) for _ in range(n)]
    wins = [(a < b) + (a == b) / 2 for a in ranks[0] for b in ranks[1]]
    assert auc == pytest.approx(sum(wins) / len(wins))
    assert all(np.isnan(value[0]) for value in _figures(np.array([[0.0, 3.0]])))


def leaky(first: int, patients: int) -> tuple[list[Document], list[Document]]:
    """Return notes, and what a system found that misses every doctor."""
    gold = tiny_stack.notes(first, patients=patients)
    return gold, [note.with_spans(s for s in note.spans if s.label != "DOCTOR") for note in gold]


def test_a_crf_learns_what_is_always_missed() -> None:
    """Where every doctor is missed and nothing else, `Seen by Dr.` gives each of them away, but not to the parrot."""
    taught, notes = hide(*leaky(300, 6), REPLACER), hide(*leaky(400, 6), REPLACER)
    scores = informed(taught, notes)
    missed = [
        s for note, of in zip(notes, scores, strict=True) for p, s in zip(note.places, of, strict=True) if p.missed
    ]
    others = [
        s for note, of in zip(notes, scores, strict=True) for p, s in zip(note.places, of, strict=True) if not p.missed
    ]
    assert missed
    assert min(missed) > max(others)
    assert [len(of) for of in parrot(notes)] == [len(note.places) for note in notes]
    with pytest.raises(EvaluationError, match="two patients"):
        parrot(notes[:2])


def test_the_command_prints_figures_and_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, first in (("known", 300), ("test", 400)):
        gold, system = leaky(first, 4)
        write_corpus(gold, tmp_path / f"{name}.jsonl", "jsonl")
        write_corpus(system, tmp_path / f"{name}-found.jsonl", "jsonl")
    files = [str(tmp_path / f"{name}.jsonl") for name in ("test", "test-found", "known", "known-found")]
    arguments = [
        "exposure",
        *files[:2],
        "--known-notes",
        *files[2:],
        "--resamples",
        "200",
        "--out",
        str(tmp_path / "e.json"),
    ]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "tags instead of surrogates | 100.00 |" in printed
    found = json.loads((tmp_path / "e.json").read_text())
    # Annotations from a file are no model's.
    assert found["model"] is None
    found = found["exposure"]
    assert set(found) == {"all", "DATE", "LOCATION", "NAME"}
    assert found["NAME"]["missed"] == found["all"]["missed"] > 0
    assert found["all"]["attacks"]["CRF that knows other notes' misses"]["picked"]["value"] == 1.0
    assert found["DATE"]["attacks"]["parrot"]["auc"]["value"] is None
    for note in leaky(400, 4)[0]:
        assert not any(note.text[s.start : s.end] in printed for s in note.spans)
    assert main(arguments) == 0
    assert capsys.readouterr().out == printed


def test_known_notes_are_not_attacked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gold, system = leaky(400, 4)
    other, other_system = leaky(300, 4)
    # The same text under another id and patient, and another text of the same patient.
    again = replace(gold[0], id="x", patient_id="x", text=gold[0].text.replace("\n", " "))
    same_patient = tiny_stack.note("y", "Seen by Dr. ", ("Moss", "DOCTOR"), ".", patient=gold[0].patient_id)
    sides = {
        "itself": ((gold, system), "8 of 8 notes and 4 of 4 patients are among the known notes"),
        "text": (([*other, again], [*other_system, again]), "1 of 8 notes and 0 of 4 patients are among"),
        "patient": (([*other, same_patient], [*other_system, same_patient]), "0 of 8 notes and 1 of 4 patients are am"),
    }
    for known, message in sides.values():
        with pytest.raises(EvaluationError, match=message):
            measure_exposure(gold, system, known, resamples=0)
    write_corpus(gold, tmp_path / "gold.jsonl", "jsonl")
    write_corpus(system, tmp_path / "found.jsonl", "jsonl")
    files = [str(tmp_path / f"{name}.jsonl") for name in ("gold", "found")]
    arguments = ["exposure", *files, "--known-notes", *files, "--resamples", "0"]
    assert main(arguments) == 2
    assert "name other notes, or --allow-overlap if this is meant" in capsys.readouterr().err
    assert main([*arguments, "--allow-overlap"]) == 0
    assert "WARNING: 8 of 8 notes and 4 of 4 patients are among the known notes" in capsys.readouterr().out


def test_notes_without_phi_are_refused() -> None:
    note = Document("1", "No complaints.", patient_id="7")
    with pytest.raises(EvaluationError, match="no PHI"):
        measure_exposure([note], [note], ([note], [note]))
