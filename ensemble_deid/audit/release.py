"""The notes that a run released, with what it replaced in them, read as the run read them."""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ensemble_deid.corpora.input_options import InputOptions
from ensemble_deid.corpora.note_files import NoteFiles
from ensemble_deid.corpora.record_map import FieldKind, FieldRule, FieldRules, RecordMap
from ensemble_deid.corpora.records import Record
from ensemble_deid.corpora.tables.columns import ALL, Columns
from ensemble_deid.deidentify.manifest import (
    FAILED,
    MANIFEST,
    SPANS,
    STANDARD_OUTPUT,
    TextsDigest,
    VerifiedRun,
    read_chain,
    verify_run,
)
from ensemble_deid.deidentify.replacement.styles import Styles
from ensemble_deid.deidentify.sources import MESSAGES, note_files, note_source
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import I2B2_TYPES
from ensemble_deid.note.span import Span
from ensemble_deid.surrogates.patient import SurrogateSettings

AuditSide = Literal["original", "released"]
"""Which text people read: the original, where they mark all PHI, or what was released, where they mark what is left."""
PASSING = (FieldKind.KEEP, FieldKind.CODES)
"""Kinds of fields that a map passes unchanged."""
_AS_IT_IS = FieldRule(FieldKind.AGE)
LENGTH = "length"
"""Stands for the length of a note where the name of a column is asked for: thirds of all notes."""


@dataclass(frozen=True, slots=True)
class Release:
    """Every note of a run that was released; its spans are what the run replaced, its metadata the asked columns.

    `kept` are the labels that the run's policy leaves in the text.
    """

    run: VerifiedRun
    side: AuditSide
    documents: tuple[Document, ...]
    kept: frozenset[str]


def read_release(run: Path, notes: str, *, side: AuditSide = "original", by: Sequence[str] = ()) -> Release:
    """Check a run and read its notes from where it read or wrote them, with the columns `by` as metadata.

    Raises CorpusError where the run is damaged or released nothing, or the notes are not those of the run. Originals
    are compared with the output: by name and, where files hold the output, by the text outside the replaced spans.
    """
    verified = verify_run(run)
    settings, expected = verified.settings, verified.counts.get("written", 0)
    if not expected:
        raise CorpusError(f"{run}: released no notes")
    withheld = withheld_places(run)
    if side == "released" and withheld:
        raise CorpusError(f"{notes}: notes were withheld, so that the others cannot be told apart: read the originals")
    found = dict(released_documents(notes, settings, run, [c for c in by if c != LENGTH]))
    written = {name: note for name, note in found.items() if note is not None and name not in withheld}
    if not withheld <= found.keys() or len(written) != expected:
        raise CorpusError(f"{notes}: are not the notes of {run}, which wrote {expected}; here are {len(written)}")
    spans = replaced_spans(run, side)
    if not spans.keys() <= written.keys():
        raise CorpusError(f"{notes}: lacks notes of {run}")
    texts = [None if name in withheld else written[name].text for name in found if name in written.keys() | withheld]
    if _is_output(run, texts) != (side == "released") and any(spans.values()):
        read, wrote = "what the run read, and not what it wrote", "what the run wrote, as it wrote it"
        raise CorpusError(f"{notes}: an audit of the {side} text needs {read if side == 'original' else wrote}")
    if side == "original":
        _check_originals(run, settings, notes, written)
    try:
        documents = [note.with_spans(spans.get(name, ())) for name, note in written.items()]
    except ValueError:
        raise CorpusError(f"{notes}: are not the notes of {run}: its spans do not fit them") from None
    styles = styles_of(settings)
    kept = frozenset(label for label in (*styles.by_label, *I2B2_TYPES) if styles.of(label) == "keep")
    return Release(verified, side, tuple(_with_length(documents) if LENGTH in by else documents), kept)


def _check_originals(run: Path, settings: Any, notes: str, originals: Mapping[str, Document]) -> None:
    """Raise CorpusError where an original differs from the output outside the replaced spans."""
    places = defaultdict(list)
    for entry in read_lines(run / SPANS):
        places[entry["place"]].append(entry)
    output = output_of(run, settings)
    for name, record in () if output is None else written_records(str(output), settings, run):
        if (original := originals.get(name)) is not None:
            before = _around(original.text, [(entry["start"], entry["end"]) for entry in places[name]])
            if before != _around(record.text or "", [(e["new_start"], e["new_end"]) for e in places[name]]):
                raise CorpusError(f"{notes}: are not the notes of {run}: {name} is not as the run read it")


