"""Features from the rest of the note: a name found in the header is likely to be a name further down."""

import numpy as np

from ensemble_deid.features.table import Column
from ensemble_deid.text.tokens import TokenTable

_NAME_LIKE = ("title", "upper", "mixed")


def note_columns(lower: Column, case: Column, initial: Column, tokens: TokenTable) -> dict[str, Column]:
    """Return `in_note`: the label that the initial tagger gives the same word most often in the same note.

    Only for words of three or more letters that are capitalised like names; `-` for the others.
    """
    labels = ("-", *sorted({tag[2:] for tag in initial.values if tag != "O"}))
    index = {label: k for k, label in enumerate(labels)}
    label_of_tag = np.array([index[tag[2:]] if tag != "O" else 0 for tag in initial.values], dtype=np.int64)
    long_enough = np.array([len(w) >= 3 and w.isalpha() for w in lower.values] or [False])
    name_like = np.array([value in _NAME_LIKE for value in case.values] or [False])
    rows = np.flatnonzero(long_enough[lower.codes] & name_like[case.codes])
    codes = np.zeros(len(tokens), dtype=np.int32)
    if not len(rows) or len(labels) == 1:
        return {"in_note": Column(codes, labels)}
    pair = tokens.document[rows].astype(np.int64) * len(lower.values) + lower.codes[rows]
    _, group = np.unique(pair, return_inverse=True)
    label = label_of_tag[initial.codes[rows]]
    tagged = label > 0
    counts = np.zeros((int(group.max()) + 1, len(labels)), dtype=np.int64)
    np.add.at(counts, (group[tagged], label[tagged]), 1)
    codes[rows] = counts.argmax(axis=1)[group]
    return {"in_note": Column(codes, labels)}
