"""Sixty notes through every door, in each scope that it has: the same bytes of text and the same spans.

A door is whatever takes notes: a function, a command, a route, a library's component. Notes arrive alone, with or
without their patient, or all notes of a patient together.
"""

import asyncio
import csv
import io
import json
import shutil
import sys
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import spacy
from made_keys import KEY

from ensemble_deid import Columns, Deidentifier, Document, RunOptions, deidentify_series, deidentify_table, read_corpus
from ensemble_deid.cli.main import main
from ensemble_deid.deidentify.known.site_lists import ListFiles
from ensemble_deid.integrations.arrow_stream import deidentified_batches
from ensemble_deid.integrations.duckdb import register
from ensemble_deid.integrations.huggingface import TokenClassifier
from ensemble_deid.integrations.presidio import EnsembleRecognizer
from ensemble_deid.integrations.sklearn import EnsembleEstimator
from ensemble_deid.model.ensemble import Ensemble
from ensemble_deid.model.options import PredictionOptions
from ensemble_deid.note.span import Span
from ensemble_deid.service.app import make_app
from ensemble_deid.service.guard import Guard
from ensemble_deid.service.settings import ServiceSettings

STYLES = ("tag", "surrogate", "mask")
Spans = list[tuple[int, int, str]]
Answers = list[tuple[str | None, Spans | None]]
"""The text and the spans of each note; None where a door does not say."""


@dataclass(frozen=True)
class Case:
    """What every door is asked for: the notes, with or without their patients, a style, and the site's lists."""

    path: Path
    model: Deidentifier
    notes: Sequence[Document]
    style: str
    files: ListFiles
    folder: Path

    @property
    def choices(self) -> dict[str, Any]:
        return {"style": self.style, "key": KEY, "lists": self.files}

    @property
    def named(self) -> list[str]:
        """The options of a command."""
        lists = {"known": self.files.known, "allow": self.files.allow, "deny": self.files.deny}
        (self.folder / "key").write_text(KEY.text, encoding="ascii")
        options = [f"--style={self.style}", f"--key-file={self.folder / 'key'}", "--quiet"]
        return options + [f"--{name}={path}" for name, path in lists.items() if path is not None]

    @property
    def texts(self) -> list[str]:
        return [note.text for note in self.notes]

    @property
    def patients(self) -> list[str | None]:
        return [note.patient_id for note in self.notes]

    @property
    def rows(self) -> list[dict[str, str]]:
        """The rows of a table, without a column of patients where the notes have none."""
        return [
            {"text": note.text} | ({} if note.patient_id is None else {"mrn": note.patient_id}) for note in self.notes
        ]

    @property
    def columns(self) -> Columns:
        return Columns(patient=None if self.notes[0].patient_id is None else "mrn")


def key_of(spans: Sequence[Span]) -> Spans:
    return [span.key for span in spans]


def reference(case: Case, *, together: bool = False) -> Answers:
    options = RunOptions.choose(case.model.labels, **case.choices)
    return [(r.text, key_of(r.spans)) for r in case.model.process(case.notes, options, together=together)]


# Doors for a note alone.


def by_function(case: Case) -> Answers:
    results = [case.model.deidentify(note.text, patient=note.patient_id, **case.choices) for note in case.notes]
    return [(result.text, key_of(result.spans)) for result in results]


def by_pipe(case: Case) -> Answers:
    patients = None if None in case.patients else case.patients
    return [(r.text, key_of(r.spans)) for r in case.model.pipe(case.texts, patients=patients, **case.choices)]


def by_duckdb(case: Case) -> Answers:
    table = pa.table({"n": range(len(case.notes)), "text": case.texts, "mrn": pa.array(case.patients, pa.string())})
    with duckdb.connect() as connection:
        register(connection, case.model, **case.choices)
        connection.register("notes", table)
        found = connection.execute("SELECT deidentify(text, mrn).text FROM notes ORDER BY n").fetchall()
    return [(text, None) for (text,) in found]


