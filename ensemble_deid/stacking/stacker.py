"""Stacked generalisation (Wolpert 1992; Kim and Riloff 2015; Zhao et al. 2020): the final estimator picks the spans."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path

import numpy as np

from ensemble_deid.arrays import Floats
from ensemble_deid.config import Config
from ensemble_deid.errors import ConfigError, ModelError
from ensemble_deid.features.batch import Batch
from ensemble_deid.note.overlaps import drop_overlaps, suppressed_scores
from ensemble_deid.note.span import Span
from ensemble_deid.parsing import strict_json
from ensemble_deid.reproducible import one_thread
from ensemble_deid.seeds import generator
from ensemble_deid.stacking.context import MENTIONS, extract_candidates
from ensemble_deid.stacking.dataset import StackingDataset
from ensemble_deid.stacking.features import KeyStatistics, candidate_features, measure_statistics
from ensemble_deid.stacking.search import choose, least_patients, sample_rows
from ensemble_deid.stacking.sequence_scores import HIGHEST, pooled_with_sequences, single_tokens
from ensemble_deid.stacking.site_stage import ScoredCandidates, SiteStage
from ensemble_deid.stacking.svm import Sigmoid, Svm
from ensemble_deid.stacking.text_tables import COLUMN
from ensemble_deid.stacking.trees import TreePair
from ensemble_deid.taggers.base import Proposals

SVM, STATISTICS, SETTINGS = "stacker.safetensors", "stacker_statistics.safetensors", "stacker.json"
TREES, SITE = "stacker_trees.safetensors", "stacker_site.json"
"""The trees beside the SVM (`trees.py`), and the correction learned from a site's reviewed notes (`site_stage.py`)."""
_PLAIN = ("threshold", "cv_threshold", "min_confidence", "cv_f1", "net", "mentions", "tables", "tokens", "pool_weight")
"""The fields that the settings hold as they are."""


def check_threshold(threshold: float | None) -> None:
    """Raise ConfigError unless a threshold is a number from 0 to 1, or None for the model's own."""
    # What is not a number at all (NaN) lies on neither side of a bound.
    if threshold is not None and not (isinstance(threshold, Real) and 0 <= threshold <= 1):
        raise ConfigError(f"a threshold must be a number from 0 to 1, not {threshold!r}")


