"""What reviewed notes of a site add to the final estimator: a correction of its scores.

The submodels and the estimator stay as they are. A candidate's log odds are shifted by a linear function of the
estimator's own features, and of how often the candidate's words, their forms and what is beside them were PHI in
reviewed notes: the codes, names and abbreviations of a site. The weights are pulled towards 0, so that a score stays
where the notes say nothing (adaptation by a prior; Chelba and Acero 2006). A training candidate's statistics leave out
its own patient.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.arrays import Flags, Floats, Int64s, log_odds
from ensemble_deid.errors import ModelError, needs_extra
from ensemble_deid.note.document import Document
from ensemble_deid.note.overlaps import Covered
from ensemble_deid.parsing import strict_json
from ensemble_deid.stacking.candidates import CandidateTable

KINDS = ("word", "before", "after", "chunk", "forms", "line")
"""Keys of a token: itself, its neighbours, the form of what stands between white space, of the neighbours, and of the
end of its line so far."""
_TOKEN = re.compile(r"[^\W\d_]+|\d+|\w|[^\w\s]")
_PRIOR_WEIGHT = 2.0
_RIDGE, _FREE = 3.0, 0.03
"""How strongly weights are pulled towards 0, and how strongly that of the constant column."""
_BOUND = 1e-4
_CHUNK, _LINE = 24, 12

_Counts: TypeAlias = dict[tuple[str, str], list[int]]


@dataclass(frozen=True, slots=True, eq=False)
class ScoredCandidates:
    """Candidates with their standardised features, the estimator's probability and their score, (n,) each."""

    table: CandidateTable
    features: Floats
    probability: Floats
    score: Floats


@dataclass(frozen=True, slots=True, eq=False)
class _Tokens:
    """The tokens of a text: where they begin and end, and the keys of each."""

    start: Int64s
    end: Int64s
    keys: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, text: str) -> "_Tokens":
        places = [match.span() for match in _TOKEN.finditer(text)]
        words = [text[start:end] for start, end in places]
        forms = ["<", *map(_form, words), ">"]
        beside = ["<", *(word.lower() for word in words), ">"]
        chunks = [match.span() for match in re.finditer(r"\S+", text)]
        keys, chunk = [], 0
        for number, (start, _) in enumerate(places, start=1):
            while chunks[chunk][1] <= start:
                chunk += 1
            # Only so far: a note may be one line, or one word.
            begin, end = chunks[chunk]
            whole = _form(text[begin : min(end, begin + _CHUNK)].strip(".,;:()"))
            near = max(0, start - 4 * _LINE)
            line = text[max(text.rfind("\n", near, start) + 1, near) : start]
            context = "".join(forms[number - 1 : number + 2])[: 4 * _CHUNK]
            short = re.sub(r"(.)\1+", r"\1", _form(line))
            keys.append((beside[number], beside[number - 1], beside[number + 1], whole, context, short[-_LINE:]))
        bounds = np.array(places, dtype=np.int64).reshape(len(places), 2)
        return cls(bounds[:, 0], bounds[:, 1], tuple(keys))

    def phi(self, document: Document) -> Flags:
        """Return which tokens an annotation covers, also in part."""
        covered = Covered.by(document.spans)
        places = zip(self.start.tolist(), self.end.tolist(), strict=True)
        return np.array([covered.overlaps(*place) for place in places], dtype=bool)

    def ranges(self, table: CandidateTable) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the index of each candidate's first token, and that after its last, (n,) each."""
        first = np.searchsorted(self.end, table.start, side="right")
        return first, np.searchsorted(self.start, table.end, side="left")


@lru_cache(maxsize=1 << 14)
def _form(words: str) -> str:
    return "".join("0" if c.isdigit() else "A" if c.isupper() else "a" if c.isalpha() else c for c in words)


