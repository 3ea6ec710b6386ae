"""Labels divided into groups, for models that each learn some of the types of PHI."""

from collections.abc import Sequence

from ensemble_deid.errors import ConfigError
from ensemble_deid.phi.groups import category_of

_KEY = "by_type"


def label_groups(entries: Sequence[str], labels: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the labels of each entry, and last those of none; every label is in one group, in the order of `labels`.

    An entry is a label or a category, or several joined by `+`; `label` stands for a group for each label. Raises
    ConfigError for what none of the labels has, and for a label in two entries.
    """
    if tuple(entries) == ("label",):
        return tuple((label,) for label in labels)
    found: list[tuple[str, ...]] = []
    taken: dict[str, str] = {}
    for entry in entries:
        group = [label for name in entry.split("+") for label in _labels_of(name, labels)]
        for label in group:
            if label in taken:
                raise ConfigError(f"{_KEY}: {label} is in {taken[label]} and in {entry}")
            taken[label] = entry
        found.append(tuple(label for label in labels if label in group))
    rest = tuple(label for label in labels if label not in taken)
    return (*found, rest) if rest else tuple(found)


def _labels_of(name: str, labels: Sequence[str]) -> list[str]:
    found = [name] if name in labels else [label for label in labels if category_of(label) == name]
    if not found:
        raise ConfigError(
            f"{_KEY}: no label of the notes is {name!r} or of that category; there are: {', '.join(labels)}"
        )
    return found
