"""A net under the submodels: candidates that none of them proposes.

Philter (Norgeot et al. 2020) removes every word that is on no list of safe words. Here such places only become
candidates, and the final estimator judges them:

`doubt`   tokens at which the sequence models' mean log odds of PHI are low, but not negligible;
`unknown` words on no list of English or of medicine, at much lower odds (only where the language has such lists);
`number`  numbers of two and more digits that no measurement explains, and codes of letters and digits, likewise;
`repeat`  other occurrences, in the same note, of a string that a submodel believes to be PHI;
`part`    single words of such a string;
`column`  cells of a table in a column whose other cells the submodels believe to be PHI (`text_tables.py`).

The first three take the label that the sequence models find likeliest there, the others that of the string or column.
All of it depends on the note alone.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.arrays import Flags, Int64s
from ensemble_deid.features.batch import Batch
from ensemble_deid.features.knowledge import MEDICINE, PREFIX
from ensemble_deid.stacking.candidates import CandidateTable, NamedColumns, merge_rows
from ensemble_deid.stacking.sequence_scores import SequenceScores
from ensemble_deid.stacking.text_tables import COLUMN, BatchCells, cells_like_others
from ensemble_deid.taggers.base import Proposals

# Numbers that a measurement explains: decimals, quantities with a unit, vital signs, clock times, list numbers.
#
# What is left, numbers of two and more digits and codes of letters and digits, may identify somebody.


_UNIT = (
    r"(?:[%°]|(?:mg|mcg|µg|ug|kg|gm?|lbs?|oz|ml|mL|cc|dL|dl|L|cm|mm|m|in|ft|inches|feet|mmHg|mEq|mmol|mol|units?|u|U|IU|"
    r"bpm|Hz|kcal|cal|mins?|minutes?|hrs?|hours?|h|sec(?:onds)?|s|days?|d|wks?|weeks?|months?|mos?|tabs?|tablets?|caps?|"
    r"capsules?|puffs?|drops?|doses?|x|times|degrees|F|C|French|Fr|gauge|ga|pack|pt|points?|beats|breaths|percent)\b)"
)
_SIGN = (
    r"(?:BP|HR|RR|P|R|T|pulse|temp(?:erature)?|sats?|SpO2|O2|SaO2|wt|weight|ht|height|BMI|GCS|EF|INR|PT|PTT|WBC|Hgb|Hb|Hct|"
    r"plt|platelets|Na|K|Cl|CO2|HCO3|BUN|Cr|creatinine|glucose|gluc|Ca|Mg|Phos|AST|ALT|ALP|TSH|A1c|LDL|HDL|TG|ESR|CRP|pH|"
    r"pCO2|pO2|MCV|RDW|lactate|troponin|BNP|score)"
)
# Bounded and without a way back, so that time grows with the text alone; of a longer run of digits the end is matched.
_NUMBER = r"\d[\d,.]{0,30}+"
_AT_DIGIT = (
    r"\d{1,30}+\.\d+",
    rf"{_NUMBER}\s?-?\s?(?:to\s|-\s?|/)?\d{{0,30}}+\s?{_UNIT}",
    r"\d{2,3}/\d{2,3}",
    r"\b[0-2]?\d:[0-5]\d(?::[0-5]\d)?",
)
_TO_DIGIT = r"\s?(?:is|was|of|[:=<>~-])?\s?\d"
# Whether a number follows is seen before each sign is tried: few words have one after them.
_SIGNED = rf"\b(?=\w++{_TO_DIGIT})(?i:{_SIGN})\b{_TO_DIGIT}[\d.,/]*"
_LISTED = r"(?m:^[^\S\n]*+\d{1,2}[.)])"
EXPLAINED = re.compile(rf"(?=\d)(?:{'|'.join(_AT_DIGIT)})|{_SIGNED}|{_LISTED}")


def unexplained_numbers(batch: Batch) -> Flags:
    """Return which tokens are numbers of two and more digits, or stand in a code, without a measurement's form."""
    numeric, letters = ~batch.table["digits"].is_any_of("none"), ~batch.table["case"].is_any_of("none")
    tokens = batch.tokens
    long = tokens.end - tokens.start >= 2
    # A token is part of a code where a letter and a digit touch each other.
    touching = (tokens.end[:-1] == tokens.start[1:]) & (tokens.document[:-1] == tokens.document[1:])
    mixed = touching & ((numeric[:-1] & letters[1:]) | (letters[:-1] & numeric[1:]))
    code = np.zeros(len(tokens), dtype=bool)
    code[:-1] |= mixed
    code[1:] |= mixed
    wanted = (numeric & long) | code
    return np.asarray(wanted & ~_explained(batch, np.flatnonzero(wanted)), dtype=bool)