@dataclass(frozen=True, slots=True, eq=False)
class SiteStage:
    """`counts` has, by kind and key, how many tokens were PHI, and how many there were; `prior` is the share of PHI.

    `rank` and `score` are the weights, (columns,), by which the log odds of the probability and of the score change.
    """

    counts: Mapping[str, Mapping[str, tuple[int, int]]] = field(repr=False)
    prior: float
    rank: Floats = field(repr=False)
    score: Floats = field(repr=False)

    @classmethod
    def fit(cls, notes: Sequence[tuple[Document, ScoredCandidates]], *, min_patients: int = 1) -> "SiteStage":
        """Learn from reviewed notes, each with its own candidates; no key is kept that fewer patients have.

        Raises ModelError where the notes have no words.
        """
        tokens = [_Tokens.of(document.text) for document, _ in notes]
        phi = [found.phi(document) for found, (document, _) in zip(tokens, notes, strict=True)]
        if not sum(map(len, phi)):
            raise ModelError("there is nothing to learn from: the notes have no words")
        own: dict[str, _Counts] = {}
        for (document, _), found, marked in zip(notes, tokens, phi, strict=True):
            counts = own.setdefault(document.patient, defaultdict(lambda: [0, 0]))
            for keys, is_phi in zip(found.keys, marked.tolist(), strict=True):
                for named in zip(KINDS, keys, strict=True):
                    counts[named][0] += is_phi
                    counts[named][1] += 1
        total: _Counts = defaultdict(lambda: [0, 0])
        for counts in own.values():
            for key, (good, all_) in counts.items():
                total[key][0] += good
                total[key][1] += all_
        patients = Counter(key for counts in own.values() for key in counts)
        tables: dict[str, dict[str, tuple[int, int]]] = {kind: {} for kind in KINDS}
        for (kind, word), (good, all_) in sorted(total.items()):
            if patients[kind, word] >= min_patients:
                tables[kind][word] = (good, all_)
        empty = np.zeros(0)
        stage = cls(tables, float(np.concatenate(phi).mean()), rank=empty, score=empty)
        columns = [
            stage._columns(found, scored, own=own[document.patient])
            for (document, scored), found in zip(notes, tokens, strict=True)
        ]
        exact = [scored.table.is_gold([document.spans]) for document, scored in notes]
        parts = zip(tokens, phi, notes, strict=True)
        share = [_share(found, marked, scored.table) for found, marked, (_, scored) in parts]
        table = np.concatenate(columns)
        probability = log_odds(np.concatenate([scored.probability for _, scored in notes]), bound=_BOUND)
        rank = _weights(table, np.concatenate(exact), probability)
        before = log_odds(np.concatenate([scored.score for _, scored in notes]), bound=_BOUND)
        score = _weights(table, np.concatenate(share), before)
        return cls(stage.counts, stage.prior, rank=rank, score=score)

    def corrected(self, documents: Sequence[Document], scored: ScoredCandidates) -> tuple[Floats, Floats]:
        """Return the probability and the score of every candidate of some documents as the site's notes change them."""
        rank, score = scored.probability.copy(), scored.score.copy()
        for number in np.unique(scored.table.document).tolist():
            rows = np.flatnonzero(scored.table.document == number)
            part = ScoredCandidates(
                scored.table.select(rows), scored.features[rows], scored.probability[rows], scored.score[rows]
            )
            columns = self._columns(_Tokens.of(documents[number].text), part)
            rank[rows] = _probability(log_odds(part.probability, bound=_BOUND) + columns @ self.rank)
            score[rows] = _probability(log_odds(part.score, bound=_BOUND) + columns @ self.score)
        return rank, score

    def _columns(self, tokens: _Tokens, scored: ScoredCandidates, *, own: _Counts | None = None) -> Floats:
        """Return the columns of a document's candidates, (n, columns); `own` counts are left out of the statistics."""
        odds, seen = self._statistics(tokens, own or {})
        table = scored.table
        first, after = tokens.ranges(table)
        told = np.zeros((len(table), 4 * len(KINDS)))
        for row, (low, high) in enumerate(zip(first.tolist(), after.tolist(), strict=True)):
            if low < high:
                part = odds[low:high]
                extremes = (part.min(axis=0), part.max(axis=0))
                told[row] = np.concatenate([part.mean(axis=0), seen[low:high].mean(axis=0), *extremes])
        constant = np.ones((len(table), 1))
        return np.concatenate(
            [told / 2, scored.features / 3, log_odds(scored.score, bound=_BOUND)[:, None] / 4, constant], axis=1
        )

    def _statistics(self, tokens: _Tokens, own: Mapping[tuple[str, str], list[int]]) -> tuple[Floats, Floats]:
        """Return, for each token and kind of key, the log odds of PHI against the prior's, and the log count."""
        pairs = np.zeros((len(tokens.keys), len(KINDS), 2))
        for row, keys in enumerate(tokens.keys):
            for column, (kind, key) in enumerate(zip(KINDS, keys, strict=True)):
                good, total = self.counts[kind].get(key, (0, 0))
                if total and (mine := own.get((kind, key))):
                    good, total = good - mine[0], total - mine[1]
                pairs[row, column] = good, total
        rate = (pairs[..., 0] + _PRIOR_WEIGHT * self.prior) / (pairs[..., 1] + _PRIOR_WEIGHT)
        prior = log_odds(np.array([self.prior]), bound=1e-3)
        return log_odds(rate, bound=1e-3) - prior, np.log1p(pairs[..., 1])

    def to_json(self) -> str:
        counts = {kind: {key: list(pair) for key, pair in table.items()} for kind, table in self.counts.items()}
        content = {"prior": self.prior, "rank": self.rank.tolist(), "score": self.score.tolist(), "counts": counts}
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str, *, features: int) -> "SiteStage":
        """Read what `to_json` gave, for an estimator with so many features. Raises ModelError."""
        try:
            content = strict_json(text)
            counts = {
                kind: {str(key): (int(good), int(total)) for key, (good, total) in content["counts"][kind].items()}
                for kind in KINDS
            }
            rank, score = (np.array([float(value) for value in content[name]]) for name in ("rank", "score"))
            stage = cls(counts, float(content["prior"]), rank=rank, score=score)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ModelError("what the model learned from a site is damaged") from None
        columns = 4 * len(KINDS) + features + 2
        if not len(rank) == len(score) == columns or not np.isfinite([*rank, *score, stage.prior]).all():
            raise ModelError("what the model learned from a site is damaged: its weights do not fit")
        return stage


