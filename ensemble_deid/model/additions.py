"""What changes a trained model without retraining: added patterns, an inclusion list, and the record of such changes.

Added patterns are matched beside those of training, and are no part of the feature table, so that the trained submodels
see what they saw in training. Their matches are candidates of the regex submodel, with the patterns' own confidence,
and the final estimator decides on them as on any other candidate. Those of enforced patterns are spans at once: neither
the estimator nor a list drops them, and their labels need not be the model's. Figures measured before a change are of
the model as it was (`changes_since`).

The inclusion list has sentences that are known to hold no PHI (Murugadoss et al. 2021). What a model finds wholly
inside such a sentence is dropped, unless it overlaps a span that must stay. The sentences are in clear, so that they
can be reviewed one by one. A file is TOML: `name`, `description`, and `sentences`, a list.
"""

import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ensemble_deid.errors import ConfigError, ModelError, RuleError
from ensemble_deid.features.patterns import PatternSet, parse_patterns
from ensemble_deid.model.manifest import Manifest
from ensemble_deid.note.document import Document
from ensemble_deid.note.labels import is_label
from ensemble_deid.note.span import Span
from ensemble_deid.note.tokens import tokenize
from ensemble_deid.parsing import read_text, strict_toml
from ensemble_deid.stacking.stacker import SITE
from ensemble_deid.taggers.tbed.tagger import RULES

PATTERNS, INCLUSION = "added_patterns.toml", "inclusion_list.toml"
_MOST_CHARACTERS = 10_000_000
PROPOSER = "regex"
"""The submodel whose candidates the matches of added patterns are."""


def load_added_patterns(directory: Path, manifest: Manifest) -> PatternSet | None:
    """Return the patterns added to a model, None where there are none. Raises ModelError and RuleError."""
    if PATTERNS not in manifest.files:
        return None
    path = directory / PATTERNS
    patterns = parse_patterns(path.read_text(encoding="utf-8"), path=str(path))
    for pattern in patterns.patterns:
        if pattern.label not in manifest.labels and not (pattern.enforce and is_label(pattern.label)):
            raise ModelError(f"{path}: damaged: the model has no label {pattern.label[:60]!r}")
    return patterns


def labels_found(labels: Sequence[str], enforced: PatternSet | None) -> tuple[str, ...]:
    """Return the labels of training, and after them those that enforced patterns bring."""
    return (*labels, *sorted((enforced.labels if enforced is not None else frozenset()) - set(labels)))


def labels_of_model(directory: Path, manifest: Manifest) -> tuple[str, ...]:
    """Return the labels that a model finds, as `labels_found`, without loading it. Raises ModelError and RuleError."""
    patterns = load_added_patterns(directory, manifest)
    return labels_found(manifest.labels, None if patterns is None else patterns.where(enforced=True))


def sentence_ranges(document: Document) -> list[tuple[int, int]]:
    """Return start and end of every sentence, in text order: the parts of lines that `tokenize` tells apart."""
    tokens = tokenize([document], split_lines=True)
    if not len(tokens):
        return []
    first = tokens.sentence_starts.tolist()
    starts, ends = tokens.start.tolist(), tokens.end.tolist()
    return [(starts[low], ends[high - 1]) for low, high in zip(first, [*first[1:], len(starts)], strict=True)]


def plain_sentence(text: str) -> str:
    return " ".join(text.split())


@dataclass(frozen=True, slots=True)
class InclusionList:
    """The sentences, with single blanks for their white space, and the text of the file."""

    sentences: frozenset[str] = field(repr=False)
    source: str = field(repr=False)

    def apply(self, document: Document, *, must_stay: Iterable[Span] = ()) -> tuple[Document, int]:
        """Return the document without its spans that lie in a listed sentence, and how many these were.

        `must_stay` are spans where PHI is known to be, such as the identifiers of the note's patient: whatever overlaps
        one of them, or an enforced span, is kept.
        """
        if not document.spans:
            return document, 0
        listed = [
            (start, end)
            for start, end in sentence_ranges(document)
            if plain_sentence(document.text[start:end]) in self.sentences
        ]
        if not listed:
            return document, 0
        known = (*must_stay, *(span for span in document.spans if span.is_enforced))

        def stays(span: Span) -> bool:
            inside = any(start <= span.start and span.end <= end for start, end in listed)
            return not inside or any(span.overlaps(other) for other in known)

        kept = [span for span in document.spans if stays(span)]
        return document.with_spans(kept), len(document.spans) - len(kept)