def _explained(batch: Batch, rows: NDArray[np.intp]) -> Flags:
    out = np.zeros(len(batch.tokens), dtype=bool)
    for d in np.unique(batch.tokens.document[rows]).tolist():
        places = [match.span() for match in EXPLAINED.finditer(batch.documents[d].text)]
        first, after = batch.tokens.rows_in(d, [a for a, _ in places], [b for _, b in places])
        for a, b in zip(first.tolist(), after.tolist(), strict=True):
            out[a:b] = True
    return out


# Other occurrences, in the same note, of the strings that a submodel believes to be PHI, and of their words.


_BELIEVED = 0.5
_LEAST_CHARACTERS = 3
_MOST = 20
"""Occurrences of one string that are taken: what is more frequent is a word of the form, or of the language."""
_CAPITALISED = ("upper", "title", "mixed")

_Found = tuple[str, float, int, int, int]
"""The kind of a candidate, the confidence in the string it repeats, its first token, that after its last, its label."""


def repeats(table: CandidateTable, batch: Batch, first: Int64s, after: Int64s, free: Flags) -> Iterator[_Found]:
    """Yield every repeat, then every part, of each note.

    `first` and `after` are the candidates' tokens, and `free` bool (n_tokens,) tells where no candidate lies; only
    occurrences with a free token count. Words of a string count as parts where they have at least three letters and
    are written with a capital, both times, or are no word of the language.
    """
    belief = table.confidence.max(axis=1, initial=0.0)
    believed = np.flatnonzero(belief >= _BELIEVED)
    capital = batch.table["case"].is_any_of(*_CAPITALISED)
    named = capital | _unlisted(batch, _LISTS[:1])
    columns = (batch.same_word, batch.tokens.end - batch.tokens.start, free, capital, named)
    for d in np.unique(table.document[believed]).tolist():
        low, high = batch.tokens.document_starts[d : d + 2].tolist()
        rows = believed[table.document[believed] == d]
        rows = rows[np.argsort(-belief[rows], kind="stable")]
        ranges = (belief[rows], first[rows] - low, after[rows] - low, table.label[rows])
        strings = list(zip(*(column.tolist() for column in ranges), strict=True))
        note = _Note(*(column[low:high].tolist() for column in columns))
        places: dict[int, list[int]] = {word: [] for _, a, b, _ in strings for word in note.words[a:b]}
        for row, word in enumerate(note.words):
            if word in places:
                places[word].append(row)
        found = list(_whole(strings, places, note))
        for _, _, row, stop, _ in found:
            note.free[row:stop] = [False] * (stop - row)
        for kind, source, row, stop, label in chain(found, _parts(strings, places, note)):
            yield kind, source, row + low, stop + low, label


@dataclass(frozen=True, slots=True)
class _Note:
    """A note's tokens, as lists: strings are short. `named` have a capital, or are no word of the language."""

    words: list[int]
    lengths: list[int]
    free: list[bool]
    capital: list[bool]
    named: list[bool]


String = tuple[float, int, int, int]
"""Confidence, first token, token after the last, label of a string that is believed."""


def _whole(strings: list[String], places: dict[int, list[int]], note: _Note) -> Iterator[_Found]:
    for belief, first, after, label in strings:
        if sum(note.lengths[first:after]) < _LEAST_CHARACTERS:
            continue
        string = note.words[first:after]
        for row in places[string[0]][:_MOST]:
            stop = row + len(string)
            if any(note.free[row:stop]) and note.words[row:stop] == string:
                yield "repeat", belief, row, stop, label


def _parts(strings: list[String], places: dict[int, list[int]], note: _Note) -> Iterator[_Found]:
    for belief, first, after, label in strings:
        for word in range(first, after) if after - first > 1 else ():
            if note.capital[word] and note.lengths[word] >= _LEAST_CHARACTERS:
                for row in places[note.words[word]][:_MOST]:
                    if note.free[row] and note.named[row]:
                        yield "part", belief, row, row + 1, label


def _unlisted(batch: Batch, lists: Sequence[str]) -> Flags:
    """Return which tokens are on none of the lists that the language has; no token where it has not the first."""
    columns = [batch.table[PREFIX + name] for name in lists if PREFIX + name in batch.table.names]
    if PREFIX + lists[0] not in batch.table.names:
        return np.zeros(len(batch.tokens), dtype=bool)
    return np.asarray(np.logical_and.reduce([column.is_any_of("-") for column in columns]), dtype=bool)