def by_route(case: Case, service: "Service") -> Answers:
    answers = [
        service.post("/v1/deidentify", {"text": note.text, "patient_id": note.patient_id, "style": case.style})
        for note in case.notes
    ]
    return [_of_route(json.loads(answer)) for answer in answers]


def by_batch_route(case: Case, service: "Service") -> Answers:
    lines = [json.dumps({"text": note.text, "patient_id": note.patient_id}) for note in case.notes]
    answer = service.post(f"/v1/deidentify/batch?style={case.style}", "\n".join(lines).encode())
    return [_of_route(json.loads(line)) for line in answer.splitlines()]


def _of_route(answer: dict[str, Any]) -> tuple[str, Spans]:
    return answer["text"], [(span["start"], span["end"], span["label"]) for span in answer["spans"]]


# Doors for a note alone that mark PHI and know no patients.


def by_presidio_route(case: Case, service: "Service") -> Answers:
    found = json.loads(service.post("/analyze", {"text": case.texts, "language": "en"}))
    return [(None, [(e["start"], e["end"], e["entity_type"]) for e in entities]) for entities in found]


def by_presidio(case: Case) -> Answers:
    labels = {"CITY", "DATE", "DOCTOR", "HOSPITAL", "MEDICALRECORD", "PATIENT"}
    recognizer = EnsembleRecognizer(case.model, label_map={label: label for label in labels}, **case.choices)
    found = [recognizer.analyze(text, []) for text in case.texts]
    return [(None, [(r.start, r.end, r.entity_type) for r in results]) for results in found]


def by_spacy(case: Case) -> Answers:
    lists = {"known": case.files.known, "allow": case.files.allow, "deny": case.files.deny}
    named = {name: str(path) for name, path in lists.items() if path is not None}
    nlp = spacy.blank("en")
    nlp.add_pipe("ensemble_deid", config={"model": str(case.path), "lists": named})
    found = [doc._.phi for doc in nlp.pipe(case.texts)]
    return [(None, [(e["start"], e["end"], e["entity_group"]) for e in entities]) for entities in found]


def by_huggingface(case: Case) -> Answers:
    classify = TokenClassifier(case.model, RunOptions.choose(case.model.labels, **case.choices))
    found = classify(case.texts)
    return [(None, [(e["start"], e["end"], e["entity_group"]) for e in entities]) for entities in found]


# Doors for all notes of a patient together; a note without a patient is alone at them, too.


def by_pandas(case: Case) -> Answers:
    return [(text, None) for text in deidentify_series(pd.Series(case.texts), case.model, **_owners(case))]


def by_polars(case: Case) -> Answers:
    return [(text, None) for text in deidentify_series(pl.Series(case.texts), case.model, **_owners(case))]


def _owners(case: Case) -> dict[str, Any]:
    return {**case.choices, "patients": case.patients}


def by_stream(case: Case) -> Answers:
    options = RunOptions.choose(case.model.labels, **case.choices)
    batches = pa.Table.from_pylist(case.rows).to_batches(max_chunksize=7)
    made = deidentified_batches(iter(batches), case.model, case.columns, options)
    return [(row["text"], None) for batch in made for row in batch.to_pylist()]


def by_table_function(case: Case) -> Answers:
    _write_csv(case.folder / "notes.csv", case.rows)
    out = case.folder / "function.csv"
    summary = deidentify_table(case.folder / "notes.csv", out, case.model, columns=case.columns, **case.choices)
    return _with_spans(_read_csv(out.read_text(encoding="utf-8")), summary.folder)


def by_csv(case: Case) -> Answers:
    _write_csv(case.folder / "notes.csv", case.rows)
    made = _command(case, case.folder / "notes.csv", case.folder / "command.csv")
    return _with_spans(_read_csv(made.read_text(encoding="utf-8")), case.folder / "command.csv.run")