def read_inclusion_list(path: Path) -> InclusionList:
    """Read an inclusion list. Raises RuleError, which names the file and the place and quotes no sentence."""
    source = read_text(path, RuleError, missing="no such inclusion list")
    return parse_inclusion_list(source, path=str(path))


def parse_inclusion_list(source: str, *, path: str = "<inclusion list>") -> InclusionList:
    """Read the text of an inclusion list; `path` is only named in errors. Raises RuleError."""
    if len(source) > _MOST_CHARACTERS:
        raise RuleError(f"{path}: longer than {_MOST_CHARACTERS:,} characters")
    try:
        content = strict_toml(source)
    except tomllib.TOMLDecodeError as error:
        # The message of a decoding error quotes nothing longer than a character.
        raise RuleError(f"{path}: {error}") from None
    if unknown := sorted(set(content) - {"name", "description", "sentences"}):
        raise RuleError(f"{path}: unknown key {unknown[0][:60]!r}; known: name, description, sentences")
    sentences = content.get("sentences")
    if not isinstance(sentences, list) or not sentences:
        raise RuleError(f"{path}: 'sentences' must be a list with at least one sentence")
    for number, sentence in enumerate(sentences, 1):
        if not isinstance(sentence, str):
            raise RuleError(f"{path}: sentence {number} is not text")
        if len(sentence_ranges(Document("", sentence))) != 1:
            raise RuleError(f"{path}: sentence {number} is not one sentence: no note has it as such")
    return InclusionList(frozenset(map(plain_sentence, sentences)), source)


def load_inclusion_list(directory: Path, manifest: Manifest) -> InclusionList | None:
    """Return the inclusion list of a model, None where it has none. Raises RuleError."""
    if INCLUSION not in manifest.files:
        return None
    path = directory / INCLUSION
    return parse_inclusion_list(path.read_text(encoding="utf-8"), path=str(path))


def check_proposer(directory: Path, added: PatternSet | None, submodels: Collection[str]) -> None:
    """Raise ConfigError where a model has added patterns, and the submodel that proposes them is not to be loaded."""
    if added is not None and PROPOSER not in submodels:
        raise ConfigError(f"{directory}: the model has added patterns, so the submodel {PROPOSER} must be loaded, too")


# The files that can be changed after training, what they are called, and whose proposals they change ("": all).
_CHANGEABLE = {
    RULES: ("rules", "tbed"),
    PATTERNS: ("added patterns", ""),
    INCLUSION: ("inclusion list", ""),
    SITE: ("corrections learned from a site", ""),
}


def changeable_files(manifest: Manifest) -> dict[str, str]:
    """Return the SHA-256 of each file that can be changed after training, to be stored beside what is measured."""
    return {name: manifest.files.get(name, "") for name in _CHANGEABLE}


def changes_since_training(manifest: Manifest, submodels: Collection[str]) -> tuple[str, ...]:
    """Return what differs from the model as it was trained, as far as these submodels are concerned."""
    # Training leaves the rules before their first change, and none of the other files.
    first = manifest.rules_replaced[0]["before"] if manifest.rules_replaced else manifest.files.get(RULES, "")
    return changes_since(manifest, {RULES: first}, submodels)


def changes_since(manifest: Manifest, then: Mapping[str, str], submodels: Collection[str]) -> tuple[str, ...]:
    """Return what was changed since `changeable_files` were those in `then`, as far as submodels are concerned."""
    now = changeable_files(manifest)
    return tuple(
        name
        for file, (name, submodel) in _CHANGEABLE.items()
        if now[file] != then.get(file, "") and (not submodel or submodel in submodels)
    )


def listed(changes: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(changes[:-1]), *changes[-1:])))
