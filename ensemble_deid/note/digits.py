"""Figures as text: shares in percent; scores and thresholds, which may be 1e-13, with four significant digits."""

UNDEFINED = "undefined"


def percent(value: float | None, *, sign: str = "%") -> str:
    """Return a share in percent, or the word for one that is undefined; no `sign` where a table's head has it."""
    return UNDEFINED if value is None else f"{100 * value:.2f}{sign}"


def figure(value: float | None, digits: int = 4) -> str:
    """Return a figure with so many decimals, or the word for one that is undefined."""
    return UNDEFINED if value is None else f"{value:.{digits}f}"


def four_digits(value: float) -> str:
    """Return a score or threshold with four significant digits: `0.9877`, `1.235e-05`."""
    return f"{value:.4g}"


def rounded(value: float) -> float:
    """Return a score or threshold rounded to four significant digits."""
    return float(four_digits(value))
