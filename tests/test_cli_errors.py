"""`errors`: which notes come first, what is written, and that nobody is led to the errors of a test by accident."""

import json
from pathlib import Path

import pytest
import tiny_stack

from ensemble_deid.cli.main import main
from ensemble_deid.corpora.read import read_corpus
from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.evaluation.error_list import worst_notes
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

TEXT = "Ann Lee 3/4 Elm 12"
NAME, DATE, CITY, AGE = Span(0, 7, "NAME"), Span(8, 11, "DATE"), Span(12, 15, "CITY"), Span(16, 18, "AGE")


def notes(*spans: tuple[Span, ...]) -> list[Document]:
    return [Document(f"n{k}", TEXT, found, site="S01") for k, found in enumerate(spans)]


def test_most_errors_come_first_and_of_equals_the_note_with_more_missed() -> None:
    gold = notes((NAME, DATE), (NAME, DATE), (NAME, DATE), (NAME,), (NAME, DATE, CITY))
    system = notes((), (NAME, CITY), (NAME, DATE), (Span(0, 3, "NAME"), DATE), (AGE,))
    found = worst_notes(gold, system)
    assert [(note.id, note.errors, note.missed) for note in found] == [
        ("n4", 4, 3),
        ("n0", 2, 2),
        ("n1", 2, 1),
        ("n3", 2, 0),
    ]
    assert dict(found[3].kinds) == {"wrong boundary": 1, "spurious": 1}
    assert (found[0].annotations, found[0].site) == (3, "S01")


def test_the_worst_notes_are_written_with_their_gold_annotations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold, system = tmp_path / "gold.jsonl", tmp_path / "system.jsonl"
    write_corpus(notes((NAME, DATE), (NAME,), (DATE,)), gold, "jsonl")
    write_corpus(notes((), (NAME,), ()), system, "jsonl")
    out, figures = tmp_path / "worst.jsonl", tmp_path / "worst.json"
    arguments = ["model", "errors", str(gold), str(system), "--top", "1", "--notes", str(out), "--out", str(figures)]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "2 notes of 3 have 3 errors; those listed have 2" in said
    assert "Ann" not in said
    assert "Ann" not in figures.read_text()
    assert [(d.id, d.spans) for d in read_corpus(out).documents] == [("n0", (NAME, DATE))]
    (entry,) = json.loads(figures.read_text())
    assert entry == {"id": "n0", "site": "S01", "annotations": 2, "kinds": {"missed": 2}, "errors": 2}
    assert main([*arguments[:4], "--notes", str(gold)]) == 2


def test_the_errors_of_the_test_split_are_not_shown_without_being_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["model", "errors", "demo:test", str(tmp_path)]) == 2
    assert "--test-split" in capsys.readouterr().err
    assert main(["model", "errors", str(tmp_path), str(tmp_path), "--top", "0"]) == 2


def test_a_model_is_run_and_its_errors_lead_to_a_warm_start(tiny_model: Path, tiny_dev: Path, tmp_path: Path) -> None:
    worst, local = tmp_path / "worst.jsonl", tmp_path / "local.jsonl"
    assert main(["model", "errors", str(tiny_dev), str(tiny_model), "--notes", str(worst)]) == 0
    assert not worst.exists()
    # A site where pain is PHI, which the model cannot know.
    learned = [
        note.with_spans([*note.spans, Span(at, at + len("pain"), "CITY")])
        for note in read_corpus(tiny_dev).documents
        for at in [note.text.index("pain")]
    ]
    write_corpus(learned, local, "jsonl")
    assert main(["model", "errors", str(local), str(tiny_model), "--top", "3", "--notes", str(worst)]) == 0
    assert [note.id for note in read_corpus(worst).documents] == [note.id for note in learned][:3]
    arguments = ["--start-from", str(tiny_model), "--submodels", "tbed,neural", *tiny_stack.settings(tmp_path)]
    assert main(["train", str(worst), "--out", str(tmp_path / "next"), *arguments]) == 0
