"""Precision by class of the words that a model takes for PHI."""

from collections import Counter
from pathlib import Path

import pytest

from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span
from research.false_positives import DRUG, NAME, NUMBER, ORDINAL, counted, main


def test_each_run_of_a_found_span_has_a_class_and_is_phi_or_not() -> None:
    text = "Lee took Tylenol 325 on the 3rd qqzx"
    gold = Document("a", text, (Span(0, 3, "PATIENT", 1.0),))
    found = Document("a", text, (Span(0, 16, "PATIENT", 1.0), Span(17, 20, "IDNUM", 1.0), Span(28, 36, "DATE", 1.0)))
    classes = Counter(counted([gold], [found]))
    assert {key: classes[key] for key in ((NAME, True), (DRUG, False), (NUMBER, False), (ORDINAL, False))} == {
        (NAME, True): 1,
        (DRUG, False): 1,
        (NUMBER, False): 1,
        (ORDINAL, False): 1,
    }
    assert sum(classes.values()) == 7


def test_a_missing_model_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none"), "demo:dev"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
