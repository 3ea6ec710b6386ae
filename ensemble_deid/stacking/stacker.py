"""Stacked generalisation (Wolpert 1992; Kim and Riloff 2015; Zhao et al. 2020): the SVM decides which spans stand."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from ensemble_deid.config import Config
from ensemble_deid.errors import ModelError
from ensemble_deid.features.batch import Batch
from ensemble_deid.stacking.candidates import collect
from ensemble_deid.stacking.evidence import Evidence
from ensemble_deid.stacking.features import candidate_features, measure_statistics
from ensemble_deid.stacking.search import choose
from ensemble_deid.stacking.statistics import KeyStatistics
from ensemble_deid.stacking.surroundings import look_around
from ensemble_deid.stacking.svm import Sigmoid, Svm
from ensemble_deid.taggers.base import Proposals
from ensemble_deid.text.span import Span, drop_overlaps

SVM, STATISTICS, SETTINGS = "stacker.safetensors", "stacker_statistics.json", "stacker.json"


@dataclass(frozen=True, slots=True)
class Stacker:
    """A trained judge over the candidates of a fixed set of submodels."""

    submodels: tuple[str, ...]
    labels: tuple[str, ...]
    svm: Svm
    statistics: KeyStatistics
    sigmoid: Sigmoid
    threshold: float
    min_confidence: float
    cv_f1: float | None

    @classmethod
    def fit(cls, evidence: Evidence, *, config: Config, progress: Callable[[str], None]) -> "Stacker":
        """Train on out-of-fold evidence, its settings chosen by grouped cross-validation."""
        table, right = evidence.table, evidence.right
        statistics = measure_statistics(table, evidence.around, right)
        features = candidate_features(table, evidence.around, statistics, counted=right)
        progress(f"stacker: {len(table)} candidates, {int(right.sum())} of them right, {features.shape[1]} features")
        chosen = choose(evidence, features, config=config, progress=progress)
        with threadpool_limits(1):
            svm = Svm.fit(features, right, chosen.settings)
        return cls(
            table.submodels,
            table.labels,
            svm,
            statistics,
            chosen.sigmoid,
            chosen.threshold,
            config.stack.min_confidence,
            chosen.cv_f1,
        )

    def scored(self, proposals: Mapping[str, Proposals], batch: Batch) -> list[list[Span]]:
        """Return every candidate with the judge's probability as score, a list for each document."""
        ordered = {name: proposals[name] for name in self.submodels}
        table = collect(ordered, labels=self.labels, min_confidence=self.min_confidence)
        if not len(table):
            return [[] for _ in batch.documents]
        features = candidate_features(table, look_around(table, batch), self.statistics)
        probability = self.sigmoid.probability(self.svm.decide(features))
        return table.spans(probability, np.ones(len(table), bool), len(batch.documents))

    def judge(
        self, proposals: Mapping[str, Proposals], batch: Batch, *, threshold: float | None = None
    ) -> list[tuple[Span, ...]]:
        """Return the candidates that stand: probability at least the threshold, then no overlaps."""
        limit = self.threshold if threshold is None else threshold
        return [drop_overlaps(s for s in spans if s.score >= limit) for spans in self.scored(proposals, batch)]

    def save(self, directory: Path) -> None:
        """Write arrays as safetensors and the rest as JSON."""
        (directory / SVM).write_bytes(self.svm.to_bytes())
        (directory / STATISTICS).write_text(self.statistics.to_json(), encoding="utf-8")
        content = {
            "submodels": list(self.submodels),
            "labels": list(self.labels),
            "sigmoid": [self.sigmoid.slope, self.sigmoid.offset],
            "threshold": self.threshold,
            "min_confidence": self.min_confidence,
            "cv_f1": self.cv_f1,
        }
        (directory / SETTINGS).write_text(json.dumps(content, indent=1), encoding="utf-8")

    @classmethod
    def load(cls, directory: Path) -> "Stacker":
        """Read what `save` wrote. Raises ModelError."""
        svm = Svm.from_bytes((directory / SVM).read_bytes())
        statistics = KeyStatistics.from_json((directory / STATISTICS).read_text(encoding="utf-8"))
        try:
            content = json.loads((directory / SETTINGS).read_text(encoding="utf-8"))
            sigmoid = Sigmoid(float(content["sigmoid"][0]), float(content["sigmoid"][1]))
            return cls(
                tuple(content["submodels"]),
                tuple(content["labels"]),
                svm,
                statistics,
                sigmoid,
                float(content["threshold"]),
                float(content["min_confidence"]),
                content["cv_f1"],
            )
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise ModelError(f"{directory / SETTINGS}: damaged ({type(error).__name__})") from None
