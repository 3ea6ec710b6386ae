"""The scripts under `benchmarks/` say that a figure is undefined where there is nothing to divide by: it is not 0."""

import argparse
import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from tiny_encoder import tiny_encoder

from ensemble_deid.corpora.read import Corpus
from ensemble_deid.evaluation.curve import trace_curve
from ensemble_deid.note.counts import Counts
from ensemble_deid.note.digits import percent
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

ROOT = Path(__file__).parents[1]
WITHOUT_PHI = Document("a", "x x x x")
FOUND = (Span(0, 1, "ID", 0.5),)


def script(name: str) -> ModuleType:
    paths = [ROOT / folder / f"{name}.py" for folder in ("benchmarks", "research")]
    spec = importlib.util.spec_from_file_location(name, next(path for path in paths if path.exists()))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_share_has_its_sign_unless_a_head_says_it() -> None:
    assert (percent(0.125), percent(0.125, sign=""), percent(None, sign="")) == ("12.50%", "12.50", "undefined")


def test_recall_of_a_submodel() -> None:
    recalls_on = script("submodel_recall").recalls_on
    assert recalls_on(trace_curve([WITHOUT_PHI], [WITHOUT_PHI.with_spans(FOUND)])) == [None] * 5
    note = Document("a", "x " * 100, tuple(Span(2 * k, 2 * k + 1, "ID") for k in range(4)))
    # Half the PHI at 0 false positives, all of it at one in 100 tokens.
    found = [Span(0, 1, "ID", 0.9), Span(2, 3, "ID", 0.8), Span(10, 11, "ID", 0.7), Span(4, 7, "ID", 0.6)]
    assert recalls_on(trace_curve([note], [note.with_spans(found)])) == [0.5, 0.5, 1.0, 1.0, 1.0]
    # The surest is wrong: within fewer false positives nothing may be accepted, and nothing is found.
    wrong = [Span(10, 11, "ID", 0.9), Span(0, 1, "ID", 0.8)]
    assert recalls_on(trace_curve([note], [note.with_spans(wrong)])) == [0.0, 0.0, 0.25, 0.25, 0.25]


def test_what_a_closed_vocabulary_costs() -> None:
    scores = script("shareable_cost").scores
    assert scores({"regex": Counts(), "crf": Counts(1, 0, 0)}) == "regex undefined  crf 100.00%"


def test_seeds(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    three_seeds = script("three_seeds")
    corpus = Corpus((WITHOUT_PHI,), "jsonl", Path("a.jsonl"))
    model = SimpleNamespace(predict=list)
    trained = SimpleNamespace(deidentifier=model, dev_counts={"regex": Counts(), "crf": Counts(1, 0, 1)})
    monkeypatch.setattr(three_seeds, "train", lambda *_, **__: trained)
    options = argparse.Namespace(config=None, overrides=[], jobs=1, allow_overlap=False)
    figures = three_seeds.run_seed(13, corpus, corpus, options)
    assert capsys.readouterr().err == "seed 13, strict F1: regex undefined  crf 66.67%\n"
    assert figures["strict F1"] is None


def test_what_an_epoch_takes_is_measured_where_no_gpu_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu = script("gpu")
    arguments = ["--device", "cpu", "--tokens", "300", "--encoder", tiny_encoder(), "--window", "40"]
    monkeypatch.setattr("sys.argv", ["gpu.py", *arguments])
    gpu.main()
    rows = [line.split("|") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")][1:]
    assert [row[1].strip() for row in rows] == ["neural", "transformer"]
    assert all(int(row[2].replace(",", "")) >= 250 and float(row[4].replace(",", "")) > 0 for row in rows)


def test_the_table_of_speed_says_what_is_met() -> None:
    speed = script("speed")
    assert speed.row(speed.START, [4.0, 2.0]) == "start, one note, s | 4.00 | 2.00 | 0.50 | at most 1 | no"
    assert speed.row(speed.TBED, [200.0]).endswith(" | 200.00 |  | at least 200 | yes")
    assert speed.row(speed.WITH, [100.0, 180.0]).endswith(" | 1.80 | 1.8 times as many | yes")
    assert speed.row(speed.WITH, [100.0]).endswith(" | not compared")
