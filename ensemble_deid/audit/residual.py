"""What a release still says of each patient: the quasi-identifiers that stay, by how many patients share them.

Counted are values that the run's styles kept or made coarser (ages, years, three digits of a ZIP code, occupations,
places and what else a policy keeps), and columns and fields that it kept or a map passed, per patient. k is the
number of patients with the same values: someone who knows these of a patient has k candidates. What has no label is not
counted: rare diagnoses, sex, ethnic group, family, and events that many know of.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ensemble_deid.audit.release import PASSING, note_of, output_of, read_lines, styles_of, written_records
from ensemble_deid.corpora.record_map import PEOPLE, Field, FieldKind
from ensemble_deid.corpora.tables.columns import ALL
from ensemble_deid.deidentify.known.of_records import labelled
from ensemble_deid.deidentify.manifest import SPANS, VerifiedRun
from ensemble_deid.deidentify.replacement.styles import Styles
from ensemble_deid.deidentify.sources import MESSAGES
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import identifier_of

SMALL = 11
"""Groups of fewer patients are small: the least cell of tables that Medicare lets out."""
MOST_LISTED = 20
NOT_COUNTED = (
    "rare diagnoses and procedures, sex, ethnic group, family, and known events: no label finds them",
    "what the model missed: the audit bounds it",
)
_TOGETHER = "all of these together"
_OF_PATIENT = ("Patient.", "PID-")
_NAMES = (FieldKind.PSEUDONYM, FieldKind.TEXT, FieldKind.DROP, *PEOPLE)
_Values = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class SharedValues:
    """How the patients share their values of one kind: how many have any, and how many have a group of how many."""

    kind: str
    patients: int
    groups: int
    alone: int
    in_small_groups: int


@dataclass(frozen=True, slots=True)
class Residual:
    """The rows by kind, the last of which is for all kinds together, and the smallest groups of that one by id.

    `smallest` has (k, the ids that the output has); `unlisted` counts the patients of other groups below `SMALL`.
    """

    patients: int
    notes: int
    rows: tuple[SharedValues, ...]
    smallest: tuple[tuple[int, tuple[str, ...]], ...]
    unlisted: int
    not_counted: tuple[str, ...] = NOT_COUNTED


def residual_risk(run: Path, verified: VerifiedRun) -> Residual | None:
    """Count what a run's output says of each patient; None where the output is in no file.

    `verified` is what `verify_run` returned. Raises CorpusError where the output cannot be read.
    """
    settings = verified.settings
    output = output_of(run, settings)
    if output is None:
        return None
    styles = styles_of(settings)
    columns, not_counted = _kept_columns(settings, styles)
    spans = _shown_spans(run, styles)
    values: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    notes = 0
    for place, document, patient, shown in _outputs(str(output), run, settings, styles, columns):
        values[patient] |= {(f"column {name}", _plain(value)) for name, value in shown}
        if document is not None:
            notes += 1
            found = spans.pop(place, ())
            if found and max(end for _, end, _ in found) > len(document.text):
                raise CorpusError(f"{output}: {document.id}: was changed after the run")
            values[patient] |= {(identifier_of(label), _plain(document.text[s:e])) for s, e, label in found}
    if spans:
        raise CorpusError(f"{output}: lacks {len(spans)} notes of {run}")
    return _shared({patient: frozenset(own) for patient, own in values.items()}, notes, not_counted)


def _outputs(
    output: str, run: Path, settings: Mapping[str, Any], styles: Styles, columns: Sequence[str]
) -> Iterator[tuple[str, Document | None, str, list[tuple[str, str]]]]:
    """Yield each record's name in the input, its note (None for none), its patient, and the visible fields."""
    # Of a message, only fields about the patient: the others record procedures and times. XML paths do not tell which.
    places = _OF_PATIENT if _is_message(settings) and settings["format"] != "xml" else ("",)
    for name, record in written_records(output, settings, run, columns, whole=places):
        if record.error is not None:
            raise CorpusError(f"{output}: {record.name}: cannot be read")
        note = None if record.text is None else note_of(record)
        patient = note.patient if note is not None else record.patient
        if patient is not None:
            beside = (pair for field in record.fields for pair in _shown_parts(field, styles))
            yield name, note, str(patient), list(beside)


