"""Notes of several patients with invented names, and a tiny shareable stack trained on them."""

from pathlib import Path

import tiny_stack

from ensemble_deid.config import Config, make_config
from ensemble_deid.note.document import Document
from ensemble_deid.training.train import Trained, train

# No word of any language, so that whatever finds one in a model has found its patient.
NAMES = ("Qorvax Zindle", "Brumpfe Yalkor", "Trezzil Wubnor", "Vaxomy Dreltz", "Plundra Kizzov", "Gwextal Obnurr")
DOCTOR = "Snarqwit"


def notes() -> list[Document]:
    """Return two notes for each of six patients; "Grace Hunt", of English words, is the name of a seventh."""
    made = []
    for number, name in enumerate((*NAMES, "Grace Hunt")):
        for k in range(2):
            made.append(
                tiny_stack.note(
                    f"{500 + number}-{k}",
                    "Patient: ",
                    (name, "PATIENT"),
                    f"\nRecord {number}{k}\nHospital: ",
                    ("Mercy Hospital", "HOSPITAL"),
                    "\n\n",
                    (f"Mr. {name.split()[1]}" if k else name.split()[0], "PATIENT"),
                    " has chest pain and fever. He came with grace. BP 120/80.\nSeen by Dr. ",
                    (DOCTOR, "DOCTOR"),
                    " on ",
                    (f"{number + 1:02}/{10 + k}/2019", "DATE"),
                    ".\n",
                    patient=str(500 + number),
                )
            )
    return made


def config(folder: Path, *, shareable: bool = True) -> Config:
    """Return the configuration of a stack that trains in seconds, with English as its public list."""
    patterns = folder / "tiny.toml"
    patterns.write_text(tiny_stack.PATTERNS, encoding="utf-8")
    return make_config(
        {
            "shareable": shareable,
            "folds": 2,
            "jobs": 1,
            "text": {"knowledge": "en"},
            "regex": {"patterns": str(patterns)},
            "crf": {"max_iterations": 8},
            "neural": {"epochs": 1, "hidden": 8, "word_dimension": 8, "character_dimension": 4, "channels": 2},
            "stack": {"c_grid": [1.0], "gamma_grid": [0.01], "weight_grid": [1.0]},
        }
    )


def trained(folder: Path, *, shareable: bool = True, documents: list[Document] | None = None) -> Trained:
    """Train on the notes."""
    given = notes() if documents is None else documents
    return train(given, [], config=config(folder, shareable=shareable), report=lambda step: None)
