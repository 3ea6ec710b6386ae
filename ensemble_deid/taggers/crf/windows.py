"""The CRF's windows: single features around the token and their crosses (Zhao et al. 2020 use 49 crosses).

None uses the patterns' columns (`initial`, `pattern`, `in_note`). The patterns were written while reading training
notes and are more precise there than on new notes; a CRF that sees them relies on them and repeats their errors. By
itself it is weaker without them, but it is the better member of the stack (research/reports).
"""

from collections.abc import Sequence
from functools import lru_cache

from ensemble_deid.errors import ConfigError, RuleError
from ensemble_deid.features.windows import Window, parse_windows


def _around(feature: str, reach: int) -> list[str]:
    return [f"{feature}[{offset}]" for offset in range(-reach, reach + 1)]


DEFAULT_WINDOWS: tuple[str, ...] = (
    *_around("lower", 2),
    *_around("short_shape", 2),
    *_around("known_word", 2),
    *"shape[0] case[0] digits[0] digits[-1] lexicon[-1] lexicon[0] lexicon[1] spaced[0]".split(),
    *"prefix2[0] prefix3[0] prefix4[0] suffix2[0] suffix3[0] suffix4[0] suffix3[-1] word[0] length[0]".split(),
    *"field[0] line_prefix[0] section[0] position_in_line[0] sentence_length[0]".split(),
    *"lower[-1]&lower[0] lower[0]&lower[1] lower[-2]&lower[-1] lower[1]&lower[2]".split(),
    *"lower[-1]&short_shape[0] lower[-2]&lower[-1]&short_shape[0] lower[1]&short_shape[0]".split(),
    *"shape[-1]&shape[0] shape[0]&shape[1]".split(),
    "short_shape[-1]&short_shape[0]&short_shape[1]",
    "short_shape[-2]&short_shape[-1]&short_shape[0]",
    "short_shape[0]&short_shape[1]&short_shape[2]",
    *"known_word[-1]&known_word[0] known_word[0]&known_word[1]".split(),
    *"known_word[0]&short_shape[0] known_word[0]&lower[-1]".split(),
    *"field[0]&short_shape[0] field[0]&position_in_line[0] field[0]&known_word[0] lower[-1]&field[0]".split(),
)

# Added to the others, built-in or configured, where stanza's columns are in the table.
STANZA_WINDOWS: tuple[str, ...] = (
    *_around("pos", 1),
    *_around("ner", 1),
    *"pos[-1]&pos[0] pos[0]&pos[1] ner[0]&short_shape[0]".split(),
)


def knowledge_windows(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the windows over the columns of public lists: each around the token, and crosses of names and English."""
    single = [window for column in columns for window in _around(column, 1)]
    given, surname, english = (f"knowledge_{name}" for name in ("given", "surname", "english"))
    if not {given, surname, english} <= set(columns):
        return tuple(single)
    crosses = [
        f"{given}[0]&{surname}[0]&{english}[0]",
        f"{given}[-1]&{surname}[0]",
        f"{given}[0]&{surname}[1]",
        f"{english}[0]&short_shape[0]",
        f"{given}[0]&{english}[0]&short_shape[0]",
        f"{surname}[0]&{english}[0]&short_shape[0]",
    ]
    return (*single, *crosses)


@lru_cache(maxsize=32)
def read_windows(texts: tuple[str, ...]) -> tuple[tuple[str, tuple[Window, ...]], ...]:
    """Return windows, each with the name that its values carry in the CRF, such as `lower[-1]&lower[0]`.

    Raises ConfigError where a text is no window, or looks at several places at once, which the CRF cannot.
    """
    named = []
    for number, text in enumerate(texts, 1):
        place = f"crf.windows: window {number}"
        try:
            windows = parse_windows(text, place=place)
        except RuleError as error:
            raise ConfigError(str(error)) from None
        if any(window.first != window.last for window in windows):
            raise ConfigError(f"{place}: the CRF looks at one place a window, such as lower[-1]")
        named.append(("&".join(map(str, windows)), windows))
    return tuple(named)
