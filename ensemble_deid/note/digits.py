"""Figures as text: shares in percent; scores and thresholds with four significant digits.

Decimals would not do for scores: single tokens have scores down to 1e-13, and a threshold among them is not 0.0000.
"""

UNDEFINED = "undefined"


def percent(value: float | None, *, sign: str = "%") -> str:
    """Return a share in percent, or the word for one that is undefined; no `sign` where a table's head has it."""
    return UNDEFINED if value is None else f"{100 * value:.2f}{sign}"


def figure(value: float | None, digits: int = 4) -> str:
    """Return a figure with so many decimals, or the word for one that is undefined."""
    return UNDEFINED if value is None else f"{value:.{digits}f}"


def four_digits(value: float) -> str:
    """Return a score or threshold with four significant digits.

    >>> from ensemble_deid.note.digits import four_digits
    >>> four_digits(0.98765432), four_digits(0.5), four_digits(0.0000123456)
    ('0.9877', '0.5', '1.235e-05')
    """
    return f"{value:.4g}"


def rounded(value: float) -> float:
    """Return a score or threshold rounded to four significant digits.

    >>> from ensemble_deid.note.digits import rounded
    >>> rounded(0.98765432), rounded(0.0000123456)
    (0.9877, 1.235e-05)
    """
    return float(four_digits(value))
