"""Series of pandas and polars: type, name and index stay; a withheld note is missing, and is reported."""

import logging
from pathlib import Path

import pandas as pd
import polars as pl
import pytest
import tiny_stack

from ensemble_deid import ConfigError, CorpusError, Deidentifier, WithheldNote, deidentify_series
from ensemble_deid.deidentify.replacement import Replacer

TEXTS = ["Seen on 03/04/2019.", None, "Zyxwvutsr \0", "Nothing."]
CLEAN = ["Seen on [DATE].", None, None, "Nothing."]


def test_pandas(tiny_model: Path, caplog: pytest.LogCaptureFixture) -> None:
    for dtype in (object, "str", "string"):
        series = pd.Series(TEXTS, index=[5, 5, "x", None], name="notes", dtype=dtype)
        before = series.copy()
        with caplog.at_level(logging.WARNING, "ensemble_deid"):
            made = deidentify_series(series, tiny_model)
        pd.testing.assert_series_equal(made, pd.Series(CLEAN, index=series.index, name="notes", dtype=dtype))
        pd.testing.assert_series_equal(series, before)
    assert "note at position 2 is withheld: character 10 of the text is NUL" in caplog.text
    assert "Zyxwvutsr" not in caplog.text


def test_polars(tiny_model: Path) -> None:
    withheld: list[WithheldNote] = []
    made = deidentify_series(pl.Series("notes", TEXTS), Deidentifier.load(tiny_model), withheld=withheld)
    assert made.equals(pl.Series("notes", CLEAN), check_names=True, check_dtypes=True)
    assert [problem.position for problem in withheld] == [2]


def test_notes_of_a_patient_know_each_other(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Deidentifier.load(tiny_model)
    annotated = tiny_stack.notes(patients=1)[0]
    later = f"{annotated.text[9:19]} was here."
    predict = type(model.ensemble).predict

    def finds_the_first_only(self: object, documents: list[object], *options: object) -> list[object]:
        found = predict(self, documents, *options)
        return [
            annotated.spans if document.text == annotated.text else ()
            for document, _ in zip(documents, found, strict=True)
        ]

    monkeypatch.setattr(type(model.ensemble), "predict", finds_the_first_only)
    series = pd.Series([annotated.text, later, later])
    made = deidentify_series(series, model, patients=["a", "a", "b"], replacer=Replacer.from_options("mask"))
    assert made[1].startswith("XXX")
    assert made[2] == later


def test_what_is_no_text_is_withheld(tiny_model: Path) -> None:
    for dtype in ("int64", "bool"):
        withheld: list[WithheldNote] = []
        made = deidentify_series(pd.Series([1, 0], dtype=dtype), tiny_model, withheld=withheld)
        assert (made.to_list(), [note.position for note in withheld]) == ([None, None], [0, 1])


def test_what_is_no_series_is_refused(tiny_model: Path) -> None:
    with pytest.raises(ConfigError, match="takes a series of pandas or polars, not list"):
        deidentify_series(TEXTS, tiny_model)
    with pytest.raises(CorpusError, match="there are 1 patients for 2 notes"):
        deidentify_series(pd.Series(["a", "b"]), tiny_model, patients=["x"])


def test_accessors(tiny_model: Path) -> None:
    import ensemble_deid.integrations.pandas
    import ensemble_deid.integrations.polars  # noqa: F401

    withheld: list[WithheldNote] = []
    table = pd.DataFrame({"text": TEXTS})
    made = table["text"].deid.deidentify(tiny_model, withheld=withheld)
    pd.testing.assert_series_equal(made, pd.Series(CLEAN, name="text", dtype=table["text"].dtype))
    assert [problem.position for problem in withheld] == [2]
    assert pl.Series("notes", TEXTS).deid.deidentify(tiny_model).to_list() == CLEAN
