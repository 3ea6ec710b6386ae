"""A full stack that trains in seconds: a few hand-made notes, four labels, every submodel as small as it can be."""

from pathlib import Path

from ensemble_deid.note.document import Document
from ensemble_deid.note.span import Span

PATTERNS = r"""
name = "tiny"

[[pattern]]
name = "slashed date"
label = "DATE"
regex = '\b\d\d/\d\d/\d{4}\b'
positive = ["seen «03/04/2020» again"]
negative = ["blood pressure 120/80"]
"""
SETTINGS = {
    "neural.epochs": "1",
    "neural.hidden": "8",
    "neural.word_dimension": "8",
    "neural.character_dimension": "4",
    "neural.channels": "2",
    "crf.max_iterations": "8",
    "stack.c_grid": "[1.0]",
    "stack.gamma_grid": "[0.01]",
    "stack.weight_grid": "[1.0]",
}
_PEOPLE = ("Anna Bell", "Omar Diaz", "Lena Frost", "Peter Gale", "Maria Hunt", "John Irons", "Ruth Jarvis", "Carl Kemp")
_CITIES = ("Lyndale", "Westport", "Marbury", "Oakfield")


def settings(folder: Path, **others: str) -> list[str]:
    """Return the arguments of `train` that make it tiny; the patterns are written into `folder`."""
    patterns = folder / "tiny.toml"
    patterns.write_text(PATTERNS, encoding="utf-8")
    chosen = {"regex.patterns": str(patterns), **SETTINGS, **others}
    return [
        "--folds=2",
        "--jobs=1",
        "--quiet",
        *(part for key, value in chosen.items() for part in ("--set", f"{key}={value}")),
    ]


def note(identity: str, *parts: str | tuple[str, str], patient: str | None = None) -> Document:
    """Put a note together from plain strings and (string, label) pairs."""
    text = ""
    spans = []
    for part in parts:
        surface, label = part if isinstance(part, tuple) else (part, "")
        if label:
            spans.append(Span(len(text), len(text) + len(surface), label))
        text += surface
    return Document(identity, text, tuple(spans), patient_id=patient)


def notes(first_patient: int = 300, patients: int = 4) -> list[Document]:
    """Return two notes for each patient, with a name, dates, a town and a doctor in each."""
    made = []
    for p in range(patients):
        name, city = _PEOPLE[(first_patient + p) % len(_PEOPLE)], _CITIES[p % len(_CITIES)]
        for k in range(2):
            doctor = _PEOPLE[(p * 3 + k * 5 + 1) % len(_PEOPLE)].split()[1]
            date = f"{p + 1:02}/{10 + k:02}/2019"
            made.append(
                note(
                    f"{first_patient + p}-{k + 1:02}",
                    "Patient: ",
                    (name, "PATIENT"),
                    "\nDate: ",
                    (date, "DATE"),
                    "\nCity: ",
                    (city, "CITY"),
                    "\n\nSeen by Dr. ",
                    (doctor, "DOCTOR"),
                    " for chest pain. BP 120/80.\nBack on ",
                    (date, "DATE"),
                    ".\n",
                    patient=str(first_patient + p),
                )
            )
    return made
