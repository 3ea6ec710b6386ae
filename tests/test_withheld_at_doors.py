"""Whatever goes wrong with a note, it is withheld and reported, and others go on; what cannot be used is refused."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_stack

from ensemble_deid import (
    Columns,
    Config,
    ConfigError,
    Deidentifier,
    Document,
    InputOptions,
    RegexConfig,
    RunOptions,
    deidentify_files,
    deidentify_table,
    train,
    verify_run,
)
from ensemble_deid.corpora.records import Record
from ensemble_deid.deidentify.cells import UNREADABLE_DATES
from ensemble_deid.deidentify.known.site_lists import SiteLists
from ensemble_deid.deidentify.manifest import RunFiles
from ensemble_deid.deidentify.rows import RowPass
from ensemble_deid.errors import ModelError
from ensemble_deid.integrations.arrow_stream import deidentified_batches
from ensemble_deid.integrations.spark import check_options
from ensemble_deid.model.options import PredictionOptions
from ensemble_deid.taggers.base import Proposals

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra tables)")


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Deidentifier:
    return Deidentifier.load(tiny_model)


def unreadable(values: list[bytes]) -> "pa.Array":
    """Return a column of text whose bytes are not UTF-8."""
    binary = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(values), binary.buffers())


@pytest.mark.parametrize("column", ["text", "n"])
def test_a_row_that_cannot_be_read_is_withheld_from_a_stream_with_the_reason(model: Deidentifier, column: str) -> None:
    texts = [b"Seen by Dr. Bell.", b"Caf\xe9 visit of J. Smith", b"Seen by Dr. Hall."]
    columns = {"text": pa.array(["Seen by Dr. Bell."] * 3), "n": pa.array(["1", "2", "3"]), column: unreadable(texts)}
    batch = pa.RecordBatch.from_pydict(columns)
    (made,) = deidentified_batches([batch], model, Columns(id="n"), RunOptions())
    rows = made.to_pylist()
    assert [row["text"] is None for row in rows] == [False, True, False]
    assert [row["problem"] for row in rows] == [None, f"the column {column} has a value that cannot be read", None]


@pytest.mark.parametrize("error", [KeyError, MemoryError, RecursionError])
@pytest.mark.parametrize("together", [False, True])
def test_an_unforeseen_error_after_the_model_withholds_that_note_alone(
    model: Deidentifier, monkeypatch: pytest.MonkeyPatch, error: type[Exception], together: bool
) -> None:
    apply = SiteLists.apply

    def bad(self: SiteLists, note: Document, *args: object, **choices: object) -> Document:
        if "Lyndale" in note.text:
            raise error("Lyndale")
        return apply(self, note, *args, **choices)  # type: ignore[arg-type]

    monkeypatch.setattr(SiteLists, "apply", bad)
    notes = [Document(str(k), text, patient_id="7") for k, text in enumerate(["Seen at Lyndale.", "Date: 03/04/2019"])]
    first, second = model.process(notes, RunOptions(), together=together)
    assert first.error == f"0: processing failed ({error.__name__})"
    assert second.text == "Date: [DATE]"


def test_an_error_of_the_model_ends_the_run(model: Deidentifier, monkeypatch: pytest.MonkeyPatch) -> None:
    def bad(*args: object, **choices: object) -> Document:
        raise ModelError("damaged")

    monkeypatch.setattr(SiteLists, "apply", bad)
    with pytest.raises(ModelError, match="damaged"):
        model.deidentify("Date: 03/04/2019")


def test_a_file_whose_name_is_no_unicode_is_recorded(tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    folder = os.fsencode(tmp_path / "caf") + b"\xe9"
    try:
        Path(os.fsdecode(folder)).mkdir()
    except OSError:
        pytest.skip("the file system takes Unicode names alone")
    (tmp_path / "notes" / "a.txt").write_text("Date: 03/04/2019")
    out = Path(os.fsdecode(folder)) / "out"
    done = deidentify_files(tmp_path / "notes", out, tiny_model, run=tmp_path / "run")
    assert (done.written, done.withheld) == (1, ())
    assert verify_run(tmp_path / "run").files == 1


def test_a_file_that_cannot_be_recorded_is_removed(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes").mkdir()
    for name in "ab":
        (tmp_path / "notes" / f"{name}.txt").write_text("Date: 03/04/2019")
    output = RunFiles.output

    def bad(self: RunFiles, path: Path, digest: str) -> None:
        if path.stem == "a":
            raise ValueError(path)
        output(self, path, digest)

    monkeypatch.setattr(RunFiles, "output", bad)
    done = deidentify_files(tmp_path / "notes", tmp_path / "out", tiny_model)
    assert done.withheld == ("a: writing failed (ValueError)",)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["b.txt"]


def test_dates_of_a_row_that_is_withheld_later_are_counted_once(
    model: Deidentifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = Columns(id="n", patient="mrn", dates=("seen",))
    record = Record("row 1", "Date: 03/04/2019", id=-1, patient="7", dates=("soon",))
    rows = RowPass.of(model, RunOptions(), columns, (32, 64))
    made = rows.rewrite(record, record.document())
    assert made.result.error is not None
    assert (rows.cells.counts, made.emptied) == (Counter({UNREADABLE_DATES: 1}), {UNREADABLE_DATES: 1})
    source = tmp_path / "notes.csv"
    source.write_text("text,seen\nDate: 03/04/2019,soon\n")

    def bad(self: object, raw: str, edits: Sequence[object]) -> str:
        raise ValueError(raw)

    monkeypatch.setattr("ensemble_deid.corpora.tables.delimited._DelimitedWriter._edited", bad)
    done = deidentify_table(source, tmp_path / "out.csv", model, columns=Columns(dates=("seen",)))
    assert (len(done.withheld), done.counts[UNREADABLE_DATES]) == (1, 1)


@pytest.mark.parametrize(
    ("name", "content", "options", "said"),
    [
        ("a.txt", "Seen.", {"columns": Columns(text="note")}, "name columns of a table"),
        ("a.json", "{}", {"columns": Columns(text="note")}, "name columns of a table"),
        ("a.hl7", "MSH|^~\\&|", {"columns": Columns(patient="mrn")}, "name columns of a table"),
        ("a.txt", "Seen.", {"keep_fields": True}, "keep-fields"),
        ("a.csv", "text\nSeen.\n", {"keep_fields": True}, "keep-fields"),
    ],
)
def test_options_that_an_input_cannot_use_are_refused(
    tiny_model: Path, tmp_path: Path, name: str, content: str, options: Mapping[str, object], said: str
) -> None:
    (tmp_path / name).write_text(content)
    given = InputOptions(**options)  # type: ignore[arg-type]
    run = deidentify_files if name.endswith("txt") else deidentify_table
    with pytest.raises(ConfigError, match=said):
        run(tmp_path / name, tmp_path / f"out{Path(name).suffix}", tiny_model, input=given)


@pytest.mark.parametrize("choice", [{"device": "cpu"}, {"submodels": ["crf"]}])
def test_a_loaded_model_is_not_loaded_otherwise(
    model: Deidentifier, tmp_path: Path, choice: Mapping[str, object]
) -> None:
    (tmp_path / "a.txt").write_text("Seen.")
    with pytest.raises(ConfigError, match=next(iter(choice))):
        deidentify_files(tmp_path / "a.txt", tmp_path / "b.txt", model, **choice)  # type: ignore[arg-type]


@pytest.mark.parametrize("choice", [{"combiner": "vote"}, {"submodel": "net"}, {"threshold": 2.0}])
def test_spark_refuses_options_before_workers_start(tiny_model: Path, choice: Mapping[str, object]) -> None:
    check_options(tiny_model, RunOptions(prediction=PredictionOptions(combiner="union")))
    with pytest.raises(ConfigError):
        check_options(tiny_model, RunOptions(prediction=PredictionOptions(**choice)))  # type: ignore[arg-type]


def test_the_best_submodels_are_chosen_on_notes_and_not_on_their_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, set[int]]] = []

    def choose(documents: Sequence[Document], proposals: Mapping[str, Proposals], **_: object) -> dict[str, object]:
        seen.append((len(documents), {len(found.best) for found in proposals.values()}))
        return {label: tuple(proposals) for label in ("CITY", "DATE", "NAME", "ID")}

    monkeypatch.setattr("ensemble_deid.training.train.choose_best_members", choose)
    notes = tiny_stack.notes(100)
    copies = [replace(note, id=f"{note.id}-a1", metadata={"copy": "1"}) for note in notes[:3]]
    patterns = tmp_path / "tiny.toml"
    patterns.write_text(tiny_stack.PATTERNS)
    train([*copies, *notes], config=Config(submodels=("regex",), regex=RegexConfig(patterns=str(patterns)), folds=2))
    assert seen == [(len(notes), {len(notes)})]
