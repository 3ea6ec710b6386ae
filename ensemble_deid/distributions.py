"""Probabilities and quantiles of the few distributions that bounds need, without a statistics library to install."""

from math import comb, exp, inf, lgamma, log, log1p, sqrt

_STEPS = 100_000
_TINY = 1e-300
_ENOUGH = 1e-16


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), by its continued fraction (Lentz's method)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_cdf(1 - x, b, a)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or _TINY)
    fraction = d
    for m in range(1, _STEPS):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            c = 1 + numerator / c or _TINY
            d = 1 / (1 + numerator * d or _TINY)
            fraction *= c * d
        if abs(c * d - 1) < _ENOUGH:
            break
    return front * fraction


def beta_quantile(p: float, a: float, b: float) -> float:
    """Return the x with I_x(a, b) = p, by halving intervals until they have no middle."""
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if beta_cdf(middle, a, b) < p else (low, middle)
    return high


def t_quantile(p: float, freedom: float) -> float:
    """Return the quantile of Student's distribution."""
    if p < 0.5:
        return -t_quantile(1 - p, freedom)
    share = beta_quantile(2 * p - 1, 0.5, freedom / 2)
    return inf if share >= 1 else sqrt(freedom * share / (1 - share))


def binomial_cdf(k: int, n: int, p: float) -> float:
    """Return the probability of at most k successes in n."""
    return float(k >= n) if k < 0 or k >= n else beta_cdf(1 - p, n - k, k + 1)


def fisher_greater(table: tuple[tuple[int, int], tuple[int, int]]) -> float:
    """Return Fisher's exact probability that the first count is as large or larger, given the margins."""
    (a, b), (c, d) = table
    row, column, total = a + b, a + c, a + b + c + d
    ways = sum(comb(row, k) * comb(total - row, column - k) for k in range(a, min(row, column) + 1))
    return ways / comb(total, column)
