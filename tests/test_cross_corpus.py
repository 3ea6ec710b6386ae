"""`cross-corpus`: the matrix against counts made by hand, labels joined by maps, and answers that are kept."""

import csv
from pathlib import Path
from typing import Any

import pytest
import tiny_stack
from every_command import main

from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.evaluation.render.results import result_files
from ensemble_deid.note.document import Document
from ensemble_deid.note.label_map import load_label_map
from ensemble_deid.note.span import Span
from research import cross_corpus
from research.cross_corpus import Cell, DividedCorpus
from research.cross_corpus_report import cross_corpus_results, measure_cells
from research.stored_answers import ScoredAnswer


def test_cells_are_counted_on_the_column_of_their_corpus() -> None:
    x = DividedCorpus("x", (), (Document("1", "Ann Lee", (Span(0, 7, "NAME"),)),))
    y = DividedCorpus("y", (), (Document("1", "on 4/2 Bo", (Span(3, 6, "DATE"), Span(7, 9, "NAME"))),))

    def cell(a: str, corpus: DividedCorpus, *spans: Span) -> Cell:
        return Cell(a, corpus.name, ScoredAnswer((corpus.test[0].with_spans(spans),), 0.5))

    weak = Span(0, 2, "NAME", 0.2)
    cells = [
        cell("x", x, Span(0, 7, "NAME")),
        cell("x", y, Span(7, 9, "DATE"), weak),
        cell("y", x, Span(0, 3, "NAME")),
        cell("y", y),
    ]
    found = {(f.trained_on, f.scored_on, f.view): f.counts for f in measure_cells([x, y], cells, resamples=5)}
    assert (found["x", "x", "strict"].tp, found["x", "x", "strict"].fn) == (1, 0)
    # Tokens are runs of letters and digits: 4/2 is two of them.
    binary, labelled = found["x", "y", "token-binary"], found["x", "y", "token"]
    assert (binary.tp, binary.fp, binary.fn) == (1, 0, 2)
    assert (labelled.tp, labelled.fp, labelled.fn) == (0, 1, 3)
    assert found["y", "x", "token-binary"].recall == 0.5
    assert found["y", "y", "strict"].precision is None
    text = cross_corpus_results([x, y], measure_cells([x, y], cells, resamples=0)).render(".txt")
    assert text.count("undefined") > 0
    assert "50.00" in text


def test_one_category_alone() -> None:
    names = load_label_map("NAME")
    note = Document("1", "Ann Lee 4/2", (Span(0, 3, "PATIENT"), Span(4, 7, "DOCTOR"), Span(8, 11, "DATE")))
    assert [span.label for span in names.apply(note).spans] == ["NAME", "NAME"]


def test_each_corpus_is_trained_on_once_and_answers_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [tmp_path / name for name in ("x.jsonl", "y.jsonl", "z.jsonl")]
    for place, (first, patients) in zip(places, ((300, 4), (503, 4), (705, 2)), strict=True):
        write_corpus(tiny_stack.notes(first, patients=patients), place, "jsonl")
    trained: list[int] = []
    real = cross_corpus.train

    def count(documents: Any, **options: Any) -> Any:
        trained.append(len(documents))
        return real(documents, **options)

    monkeypatch.setattr(cross_corpus, "train", count)
    out = tmp_path / "out"
    command = ["cross-corpus", str(places[0]), f"{places[1]}={places[2]}", "--out", str(out), "--resamples=10"]
    command += ["--label-map=NAME", "--submodels=tbed", *tiny_stack.settings(tmp_path), "--set", "regex.patterns=none"]
    command += ["--set", "regex.map="]
    assert main(command) == 0
    # Two of four patients of x are scored, all of y are learned from.
    assert trained == [4, 8]
    text = capsys.readouterr().out
    assert text == (out / "cross-corpus.txt").read_text(encoding="utf-8")
    assert all(path.is_file() for path in result_files(out, "cross-corpus"))
    rows = list(csv.DictReader((out / "cross-corpus.csv").read_text(encoding="utf-8").splitlines()))
    assert [(row["trained_on"], row["scored_on"]) for row in rows[:4]] == [
        (str(a), str(b)) for a in places[:2] for b in places[:2]
    ]
    # A name and a doctor in each of the notes scored.
    assert int(rows[9]["tp"]) + int(rows[9]["fn"]) == 2 * len(tiny_stack.notes(705, patients=2))
    (out / "runs" / "2-1.json").unlink()
    trained.clear()
    assert main(command) == 0
    assert trained == [8]
    assert capsys.readouterr().out == text
    (out / "runs" / "1-1.json").write_text("{", encoding="utf-8")
    assert main(command) == 2
    assert "1-1.json: damaged; delete it" in capsys.readouterr().err
    assert main([*command[:2], str(places[0]), *command[3:]]) == 2
    assert "different names" in capsys.readouterr().err
    shared = [f"{places[0]}={places[2]}", f"{places[1]}={tmp_path / 'again.jsonl'}"]
    write_corpus(tiny_stack.notes(300, patients=1), tmp_path / "again.jsonl", "jsonl")
    assert main([*command[:1], *shared, *command[3:]]) == 2
    assert f"are among the training notes of {places[0]}" in capsys.readouterr().err
    assert main(["cross-corpus", str(places[0]), f"{places[1]}={places[1]}", "--out", str(out)]) == 2
    assert "what is scored must not be learned from" in capsys.readouterr().err
