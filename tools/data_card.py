"""Write the data card of the demo corpus; its figures are computed from the corpus, so that they cannot go stale."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from ensemble_deid.atomic import write_text_atomically
from ensemble_deid.corpora.read import DEMO_SPLITS as SPLITS
from ensemble_deid.corpora.read import Corpus, read_corpus
from ensemble_deid.corpora.statistics import CorpusStatistics, corpus_statistics
from ensemble_deid.errors import CorpusError
from ensemble_deid.evaluation.render.results import Table
from ensemble_deid.note.labels import I2B2_TYPES
from ensemble_deid.parsing import strict_toml
from tools.variety import (
    NGRAM,
    SHORTEST_DENSE_NOTE,
    kind_variety,
    new_name_share,
    ngram_overlap,
    phi_density,
)

CARD_NAME = "CARD.md"
KINDS_NAME = "kinds.toml"
INTRODUCTION_NAME = "card_introduction.md"


def write_data_card(demo: Path) -> Path:
    """Write `demo/CARD.md` from `demo/SPLIT` and the files beside them; return its path."""
    path = demo / CARD_NAME
    write_text_atomically(path, render_data_card(demo))
    return path


def render_data_card(demo: Path) -> str:
    """Return the card: the handwritten introduction, then the figures. CorpusError if a part is missing."""
    corpora = {split: read_corpus(demo / split) for split in SPLITS}
    statistics = {split: corpus_statistics(corpus) for split, corpus in corpora.items()}
    try:
        introduction = (demo / INTRODUCTION_NAME).read_text(encoding="utf-8").rstrip("\n")
    except OSError as error:
        raise CorpusError(f"{demo / INTRODUCTION_NAME}: cannot be read: {error.strerror}") from None
    sections = [
        introduction,
        "## Composition\n\n" + _composition(statistics),
        "## PHI by type\n\n" + _by_type(statistics),
        "## Kinds of notes\n\n" + _kinds(corpora, read_kinds(demo / KINDS_NAME)),
        "## Variety\n\n" + _variety(corpora),
    ]
    return "\n\n".join(sections) + "\n"


def read_kinds(path: Path) -> Mapping[str, str]:
    """Read `"family" = ["kind", ...]`; return kind -> family. CorpusError if a kind is in two families."""
    try:
        content = strict_toml(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CorpusError(f"{path}: cannot be read as TOML: {error}") from None
    family_of_kind: dict[str, str] = {}
    for family, kinds in content.items():
        if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
            raise CorpusError(f"{path}: '{family}' must be a list of strings")
        for kind in kinds:
            if kind in family_of_kind:
                raise CorpusError(f"{path}: the kind '{kind}' is in '{family_of_kind[kind]}' and in '{family}'")
            family_of_kind[kind] = family
    return family_of_kind


def _composition(statistics: Mapping[str, CorpusStatistics]) -> str:
    rows = []
    for split, found in statistics.items():
        fewest, middle, most = found.words_of_note
        density = "-" if found.phi_per_100_words is None else f"{found.phi_per_100_words:.1f}"
        numbers = [f"{value:,}" for value in (found.sites, found.patients, found.notes, found.words, found.spans)]
        rows.append([split, *numbers, density, f"{fewest} / {middle:g} / {most}"])
    heads = ["part", "sites", "patients", "notes", "words", "PHI", "PHI per 100 words"]
    heads.append("words of a note: min / median / max")
    return _table(heads, rows)


def _by_type(statistics: Mapping[str, CorpusStatistics]) -> str:
    rows = []
    for label in I2B2_TYPES:
        found = [statistics[split].labels.get(label) for split in SPLITS]
        if any(found):
            counts = [0 if one is None else one.spans for one in found]
            rows.append([label, *(f"{count:,}" for count in counts), f"{sum(counts):,}"])
    return _table(["type", *SPLITS, "all"], rows)


def _kinds(corpora: Mapping[str, Corpus], family_of_kind: Mapping[str, str]) -> str:
    notes = [note for corpus in corpora.values() for note in corpus]
    found = kind_variety(notes, family_of_kind)
    rows = [[family, f"{kind.notes}", f"{kind.tokens:,}", f"{kind.types:,}"] for family, kind in found.items()]
    names = len({note.metadata.get("kind", "") for note in notes})
    intro = (
        f"{names} kinds as their authors named them, in {len(found)} families. Words here are runs of letters and "
        "digits; different words are counted without regard to case."
    )
    return intro + "\n\n" + _table(["family", "notes", "words", "different words"], rows)


def _variety(corpora: Mapping[str, Corpus]) -> str:
    notes = [note for corpus in corpora.values() for note in corpus]
    words, strings = new_name_share(corpora["train"], corpora["test"])
    lines = [
        f"- Of the words in the test notes' names of people, {_percent(words)} are in no train name; "
        f"of the whole names, {_percent(strings)}."
    ]
    density = phi_density(notes)
    if density is not None:
        lines.append(
            f"- PHI per 100 words over the {density.notes} notes of {SHORTEST_DENSE_NOTE} words or more: "
            f"{density.lowest:.1f} to {density.highest:.1f}, median {density.median:.1f}."
        )
    overlap = ngram_overlap(notes)
    lines.append(
        f"- Of all runs of {NGRAM} words, {overlap.share:.2%} also occur in a note of another patient; "
        f"{overlap.notes_without} of {len(notes)} notes share none, the most in one note "
        f"({overlap.highest_note}) is {_percent(overlap.highest)}."
    )
    return "\n".join(lines)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return Table("", tuple(heads), tuple(map(tuple, rows))).to_markdown().rstrip("\n")
