"""The stack as an estimator of scikit-learn, for its cross-validation and its searches."""

import logging
from collections.abc import Sequence
from typing import Any, Self

from ensemble_deid.config import Config
from ensemble_deid.deidentify.deidentifier import Deidentifier
from ensemble_deid.deidentify.options import RunOptions
from ensemble_deid.errors import CorpusError, needs_extra
from ensemble_deid.note.counts import strict_counts
from ensemble_deid.note.document import Document
from ensemble_deid.training.train import train

with needs_extra("train", "the estimator"):
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import check_is_fitted

_LOG = logging.getLogger(__name__)


class EnsembleEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no type hints
    """Trains the stack on lists of annotated documents, and scores it on others.

    X is a list of `Document`s; their spans are what is learned and what is scored against, so there is no y. Give
    `cross_val_score` their patients (`document.group`) or sites as `groups`, with a splitter that keeps groups
    together, such as GroupKFold. `config` is the whole configuration (None: the defaults); a search goes over
    configurations: `GridSearchCV(EnsembleEstimator(), {"config": [...]}, cv=GroupKFold(5))`.

    `fit` sets `model_`, a `Deidentifier`, and `labels_`, the labels that it finds.

    >>> from ensemble_deid import Config, read_corpus
    >>> from ensemble_deid.integrations.sklearn import EnsembleEstimator
    >>> notes = list(read_corpus("demo:dev"))[:12]
    >>> estimator = EnsembleEstimator(Config(submodels=["regex"], folds=2, jobs=1)).fit(notes[:8])
    >>> 0 < estimator.score(notes[8:]) < 1
    True
    """

    model_: Deidentifier
    labels_: tuple[str, ...]

    def __init__(self, config: Config | None = None) -> None:
        self.config = config

    def fit(self, X: Sequence[Document], y: None = None) -> Self:
        """Train on annotated documents; as in `train`, folds within them keep patients or sites together.

        What `train` has to say of the patterns is logged as information, since it is said for every fold. Raises
        CorpusError when there is too little to learn from.
        """
        self.model_ = train(X, config=self.config, notify=_LOG.info).deidentifier
        self.labels_ = tuple(self.model_.labels)
        return self

    def predict(self, X: Sequence[Document]) -> list[Document]:
        """Return the documents with the spans that would be taken out in the place of their own.

        All notes of a patient are processed together: what is found in one is searched in the others. Raises
        CorpusError for a note that cannot be processed whole.
        """
        check_is_fitted(self)
        found = []
        # The spans are scored, and no text goes out: a model that finds little must be scored, too.
        options = RunOptions(accept_unfit=True)
        for document, result in zip(X, self.model_.process(X, options, together=True), strict=True):
            if result.error is not None:
                raise CorpusError(result.error)
            found.append(document.with_spans(result.spans))
        return found

    def score(self, X: Sequence[Document], y: None = None) -> float:
        """Return the strict micro-averaged F1 (start, end and label); NaN where undefined: no PHI, and none found."""
        found = self.predict(X)
        f1 = strict_counts((note.spans for note in X), (note.spans for note in found)).f1
        return float("nan") if f1 is None else f1

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags
