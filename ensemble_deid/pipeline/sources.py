"""Who a predicted span comes from, in words for other systems."""

from ensemble_deid.stacking.single_tokens import SOURCE


def predicted_by(source: str) -> str:
    """Return who predicted a span, given its `source`: submodels, or what stands beside them.

    >>> from ensemble_deid.pipeline.sources import predicted_by
    >>> predicted_by("crf+neural")
    'crf, neural'
    """
    if source == SOURCE:
        return "the score of a single word that no candidate covers"
    return source.replace("+", ", ") or "the final estimator alone, in no submodel's own answer"
