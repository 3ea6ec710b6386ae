"""`customize`: which notes a budget draws, what each way learns from, the figures, and a run that is resumed."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import tiny_stack
from every_command import main
from tiny_notes import tiny_notes

from ensemble_deid.corpora.write import write_corpus
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from research import customize
from research.customize import CustomizedSystem, count_phi, draw_notes, mix
from research.customize_report import (
    customize_results,
    measure_customized,
)
from research.patient_split import split_by_patient
from research.stored_answers import ScoredAnswer

POOL = tiny_notes(12)


def test_a_budget_is_reached_with_whole_notes_and_small_draws_are_part_of_large_ones() -> None:
    small, large = draw_notes(POOL, 5, seed=1), draw_notes(POOL, 17, seed=1)
    assert large[: len(small)] == small
    for drawn, budget in ((small, 5), (large, 17)):
        assert count_phi(drawn) >= budget
        assert count_phi(drawn[:-1]) < budget or len({note.group for note in drawn[:-1]}) < 2
    assert draw_notes(POOL, 10_000, seed=1) != POOL
    assert sorted(note.id for note in draw_notes(POOL, 10_000, seed=1)) == sorted(note.id for note in POOL)
    assert draw_notes(POOL, 5, seed=2) != small
    with pytest.raises(CorpusError, match="at least two patients"):
        draw_notes(POOL[:2], 1, seed=1)


def test_a_mixture_is_even_and_keeps_patients_apart() -> None:
    other = [replace(note, patient_id="patient 0-0") for note in tiny_notes(2, seed=4)]
    mixed = mix(POOL, other)
    assert len(mixed) == 12 + 6 * 2
    assert len({note.id for note in mixed}) == len(mixed)
    assert {note.group for note in mixed if note.id.startswith("B")} == {"B patient 0-0"}
    assert "A patient 0-0" in {note.group for note in mixed}


def test_patients_are_on_one_side_of_a_division() -> None:
    learned, scored = split_by_patient(POOL, test_share=0.4, seed=3, name="x")
    assert {note.patient for note in learned} & {note.patient for note in scored} == set()
    assert sorted(note.id for note in (*learned, *scored)) == sorted(note.id for note in POOL)
    assert len({note.patient for note in scored}) == 2
    with pytest.raises(CorpusError, match="x: notes of 2 patients cannot be divided"):
        split_by_patient(POOL[:4], test_share=0.4, seed=3, name="x")
    with pytest.raises(ConfigError, match="between 0 and 1"):
        split_by_patient(POOL, test_share=1, seed=3, name="x")


def test_figures_are_those_counted_by_hand() -> None:
    gold = [
        Document("a", "Ann on 4/2 by Bo", (Span(0, 3, "NAME"), Span(7, 10, "DATE"), Span(14, 16, "NAME")), "1"),
        Document("b", "Cy is well", (Span(0, 2, "NAME"),), "2"),
    ]

    def answer(*spans: tuple[Span, ...]) -> ScoredAnswer:
        return ScoredAnswer(tuple(d.with_spans(found) for d, found in zip(gold, spans, strict=True)), 0.5)

    shelf = answer((Span(0, 3, "NAME", 0.9),), (Span(3, 5, "NAME", 0.8),))
    better = answer(
        (Span(0, 3, "NAME", 0.9), Span(7, 10, "DATE", 0.7), Span(14, 16, "NAME", 0.3)),
        (Span(0, 2, "NAME", 0.4), Span(6, 10, "NAME", 0.1)),
    )
    systems = [
        CustomizedSystem(customize.OFF_THE_SHELF, 0, 0, 0, shelf),
        CustomizedSystem(customize.THEN_B, 20, 21, 6, better),
    ]
    found = measure_customized(gold, systems, view="strict", precision=0.85, resamples=20)
    first, second = found.rows
    assert (first.as_it_is.counts.precision, first.as_it_is.counts.recall) == (0.5, 0.25)
    assert not first.adjusted
    assert first.at_precision == first.as_it_is
    assert (second.as_it_is.counts.precision, second.as_it_is.counts.recall) == (1.0, 0.5)
    # All four are found at 0.3; the fifth annotation would make the precision 0.8.
    assert (second.at_precision.threshold, second.at_precision.counts.recall) == (0.3, 1.0)
    assert second.adjusted
    assert second.difference is not None
    assert second.difference.difference == 0.25
    published = customize_results(found)
    text = published.render(".txt")
    assert "25.00% *" in text
    assert "+0.2500" in text
    rows = list(csv.DictReader(published.render(".csv").splitlines()))
    assert [row["recall_at"] for row in rows] == ["0.25", "1.0"]
    content = json.loads(published.render(".json"))
    assert content["systems"][1]["recall_gained"] == 0.25
    picture = ElementTree.fromstring(published.render(".svg"))
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(picture.findall("{http://www.w3.org/2000/svg}circle")) == 1


def test_a_run_is_resumed_and_never_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_corpus(tiny_stack.notes(300, patients=3), tmp_path / "a.jsonl", "jsonl")
    write_corpus(tiny_stack.notes(503, patients=4), tmp_path / "b.jsonl", "jsonl")
    out = tmp_path / "out"
    command = ["customize", str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"), "--out", str(out), "--resamples=10"]
    command += ["--budget=0,6,1000", "--test-share=0.3", "--label-map=category", "--submodels=regex,tbed"]
    command += tiny_stack.settings(tmp_path)
    trained: list[int] = []
    real = customize.train

    def count(documents: Any, **options: Any) -> Any:
        if len(trained) == 4:
            raise KeyboardInterrupt
        trained.append(len(documents))
        return real(documents, **options)

    monkeypatch.setattr(customize, "train", count)
    assert main(command) == 130
    # A, only B, A then B, A mix B of the first budget: an even mixture of 6 and as many.
    assert trained[0] == 6
    assert trained[1] == trained[2]
    assert trained[3] >= 11
    assert not (out / "customize.txt").exists()
    trained.clear()
    capsys.readouterr()
    assert main(command) == 0
    assert len(trained) == 3
    printed = capsys.readouterr().out
    assert printed == (out / "customize.txt").read_text(encoding="utf-8")
    rows = list(csv.DictReader((out / "customize.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["way"] for row in rows] == ["off the shelf", *["only B", "A then B", "A mix B"] * 2]
    assert float(rows[0]["recall"]) > 0
    assert "Bell" not in (out / "runs" / "off-the-shelf.json").read_text(encoding="utf-8")
    ElementTree.parse(out / "customize.svg")
    assert main([*command, "--seed=5"]) == 2
    assert "made from other" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--budget=1,x"], "--budget 1,x: expected whole numbers"),
        (["--budget=-1"], "0 or more"),
        (["--ways=c"], "--ways c: expected some of only-b"),
        (["--view=overlap"], "--view overlap: expected one of strict"),
        (["--precision=2"], "must be above 0 and at most 1"),
        (["--submodels=regex,crf"], "needs a submodel that can start from a trained model"),
        (["--label-map=nothing"], "is not a label map"),
    ],
)
def test_bad_options_are_refused_before_any_training(
    options: list[str], message: str, tmp_path: Path, tiny_train: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["customize", str(tiny_train), str(tiny_train), "--out", str(tmp_path / "out"), *options]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / "models").exists()


def test_notes_of_a_are_not_scored(tmp_path: Path, tiny_train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["customize", str(tiny_train), str(tiny_train), "--out", str(tmp_path / "out")]) == 2
    assert "to score are among the training notes" in capsys.readouterr().err
