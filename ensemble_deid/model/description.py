"""What can be asked of a model but predictions: little enough to be sent from one process to another."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ensemble_deid.model.combiners import check_combiner
from ensemble_deid.model.inclusion import InclusionList
from ensemble_deid.model.submodels import refuse_unknown
from ensemble_deid.stacking.stacker import check_threshold
from ensemble_deid.stacking.voting import BestMembers


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """A loaded model's submodels, labels and threshold, and in which arithmetic its networks compute, by submodel.

    `best_members` and `inclusion` as in `Ensemble`. Who leaves predicting to other processes needs no more than this.
    """

    submodels: tuple[str, ...]
    labels: tuple[str, ...]
    threshold: float
    arithmetic: Mapping[str, str]
    best_members: BestMembers = field(repr=False)
    inclusion: InclusionList | None = field(repr=False)

    def check_options(self, *, submodel: str | None, threshold: float | None, combiner: str) -> None:
        """Raise ConfigError for options that the model cannot serve.

        These are a submodel or a combiner that it does not have, a threshold outside [0, 1], and two of them that
        exclude each other.
        """
        refuse_unknown(submodel, self.submodels)
        check_threshold(threshold)
        check_combiner(
            combiner,
            submodels=self.submodels,
            labels=self.labels,
            members=self.best_members,
            submodel=submodel,
            threshold=threshold,
        )
