"""A net under the submodels: candidates that none of them proposes.

Philter (Norgeot et al. 2020) removes every word that is on no list of safe words. Here such places only become
candidates, and the final estimator judges them:

`doubt`   tokens at which the sequence models' mean log odds of PHI are low, but not negligible;
`unknown` words on no English or medical list, at much lower odds (only where the language has such lists);
`number`  numbers of two and more digits that no measurement explains, and codes of letters and digits, likewise;
`repeat`  other occurrences, in the same note, of a string that a submodel believes to be PHI;
`part`    single words of such a string.

The first three take the label that the sequence models find likeliest there, the others that of the string. All of it
depends on the note alone, but for the last digits of its columns: means over a candidate's tokens are differences of
sums that run over all notes of a batch (`sequence_scores.py`).
"""

from collections.abc import Iterator, Mapping
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.features.batch import Batch
from ensemble_deid.features.knowledge import PREFIX as KNOWLEDGE
from ensemble_deid.stacking.candidates import CandidateTable, merge_rows
from ensemble_deid.stacking.measurements import unexplained_numbers
from ensemble_deid.stacking.named_columns import NamedColumns
from ensemble_deid.stacking.repeats import Found, repeats
from ensemble_deid.stacking.sequence_scores import SequenceScores
from ensemble_deid.taggers.base import Proposals

KINDS = ("doubt", "unknown", "number", "repeat", "part")
_DOUBT, _SUSPECT = -6.0, -7.0
"""Least mean log odds of a candidate of the first kind, and of the second and third."""
_LEAST_TOKENS, _SHARE = 12, 20
"""A note has candidates of the first three kinds at a twentieth of its tokens at most, or at twelve: the likeliest."""
_LISTS = (KNOWLEDGE + "english", KNOWLEDGE + "medical")


def alone(columns: NamedColumns) -> NDArray[np.bool_]:
    """Return which candidates no submodel proposed, (n,), given their columns."""
    return np.asarray(columns.of_kinds("net").any(axis=1), dtype=bool)


def net_names(models: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of a net's columns, given the names of the sequence models."""
    kinds = tuple(f"net:{kind}" for kind in (*KINDS, "source"))
    return kinds + tuple(f"phi:{name}" for name in models) + tuple(f"agrees:{name}" for name in models)


def cast_net(
    table: CandidateTable, proposals: Mapping[str, Proposals], batch: Batch
) -> tuple[CandidateTable, NamedColumns]:
    """Return the candidates with those of the net among them, and columns for all of them.

    The columns are `net:` and a kind, 1 for candidates of that kind; `net:source`, the confidence in the string that
    one repeats; and for each sequence model the mean log odds of PHI over the candidate's tokens (`phi:`) and the share
    of the tokens at which the candidate's label is the likeliest (`agrees:`).
    """
    scores = SequenceScores.of(proposals, batch)
    first, after = table.token_ranges(batch.tokens)
    covered = np.zeros(len(batch.tokens) + 1, dtype=np.int64)
    np.add.at(covered, first, 1)
    np.add.at(covered, after, -1)
    free = np.cumsum(covered)[:-1] == 0
    found: dict[tuple[int, int, int, int], tuple[int, float]] = {}
    things = chain(_suspicions(scores, batch, free), repeats(table, batch, first, after, free))
    for kind, source, row, stop, label in things:
        document = int(batch.tokens.document[row])
        key = (document, int(batch.tokens.start[row]), int(batch.tokens.end[stop - 1]), label)
        found.setdefault(key, (KINDS.index(kind), source))
    columns = (table.document, table.start, table.end, table.label)
    known = set(zip(*(column.tolist() for column in columns), strict=True))
    added = sorted(key for key in found if key not in known)
    merged, order = merge_rows(table, added)
    kinds = np.zeros((len(table) + len(added), len(KINDS) + 1))
    for row, key in enumerate(added, len(table)):
        kind_index, source = found[key]
        kinds[row, kind_index] = 1.0
        kinds[row, -1] = source
    described = np.concatenate([kinds[order], scores.of_candidates(merged, batch)], axis=1)
    return merged, NamedColumns(net_names(scores.models), described)


def _suspicions(scores: SequenceScores, batch: Batch, free: NDArray[np.bool_]) -> Iterator[Found]:
    """Yield runs of adjacent tokens of a line that have the same kind and likeliest label."""
    if not scores.models or not len(free):
        return
    odds = scores.log_odds.mean(axis=1)
    kind = np.full(len(free), -1)
    kind[_unknown(batch) & (odds >= _SUSPECT)] = KINDS.index("unknown")
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


def _unknown(batch: Batch) -> NDArray[np.bool_]:
    """Return which tokens are words on no list of English or medical words; none where there are no such lists."""
    columns = [batch.table[name] for name in _LISTS if name in batch.table.names]
    if len(columns) < len(_LISTS):
        return np.zeros(len(batch.tokens), dtype=bool)
    listed = np.logical_or.reduce([~column.is_any_of("-") for column in columns])
    return np.asarray(~batch.table["case"].is_any_of("none") & ~listed, dtype=bool)
