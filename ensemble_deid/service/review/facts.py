"""What a store knows about the model whose spans are reviewed."""

import json
from dataclasses import dataclass

from ensemble_deid.service.review.errors import ReviewError
from ensemble_deid.service.review.file import ReviewFile


@dataclass(frozen=True, slots=True)
class Facts:
    """The model's checksum and threshold, and the labels that reviewers can give: the model's, then further ones."""

    checksum: str
    threshold: float
    labels: tuple[str, ...]


def read_facts(file: ReviewFile) -> Facts:
    """Return what was stored. Raises ReviewError where nothing was."""
    with file.transaction() as database:
        rows = {row["name"]: json.loads(row["value"]) for row in database.execute("SELECT name, value FROM facts")}
    if not rows:
        raise ReviewError(f"{file.path}: the review holds no notes yet")
    return Facts(rows["checksum"], rows["threshold"], tuple(rows["labels"]))


def settle_facts(file: ReviewFile, facts: Facts) -> Facts:
    """Store the facts of a new review, or check those of an old one; labels are added to it.

    Raises ReviewError where the review was begun with another model: its spans cannot be explained by this one.
    """
    with file.transaction() as database:
        empty = database.execute("SELECT 1 FROM facts").fetchone() is None
    if not empty:
        known = read_facts(file)
        if (known.checksum, known.threshold) != (facts.checksum, facts.threshold):
            raise ReviewError(f"{file.path}: was begun with another model, or another threshold; use a new --store")
        facts = Facts(known.checksum, known.threshold, tuple(dict.fromkeys((*known.labels, *facts.labels))))
    values = {"checksum": facts.checksum, "threshold": facts.threshold, "labels": facts.labels}
    with file.transaction() as database:
        rows = [(name, json.dumps(value)) for name, value in values.items()]
        database.executemany("INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)", rows)
    return facts
