"""Python as people write it: results as JSON, offsets, patients of any type, progress, pickles, logs, summaries."""

import json
import logging
import pickle
import shutil
from collections.abc import Hashable
from datetime import date
from math import nan, sqrt
from pathlib import Path
from typing import Any
from uuid import UUID

import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joblib import Parallel, delayed
from made_keys import KEY

import ensemble_deid.integrations.polars
from ensemble_deid import (
    ConfigError,
    CorpusError,
    DeidentificationResult,
    Deidentifier,
    Document,
    ModelError,
    RunOptions,
    RunSummary,
    Span,
    deidentify_series,
    deidentify_table,
    verify_run,
)
from ensemble_deid.cli.main import main
from ensemble_deid.deidentify.one_pass import finish_alone
from ensemble_deid.deidentify.prediction import RunProgress
from ensemble_deid.deidentify.summary import read_summary
from ensemble_deid.model.directory import update_model
from ensemble_deid.note.document import patient_text

NOTE = "Date: 03/04/2019"


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Deidentifier:
    return Deidentifier.load(tiny_model)


def replaced(text: str, *spans: Span, **choices: Any) -> DeidentificationResult:
    return finish_alone(Document("n", text, spans), RunOptions.choose((), key=KEY, **choices), None)


def test_a_result_as_json() -> None:
    made = replaced("Seen by Dr. Lee.", Span(12, 15, "DOCTOR", 0.98765432)).to_dict()
    assert json.loads(json.dumps(made)) == {
        "text": "Seen by Dr. [DOCTOR].",
        "error": None,
        "spans": [{"start": 12, "end": 15, "new_start": 12, "new_end": 20, "label": "DOCTOR", "score": 0.9877}],
        "known_left": 0,
        "counts": {},
    }
    withheld = DeidentificationResult(None, (), "a reason").to_dict()
    assert (withheld["text"], withheld["error"], withheld["spans"]) == (None, "a reason", [])


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5), st.booleans()), max_size=5),
    st.integers(0, 4),
)
def test_offsets_are_mapped_both_ways(pieces: list[tuple[int, int, bool]], tail: int) -> None:
    """Against a text of which every character says where it was."""
    text, spans = "", []
    for gap, length, kept in pieces:
        text += "." * gap
        spans.append(Span(len(text), len(text) + length, "CITY" if kept else "DATE"))
        text += "x" * length
    text += "." * tail
    result = replaced(text, *spans, styles={"CITY": lambda surface, _: f"<{surface}>"}, style="remove")
    new = result.text or ""
    for offset in range(len(text) + 1):
        inside = next((s for s in result.replaced if s.start <= offset < s.end), None)
        before = sum(s.new_end - s.new_start - (s.end - s.start) for s in result.replaced if s.end <= offset)
        assert result.map_offset(offset) == (inside.new_start if inside else offset + before)
        if inside is None:
            assert result.map_offset(result.map_offset(offset), back=True) == offset
    for offset in range(len(new) + 1):
        inside = next((s for s in result.replaced if s.new_start <= offset < s.new_end), None)
        if inside is not None:
            assert result.map_offset(offset, back=True) == inside.start
        elif offset < len(new):
            assert text[result.map_offset(offset, back=True)] == new[offset]
    for wrong, back in ((-1, False), (len(text) + 1, False), (len(new) + 1, True)):
        with pytest.raises(ValueError, match="is outside of a text"):
            result.map_offset(wrong, back=back)


def test_a_withheld_text_has_no_offsets() -> None:
    with pytest.raises(ValueError, match="withheld"):
        DeidentificationResult(None).map_offset(0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("7", "7"),
        (7, "7"),
        (7.0, "7"),
        (7.5, "7.5"),
        (("site", 7), "('site', 7)"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (date(2026, 1, 2), "2026-01-02"),
        (pd.array([7], dtype="Int64")[0], "7"),
    ],
)
def test_a_patient_is_of_any_type(value: Hashable, text: str | None) -> None:
    assert patient_text(value) == text


