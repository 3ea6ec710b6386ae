"""Where to split a line into sentences: never after an abbreviation, which would cut names in two."""

import numpy as np
from numpy.typing import NDArray

from ensemble_deid.text.normal_form import visible

ABBREVIATIONS = frozenset(
    # English titles, addresses, months, clinical shorthand
    "dr drs mr mrs ms prof rev sr jr st ave blvd rd ln apt ste hwy pkwy ct pl sq no nos vs etc inc ltd co corp dept "
    "univ hosp ctr med jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thur thurs fri sat sun "
    "pt pts hx dx rx tx sx fx approx ext tel fax fig vol ed eds al eg ie cf wt ht temp resp min max avg "
    # Spanish titles, addresses, clinical shorthand
    "sra srta d dra dres doña avda avd av c cl ctra pza plza pº urb bº edif esc izq izda dcha dpto núm num tlf "
    "tfno telf ud uds vd vds pág pag art cía cia hnos gral ntra sto sta mª fdo lic fco".split()
)


def sentence_breaks(text: str, starts: NDArray[np.int32], ends: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return 1 for each token that starts a sentence after sentence-final punctuation, (n_tokens,).

    A token starts a sentence when there is white space before it, it begins with an upper-case letter or a digit, and
    the token before it is `?`, `!`, or a `.` that ends a word of two or more letters which is no abbreviation,
    a number, or a closing bracket.
    """
    breaks = np.zeros(len(starts), dtype=np.int32)
    if len(starts) < 3:
        return breaks
    gap_before = np.flatnonzero(starts[2:] > ends[1:-1]) + 2
    for i in gap_before.tolist():
        mark = text[starts[i - 1] : ends[i - 1]]
        if mark not in ".?!" or not (text[starts[i]].isupper() or text[starts[i]].isdigit()):
            continue
        word = visible(text[starts[i - 2] : ends[i - 2]])
        if mark == "." and not _may_end_sentence(word, starts[i - 1] == ends[i - 2]):
            continue
        breaks[i] = 1
    return breaks


def _may_end_sentence(word: str, adjacent: bool) -> bool:
    """True when a full stop after `word` can end a sentence."""
    if not adjacent:
        return True
    if word.isalpha():
        return len(word) > 1 and word.lower() not in ABBREVIATIONS
    return word.isdigit() or word in ")]}\"'%"
