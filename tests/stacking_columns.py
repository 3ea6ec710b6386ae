"""The names of the final estimator's features, in the order of the columns of `candidate_features`."""

from ensemble_deid.note.overlaps import RELATIONS
from ensemble_deid.stacking.context import FORM, KINDS


def feature_names(submodels: tuple[str, ...], labels: tuple[str, ...], more: tuple[str, ...] = ()) -> list[str]:
    """Return the name of every column of `candidate_features`."""
    names = [f"{what}:{name}" for what in ("confidence", "odds", "chosen") for name in submodels]
    names += ["mean_confidence", "learner_odds", "most", "least", "votes"]
    names += [f"rival_{what}:{name}" for what in ("confidence", "chosen") for name in submodels]
    names += [f"rival_{how}" for how in RELATIONS] + ["rival_other_label", "rivals", "margin"]
    names += [f"label:{label}" for label in labels]
    names += FORM
    names += ["elsewhere", "elsewhere_same_label", "elsewhere_other_label", "elsewhere_untagged"]
    names += [f"{what}:{kind}" for kind in KINDS for what in ("odds", "count")]
    return [*names, *more]
