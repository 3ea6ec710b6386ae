"""Numbers that a measurement explains: decimals, quantities with a unit, vital signs, clock times, list numbers.

What is left, numbers of two and more digits and codes of letters and digits, may identify somebody.
"""

import re

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.features.batch import Batch

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
_PATTERNS = (
    r"\d{1,30}+\.\d+",
    rf"{_NUMBER}\s?-?\s?(?:to\s|-\s?|/)?\d{{0,30}}+\s?{_UNIT}",
    rf"(?i:\b{_SIGN})\b\s?(?:is|was|of|:|=|-|<|>|~)?\s?\d[\d.,/]*",
    r"\d{2,3}/\d{2,3}",
    r"\b[0-2]?\d:[0-5]\d(?::[0-5]\d)?",
    r"(?m:^[^\S\n]*+\d{1,2}[.)])",
)
EXPLAINED = re.compile("|".join(f"(?:{pattern})" for pattern in _PATTERNS))


def unexplained_numbers(batch: Batch) -> NDArray[np.bool_]:
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


def _explained(batch: Batch, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
    out = np.zeros(len(batch.tokens), dtype=bool)
    tokens = batch.tokens
    for d in np.unique(tokens.document[rows]).tolist():
        low, high = int(tokens.document_starts[d]), int(tokens.document_starts[d + 1])
        places = [match.span() for match in EXPLAINED.finditer(batch.documents[d].text)]
        first = low + np.searchsorted(tokens.end[low:high], [a for a, _ in places], side="right")
        after = low + np.searchsorted(tokens.start[low:high], [b for _, b in places], side="left")
        for a, b in zip(first.tolist(), after.tolist(), strict=True):
            out[a:b] = True
    return out