def _around(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    edges = [0, *(edge for span in sorted(spans) for edge in span), len(text)]
    return [text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)]


def withheld_places(run: Path) -> set[str]:
    """Return the names of the notes that a run withheld."""
    return {entry["place"] for entry in read_lines(run / FAILED)}


def output_of(run: Path, settings: Mapping[str, Any]) -> Path | None:
    """Return the file or folder that a run wrote; None where its output is in no file."""
    written = [entry["path"] for entry in read_chain(run / MANIFEST)[0] if entry["entry"] == "file"]
    if not written or STANDARD_OUTPUT in written:
        return None
    if "out" in settings:
        return Path(os.path.normpath(run / settings["out"]))
    # Runs of older versions.
    paths = [os.path.normpath(run / name) for name in written]
    return Path(paths[0] if len(paths) == 1 else os.path.commonpath(paths))


def styles_of(settings: Mapping[str, Any]) -> Styles:
    """Return the styles of a run, without its operators."""
    recorded = settings["styles"]
    return Styles(recorded["default"], recorded["by_label"], SurrogateSettings(**recorded["surrogates"]))


def _is_output(run: Path, texts: Sequence[str | None]) -> bool:
    """Whether the texts, None for each note that was withheld, are those that the run wrote."""
    batches = [entry for entry in read_chain(run / MANIFEST)[0] if entry["entry"] == "notes"]
    digest = TextsDigest()
    for batch in batches:
        for text in texts[batch["first"] - 1 : batch["last"]]:
            digest.add(text)
        if digest.take() != batch["output"]:
            return False
    return True


def released_documents(
    notes: str, settings: Any, run: Path, by: Sequence[str]
) -> Iterator[tuple[str, Document | None]]:
    """Yield names and notes as the run with these settings read or wrote them, with the columns `by` as metadata.

    A note is None where it cannot be read.
    """
    if settings["format"] != "files":
        for record in released_records(notes, settings, run, by):
            if record.error is not None:
                yield record.name, None
            elif record.text is not None:
                found = {field.name: str(field.value) for field in record.fields}
                if missing := [name for name in by if name not in found]:
                    raise CorpusError(f"{notes}: has no column {missing[0]} to stratify by")
                yield record.name, replace(note_of(record), metadata={name: found[name] for name in by})
        return
    for folder, note in _note_files(notes, settings, run).notes():
        if isinstance(note, CorpusError):
            yield str(folder / (note.note or "")), None
            continue
        name, facts = str(folder / note.id), {"site": note.site or "", **note.metadata}
        if missing := [name for name in by if name not in facts]:
            raise CorpusError(f"{name}: has no {missing[0]}; it has {', '.join(sorted(facts))} and {LENGTH}")
        metadata = {name: facts[name] for name in by} if by else note.metadata
        yield name, replace(note, id=name, spans=(), metadata=metadata)


def note_of(record: Record) -> Document:
    """Return a record's note; of an unknown patient it is a patient of its own, also beside others of the same text."""
    patient = None if record.patient is None else str(record.patient)
    return Document(record.name, record.text or "", patient_id=patient)


def written_records(
    output: str, settings: Any, run: Path, by: Sequence[str] = (), *, whole: tuple[str, ...] = ()
) -> Iterator[tuple[str, Record]]:
    """Yield the records of a run's output as `released_records` does, each with its name in what the run read."""
    # The line of a withheld note is left out, and those below it have other numbers.
    gone = withheld_places(run) if settings["format"] == "jsonl" else set()
    above: Counter[str] = Counter()
    for record in released_records(output, settings, run, by, whole=whole):
        if not gone:
            yield record.name, record
            continue
        table, _, number = record.name.rpartition(" ")
        while f"{table} {int(number) + above[table]}" in gone:
            above[table] += 1
        yield f"{table} {int(number) + above[table]}", record


