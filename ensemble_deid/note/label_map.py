"""Label maps: from a corpus's labels to others, read from a file, or built-in maps to coarser schemes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ensemble_deid.errors import ConfigError
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import I2B2_CATEGORIES, category_of, is_hipaa, to_i2b2
from ensemble_deid.note.overlaps import distinct_spans
from ensemble_deid.parsing import read_toml

BINARY_LABEL = "PHI"
UNLISTED = ("refuse", "keep", "drop")
_KEYS = ("labels", "unlisted")


@dataclass(frozen=True, slots=True)
class LabelMap:
    """Translates labels; `name` is the file or the built-in map, for messages.

    `new_label` returns None for a label whose spans are dropped, and raises ConfigError for one without a translation.
    """

    name: str
    new_label: Callable[[str], str | None]

    def apply(self, document: Document) -> Document:
        """Return the document with translated labels; spans that become equal are merged into one."""
        labelled = ((span, self.new_label(span.label)) for span in document.spans)
        return document.with_spans(
            distinct_spans(replace(span, label=label) for span, label in labelled if label is not None)
        )

    def apply_all(self, documents: Iterable[Document]) -> list[Document]:
        return [self.apply(document) for document in documents]


def _category(label: str) -> str | None:
    category = category_of(label)
    if category is None:
        raise ConfigError(f"the label '{label[:60]}' has no category: map it to an i2b2 or MEDDOCAN label first")
    return category


def _i2b2(label: str) -> str | None:
    i2b2_type = to_i2b2(label)
    if i2b2_type is None:
        raise ConfigError(f"the label '{label[:60]}' is neither an i2b2 nor a MEDDOCAN label")
    return i2b2_type


BUILT_IN: Mapping[str, LabelMap] = {
    "category": LabelMap("category", _category),
    "binary": LabelMap("binary", lambda label: BINARY_LABEL),
    "i2b2": LabelMap("i2b2", _i2b2),
    "hipaa": LabelMap("hipaa", lambda label: label if is_hipaa(label) else None),
}
"""`category` maps i2b2 and MEDDOCAN types to their categories, `binary` maps all labels to `PHI`, `i2b2`
MEDDOCAN types to i2b2 types, and `hipaa` keeps only the types of the HIPAA subset."""


def load_label_map(name: str) -> LabelMap:
    """Return a built-in map, one category alone (such as `NAME`, other spans are dropped), or the map in a TOML file.

    The file has a table `labels` of `own = "other"`, or `own = false` to drop the label's spans, and may have
    `unlisted`: what happens to other labels, "refuse" (the default), "keep" or "drop". Raises ConfigError.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name in I2B2_CATEGORIES:
        return LabelMap(name, lambda label: name if category_of(label) == name else None)
    path = Path(name)
    if path.suffix != ".toml":
        raise ConfigError(
            f"'{name}' is not a label map: name a .toml file or one of {', '.join((*BUILT_IN, *I2B2_CATEGORIES))}"
        )
    content = read_toml(path, ConfigError)
    unknown = sorted(set(content) - set(_KEYS))
    if unknown:
        raise ConfigError(f"{path}: unknown key '{unknown[0][:60]}'; known are {', '.join(_KEYS)}")
    unlisted = content.get("unlisted", UNLISTED[0])
    if unlisted not in UNLISTED:
        raise ConfigError(f"{path}: unlisted must be one of {', '.join(UNLISTED)}")
    labels = content.get("labels")
    if not isinstance(labels, dict) or not labels:
        raise ConfigError(f"{path}: a table [labels] is needed")
    for own, other in labels.items():
        if other is not False and not (isinstance(other, str) and other):
            raise ConfigError(f"{path}: labels.{own}: expected the name of a label, or false to drop it")
    return LabelMap(str(path), _from_table(path, labels, unlisted))


def _from_table(path: Path, labels: Mapping[str, str | bool], unlisted: str) -> Callable[[str], str | None]:
    known = {own: other if isinstance(other, str) else None for own, other in labels.items()}

    def new_label(label: str) -> str | None:
        if label in known:
            return known[label]
        if unlisted == "refuse":
            raise ConfigError(f"{path}: the corpus's label '{label[:60]}' is not listed; list it, or set unlisted")
        return label if unlisted == "keep" else None

    return new_label


# Labels divided into groups, for models that each learn some of the types of PHI.

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
