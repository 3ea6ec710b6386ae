"""What a run did, in numbers, for whoever watches runs: how often each label was found, and against another run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from typing import NotRequired, TypedDict

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.errors import CorpusError
from ensemble_deid.note.counts import ratio
from ensemble_deid.parsing import read_text, strict_json

ALL = "all labels"


class Rate(TypedDict):
    """How many spans there are, and how many in 1000 words; None without words."""

    spans: int
    per_1000_words: float | None


class Drift(TypedDict):
    """The rate of another run, this run's divided by it, and their difference in its standard errors (Poisson)."""

    per_1000_words: float | None
    ratio: float | None
    z: float | None


class Against(TypedDict):
    """The other run, and how each label's rate differs from what it was there."""

    head: str
    withheld_share: float | None
    labels: dict[str, Drift]


class SummaryDict(TypedDict):
    """A run's summary, as JSON has it."""

    written: int
    withheld: int
    withheld_share: float | None
    words: int
    labels: dict[str, Rate]
    counts: dict[str, int]
    head: str
    against: NotRequired[Against]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run did: how many notes it wrote, why others are withheld, and what it counted.

    `labels` counts the spans in the `words` words of the notes written. `warnings` are what whoever hands out the
    output must know. `folder` is the run's folder, for `verify_run`, and `head` the last hash of its manifest.
    `finished_before` where `resume` found nothing left to do. `model` and `options` are those of the run.

    >>> from ensemble_deid import RunSummary
    >>> RunSummary(folder="clean.csv.run", written=2, labels={"DATE": 3}, words=60).to_dict()["labels"]["DATE"]
    {'spans': 3, 'per_1000_words': 50.0}
    """

    folder: Path
    written: int = 0
    withheld: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, int] = field(default_factory=dict)
    words: int = 0
    warnings: tuple[str, ...] = ()
    head: str = ""
    finished_before: bool = False
    model: Deidentifier | None = field(default=None, repr=False)
    options: RunOptions = field(default_factory=RunOptions, repr=False)

    def to_dict(self, *, against: SummaryDict | None = None) -> SummaryDict:
        """Return the counts as JSON has them, and with another run's summary how the rates differ from its rates."""
        spans = {ALL: sum(self.labels.values()), **dict(sorted(self.labels.items()))}
        summary = SummaryDict(
            written=self.written,
            withheld=len(self.withheld),
            withheld_share=_rounded(ratio(len(self.withheld), self.written + len(self.withheld))),
            words=self.words,
            labels={
                label: Rate(spans=n, per_1000_words=_rounded(ratio(1000 * n, self.words))) for label, n in spans.items()
            },
            counts={name: n for name, n in sorted(self.counts.items()) if name not in ("written", "withheld")},
            head=self.head,
        )
        if against is not None:
            summary["against"] = Against(
                head=against["head"],
                withheld_share=against["withheld_share"],
                labels={
                    label: _drift(summary, against, label) for label in sorted({*summary["labels"], *against["labels"]})
                },
            )
        return summary


def write_summary(path: Path, summary: RunSummary, against: SummaryDict | None) -> None:
    write_text_atomically(path, json.dumps(summary.to_dict(against=against), indent=2, ensure_ascii=False) + "\n")


def read_summary(path: Path) -> SummaryDict:
    """Read what `write_summary` wrote. Raises CorpusError."""
    try:
        content = strict_json(read_text(path, CorpusError, missing="no such summary of a run"))
        rates = {str(k): Rate(spans=int(v["spans"]), per_1000_words=None) for k, v in content["labels"].items()}
        return SummaryDict(
            written=int(content["written"]),
            withheld=int(content["withheld"]),
            withheld_share=content["withheld_share"],
            words=int(content["words"]),
            labels=rates,
            counts={},
            head=str(content["head"]),
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        raise CorpusError(f"{path}: not a run summary as --summary writes it") from None


def _drift(now: SummaryDict, before: SummaryDict, label: str) -> Drift:
    counts = [side["labels"][label]["spans"] if label in side["labels"] else 0 for side in (now, before)]
    words = [now["words"], before["words"]]
    if not all(words):
        return Drift(per_1000_words=None, ratio=None, z=None)
    (new, new_error), (old, old_error) = ((n / size, n / size**2) for n, size in zip(counts, words, strict=True))
    z = ratio(new - old, sqrt(new_error + old_error))
    return Drift(per_1000_words=_rounded(1000 * old), ratio=_rounded(ratio(new, old)), z=_rounded(z))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