def _is_message(settings: Mapping[str, Any]) -> bool:
    rules = settings.get("rules")
    given = {} if rules is None or rules["map"] is None else rules["map"]
    return settings["format"] in MESSAGES or ("fhir" in given and not given.keys() & {"columns", "tables"})


def _shown_parts(field: Field, styles: Styles) -> Iterator[tuple[str, str]]:
    """Yield the visible parts of a field's value: passed unchanged, or of a type that the styles do not hide."""
    kind, value = field.rule.kind, "" if field.value is None else str(field.value)
    if not value.strip() or kind in _NAMES:
        return
    if kind is FieldKind.DATE:
        parts = [(0, len(value), "DATE")]
    elif kind in (FieldKind.AGE, *PASSING):
        yield field.name, value
        return
    else:
        parts = list(labelled(kind, value))
    yield from ((field.name, value[start:end]) for start, end, type in parts if not styles.hides(type))


def _kept_columns(settings: Mapping[str, Any], styles: Styles) -> tuple[list[str], list[str]]:
    """Return the kept columns (date columns only where years stay), and what else is not counted."""
    if settings["format"] == "files":
        return [], []
    if _is_message(settings):
        passed = "all fields of messages" if settings["keep_fields"] else "fields of messages other than the patient's"
        return [], [] if settings["format"] == "xml" else [f"{passed} that pass unchanged"]
    rules = settings.get("rules")
    columns = settings["columns"] if rules is None else rules["named"]
    dates = [] if styles.hides("DATE") else columns["dates"]
    kept = [name for name in columns["keep"] if name != ALL]
    other = [f"columns kept by {ALL}, which no option names"] if ALL in columns["keep"] else []
    return list(dict.fromkeys([*dates, *kept])), other


def _shown_spans(run: Path, styles: Styles) -> dict[str, list[tuple[int, int, str]]]:
    """Return by note what the output shows in full or in part: (start, end, label) in the output."""
    found: defaultdict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for entry in read_lines(run / SPANS):
        if entry["new_start"] < entry["new_end"] and (entry.get("shown") or not styles.hides(entry["label"])):
            found[entry["place"]].append((entry["new_start"], entry["new_end"], entry["label"]))
    return dict(found)


def _plain(value: str) -> str:
    return " ".join(value.split()).casefold()


def _shared(values: Mapping[str, _Values], notes: int, not_counted: Sequence[str]) -> Residual:
    kinds = sorted({kind for own in values.values() for kind, _ in own})
    rows = [_row(kind, _groups(values, kind)) for kind in kinds]
    together = _groups(values, None)
    small = sorted((len(ids), ids) for ids in together if len(ids) < SMALL)
    listed: list[tuple[int, tuple[str, ...]]] = []
    unlisted = 0
    for k, ids in small:
        if sum(len(shown) for _, shown in listed) + k <= MOST_LISTED:
            listed.append((k, ids))
        else:
            unlisted += k
    return Residual(
        patients=len(values),
        notes=notes,
        rows=(*rows, _row(_TOGETHER, together)),
        smallest=tuple(listed),
        unlisted=unlisted,
        not_counted=(*NOT_COUNTED, *not_counted),
    )


def _groups(values: Mapping[str, _Values], kind: str | None) -> list[tuple[str, ...]]:
    """Return the ids of each group of patients with the same values, of one kind (those who have any) or of all."""
    groups: defaultdict[_Values, list[str]] = defaultdict(list)
    for patient, own in sorted(values.items()):
        chosen = own if kind is None else frozenset(value for value in own if value[0] == kind)
        if chosen or kind is None:
            groups[chosen].append(patient)
    return [tuple(ids) for ids in groups.values()]


def _row(kind: str, groups: Sequence[tuple[str, ...]]) -> SharedValues:
    sizes = Counter(len(ids) for ids in groups)
    return SharedValues(
        kind,
        patients=sum(k * number for k, number in sizes.items()),
        groups=len(groups),
        alone=sizes[1],
        in_small_groups=sum(k * number for k, number in sizes.items() if k < SMALL),
    )