KINDS: tuple[str, ...] = ("doubt", "unknown", "number", "repeat", "part")
_DOUBT, _SUSPECT = -6.0, -7.0
"""Least mean log odds of a candidate of the first kind, and of the second and third."""
_LEAST_TOKENS, _SHARE = 12, 20
"""A note has candidates of the first three kinds at a twentieth of its tokens at most, or at twelve: the likeliest."""
_LISTS = ("english", *MEDICINE)


def alone(columns: NamedColumns) -> Flags:
    """Return which candidates no submodel proposed, (n,), given their columns."""
    return np.asarray(columns.of_kinds("net").any(axis=1), dtype=bool)


def net_names(kinds: tuple[str, ...], models: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of a net's columns, given its kinds of candidates and the names of the sequence models."""
    own = tuple(f"net:{kind}" for kind in (*kinds, "source"))
    return own + tuple(f"phi:{name}" for name in models) + tuple(f"agrees:{name}" for name in models)


def cast_net(
    table: CandidateTable, proposals: Mapping[str, Proposals], batch: Batch, *, cells: BatchCells | None = None
) -> tuple[CandidateTable, NamedColumns]:
    """Return the candidates with those of the net among them, and columns for all of them.

    Candidates of the kind `column` come from the `cells` of the batch, where they are given. The columns are `net:` and
    a kind, 1 for candidates of that kind; `net:source`, the confidence in the string that one repeats, or the mean
    confidence in a column's other cells; and for each sequence model the mean log odds of PHI over the candidate's
    tokens (`phi:`) and the share of the tokens at which the candidate's label is the likeliest (`agrees:`).
    """
    scores = SequenceScores.of(proposals, batch)
    first, after = table.token_ranges(batch.tokens)
    covered = np.zeros(len(batch.tokens) + 1, dtype=np.int64)
    np.add.at(covered, first, 1)
    np.add.at(covered, after, -1)
    free = np.cumsum(covered)[:-1] == 0
    found: dict[tuple[int, int, int, int], tuple[int, float]] = {}
    things = chain(_suspicions(scores, batch, free), repeats(table, batch, first, after, free))
    kinds = KINDS
    if cells is not None:
        kinds = (*KINDS, COLUMN)
        like_others = cells_like_others(table, batch.tokens, cells, free)
        things = chain(things, ((COLUMN, *cell) for cell in like_others))
    for kind, source, row, stop, label in things:
        document = int(batch.tokens.document[row])
        key = (document, int(batch.tokens.start[row]), int(batch.tokens.end[stop - 1]), label)
        found.setdefault(key, (kinds.index(kind), source))
    columns = (table.document, table.start, table.end, table.label)
    known = set(zip(*(column.tolist() for column in columns), strict=True))
    added = sorted(key for key in found if key not in known)
    merged, order = merge_rows(table, added)
    values = np.zeros((len(table) + len(added), len(kinds) + 1))
    for row, key in enumerate(added, len(table)):
        kind_index, source = found[key]
        values[row, kind_index] = 1.0
        values[row, -1] = source
    described = np.concatenate([values[order], scores.of_candidates(merged, batch)], axis=1)
    return merged, NamedColumns(net_names(kinds, scores.models), described)


def _suspicions(scores: SequenceScores, batch: Batch, free: Flags) -> Iterator[_Found]:
    """Yield runs of adjacent tokens of a line that have the same kind and likeliest label."""
    if not scores.models or not len(free):
        return
    odds = scores.log_odds.mean(axis=1)
    kind = np.full(len(free), -1)
    unknown = ~batch.table["case"].is_any_of("none") & _unlisted(batch, _LISTS)
    kind[unknown & (odds >= _SUSPECT)] = KINDS.index("unknown")
    kind[unexplained_numbers(batch) & (odds >= _SUSPECT)] = KINDS.index("number")
    kind[odds >= _DOUBT] = KINDS.index("doubt")
    kind[~free] = -1
    bounds = batch.tokens.document_starts.tolist()
    for low, high in pairwise(bounds):
        rows = low + np.flatnonzero(kind[low:high] >= 0)
        most = max(_LEAST_TOKENS, (high - low) // _SHARE)
        kind[rows[np.argsort(-odds[rows], kind="stable")[most:]]] = -1
    label = scores.likeliest()
    line = batch.tokens.line
    joined = np.zeros(len(kind) + 1, dtype=bool)
    joined[1:-1] = (kind[1:] == kind[:-1]) & (label[1:] == label[:-1]) & (line[1:] == line[:-1])
    starts = np.flatnonzero((kind >= 0) & ~joined[:-1])
    stops = np.flatnonzero((kind >= 0) & ~joined[1:]) + 1
    for row, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        yield KINDS[kind[row]], 0.0, row, stop, int(label[row])
