"""A trained ensemble as one object: documents in, spans out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ensemble_deid.config import Config
from ensemble_deid.features.batch import Batch
from ensemble_deid.pipeline.feature_extractor import FeatureExtractor
from ensemble_deid.pipeline.inclusion import InclusionList
from ensemble_deid.pipeline.portions import portions
from ensemble_deid.pipeline.submodels import refuse_unknown
from ensemble_deid.stacking.stacker import Stacker, check_threshold
from ensemble_deid.taggers.base import Proposals, TrainableTagger
from ensemble_deid.text.document import Document
from ensemble_deid.text.span import Span, drop_overlaps
from ensemble_deid.text.tags import TagScheme
from ensemble_deid.threads import one_thread


@dataclass(frozen=True, slots=True)
class Ensemble:
    """The submodels, the stacker that combines them, and the feature extractor that they share.

    `smaller` are the stackers of `Config.smaller_stacks`, for loading the model with some of the submodels only.
    `inclusion` lists sentences without PHI; `Deidentifier` applies it to what `predict` returns.
    """

    config: Config
    scheme: TagScheme
    feature_extractor: FeatureExtractor
    taggers: Mapping[str, TrainableTagger] = field(repr=False)
    stacker: Stacker = field(repr=False)
    smaller: tuple[Stacker, ...] = field(default=(), repr=False)
    inclusion: InclusionList | None = field(default=None, repr=False)

    def propose(self, batch: Batch) -> dict[str, Proposals]:
        """Return every submodel's proposals for a batch."""
        # One thread: summing in another order would make the last digits depend on the number of cores.
        with one_thread():
            n_best = self.config.stack.n_best
            return {name: tagger.propose(batch, n_best=n_best) for name, tagger in self.taggers.items()}

    def predict(
        self, documents: Sequence[Document], *, submodel: str | None = None, threshold: float | None = None
    ) -> list[tuple[Span, ...]]:
        """Return the PHI spans of every document, in text order, without overlaps.

        With `submodel`, that submodel's own predictions are returned instead of the ensemble's. `threshold` overrides
        the model's: 0 returns every candidate that does not overlap a higher-scoring one, as operating points need
        them. Raises ConfigError for a submodel that the model does not have, or a threshold outside [0, 1].
        """
        refuse_unknown(submodel, self.taggers)
        check_threshold(threshold)
        found: list[list[Span]] = [[] for _ in documents]
        for portion in portions(documents):
            batch = self.feature_extractor.extract([piece.document for piece in portion])
            for piece, spans in zip(portion, self._predict_batch(batch, submodel, threshold), strict=True):
                found[piece.index].extend(piece.in_whole(span) for span in spans)
        return [tuple(spans) for spans in found]

    def _predict_batch(self, batch: Batch, submodel: str | None, threshold: float | None) -> list[tuple[Span, ...]]:
        if not len(batch.tokens):
            return [() for _ in batch.documents]
        if submodel is not None:
            with one_thread():
                best = self.taggers[submodel].propose(batch, n_best=1).best
            return [drop_overlaps(spans) for spans in best]
        proposals = self.propose(batch)
        with one_thread():
            return self.stacker.predict(proposals, batch, threshold=threshold)
