"""Model metadata: little enough to be sent from one process to another."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ensemble_deid.errors import ConfigError
from ensemble_deid.model.combiners import COMBINERS, SVM
from ensemble_deid.model.inclusion import InclusionList
from ensemble_deid.model.manifest import Manifest
from ensemble_deid.model.options import PredictionOptions
from ensemble_deid.model.submodels import refuse_unknown
from ensemble_deid.stacking.stacker import check_threshold
from ensemble_deid.stacking.voting import BestMembers


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """A loaded model's submodels, labels and threshold, and in which arithmetic its networks compute, by submodel.

    `best_members`, `inclusion` and `manifest` as in `Ensemble`. A parent process that leaves predicting to others needs
    only this.
    """

    submodels: tuple[str, ...]
    labels: tuple[str, ...]
    threshold: float
    arithmetic: Mapping[str, str]
    best_members: BestMembers = field(repr=False)
    inclusion: InclusionList | None = field(repr=False)
    manifest: Manifest | None = field(default=None, repr=False)

    def check_options(self, options: PredictionOptions) -> None:
        """Raise ConfigError for options that the model cannot serve.

        These are a submodel or a combiner that it does not have, a threshold outside [0, 1], and two of them that
        exclude each other: only the final estimator has a threshold, and an answer of one submodel is not combined.
        """
        refuse_unknown(options.submodel, self.submodels)
        check_threshold(options.threshold)
        combiner = options.combiner
        if combiner not in COMBINERS:
            raise ConfigError(f"there is no combiner {combiner!r}; there are: {', '.join(COMBINERS)}")
        if combiner == SVM:
            return
        if options.submodel is not None:
            raise ConfigError(f"the combiner {combiner} and the submodel {options.submodel}: give one of the two")
        if options.threshold is not None:
            raise ConfigError(f"the combiner {combiner} has no threshold: its claims are those of the submodels")
        if combiner == "per-type":
            self._check_best_members()

    def _check_best_members(self) -> None:
        if not self.best_members:
            raise ConfigError(
                "this model does not say which submodels are best for each label, which the combiner per-type needs: "
                "choose them on dev notes (ensemble-deid model members MODEL DEV)"
            )
        for label in self.labels:
            if not set(self.best_members[label]) & set(self.submodels):
                raise ConfigError(f"the combiner per-type: none of the best submodels for {label} is loaded")
