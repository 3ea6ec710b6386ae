"""Which labels a figure is about: single labels, categories, the HIPAA subset and the groups A-D by name."""

from collections.abc import Collection, Sequence

from ensemble_deid.evaluation.pairs import EvaluationError
from ensemble_deid.phi.groups import GROUPS, category_of, is_hipaa, known_labels, labels_in_group
from ensemble_deid.phi.taxonomy import I2B2_CATEGORIES

SUBSETS: tuple[str, ...] = ("HIPAA", *GROUPS)
"""The named subsets, each scored in every view."""


def subset_labels(name: str, labels: Collection[str]) -> frozenset[str]:
    """Return those of `labels` that the subset ("HIPAA", "A", "B", "C" or "D") holds."""
    if name == "HIPAA":
        return frozenset(label for label in labels if is_hipaa(label))
    return labels_in_group(name, labels)


def resolve_labels(names: Sequence[str], labels: Collection[str]) -> frozenset[str]:
    """Return the labels that a user's list means, such as ["PATIENT", "DATE"], ["HIPAA"] or ["A", "PROFESSION"].

    A name is, in this order, one of `labels` (those that occur), a label that the taxonomy knows, a subset, or a
    category. Raises EvaluationError for any other name and for an empty list.
    """
    if not names:
        raise EvaluationError("a list of labels needs at least one label, category or group")
    chosen: set[str] = set()
    for name in names:
        if name in labels or name in known_labels():
            chosen.add(name)
        elif name in SUBSETS:
            chosen |= subset_labels(name, labels)
        elif name in I2B2_CATEGORIES:
            chosen |= {label for label in labels if category_of(label) == name}
        else:
            there = ", ".join([*sorted(labels), *SUBSETS, *I2B2_CATEGORIES])
            raise EvaluationError(f"there is no label, group or category {name!r}; there are: {there}")
    return frozenset(chosen)