def by_jsonl(case: Case) -> Answers:
    source = case.folder / "notes.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in case.rows), encoding="utf-8")
    made = _command(case, source, case.folder / "command.jsonl")
    texts = [json.loads(line)["text"] for line in made.read_text(encoding="utf-8").splitlines()]
    return _with_spans(texts, case.folder / "command.jsonl.run")


def by_parquet(case: Case) -> Answers:
    pq.write_table(pa.Table.from_pylist(case.rows), case.folder / "notes.parquet")
    made = _command(case, case.folder / "notes.parquet", case.folder / "command.parquet")
    return _with_spans(pq.read_table(made)["text"].to_pylist(), case.folder / "command.parquet.run")


def by_folder(case: Case) -> Answers:
    """The name of a file has the patient's, where there is one."""
    folder, out = case.folder / "in", case.folder / "out"
    folder.mkdir()
    names = [f"n{k:02}" if note.patient_id is None else note.id for k, note in enumerate(case.notes)]
    for name, note in zip(names, case.notes, strict=True):
        (folder / f"{name}.txt").write_bytes(note.text.encode("utf-8"))
    _command(case, folder, out)
    texts = [(out / f"{name}.txt").read_bytes().decode("utf-8") for name in names]
    found = _spans_of(case.folder / "out.run")
    return [(text, found.get(name, [])) for text, name in zip(texts, names, strict=True)]


def by_standard_input(case: Case) -> Answers:
    data = "".join(json.dumps(row) + "\n" for row in case.rows).encode()
    out = io.TextIOWrapper(io.BytesIO())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        patch.setattr(sys, "stdout", out)
        command = ["deidentify", str(case.path), "-", "--input-format=jsonl", *_columns(case), *case.named]
        assert main(command) == 0
    lines = out.buffer.getvalue().decode("utf-8").splitlines()  # type: ignore[attr-defined]
    return [(json.loads(line)["text"], None) for line in lines]


def by_sklearn(case: Case) -> Answers:
    estimator = EnsembleEstimator()
    estimator.model_, estimator.labels_ = case.model, case.model.labels
    return [(None, key_of(note.spans)) for note in estimator.predict(case.notes)]


def _columns(case: Case) -> list[str]:
    return [] if case.columns.patient is None else ["--patient-column=mrn", "--keep-columns=mrn"]


def _command(case: Case, source: Path, out: Path) -> Path:
    columns = [] if source.is_dir() else _columns(case)
    assert main(["deidentify", str(case.path), str(source), "--out", str(out), *columns, *case.named]) == 0
    return out


def _write_csv(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def _read_csv(content: str) -> list[str]:
    return [row["text"] for row in csv.DictReader(io.StringIO(content, newline=""))]


def _with_spans(texts: Sequence[str], run: Path) -> Answers:
    found = list(_spans_of(run).items())
    by_number = {int(place.split()[-1]): spans for place, spans in found}
    return [(text, by_number.get(number, [])) for number, text in enumerate(texts, 1)]


def _spans_of(run: Path) -> dict[str, Spans]:
    found: dict[str, Spans] = {}
    for line in (run / "spans.jsonl").read_text(encoding="utf-8").splitlines():
        span = json.loads(line)
        found.setdefault(span["place"], []).append((span["start"], span["end"], span["label"]))
    return found


ALONE = (by_function, by_pipe, by_duckdb)
MARKING = (by_presidio, by_spacy, by_huggingface)
TOGETHER = (
    *(by_pandas, by_polars, by_stream, by_table_function),
    *(by_csv, by_jsonl, by_parquet, by_folder, by_standard_input),
)


@pytest.fixture(scope="module", autouse=True)
def each_note_is_read_once() -> Iterator[None]:
    """Predictions of the model are kept by text: doors differ in everything else, and this is what takes time."""
    kept: dict[str, tuple[Span, ...]] = {}
    predict = Ensemble.predict

    def remembered(self: Ensemble, documents: Sequence[Document], options: PredictionOptions) -> list[tuple[Span, ...]]:
        assert options.threshold is None
        new = [document for document in documents if document.text not in kept]
        kept.update(zip((document.text for document in new), predict(self, new, options), strict=True))
        return [kept[document.text] for document in documents]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ensemble, "predict", remembered)
        yield