def released_records(
    notes: str, settings: Any, run: Path, by: Sequence[str], *, whole: tuple[str, ...] = ()
) -> Iterator[Record]:
    """Yield the records of files, of a table or of messages, with the columns `by` of a table among their fields.

    So are the fields that the run's map passes, if they begin with one of `whole`. They are read as ages, since every
    format yields ages unchanged.
    """
    if settings["format"] == "files":
        yield from _note_files(notes, settings, run).records()
        return
    messages = settings["format"] in MESSAGES
    if messages and by:
        raise CorpusError(f"{notes}: has no columns to stratify by")
    read = dict.fromkeys(by, _AS_IT_IS)
    if settings["record_map"] is None:
        named = _columns(settings["columns"])
        columns = None if messages else replace(named, dates=(), keep=(ALL,))
        options = InputOptions(format=settings["format"], columns=columns, rules=read, keep_fields=messages)
    elif settings.get("rules") is None:
        raise CorpusError(
            f"{run}: an older version made this run and did not record the rules of its map; run it again"
        )
    else:
        options = _mapped(settings, read, whole)
    options = replace(options, recursive=settings.get("recursive", False))
    yield from note_source(notes, options, leave_out=_own_places(run, settings)).records()


def _note_files(notes: str, settings: Any, run: Path) -> NoteFiles:
    options = InputOptions(recursive=settings.get("recursive", False))
    return note_files(notes, options, leave_out=_own_places(run, settings))


def _own_places(run: Path, settings: Any) -> list[Path]:
    """Return what the run wrote, and so did not read."""
    output = output_of(run, settings)
    return [run] if output is None else [run, output]


def _mapped(settings: Any, read: FieldRules, whole: tuple[str, ...]) -> InputOptions:
    rules, format = settings["rules"], settings["format"]
    named = _columns(rules["named"])
    single = RecordMap.parse({"columns": rules["columns"]}, "the run").columns if rules["columns"] else {}
    text = {} if named.text is None else {named.text: FieldRule(FieldKind.TEXT)}
    given = RecordMap(place="the run", columns=text)
    if rules["map"] is not None:
        given = RecordMap.parse(rules["map"], "the run")
    if rules["table"] is not None:
        given = replace(given, columns=given.tables[rules["table"]], tables={})

    def passing(rules: FieldRules) -> FieldRules:
        return {p: _AS_IT_IS if rule.kind in PASSING and p.startswith(whole) else rule for p, rule in rules.items()}

    # What the run left out is not in its output.
    given = replace(
        given,
        columns=passing(given.columns),
        tables={name: passing(table) for name, table in given.tables.items()},
        fhir=passing(given.fhir),
        hl7=passing(given.hl7),
        xml=passing(given.xml),
        optional=True,
    )
    if format in MESSAGES:
        return InputOptions(format=format, record_map=given)
    beside: dict[str, Any] = {
        name: tuple(n for n in getattr(named, name) if n not in read) for name in ("dates", "keep")
    }
    return InputOptions(
        format=format,
        columns=replace(named, **beside),
        record_map=given,
        rules={**passing(single), **read},
    )


def _columns(settings: Mapping[str, Any]) -> Columns:
    named: dict[str, Any] = {name: tuple(said) if isinstance(said, list) else said for name, said in settings.items()}
    return Columns(**named)


def _with_length(documents: Sequence[Document]) -> list[Document]:
    ordered = sorted(len(document.text) for document in documents)
    low, high = ordered[len(ordered) // 3], ordered[2 * len(ordered) // 3]

    def third(document: Document) -> str:
        return "short" if len(document.text) < low else "medium" if len(document.text) < high else "long"

    return [replace(d, metadata={**d.metadata, LENGTH: third(d)}) for d in documents]


def replaced_spans(run: Path, side: AuditSide) -> dict[str, list[Span]]:
    """Return what a run replaced in each note, as offsets in its original or in its released text.

    A span that its style kept as it was is not replaced.
    """
    found: dict[str, list[Span]] = {}
    start, end = ("start", "end") if side == "original" else ("new_start", "new_end")
    for entry in read_lines(run / SPANS):
        if entry[start] < entry[end] and not entry.get("shown"):
            span = Span(entry[start], entry[end], entry["label"], entry["score"])
            found.setdefault(entry["place"], []).append(span)
    return found


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as stream:
        yield from map(json.loads, stream)
