"""The colours of labels on the review page, from its style sheet: readable, and told apart, light and dark."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import ensemble_deid.service.review
from ensemble_deid.arrays import Floats
from ensemble_deid.note.labels import I2B2_TYPES

PAGE = Path(ensemble_deid.service.review.__file__).parent / "page"
_LMS = np.array([[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.63]])
_LAB = np.array([[0.2105, 0.7936, -0.0041], [1.978, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]])


def themes() -> list[dict[str, str]]:
    """Return the variables of the light theme and of the dark one."""
    roots = re.findall(r":root \{([^}]*)\}", (PAGE / "review.css").read_text(encoding="utf-8"))
    return [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6});", root)) for root in roots]


def linear(colour: str) -> Floats:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    channels = np.array([int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """Return the contrast of WCAG 2.2, from 1 to 21."""
    dark, light = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


def distance(one: str, other: str) -> float:
    """Return how different two colours look: their distance in OKLab (Ottosson 2020)."""
    first, second = (_LAB @ np.cbrt(_LMS @ linear(colour)) for colour in (one, other))
    return float(np.linalg.norm(first - second))


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#fff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#fff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("dark", [False, True])
def test_labels_are_readable_and_told_apart(dark: bool) -> None:
    theme = themes()[dark]
    fills = [theme[name] for name in theme if re.fullmatch(r"c\d+", name)]
    (used,) = re.findall(r"LABEL_COLOURS = (\d+)", (PAGE / "note.js").read_text(encoding="utf-8"))
    # One for each label of the i2b2 types, and more for a site's own.
    assert len(fills) == int(used) >= len(I2B2_TYPES) + 2
    assert min(contrast(fill, theme["ink"]) for fill in fills) >= 4.5
    assert min(distance(*pair) for pair in combinations([*fills, theme["card"]], 2)) > 0.07
    for text in ("ink", "soft", "accent", "bad", "good"):
        for ground in ("bg", "card"):
            assert contrast(theme[text], theme[ground]) >= 4.5, (text, ground)
    assert contrast(theme["ink"], theme["place"]) >= 4.5