def test_a_patient_that_is_none(model: Deidentifier) -> None:
    for value, problem in ((nan, "NaN"), (pd.NA, "NaN"), (pd.NaT, "NaN"), (object(), "object"), ([7], "list")):
        with pytest.raises(CorpusError, match=problem):
            patient_text(value)  # type: ignore[arg-type]
    with pytest.raises(CorpusError, match="the patient is NaN, a missing value: give None"):
        model.deidentify(NOTE, patient=nan)
    results = list(model.pipe([NOTE, NOTE, NOTE, NOTE], patients=[7, nan, None, "7"], style="surrogate", key=KEY))
    assert results[1].error == "texts[1]: the patient is NaN, a missing value: give None for a note of nobody"
    assert (results[0].text, results[2].error) == (results[3].text, None)


def test_a_text_that_is_nan(model: Deidentifier) -> None:
    with pytest.raises(CorpusError, match="the text is NaN, a missing value: leave such notes out"):
        model.deidentify(nan)  # type: ignore[arg-type]
    texts: Any = [NOTE, nan, pd.NA]
    errors = [result.error for result in model.pipe(texts)]
    assert errors == [None, *(f"texts[{n}]: the text is NaN, a missing value: leave such notes out" for n in (1, 2))]


def test_progress(model: Deidentifier) -> None:
    seen: list[RunProgress] = []
    assert len(list(model.pipe([NOTE] * 3, batch_size=2, report=seen.append))) == 3
    assert seen == [RunProgress("read", 2, 3), RunProgress("read", 3, 3)]
    seen.clear()
    assert len(list(model.pipe((NOTE for _ in range(2)), report=seen.append))) == 2
    assert seen == [RunProgress("read", 2, 0)]
    seen.clear()
    deidentify_series(pd.Series([NOTE, None, NOTE]), model, report=seen.append)
    assert seen == [RunProgress("read", 2, 2)]


def test_logs_quote_no_note(tiny_model: Path, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.DEBUG, "ensemble_deid")
    model = Deidentifier.load(tiny_model)
    (tmp_path / "notes.csv").write_text(f"text\n{NOTE}\n", encoding="utf-8")
    deidentify_table(tmp_path / "notes.csv", tmp_path / "clean.csv", model)
    assert model.deidentify(NOTE).error is None
    list(model.pipe([f"{NOTE}\0"]))
    said = [record.getMessage() for record in caplog.records if record.name.startswith("ensemble_deid.")]
    assert said == [
        f"{tiny_model}: loaded with regex, tbed, crf, neural",
        f"{tmp_path / 'clean.csv.run'}: 1 notes written, 0 withheld",
        "withheld: texts[0]: character 16 of the text is NUL, which no note may hold",
    ]


def _deidentified(model: Deidentifier, text: str) -> str | None:
    return model.deidentify(text).text


def test_a_pickle_holds_the_models_place(tiny_model: Path, tmp_path: Path, model: Deidentifier) -> None:
    place = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    pickled = pickle.dumps(Deidentifier.load(place, submodels=None))
    assert len(pickled) < 1000
    again = pickle.loads(pickled)
    assert (again.source.directory, again.deidentify(NOTE)) == (place, model.deidentify(NOTE))
    with pytest.raises(ConfigError, match="cannot be pickled: save it"):
        pickle.dumps(Deidentifier(model.ensemble))
    made = Parallel(n_jobs=2)(delayed(_deidentified)(model, NOTE) for _ in range(2))
    assert made == ["Date: [DATE]"] * 2
    # The model was loaded once in this process, so another copy shows that its checksum is compared.
    other = Path(shutil.copytree(tiny_model, tmp_path / "other"))
    pickled = pickle.dumps(Deidentifier.load(other))
    update_model(other, lambda directory, manifest: _remarked(manifest))
    with pytest.raises(ModelError, match="the model was replaced while it was in use"):
        pickle.loads(pickled)