@dataclass(frozen=True, slots=True)
class Stacker:
    """The final estimator, fitted to the candidates of a fixed set of submodels.

    `threshold` is the one in use: `cv_threshold`, chosen by cross-validation, unless the configuration or
    `model threshold` set another. Of the labels `unseen` it has learned nothing: in place of a probability,
    their candidates have the highest confidence of a submodel. `pool_weight` is that of the sequence models in a
    candidate's score (`sequence_scores.py`), where there are no `trees` (`trees.py`). `site` corrects the
    scores for one site.
    """

    submodels: tuple[str, ...]
    labels: tuple[str, ...]
    svm: Svm
    statistics: KeyStatistics
    sigmoid: Sigmoid
    threshold: float
    cv_threshold: float
    min_confidence: float
    cv_f1: float | None
    net: bool = False
    mentions: bool = False
    tables: bool = False
    tokens: bool = False
    unseen: tuple[str, ...] = ()
    pool_weight: float = 0.0
    trees: TreePair | None = None
    site: SiteStage | None = None

    @classmethod
    def fit(cls, dataset: StackingDataset, *, config: Config, progress: Callable[[str], None]) -> "Stacker":
        """Fit to out-of-fold candidates, with settings chosen by cross-validation grouped as the folds are."""
        return cls.fit_and_score(dataset, config=config, progress=progress)[0]

    @classmethod
    def fit_and_score(
        cls, dataset: StackingDataset, *, config: Config, progress: Callable[[str], None]
    ) -> tuple["Stacker", Floats]:
        """Fit as `fit` does; return with it each candidate's probability by cross-validation, (n,)."""
        table, correct = dataset.table, dataset.correct
        statistics = measure_statistics(table, dataset.context, correct, min_patients=least_patients(config))
        features = candidate_features(table, dataset.context, statistics, counted=correct)
        progress(
            f"stacker: {len(table)} candidates, {int(correct.sum())} of them correct, {features.shape[1]} features"
        )
        judged = np.flatnonzero(~table.has_label(dataset.unseen))
        # Not copied for nothing: the features of a large corpus take much memory.
        known = (dataset, features) if len(judged) == len(table) else (dataset.select(judged), features[judged])
        chosen = choose(*known, config=config, progress=progress)
        rng = generator(config.seed, "stacker fit")
        rows = sample_rows(judged, config.stack.fit_candidates, rng)
        with one_thread():
            svm = Svm.fit(features[rows], correct[rows], chosen.settings)
        trees = None
        if config.stack.trees:
            targets = {"correct": correct[judged], "phi": dataset.phi[judged]}
            trees = TreePair.fit(chosen.svm, features[judged], **targets)
        stacker = cls(
            table.submodels,
            table.labels,
            svm,
            statistics,
            sigmoid=chosen.sigmoid,
            threshold=chosen.cv_threshold if config.stack.threshold is None else config.stack.threshold,
            cv_threshold=chosen.cv_threshold,
            min_confidence=config.stack.min_confidence,
            cv_f1=chosen.cv_f1,
            net=bool(dataset.context.more.of_kinds("net").shape[1]),
            mentions=bool(dataset.context.more.of_kinds(*MENTIONS).shape[1]),
            tables=bool(dataset.context.more.of_kinds(COLUMN).shape[1]),
            tokens=config.stack.tokens,
            unseen=dataset.unseen,
            pool_weight=config.stack.pool_weight,
            trees=trees,
        )
        probability = table.highest_confidence()
        probability[judged] = chosen.probability
        return stacker, probability

    def predict_proba(
        self, proposals: Mapping[str, Proposals], batch: Batch, *, least: float = 0.0
    ) -> list[list[Span]]:
        """Return every candidate of each document, scored with its probability of being PHI.

        Where `tokens` is set, the likeliest single tokens that no candidate covers are among them, unless `least`, the
        lowest score of interest, lies above the scores of all such tokens.
        """
        return self.resolved(self.scored(proposals, batch), proposals, batch, least=least)

    def resolved(
        self, scored: ScoredCandidates, proposals: Mapping[str, Proposals], batch: Batch, *, least: float = 0.0
    ) -> list[list[Span]]:
        """Return what `predict_proba` does, for candidates that `scored` has scored already."""
        table = scored.table
        found: list[list[Span]] = [[] for _ in batch.documents]
        if len(table):
            corrected = (scored.probability, scored.score)
            if self.site is not None:
                corrected = self.site.corrected(batch.documents, scored)
            unseen, confidence = table.has_label(self.unseen), table.highest_confidence()
            rank, scores = (np.where(unseen, confidence, values) for values in corrected)
            found = table.spans(suppressed_scores(rank, scores, table), np.ones(len(table), bool), len(batch.documents))
        if not self.tokens or least >= HIGHEST:
            return found
        kept = [drop_overlaps(spans) for spans in found]
        ordered = {name: proposals[name] for name in self.submodels}
        tokens = single_tokens(kept, ordered, batch, labels=self.labels, pool_weight=self.pool_weight)
        return [[*spans, *more] for spans, more in zip(found, tokens, strict=True)]

    def scored(self, proposals: Mapping[str, Proposals], batch: Batch) -> ScoredCandidates:
        """Return the candidates of a batch with the estimator's own scores, which no site has corrected."""
        table, context = extract_candidates(
            {name: proposals[name] for name in self.submodels},
            batch,
            labels=self.labels,
            min_confidence=self.min_confidence,
            net=self.net,
            mentions=self.mentions,
            density=self.trees is not None,
            tables=self.tables,
        )
        features = candidate_features(table, context, self.statistics)
        probability = self.sigmoid.probability(self.svm.decision_function(features))
        if self.trees is not None:
            rank, score = self.trees.judged(probability, features)
        else:
            rank, score = probability, pooled_with_sequences(probability, context.more, self.pool_weight)
        return ScoredCandidates(table, self.svm.standardised(features), rank, score)

    def predict(
        self,
        proposals: Mapping[str, Proposals],
        batch: Batch,
        *,
        threshold: float | None = None,
        factors: Sequence[float] | None = None,
    ) -> list[tuple[Span, ...]]:
        """Return the predicted spans of each document: probability at least the threshold, overlaps resolved.

        `factors`, one a document, multiply the threshold.
        """
        check_threshold(threshold)
        base = self.threshold if threshold is None else threshold
        limits = [base * factor for factor in factors or [1.0] * len(batch.documents)]
        scored = self.predict_proba(proposals, batch, least=min(limits, default=base))
        return [
            drop_overlaps(s for s in spans if s.score >= limit) for spans, limit in zip(scored, limits, strict=True)
        ]

    def save(self, directory: Path, *, variant: str = "") -> None:
        """Write arrays as safetensors and the rest as JSON; the files of a `variant` carry its name."""
        (directory / _of(SVM, variant)).write_bytes(self.svm.to_bytes())
        (directory / _of(STATISTICS, variant)).write_bytes(self.statistics.to_bytes())
        content = {
            "submodels": list(self.submodels),
            "labels": list(self.labels),
            "sigmoid": [self.sigmoid.slope, self.sigmoid.offset],
            **{name: getattr(self, name) for name in _PLAIN},
            "unseen": list(self.unseen),
            **{name: True for name in ("trees", "site") if getattr(self, name) is not None},
        }
        if self.trees is not None:
            (directory / _of(TREES, variant)).write_bytes(self.trees.to_bytes())
        if self.site is not None:
            (directory / _of(SITE, variant)).write_text(self.site.to_json(), encoding="utf-8")
        (directory / _of(SETTINGS, variant)).write_text(json.dumps(content, indent=1), encoding="utf-8")

    @staticmethod
    def compact_saved(directory: Path, *, variant: str = "") -> None:
        """Round the support vectors that `save` wrote to half precision."""
        path = directory / _of(SVM, variant)
        path.write_bytes(Svm.of_file(path).to_bytes(compact=True))

    @classmethod
    def load(cls, directory: Path, *, variant: str = "") -> "Stacker":
        """Read what `save` wrote. Raises ModelError where it is damaged."""
        svm = Svm.of_file(directory / _of(SVM, variant))
        statistics = KeyStatistics.of_file(directory / _of(STATISTICS, variant))
        settings = directory / _of(SETTINGS, variant)
        try:
            content = strict_json(settings.read_text(encoding="utf-8"))
            sigmoid = Sigmoid(float(content["sigmoid"][0]), float(content["sigmoid"][1]))
            threshold, cv_threshold = float(content["threshold"]), float(content["cv_threshold"])
            check_threshold(threshold)
            check_threshold(cv_threshold)
            weight = float(content.get("pool_weight", 0.0))
            if not 0 <= weight <= 1:
                raise ValueError("a weight is not a number")
            trees = site = None
            if content.get("trees", False):
                trees = TreePair.of_file(directory / _of(TREES, variant), features=len(svm.mean))
            if content.get("site", False):
                learned = (directory / _of(SITE, variant)).read_text(encoding="utf-8")
                site = SiteStage.from_json(learned, features=len(svm.mean))
            return cls(
                submodels=tuple(content["submodels"]),
                labels=tuple(content["labels"]),
                svm=svm,
                statistics=statistics,
                sigmoid=sigmoid,
                threshold=threshold,
                cv_threshold=cv_threshold,
                min_confidence=float(content["min_confidence"]),
                cv_f1=content["cv_f1"],
                net=bool(content["net"]),
                mentions=bool(content.get("mentions", False)),
                tables=bool(content.get("tables", False)),
                tokens=bool(content.get("tokens", False)),
                unseen=tuple(content.get("unseen", ())),
                pool_weight=weight,
                trees=trees,
                site=site,
            )
        except ConfigError as error:
            raise ModelError(f"{settings}: damaged: {error}") from None
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise ModelError(f"{settings}: damaged ({type(error).__name__})") from None


def _of(file: str, variant: str) -> str:
    return file.replace("stacker", f"stacker_{variant}") if variant else file
