"""The ways of looking at the same annotations: by entity or by token, by type, by category or as PHI alone."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from ensemble_deid.evaluation.count_table import CountTable, Match, tabulate
from ensemble_deid.evaluation.matching import Key, match_overlapping, match_relaxed, match_strict
from ensemble_deid.evaluation.pairs import EvaluationError, Pair, pair_documents
from ensemble_deid.evaluation.tokens import runs_in
from ensemble_deid.phi.groups import category_of
from ensemble_deid.text.document import Document

Unit = Literal["entity", "token"]
Naming = Literal["type", "category", "PHI"]
ANY_PHI = "PHI"
"""The one label of the views that do not look at labels."""


@dataclass(frozen=True, slots=True)
class View:
    """What is counted (`unit`), under which name (`naming`), and what `match` takes for the same."""

    name: str
    unit: Unit
    naming: Naming
    match: Match
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
    return count_pairs(pair_documents(gold, system), view_named(view))


def count_pairs(pairs: Sequence[Pair], view: View) -> CountTable:
    """Count as `count_view` does what is paired already."""
    name_of = _NAMES[view.naming]
    if view.unit == "entity":
        return tabulate(pairs, lambda document: _entity_keys(document, name_of), view.match)
    return tabulate(pairs, lambda document: token_keys(document, view.naming), view.match)


def token_keys(document: Document, naming: Naming) -> set[Key]:
    """Return the tagged tokens of a document, each with its name."""
    name_of = _NAMES[naming]
    return {
        (start, end, name_of(span.label))
        for span in document.spans
        for start, end in runs_in(document.text, span.start, span.end)
    }


def _entity_keys(document: Document, name_of: Callable[[str], str]) -> Iterable[Key]:
    return ((span.start, span.end, name_of(span.label)) for span in document.spans)


def _type(label: str) -> str:
    return label


def _category(label: str) -> str:
    return category_of(label) or label


def _phi(label: str) -> str:
    return ANY_PHI


_NAMES: Mapping[Naming, Callable[[str], str]] = MappingProxyType({"type": _type, "category": _category, "PHI": _phi})