def _remarked(manifest: Any) -> Any:
    from dataclasses import replace

    return replace(manifest, choices={**manifest.choices, "remark": "changed"})


def test_a_polars_expression(model: Deidentifier) -> None:
    frame = pl.DataFrame({"mrn": ["7", "7"], "text": [NOTE, None]})
    accessor: Any = pl.col("text")
    made = frame.with_columns(accessor.deid.deidentify(model, patients=pl.col("mrn"), style="mask"))
    assert made["text"].to_list() == ["Date: XXXXXXXXXX", None]
    assert frame.select(accessor.deid.deidentify(model))["text"].to_list() == ["Date: [DATE]", None]
    assert ensemble_deid.integrations.polars is not None


def test_a_run_is_summed_up_and_compared(tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.csv").write_text(f"text\n{NOTE}\nDate: none\n" + f"{NOTE}\0\n", encoding="utf-8")
    last, new, out = tmp_path / "last.json", tmp_path / "new.json", tmp_path / "clean.csv"
    words = 4 + 2
    before = {"written": 9, "withheld": 1, "withheld_share": 0.1, "words": 100, "head": "h"}
    labels = {"all labels": {"spans": 20}, "DATE": {"spans": 10}, "CITY": {"spans": 10}}
    last.write_text(json.dumps({**before, "labels": labels}), encoding="utf-8")
    command = ["deidentify", str(tiny_model), str(tmp_path / "notes.csv"), "--out", str(out), "--quiet"]
    key = tmp_path / "key"
    key.write_text(KEY.text, encoding="ascii")
    command += [f"--key-file={key}", "--accept-unfit", "--summary", str(new), "--against", str(last)]
    assert main(command) == 3
    content = json.loads(new.read_text(encoding="utf-8"))
    assert (content["written"], content["withheld"], content["words"]) == (2, 1, words)
    assert content["withheld_share"] == 0.3333
    assert content["labels"]["DATE"] == {"spans": 1, "per_1000_words": round(1000 / words, 4)}
    assert content["head"] == verify_run(f"{out}.run").head
    rate, old = 1 / words, 10 / 100
    z = (rate - old) / sqrt(1 / words**2 + 10 / 100**2)
    expected = {"per_1000_words": 100.0, "ratio": round(rate / old, 4), "z": round(z, 4)}
    assert content["against"]["labels"]["DATE"] == expected
    assert content["against"]["labels"]["CITY"]["ratio"] == 0.0
    assert (content["against"]["head"], content["against"]["withheld_share"]) == ("h", 0.1)
    # A finished run has the same summary, out of its manifest; a summary can be compared with itself.
    made = new.read_bytes()
    assert main([*command, "--resume"]) == 3
    assert new.read_bytes() == made
    assert read_summary(new)["labels"]["DATE"]["spans"] == 1


def test_a_summary_without_words_and_wrong_files(tiny_model: Path, tmp_path: Path) -> None:
    empty = RunSummary(tmp_path).to_dict()
    assert empty["labels"] == {"all labels": {"spans": 0, "per_1000_words": None}}
    drift = RunSummary(tmp_path).to_dict(against=empty)["against"]["labels"]["all labels"]
    assert drift == {"per_1000_words": None, "ratio": None, "z": None}
    for content in ("{", "[]", '{"labels": {"DATE": 3}}'):
        (tmp_path / "last.json").write_text(content, encoding="utf-8")
        with pytest.raises(CorpusError, match=r"last\.json: not a run summary"):
            read_summary(tmp_path / "last.json")
    (tmp_path / "notes.csv").write_text(f"text\n{NOTE}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="goes with summary"):
        deidentify_table(tmp_path / "notes.csv", tmp_path / "c.csv", tiny_model, against=tmp_path / "last.json")
