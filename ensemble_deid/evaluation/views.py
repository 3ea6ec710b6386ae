"""Views of the annotations: by entity or token; by type, category, or PHI or not."""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from ensemble_deid.evaluation.alphanumeric_runs import runs_in
from ensemble_deid.evaluation.bootstrap import LEAST_CLUSTERS
from ensemble_deid.evaluation.count_table import (
    CountTable,
    MatchKeys,
    Sides,
    match_overlapping,
    match_relaxed,
    match_strict,
    tabulate,
)
from ensemble_deid.evaluation.pairs import EvaluationError, Pair, pair_documents
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import GROUPS, I2B2_CATEGORIES, category_of, is_hipaa, known_labels, labels_in_group
from ensemble_deid.note.span import SpanKey

# Which labels a figure is about: single labels, categories, the HIPAA subset and the groups A-D by name.


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


Unit = Literal["entity", "token"]
UNITS: tuple[Unit, ...] = get_args(Unit)
Naming = Literal["type", "category", "PHI"]
ANY_PHI = "PHI"
"""The one label of the views that do not look at labels."""


@dataclass(frozen=True, slots=True)
class View:
    """What is counted (`unit`), under which name (`naming`), and what `match` takes for the same."""

    name: str
    unit: Unit
    naming: Naming
    match: MatchKeys
    definition: str


VIEWS: Mapping[str, View] = MappingProxyType(
    {
        view.name: view
        for view in (
            View("strict", "entity", "type", match_strict, "same start, end and type"),
            View("relaxed", "entity", "type", match_relaxed, "same start and type, ends at most 2 characters apart"),
            View("overlap", "entity", "type", match_overlapping, "same type, at least one character shared"),
            View("category", "entity", "category", match_strict, "same start, end and category"),
            View("type-blind", "entity", "PHI", match_strict, "same start and end, whatever the type"),
            View("token", "token", "type", match_strict, "tagged token: same place and type"),
            View("token-category", "token", "category", match_strict, "tagged token: same place and category"),
            View("token-binary", "token", "PHI", match_strict, "tagged token: same place, PHI or not"),
        )
    }
)


def view_named(name: str) -> View:
    """Return the view of that name. Raises EvaluationError, naming those there are, for another."""
    if name not in VIEWS:
        raise EvaluationError(f"there is no view {name!r}; there are: {', '.join(VIEWS)}")
    return VIEWS[name]


def count_view(gold: Sequence[Document], system: Sequence[Document], view: str = "strict") -> CountTable:
    """Count found, spurious and missed annotations per document and label under the view of that name.

    What a side gives twice under a view counts once. Raises EvaluationError when the documents do not match.
    """
    chosen = view_named(view)
    pairs = pair_documents(gold, system)
    return count_sides(pairs, sides_of(pairs, chosen.unit), chosen)


def resampled_units(documents: Sequence[Document], table: CountTable) -> tuple[str, ...]:
    """Return what an interval resamples for each document of a table: its site if there are enough, else its patient.

    Notes of a site resemble each other, so that an interval over patients is too narrow.
    """
    site = {document.id: document.site for document in documents}
    sites = tuple(name for document in table.document_ids if (name := site[document]) is not None)
    known = len(sites) == len(table.document_ids) and len(set(sites)) >= LEAST_CLUSTERS
    return sites if known else table.groups


def sides_of(pairs: Sequence[Pair], unit: Unit) -> tuple[Sides, ...]:
    """Return each note's distinct annotations, or the distinct tokens in them, of both sides."""
    keys_of = _entity_keys if unit == "entity" else token_keys
    return tuple((keys_of(pair.gold), keys_of(pair.system)) for pair in pairs)


def count_sides(
    pairs: Sequence[Pair], sides: Sequence[Sides], view: View, *, labels: Set[str] | None = None
) -> CountTable:
    """Count as `count_view` does; `labels` drops all others from both sides before anything is matched."""
    kept = {key[2] for both in sides for keys in both for key in keys} if labels is None else labels
    names = {label: name_under(view.naming, label) for label in kept}
    if view.naming != "type" or labels is not None:
        sides = [(_rename(golds, names), _rename(systems, names)) for golds, systems in sides]
    return tabulate(pairs, sides, view.match)


def token_keys(document: Document) -> frozenset[SpanKey]:
    """Return the tokens in the annotations of a document, each with the annotation's label."""
    return frozenset(
        (start, end, span.label)
        for span in document.spans
        for start, end in runs_in(document.text, span.start, span.end)
    )


def name_under(naming: Naming, label: str) -> str:
    """Return what a label is called when types, categories (where it has one) or PHI alone are told apart."""
    if naming == "PHI":
        return ANY_PHI
    return (category_of(label) or label) if naming == "category" else label


def _entity_keys(document: Document) -> frozenset[SpanKey]:
    return frozenset(span.key for span in document.spans)


def _rename(keys: Set[SpanKey], names: Mapping[str, str]) -> frozenset[SpanKey]:
    return frozenset((start, end, names[label]) for start, end, label in keys if label in names)
