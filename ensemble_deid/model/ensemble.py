"""A trained ensemble as one object: documents in, spans out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ensemble_deid.config import Config
from ensemble_deid.features.batch import Batch
from ensemble_deid.model.arithmetic import arithmetic_in_use
from ensemble_deid.model.combiners import SVM, combine_named
from ensemble_deid.model.description import ModelDescription
from ensemble_deid.model.feature_extractor import FeatureExtractor
from ensemble_deid.model.inclusion import InclusionList
from ensemble_deid.model.manifest import Manifest
from ensemble_deid.model.options import AS_TRAINED, PredictionOptions
from ensemble_deid.model.portions import portions
from ensemble_deid.note.document import Document
from ensemble_deid.note.overlaps import drop_overlaps
from ensemble_deid.note.reading import read
from ensemble_deid.note.span import Span
from ensemble_deid.note.tags import TagScheme
from ensemble_deid.reproducible import one_thread
from ensemble_deid.stacking.stacker import Stacker
from ensemble_deid.stacking.voting import BestMembers
from ensemble_deid.taggers.base import Proposals, Tagger


@dataclass(frozen=True, slots=True)
class Ensemble:
    """The submodels, the stacker that combines them, and the feature extractor that they share.

    `smaller` are the stackers of `Config.smaller_stacks`, for loading the model with some of the submodels only.
    `best_members` are those that the combiner `per-type` takes for each label; empty where they were never chosen.
    `inclusion` lists sentences without PHI; `Deidentifier` applies it to what `predict` returns. `manifest` is the
    record of the training, None before that has ended.
    """

    config: Config
    scheme: TagScheme
    feature_extractor: FeatureExtractor
    taggers: Mapping[str, Tagger] = field(repr=False)
    stacker: Stacker = field(repr=False)
    smaller: tuple[Stacker, ...] = field(default=(), repr=False)
    inclusion: InclusionList | None = field(default=None, repr=False)
    best_members: BestMembers = field(default_factory=dict, repr=False)
    manifest: Manifest | None = field(default=None, repr=False)

    @property
    def description(self) -> ModelDescription:
        """The model's metadata."""
        return ModelDescription(
            tuple(self.taggers),
            self.scheme.labels,
            self.stacker.threshold,
            arithmetic_in_use(self.taggers),
            self.best_members,
            self.inclusion,
            manifest=self.manifest,
        )

    def propose(self, batch: Batch) -> dict[str, Proposals]:
        """Return every submodel's proposals for a batch."""
        # One thread: summing in another order would make the last digits depend on the number of cores.
        with one_thread():
            n_best = self.config.stack.n_best
            return {name: tagger.propose(batch, n_best=n_best) for name, tagger in self.taggers.items()}

    def predict(self, documents: Sequence[Document], options: PredictionOptions = AS_TRAINED) -> list[tuple[Span, ...]]:
        """Return the PHI spans of every document, in text order, without overlaps.

        Raises ConfigError for what `ModelDescription.check_options` refuses.
        """
        self.description.check_options(options)
        readings = [read(document.text) for document in documents]
        views = [reading.document(document) for reading, document in zip(readings, documents, strict=True)]
        found: list[list[Span]] = [[] for _ in documents]
        for portion in portions(views):
            batch = self.feature_extractor.extract([piece.document for piece in portion])
            for piece, spans in zip(portion, self._predict_batch(batch, options), strict=True):
                found[piece.index].extend(piece.in_whole(span) for span in spans)
        return [reading.original_spans(spans) for reading, spans in zip(readings, found, strict=True)]

    def _predict_batch(self, batch: Batch, options: PredictionOptions) -> list[tuple[Span, ...]]:
        if not len(batch.tokens):
            return [() for _ in batch.documents]
        if options.submodel is not None:
            with one_thread():
                best = self.taggers[options.submodel].propose(batch, n_best=1).best
            return [drop_overlaps(spans) for spans in best]
        proposals = self.propose(batch)
        if options.combiner != SVM:
            return combine_named(options.combiner, proposals, labels=self.scheme.labels, members=self.best_members)
        with one_thread():
            return self.stacker.predict(proposals, batch, threshold=options.threshold)
