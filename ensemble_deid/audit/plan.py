"""The plan of an audit: which notes are read, in which order and with which weights, drawn before any is read.

Patients (with all their notes) or single notes are drawn without replacement, from each stratum in proportion to its
size and at least two. Notes and patients that the model was trained on, or that its threshold was chosen on, are left
out: figures on them would speak of its memory.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from ensemble_deid.audit.bounds import notes_to_read
from ensemble_deid.audit.release import AuditSide, Release
from ensemble_deid.errors import ConfigError
from ensemble_deid.evaluation.operating_points import chosen_threshold
from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.model.manifest import Manifest
from ensemble_deid.model.seen_notes import SeenNotes
from ensemble_deid.note.document import Document
from ensemble_deid.parsing import read_text, strict_json
from ensemble_deid.seeds import generator

AuditUnit = Literal["patient", "note"]
_LEAST_OF_A_STRATUM = 2
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class DrawnNote:
    """A note to read: its name, the number of the unit that it belongs to, that unit's stratum and weight."""

    note: str
    unit: int
    stratum: str
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlan:
    """A sample of a run and how it was drawn; `notes` are in the order in which they are to be read.

    `run` is the last hash of the run's manifest, `model` the model's checksum. `strata` gives for each stratum how many
    units the frame has, and how many were drawn. `left_out` counts notes that the model has seen; `fingerprints` is
    False where the model holds none, so that nothing is known of these.
    """

    run: str
    model: str
    side: AuditSide
    unit: AuditUnit
    by: tuple[str, ...]
    bound: float
    confidence: float
    seed: int
    strata: Mapping[str, tuple[int, int]]
    frame_notes: int
    left_out: int
    fingerprints: bool
    kept_labels: tuple[str, ...]
    notes: tuple[DrawnNote, ...]

    @property
    def units(self) -> int:
        """How many patients, or notes, were drawn."""
        return len({note.unit for note in self.notes})

    @property
    def frame_units(self) -> int:
        """How many patients, or notes, there were to draw from."""
        return sum(size for size, _ in self.strata.values())

    @property
    def equal(self) -> bool:
        """Whether every unit was drawn with the same probability, but for rounding (a tenth)."""
        weights = [note.weight for note in self.notes]
        return max(weights) <= 1.1 * min(weights)

    @property
    def digest(self) -> str:
        """The SHA-256 of the plan, by which its store and its report name it."""
        return hashlib.sha256(self.to_json().encode("utf-8")).hexdigest()

    def to_json(self) -> str:
        """Return the plan as text; `read_plan` reads it back."""
        return json.dumps({"format": _FORMAT, **asdict(self)}, indent=1, ensure_ascii=False) + "\n"


def read_plan(path: Path) -> AuditPlan:
    """Read a plan. Raises ConfigError where the file holds none."""
    try:
        content = strict_json(read_text(path, ConfigError))
        if content.pop("format") != _FORMAT:
            raise ConfigError(f"{path}: was made by another version of ensemble-deid")
        notes = tuple(DrawnNote(**note) for note in content.pop("notes"))
        strata = {name: (size, drawn) for name, (size, drawn) in content.pop("strata").items()}
        lists: dict[str, Any] = {name: tuple(content.pop(name)) for name in ("by", "kept_labels")}
        return AuditPlan(notes=notes, strata=strata, **lists, **content)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ConfigError(f"{path}: not an audit plan") from None


def draw_plan(
    release: Release,
    manifest: Manifest,
    *,
    unit: AuditUnit = "patient",
    by: Sequence[str] = (),
    bound: float = 0.01,
    confidence: float = 0.95,
    leaks: int = 0,
    size: int | None = None,
    seed: int = 0,
) -> AuditPlan:
    """Draw the notes of an audit: `size` units, else as many as show `bound` if `leaks` of them leak.

    `manifest` is that of the run's model. Raises ConfigError where it is another model's, or nothing is left to draw
    from, and EvaluationError for an impossible bound.
    """
    if release.run.settings["model"] != manifest.checksum:
        raise ConfigError("the run was made by another model: its threshold or its parts may have changed since")
    seen = seen_by(manifest, release.documents)
    frame = [note for note, known in zip(release.documents, seen, strict=True) if not known]
    if not frame:
        raise ConfigError("the run has no note that its model has not seen in training")
    wanted = notes_to_read(bound, leaks=leaks, confidence=confidence) if size is None else size
    if wanted < 1:
        raise EvaluationError(f"an audit reads at least one note, not {wanted}")
    members = _members(frame, unit)
    strata: defaultdict[str, list[str]] = defaultdict(list)
    for name, notes in members.items():
        strata[_stratum(notes, by)].append(name)
    sizes = {name: len(units) for name, units in sorted(strata.items())}
    numbers = allocate(sizes, wanted)
    rng = generator(seed, "audit/sample")
    drawn: list[tuple[str, str]] = []
    for stratum, number in numbers.items():
        chosen = rng.permutation(len(strata[stratum]))[:number]
        drawn += [(stratum, strata[stratum][index]) for index in chosen.tolist()]
    ordered = [drawn[index] for index in rng.permutation(len(drawn)).tolist()]
    return AuditPlan(
        run=release.run.head,
        model=manifest.checksum,
        side=release.side,
        unit=unit,
        by=tuple(by),
        bound=bound,
        confidence=confidence,
        seed=seed,
        strata={name: (sizes[name], numbers[name]) for name in sizes},
        frame_notes=len(frame),
        left_out=sum(seen),
        fingerprints=bool(manifest.seen_notes),
        kept_labels=tuple(sorted(release.kept)),
        notes=tuple(
            DrawnNote(note.id, number, stratum, sizes[stratum] / numbers[stratum])
            for number, (stratum, name) in enumerate(ordered, start=1)
            for note in members[name]
        ),
    )


def allocate(sizes: Mapping[str, int], wanted: int) -> dict[str, int]:
    """Divide a sample among strata in proportion to their sizes, rounded up, at least two of each as far as it has two.

    >>> from ensemble_deid.audit.plan import allocate
    >>> allocate({"ward": 900, "clinic": 99, "lab": 1}, 100)
    {'ward': 90, 'clinic': 10, 'lab': 1}
    """
    total = sum(sizes.values())
    return {
        name: min(size, max(_LEAST_OF_A_STRATUM, -(-wanted * size // total))) if len(sizes) > 1 else min(size, wanted)
        for name, size in sizes.items()
    }


def seen_by(manifest: Manifest, documents: Sequence[Document]) -> list[bool]:
    """Return for each note whether the model was trained on it or its patient, or its threshold was chosen on it."""
    seen = SeenNotes.from_record(manifest.seen_notes)
    chosen = chosen_threshold(manifest.figures)
    return [
        bool(seen.overlap([document])) or (chosen is not None and chosen.notes.shared([document]) > 0)
        for document in documents
    ]


def _members(frame: Sequence[Document], unit: AuditUnit) -> dict[str, list[Document]]:
    """Return the notes of each unit; a note of an unknown patient is a unit of its own."""
    members: defaultdict[str, list[Document]] = defaultdict(list)
    for note in frame:
        members[note.patient if unit == "patient" else note.id].append(note)
    return dict(members)


def _stratum(notes: Sequence[Document], by: Sequence[str]) -> str:
    """Return what most of a unit's notes have in the columns; of several, the first by name."""
    found = Counter(" / ".join(note.metadata[name] for name in by) for note in notes)
    return min(found, key=lambda name: (-found[name], name))
