"""The context of a candidate, whichever submodel proposed it: its words, form, neighbours and other occurrences.

It is stored with the out-of-fold candidates, so that the final estimator can be refitted without the notes.

Other mentions are part of it: what the submodels think of other places in a note that have a word in common with a
candidate. `Dr. Marcia Hidalgo` in the heading tells whose name `Hidalgo` or `Marcia` is further down, where nothing
else does.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.arrays import Floats, Int64s, log_odds, range_sums
from ensemble_deid.features.batch import Batch
from ensemble_deid.features.knowledge import MEDICINE, NAMES, PLACES, PREFIX
from ensemble_deid.stacking.candidates import CandidateTable, NamedColumns, collect, maxima
from ensemble_deid.stacking.net import cast_net
from ensemble_deid.stacking.text_tables import BatchCells, text_table_columns
from ensemble_deid.taggers.base import Proposals

MENTIONS = ("mention_same", "mention_other")
_LEAST_CHARACTERS = 3
_MOST = 50
"""Candidates with a word that are looked at, the surest ones: time and memory grow with them, and a form has many."""


def mention_columns(table: CandidateTable, batch: Batch) -> NamedColumns:
    """Return the columns of every candidate, two for each submodel.

    They are its highest confidence in a candidate elsewhere in the note with a word in common, of at least three
    letters and in any case: with the same label (`mention_same:`) and with another one (`mention_other:`); 0 where
    there is none. Candidates that overlap are not elsewhere.
    """
    target, source = _pairs(*_words(table, batch), table.confidence.max(axis=1, initial=0.0))
    apart = (table.end[source] <= table.start[target]) | (table.end[target] <= table.start[source])
    target, source = target[apart], source[apart]
    same = table.label[source] == table.label[target]
    columns = [
        maxima(table.confidence[source, k] * chosen, target, len(table))
        for chosen in (same, ~same)
        for k in range(len(table.submodels))
    ]
    names = tuple(f"{kind}:{name}" for kind in MENTIONS for name in table.submodels)
    return NamedColumns(names, np.stack(columns, axis=1) if columns else np.zeros((len(table), 0)))


def _words(table: CandidateTable, batch: Batch) -> tuple[Int64s, Int64s]:
    """Return candidates, by row, and the words that they have, both (n,); a number stands for a word of one note."""
    rows, tokens = _own_tokens(*table.token_ranges(batch.tokens))
    long = batch.tokens.end - batch.tokens.start >= _LEAST_CHARACTERS
    counted = (long & ~batch.table["case"].is_any_of("none"))[tokens]
    rows, tokens = rows[counted], tokens[counted]
    most = int(batch.same_word.max(initial=0)) + 1
    words = table.document[rows].astype(np.int64) * most + batch.same_word[tokens]
    # A candidate that has a word twice has it once.
    found = np.unique(np.stack([words, rows], axis=1), axis=0)
    return found[:, 1], found[:, 0]


def _own_tokens(first: Int64s, after: Int64s) -> tuple[Int64s, Int64s]:
    """Return rows, and one by one the tokens that they have, both (n,)."""
    sizes = after - first
    rows = np.repeat(np.arange(len(first)), sizes)
    return rows, np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + first[rows]


def _pairs(rows: Int64s, words: Int64s, strength: Floats) -> tuple[Int64s, Int64s]:
    """Return pairs of rows with a word in common, (pairs,) each: every row, and the strongest that share its word."""
    order = np.lexsort((rows, -strength[rows], words))
    rows, words = rows[order], words[order]
    begins = np.searchsorted(words, words, side="left")
    counts = np.minimum(np.searchsorted(words, words, side="right") - begins, _MOST)
    target = np.repeat(np.arange(len(rows)), counts)
    source = np.arange(len(target)) - np.repeat(np.cumsum(counts) - counts, counts) + begins[target]
    return rows[target], rows[source]


_NEAR, _LEAST = 40, 1e-4


def density_columns(table: CandidateTable, batch: Batch, odds: Floats) -> NamedColumns:
    """Return how much PHI is around each candidate: the log share of tokens in the note, nearby and in its lines.

    `odds` (n,) are each candidate's log odds of PHI. A token counts with the highest probability of a candidate that
    covers it, the candidate's own tokens do not count. The last column is the note's length in tokens.
    """
    first, after = table.token_ranges(batch.tokens)
    rows, tokens = _own_tokens(first, after)
    sizes = after - first
    expected = maxima((1 / (1 + np.exp(-odds)))[rows], tokens, len(batch.tokens))
    bounds, line = batch.tokens.document_starts, batch.tokens.line
    low, high = bounds[table.document], bounds[table.document + 1]
    breaks = np.flatnonzero(np.diff(line, prepend=line[:1] - 1, append=line[-1:] - 1))
    opens, closes = (breaks[np.searchsorted(breaks, at, side="right") - k] for at, k in ((first, 1), (after - 1, 0)))
    ranges = {
        "note": (low, high),
        "near": (np.maximum(low, first - _NEAR), np.minimum(high, after + _NEAR)),
        "line": (np.maximum(low, opens), np.minimum(high, closes)),
    }
    own = range_sums(expected, first, after)
    columns = {
        f"density:{name}": np.log((_sums(expected, a, b) - own + 0.5) / (np.maximum(b - a - sizes, 0) + 5))
        for name, (a, b) in ranges.items()
    }
    columns["density:length"] = np.log1p((high - low).astype(np.float64))
    return NamedColumns(tuple(columns), np.stack(list(columns.values()), axis=1))


def _sums(values: Floats, first: Int64s, after: Int64s) -> Floats:
    """Return what `range_sums` does; a range that many rows have, such as a note, is summed once."""
    ranges, which = np.unique(np.stack([first, after], axis=1), axis=0, return_inverse=True)
    return range_sums(values, ranges[:, 0], ranges[:, 1])[which.reshape(-1)]


_COMMON = 6
"""A bin of the English list from which on a word is too common to be taken for a name."""


def list_columns(table: CandidateTable, batch: Batch) -> NamedColumns:
    """Return the columns of every candidate; none where the batch has no lists.

    Of a list of words: the mean bin of the candidate's words (`list:`, 0 where the list does not have one) and the
    share of them that it has (`known:`). Of a list of phrases: the share of tokens in a match (`list:`). From the lists
    of names, English words and medicine (`words:`): the share of words that are names and neither common nor medical,
    of those on no list of the last two, by how many bins they are more frequent as names than as English words,
    and the bin of the commonest English word.
    """
    lists = [name for name in batch.table.names if name.startswith(PREFIX)]
    if not lists:
        return NamedColumns.none(len(table))
    first, after = table.token_ranges(batch.tokens)
    is_word = ~batch.table["case"].is_any_of("none")
    words, tokens = range_sums(is_word, first, after), after - first
    columns: dict[str, Floats] = {}
    bins: dict[str, Floats] = {}
    for name in lists:
        column, short = batch.table[name], name.removeprefix(PREFIX)
        if column.values == PLACES:
            columns[f"list:{short}"] = _share(column.codes > 0, first, after, tokens)
            continue
        level = np.array([0.0 if value == "-" else float(value) for value in column.values] or [0.0])
        bins[short] = np.where(is_word, level[column.codes], 0.0)
        columns[f"list:{short}"] = _share(bins[short], first, after, words)
        columns[f"known:{short}"] = _share(bins[short] > 0, first, after, words)
    if {"given", "surname", "english", "medical"} <= set(bins):
        english = bins["english"]
        name_bin, medical = (_highest(bins, lists) for lists in (NAMES, MEDICINE))
        unlisted = is_word & (english == 0) & (medical == 0)
        columns["words:name"] = _share((name_bin > 0) & (english < _COMMON) & (medical == 0), first, after, words)
        columns["words:unlisted"] = _share(unlisted, first, after, words)
        columns["words:more_as_name"] = _share(name_bin - english, first, after, words)
        columns["words:commonest"] = _largest(english, first, after)
    return NamedColumns(tuple(columns), np.stack(list(columns.values()), axis=1))


def _highest(bins: Mapping[str, Floats], lists: Sequence[str]) -> Floats:
    """Return the highest bin of each token on those of the lists that there are."""
    return np.asarray(np.maximum.reduce([bins[name] for name in lists if name in bins]), dtype=np.float64)


def _share(values: NDArray[np.generic], first: Int64s, after: Int64s, size: NDArray[np.generic]) -> Floats:
    return np.asarray(range_sums(values, first, after) / np.maximum(size, 1), dtype=np.float64)


def _largest(values: Floats, first: Int64s, after: Int64s) -> Floats:
    if not len(first):
        return np.zeros(0)
    bounds = np.stack([first, np.maximum(after, first + 1)], axis=1).ravel()
    return np.asarray(np.maximum.reduceat(np.append(values, 0.0), bounds)[::2], dtype=np.float64)


FORM = ("tokens", "characters", "digits", "capitals", "spaces", "opens_line", "closes_line", "place")
KINDS = ("string", "before", "after", "form", "field")
_MAX_OCCURRENCES = 50


@dataclass(frozen=True, slots=True, eq=False)
class CandidateContext:
    """Columns that go with a candidate table, row by row.

    `form` float64 (n, 8) as named in `FORM`; `keys` maps a kind (see `KINDS`) to one string per candidate, without
    the label; `string` int64 (n,) is equal where the candidates' lower-cased words are, also where the vocabulary is
    closed and their keys do not tell; `elsewhere` int64 (n,) counts the other occurrences of the string in the note (at
    most fifty are checked); `groups` is the group that folds keep together (the patient or a larger one) of each
    candidate, `patients` its patient (or note). `more` has the columns of the net
    (`stack.net`), of other mentions (`stack.mentions`) and of the public lists, where there are any.
    """

    form: Floats
    keys: dict[str, list[str]] = field(repr=False)
    string: Int64s
    elsewhere: Int64s
    groups: list[str]
    patients: list[str] = field(repr=False)
    more: NamedColumns

    def select(self, rows: Int64s) -> "CandidateContext":
        chosen = rows.tolist()
        return CandidateContext(
            form=self.form[rows],
            keys={kind: [names[i] for i in chosen] for kind, names in self.keys.items()},
            string=numbered(self.string[rows].tolist()),
            elsewhere=self.elsewhere[rows],
            groups=[self.groups[i] for i in chosen],
            patients=[self.patients[i] for i in chosen],
            more=self.more.select(rows),
        )


def extract_candidates(
    proposals: Mapping[str, Proposals],
    batch: Batch,
    *,
    labels: tuple[str, ...],
    min_confidence: float,
    net: bool,
    mentions: bool = False,
    density: bool = False,
    tables: bool = False,
    lists: Batch | None = None,
) -> tuple[CandidateTable, CandidateContext]:
    """Collect the submodels' candidates, with `net` also those that none of them proposes, and their context.

    With `mentions` it has the columns of other mentions, with `density` those of PHI around, with `tables` those of the
    tables in a note. `lists` is the batch as training sees it, with part of the public lists hidden; by default `batch`
    is taken.
    """
    table = collect(proposals, labels=labels, min_confidence=min_confidence)
    columns = NamedColumns.none(len(table))
    cells = BatchCells.of(batch) if tables else None
    if net:
        table, columns = cast_net(table, proposals, batch, cells=cells)
    if mentions:
        columns = columns.beside(mention_columns(table, batch))
    phi = columns.of_kinds("phi")
    odds = phi.mean(axis=1) if phi.shape[1] else log_odds(table.highest_confidence(), bound=_LEAST)
    if density:
        columns = columns.beside(density_columns(table, batch, odds))
    if cells is not None:
        columns = columns.beside(text_table_columns(table, batch.tokens, cells, odds))
    columns = columns.beside(list_columns(table, lists or batch))
    return table, extract_context(table, batch, columns)


def extract_context(table: CandidateTable, batch: Batch, more: NamedColumns | None = None) -> CandidateContext:
    first, after = table.token_ranges(batch.tokens)
    owners, words = [batch.documents[d] for d in table.document.tolist()], batch.same_word.tolist()
    return CandidateContext(
        form=_form(table, batch, first, after),
        keys=_keys(batch, first, after),
        string=numbered(tuple(words[a:b]) for a, b in zip(first.tolist(), after.tolist(), strict=True)),
        elsewhere=_elsewhere(table, batch, first, after),
        groups=[document.group for document in owners],
        patients=[document.patient for document in owners],
        more=more or NamedColumns.none(len(table)),
    )


def _keys(batch: Batch, first: Int64s, after: Int64s) -> dict[str, list[str]]:
    words, forms = batch.table["lower"].strings(), batch.table["short_shape"].strings()
    nearest = batch.table["field"].strings()
    # No word is before a token that begins a note, or after one that ends it.
    edges = set(batch.tokens.document_starts.tolist())
    ranges = list(zip(first.tolist(), after.tolist(), strict=True))
    return {
        "string": [" ".join(words[a:b]) for a, b in ranges],
        "before": ["<>" if a in edges else words[a - 1] for a, _ in ranges],
        "after": ["<>" if b in edges else words[b] for _, b in ranges],
        "form": [" ".join(forms[a:b])[:60] for a, b in ranges],
        "field": [nearest[a] for a, _ in ranges],
    }


def numbered(things: Iterable[Hashable]) -> Int64s:
    """Return a number for each thing, in order of first appearance; equal things have equal numbers."""
    index: dict[Hashable, int] = {}
    return np.array([index.setdefault(thing, len(index)) for thing in things], dtype=np.int64)


def _elsewhere(table: CandidateTable, batch: Batch, first: Int64s, after: Int64s) -> Int64s:
    codes, bounds = batch.same_word, batch.tokens.document_starts
    out = np.zeros(len(table), dtype=np.int64)
    for d in np.unique(table.document).tolist():
        low, high = int(bounds[d]), int(bounds[d + 1])
        note = codes[low:high].tolist()
        rows = np.flatnonzero(table.document == d)
        ranges = list(zip((first[rows] - low).tolist(), (after[rows] - low).tolist(), strict=True))
        places: dict[int, list[int]] = {word: [] for a, _ in ranges for word in note[a : a + 1]}
        for i, word in enumerate(note):
            if word in places:
                places[word].append(i)
        for row, (a, b) in zip(rows.tolist(), ranges, strict=True):
            phrase = note[a:b]
            starts = places[phrase[0]][:_MAX_OCCURRENCES] if phrase else []
            if len(starts) > 1:
                out[row] = sum([i != a and note[i : i + len(phrase)] == phrase for i in starts])
    return out


def _form(table: CandidateTable, batch: Batch, first: Int64s, after: Int64s) -> Floats:
    lines = batch.tokens.line
    last = max(0, len(lines) - 1)
    opens = (first == 0) | (lines[np.maximum(first - 1, 0)] != lines[np.minimum(first, last)])
    closes = (after > last) | (lines[np.minimum(after, last)] != lines[np.maximum(after - 1, 0)])
    lengths = np.array([len(document.text) for document in batch.documents], dtype=np.float64)
    size = (table.end - table.start).astype(np.float64)
    columns = [
        np.log1p((after - first).astype(np.float64)),
        np.log1p(size),
        *(_signs(table, batch) / size[:, None]).T,
        opens.astype(np.float64),
        closes.astype(np.float64),
        table.start / np.maximum(lengths[table.document], 1.0),
    ]
    return np.stack(columns, axis=1)


def _signs(table: CandidateTable, batch: Batch) -> Floats:
    """Return how many digits, capitals and spaces each candidate holds, (n, 3)."""
    rows: list[Sequence[int]] = []
    for d, start, end in zip(table.document.tolist(), table.start.tolist(), table.end.tolist(), strict=True):
        text = batch.documents[d].text[start:end]
        rows.append((sum(map(str.isdigit, text)), sum(map(str.isupper, text)), sum(map(str.isspace, text))))
    return np.array(rows, dtype=np.float64).reshape(len(rows), 3)
