"""Short made-up notes of thirty patients, and a model that finds just the spans that each was made with."""

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from marked_notes import marked_note

from ensemble_deid import Deidentifier
from ensemble_deid.model.ensemble import ModelDescription
from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

GIVEN = ("Anna", "Bob", "Carla", "Tyrone", "Johnny", "Elizabeth", "Hoa", "Shona")
FAMILY = ("Quist", "Green", "Morris", "Nguyen", "Irving", "Okafor", "Cassidy", "Walters", "Stone", "Banks")
TOWNS = ("Springfield, <STATE|IL>", "Portland, <STATE|OR>", "Springfield", "Quarrytown", "Austin")
LABELS = ("AGE", "CITY", "DATE", "DOCTOR", "HOSPITAL", "IDNUM", "MEDICALRECORD", "PATIENT", "PHONE", "STATE")


@dataclass
class FixedSpans:
    """Stands for a trained ensemble: it knows its notes by heart, and finds nothing in others."""

    spans: dict[str, tuple[Span, ...]] = field(default_factory=dict)

    @property
    def description(self) -> ModelDescription:
        return ModelDescription(("regex",), LABELS, 0.5, {}, {}, None)

    def predict(self, documents: Iterable[Document], _options: object) -> list[tuple[Span, ...]]:
        return [self.spans.get(note.text, ()) for note in documents]

    def enforced_spans(self, _document: Document) -> tuple[Span, ...]:
        return ()


def model_of(notes: Iterable[Document]) -> Deidentifier:
    ensemble: Any = FixedSpans({note.text: note.spans for note in notes})
    return Deidentifier(ensemble)


def made_notes(number: int = 300, patients: int = 30, seed: int = 0) -> list[Document]:
    """Return notes in which names recur, whole and in part, some unfound; dates in both orders; old birth years."""
    rng = random.Random(seed)
    people = [_Person(rng) for _ in range(patients)]
    return [
        marked_note(people[n % patients].note(rng), id=f"note-{n:03d}", patient=f"MRN{7000 + n % patients}")
        for n in range(number)
    ]


class _Person:
    def __init__(self, rng: random.Random) -> None:
        self.name = rng.choice(GIVEN), rng.choice(FAMILY)
        self.staff = [(rng.choice(GIVEN), rng.choice(FAMILY)) for _ in range(3)]
        self.mixed = rng.random() < 0.3
        self.birth = rng.randrange(1915, 1990)
        self.phone, self.mrn = f"617-{rng.randrange(200, 999)}-{rng.randrange(1000, 9999)}", rng.randrange(10**6, 10**7)

    def note(self, rng: random.Random) -> str:
        (given, family), (first, last) = self.name, rng.choice(self.staff)
        lines = [
            f"Patient: <PATIENT|{given} {family}> seen.",
            f"<PATIENT|{given}> came with pain.",
            f"{given} {family} slept well; the mother of {given} called.",
            f"Mr. <PATIENT|{family}> was told.",
            f"Referred by Dr. <DOCTOR|{first} {last}>.",
            f"Dr. <DOCTOR|{last}> agrees, signed <DOCTOR|{first[0]}{last[0]}>.",
            f"Dr. {last} was paged.",
            f"DOB <DATE|0{rng.randrange(1, 9)}/0{rng.randrange(1, 9)}/{self.birth}>.",
            f"Age <AGE|{2019 - self.birth}> years.",
            f"Seen <DATE|{self._date(rng)}>, again on <DATE|{rng.randrange(1, 12)}/{rng.randrange(1, 12)}>.",
            f"Lives in <CITY|{rng.choice(TOWNS).replace(', <STATE', '>, <STATE').removesuffix('>')}>.",
            f"Call <PHONE|{self.phone}>, extension of <PHONE|{self.phone[-4:]}>.",
            f"MRN <MEDICALRECORD|{self.mrn}>; at <HOSPITAL|{last} Memorial Hospital>.",
        ]
        return "\n".join(rng.sample(lines, 5))

    def _date(self, rng: random.Random) -> str:
        day, month, year = rng.randrange(1, 29), rng.randrange(1, 13), rng.randrange(2012, 2020)
        day_first = self.mixed and rng.random() < 0.6
        return f"{day:02d}/{month:02d}/{year}" if day_first else f"{month:02d}/{day:02d}/{year}"


def write_notes(path: Path, notes: Sequence[Document]) -> Path:
    lines = (json.dumps({"id": note.id, "patient_id": note.patient_id, "text": note.text}) for note in notes)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
