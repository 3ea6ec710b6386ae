"""Character vectors trained on names, then frozen: what Ahmed et al. 2021 call char2vec (C2V).

A character BiLSTM learns to tell spellings apart: a name and a copy of it with one character changed, dropped, doubled
or swapped get similar vectors, other names of the batch different ones (a contrastive loss with temperature; Chen et
al. 2020). Names are shown in lower case, capitalised or in upper case, as notes write them. No note takes part, so the
vectors hold nothing of patients.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ensemble_deid.errors import ConfigError
from ensemble_deid.features.knowledge import read_knowledge, read_word_list
from ensemble_deid.resources import rules_directory
from ensemble_deid.seeds import generator
from ensemble_deid.taggers.neural.encoding import UNKNOWN
from ensemble_deid.taggers.neural.network import CharacterBilstm

_TABLES = ("given", "surname")
_BATCH = 128
_TEMPERATURE = 0.1
_RATE = 0.01
_CASES = (str.lower, str.capitalize, str.upper)
_SHORTEST = 2


def read_names(source: str, *, longest: int) -> tuple[str, ...]:
    """Return the distinct names of a set in rules/knowledge, or of a file with a name a line, in alphabetical order.

    Names are cut at `longest` characters. Raises ConfigError where there are fewer than two, and RuleError for lists
    that cannot be read.
    """
    folder = rules_directory() / "knowledge" / source
    if Path(source).name == source and folder.is_dir():
        tables = read_knowledge(folder).words
        entries = [name for table in _TABLES for name in tables.get(table, ())]
    elif Path(source).is_file():
        entries = [word for line in read_word_list(Path(source)) for word in line.split()]
    else:
        raise ConfigError(f"neural.names: {source!r} is neither a set in rules/knowledge nor a file")
    names = sorted({entry.lower()[:longest] for entry in entries if len(entry) >= _SHORTEST})
    if len(names) < _SHORTEST:
        raise ConfigError(f"neural.names: {source!r} has fewer than two names")
    return tuple(names)


def characters_of(names: Sequence[str]) -> frozenset[str]:
    return frozenset(character for name in names for change in _CASES for character in change(name))


def train_on_names(
    encoder: CharacterBilstm,
    names: Sequence[str],
    characters: Mapping[str, int],
    *,
    steps: int,
    longest: int,
    seed: int,
) -> None:
    """Train an encoder of spellings in place, then freeze it; `characters` maps each known character to its index."""
    random = generator(seed, "names")
    alphabet = sorted(characters)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=_RATE)
    size = min(_BATCH, len(names))
    for _ in range(steps):
        drawn = [names[k] for k in random.choice(len(names), size=size, replace=False).tolist()]
        copies = [_edited(name, alphabet, random) for name in drawn]
        words = [_CASES[k](word) for word, k in zip([*drawn, *copies], random.integers(3, size=2 * size), strict=True)]
        vectors = nn.functional.normalize(encoder(_spelling(words, characters, longest)), dim=1)
        # (names, copies): how similar each name is to each copy; its own copy is on the diagonal.
        similar = vectors[:size] @ vectors[size:].T / _TEMPERATURE
        loss = nn.functional.cross_entropy(similar, torch.arange(size))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    encoder.requires_grad_(requires_grad=False)


def _edited(name: str, alphabet: Sequence[str], random: np.random.Generator) -> str:
    """Return the name with one character changed, dropped, doubled, or swapped with the next."""
    at = int(random.integers(len(name)))
    other = alphabet[int(random.integers(len(alphabet)))]
    edits = (
        name[:at] + other + name[at + 1 :],
        name[:at] + name[at + 1 :],
        name[:at] + name[at] + name[at:],
        name[:at] + name[at + 1 : at + 2] + name[at] + name[at + 2 :],
    )
    return edits[int(random.integers(len(edits)))]


def _spelling(words: Sequence[str], characters: Mapping[str, int], longest: int) -> Tensor:
    """Return the indexes of the words' characters, int64 (words, characters), 0 where a word has ended."""
    codes = np.zeros((len(words), longest), dtype=np.int64)
    for row, word in enumerate(words):
        # Case can change a word's length, and make a character that neither names nor notes have.
        codes[row, : min(longest, len(word))] = [characters.get(character, UNKNOWN) for character in word[:longest]]
    return torch.from_numpy(codes)