def _share(tokens: _Tokens, phi: Flags, table: CandidateTable) -> Floats:
    """Return the share of each candidate's tokens that are PHI, (n,)."""
    sums = np.concatenate([[0.0], np.cumsum(phi)])
    first, after = tokens.ranges(table)
    return np.asarray((sums[after] - sums[first]) / np.maximum(after - first, 1), dtype=np.float64)


def _weights(columns: Floats, wanted: Floats | Flags, offset: Floats) -> Floats:
    """Return the weights of a logistic regression from an offset, pulled towards 0; the last column is constant."""
    with needs_extra("train", "learning from a site's notes"):
        from scipy.optimize import minimize

    pull = np.full(columns.shape[1], _RIDGE)
    pull[-1] = _FREE
    truth = np.asarray(wanted, dtype=np.float64)

    def loss(weights: Floats) -> tuple[float, Floats]:
        odds = offset + columns @ weights
        value = (np.logaddexp(0.0, odds) - truth * odds).sum() + 0.5 * (pull * weights**2).sum()
        return float(value), columns.T @ (_probability(odds) - truth) + pull * weights

    found = minimize(loss, np.zeros(columns.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 300})
    return np.asarray(found.x, dtype=np.float64)


def _probability(odds: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(odds, -30, 30))), dtype=np.float64)
