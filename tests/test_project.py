"""Projects: a patient's notes that come night by night are handed out alike, in any division and order."""

import csv
import json
import random
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path

import pytest
from made_keys import KEY, made_key
from marked_notes import marked_note
from project_notes import made_notes, model_of, write_notes

from ensemble_deid import Columns, Deidentifier, RunSummary, deidentify_table
from ensemble_deid.cli.main import main
from ensemble_deid.deidentify.project.night import Project
from ensemble_deid.deidentify.project.store import Store
from ensemble_deid.errors import ConfigError, CorpusError
from ensemble_deid.keys import Key
from ensemble_deid.note.document import Document

KEPT = Columns(id="id", patient="patient_id", keep=("id", "patient_id"))
NOTES = made_notes()


class Nights:
    """Hands out notes night by night, and has the texts as whoever received them has them now."""

    def __init__(self, folder: Path, model: Deidentifier, *, key: Key = KEY) -> None:
        self.folder, self.model, self.key = folder, model, key
        self.project = Project(store=Store.create(folder / "project", key))
        self.texts: dict[str, str] = {}
        self.runs = 0

    def night(self, notes: Sequence[Document], *, hold: int = 0, only_known: bool = False) -> RunSummary:
        self.runs += 1
        source, out = write_notes(self.folder / f"{self.runs}.jsonl", notes), self.folder / f"{self.runs}-clean.jsonl"
        project = Project(store=Store(self.folder / "project", self.key), hold=hold, only_known=only_known)
        summary = deidentify_table(
            source, out, self.model, columns=KEPT, within=project, key=self.key, style="surrogate"
        )
        self.texts |= {row["id"]: row["text"] for row in map(json.loads, out.read_text("utf-8").splitlines())}
        return summary

    def due(self) -> dict[str, str]:
        return {row.memory["id"]: row.due for row in Store(self.folder / "project", self.key).rows() if row.due}


def test_any_division_into_nights_gives_the_same_texts(tmp_path: Path) -> None:
    model, by_id = model_of(NOTES), {note.id: note for note in NOTES}
    (tmp_path / "whole").mkdir()
    whole = Nights(tmp_path / "whole", model)
    whole.night(NOTES)
    assert whole.due() == {}
    listed = changed = 0
    for seed in range(50):
        rng = random.Random(seed)
        notes = rng.sample(NOTES, len(NOTES))
        (tmp_path / str(seed)).mkdir()
        divided = Nights(tmp_path / str(seed), model)
        cuts = sorted(rng.sample(range(1, len(notes)), rng.randrange(1, 4)))
        for start, end in zip([0, *cuts], [*cuts, len(notes)], strict=True):
            divided.night(notes[start:end])
        due, other = divided.due(), {id for id, text in divided.texts.items() if text != whole.texts[id]}
        # Nothing differs that `status` does not list.
        assert other <= due.keys()
        listed, changed = listed + len(due), changed + len(other)
        divided.night([by_id[id] for id in sorted(due)])
        assert divided.texts == whole.texts
        assert divided.due() == {}
    print("listed", listed, "changed", changed)
    assert 0 < changed <= listed < 50 * len(NOTES) / 2
