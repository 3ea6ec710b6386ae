"""The counting and the tables of the shared tasks' own evaluation scripts, by name."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from ensemble_deid.evaluation.official.i2b2 import score_i2b2
from ensemble_deid.evaluation.official.meddocan import score_meddocan
from ensemble_deid.evaluation.official.rows import OfficialScores
from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.note.document import Document

SCHEMES: Mapping[str, Callable[[Sequence[Document], Sequence[Document]], OfficialScores]] = MappingProxyType(
    {"i2b2": score_i2b2, "meddocan": score_meddocan}
)


def score_official(gold: Sequence[Document], system: Sequence[Document], *, scheme: str) -> OfficialScores:
    """Score exactly as the shared task's own script does; `scheme` is "i2b2" or "meddocan".

    Raises EvaluationError for another scheme or when the documents do not match.
    """
    if scheme not in SCHEMES:
        raise EvaluationError(f"there is no scheme {scheme!r}; there are: {', '.join(SCHEMES)}")
    return SCHEMES[scheme](gold, system)