@pytest.fixture(scope="module")
def notes() -> list[Document]:
    """Sixty notes of 24 patients, without their annotations."""
    return [note.with_spans(()) for note in read_corpus("demo:dev").documents[:60]]


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory, notes: list[Document]) -> ListFiles:
    """What a site may know: the patients' names and numbers, a hospital, and a string that the model finds wrongly."""
    folder = tmp_path_factory.mktemp("lists")
    gold = [note for note in read_corpus("demo:dev").documents[:60] if note.patient_id is not None]

    def surfaces(label: str) -> list[tuple[str, str]]:
        found = [(n.patient_id or "", n.text[s.start : s.end]) for n in gold for s in n.spans if s.label == label]
        return [(patient, surface) for patient, surface in found if "\n" not in surface and len(surface) > 4]

    with (folder / "known.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(("patient_id", "kind", "value"))
        writer.writerows((patient, "name", surface) for patient, surface in surfaces("PATIENT") if " " in surface)
        writer.writerows((patient, "id", s) for patient, s in surfaces("MEDICALRECORD") if sum(map(str.isdigit, s)) > 4)
        writer.writerows(("", "staff", surface) for _, surface in surfaces("DOCTOR")[:20] if " " in surface)
    with (folder / "deny.csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([("label", "value"), *(("HOSPITAL", name) for _, name in surfaces("HOSPITAL"))])
    (folder / "allow.txt").write_text("Lyndale\n" + "\n".join(name for _, name in surfaces("CITY")), encoding="utf-8")
    return ListFiles(folder / "known.csv", folder / "allow.txt", folder / "deny.csv")


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Deidentifier:
    return Deidentifier.load(tiny_model)


@pytest.fixture(params=["lists", "without lists"], scope="module")
def files(request: pytest.FixtureRequest, lists: ListFiles) -> ListFiles:
    return lists if request.param == "lists" else ListFiles()


@pytest.fixture
def make(
    tiny_model: Path, model: Deidentifier, notes: list[Document], files: ListFiles, tmp_path: Path
) -> Callable[..., Case]:
    def made(style: str, *, patients: bool) -> Case:
        chosen = [note if patients else Document(f"note {k}", note.text) for k, note in enumerate(notes)]
        return Case(tiny_model, model, chosen, style, files, tmp_path)

    return made


@dataclass(frozen=True)
class Service:
    """The application of the HTTP service, asked without a socket."""

    app: Guard

    def post(self, path: str, content: object) -> bytes:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return asyncio.run(self._post(path, body))

    async def _post(self, path: str, body: bytes) -> bytes:
        place, _, query = path.partition("?")
        scope = {"type": "http", "http_version": "1.1", "method": "POST", "scheme": "http", "root_path": ""}
        scope |= {"path": place, "raw_path": place.encode(), "query_string": query.encode()}
        scope |= {
            "headers": [
                (b"host", b"localhost"),
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
            ]
        }
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        assert sent[0]["status"] == 200, sent
        return b"".join(message.get("body", b"") for message in sent)


@pytest.fixture(scope="module")
def service(tiny_model: Path, model: Deidentifier, files: ListFiles) -> Service:
    settings = ServiceSettings(tiny_model, choices={"key": KEY, "lists": files}, entities="own", time_limit=600.0)
    return Service(make_app(model, settings))


def check(door: Callable[..., Answers], wanted: Answers, found: Answers) -> None:
    """Compare note by note, without quoting any."""
    assert len(found) == len(wanted), door.__name__
    for number, ((text, spans), (new_text, new_spans)) in enumerate(zip(wanted, found, strict=True)):
        assert new_text is None or (new_text == text) is True, (door.__name__, number)
        assert new_spans is None or new_spans == spans, (door.__name__, number)
    assert any(text is not None or spans is not None for text, spans in found)


@pytest.mark.parametrize("style", STYLES)
def test_notes_alone(make: Callable[..., Case], style: str) -> None:
    for patients in (True, False):
        case = make(style, patients=patients)
        wanted = reference(case)
        for door in ALONE:
            check(door, wanted, door(case))


@pytest.mark.parametrize("style", STYLES)
def test_notes_of_a_patient_together(make: Callable[..., Case], style: str) -> None:
    case = make(style, patients=True)
    wanted = reference(case, together=True)
    for door in TOGETHER:
        check(door, wanted, door(case))


def test_a_note_of_nobody_is_alone_also_where_notes_come_together(make: Callable[..., Case]) -> None:
    case = make("surrogate", patients=False)
    wanted = reference(case)
    assert reference(case, together=True) == wanted
    for door in TOGETHER:
        check(door, wanted, door(case))


def test_doors_that_mark_phi(make: Callable[..., Case]) -> None:
    case = make("tag", patients=False)
    wanted = reference(case)
    for door in MARKING:
        check(door, wanted, door(case))


def test_the_service(make: Callable[..., Case], service: Service) -> None:
    for style in STYLES:
        for patients in (True, False):
            case = make(style, patients=patients)
            wanted = reference(case)
            check(by_batch_route, wanted, by_batch_route(case, service))
            if patients:
                check(by_route, wanted, by_route(case, service))
    check(by_presidio_route, wanted, by_presidio_route(case, service))


def test_an_estimator_finds_what_notes_together_lose(
    model: Deidentifier, notes: list[Document], tmp_path: Path
) -> None:
    case = Case(tmp_path, model, notes, "tag", ListFiles(), tmp_path)
    check(by_sklearn, reference(case, together=True), by_sklearn(case))


def test_the_scopes_and_the_lists_differ(
    model: Deidentifier, notes: list[Document], lists: ListFiles, tmp_path: Path
) -> None:
    """What the doors agree on is not nothing: repeats are found alone, more of them together, and lists act."""
    predicted = [key_of(note.spans) for note in model.predict(notes)]
    without, with_lists = (Case(tmp_path, model, notes, "tag", files, tmp_path) for files in (ListFiles(), lists))
    alone = [spans for _, spans in reference(without)]
    together = [spans for _, spans in reference(without, together=True)]
    listed = [spans for _, spans in reference(with_lists)]
    assert sum(map(len, predicted)) < sum(len(s or ()) for s in alone) < sum(len(s or ()) for s in together)
    assert {label for spans in listed for _, _, label in spans or ()} >= {"PATIENT", "HOSPITAL"}
    kept = {note.text[s:e] for note, spans in zip(notes, listed, strict=True) for s, e, label in spans or ()}
    assert "Lyndale" not in kept


@pytest.mark.long
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java 17, and there is no java here")
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("style", STYLES)
def test_spark(make: Callable[..., Case], style: str) -> None:
    from pyspark.sql import SparkSession

    from ensemble_deid.integrations.spark import deidentify

    case = make(style, patients=True)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    try:
        rows = [(k, note.text, note.patient_id) for k, note in enumerate(case.notes)]
        columns = Columns("text", None, "mrn", (), ("n",))
        table = session.createDataFrame(rows, "n long, text string, mrn string")
        made = {
            row["n"]: row["text"] for row in deidentify(table, case.path, columns=columns, **case.choices).collect()
        }
    finally:
        session.stop()
    check(
        test_spark,
        reference(case, together=True),
        [(made[number], None) for number in sorted(made)],
    )
