"""How much repeated evaluations of one subject differ: drift, which no single one shows."""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable

import numpy as np

from mlscope.statistics.distributions import student_quantile
from mlscope.statistics.values import require, require_probability

REPEATS_READ = 12
"""The most evaluations, the newest, that say how much evaluations of one subject differ."""
_LEAST_FREEDOM = 2


def repeat_limit(
    figures: Iterable[tuple[Hashable, float]], confidence: float = 0.95
) -> float | None:
    """Return the share up to which two evaluations of one subject differ by drift: 0.05 is 5%.

    `figures` are pairs of a subject (the same model and conditions at another time) and what one
    evaluation of it measured, above 0. With s the standard deviation of ln(figure) within subjects,
    pooled over all of them with f degrees of freedom, the limit is exp(t √2 s) - 1: ISO 5725-6's
    repeatability limit (4.1) of logarithms, at `confidence`, with Student's t for f in place of
    the normal quantile because s is an estimate. The ratio of two further evaluations is within it
    unless something else than drift changed. s contains the noise within an evaluation as well.
    None where f is below 2, as with fewer than three evaluations of one subject. Raises OutOfRange.
    """
    require_probability("confidence", confidence)
    logarithms: dict[Hashable, list[float]] = defaultdict(list)
    for subject, figure in figures:
        require("figure", figure, figure > 0.0, "above 0")
        logarithms[subject].append(math.log(figure))
    freedom = sum(len(own) - 1 for own in logarithms.values())
    if freedom < _LEAST_FREEDOM:
        return None
    squares = sum(float(np.var(own)) * len(own) for own in logarithms.values())
    t = student_quantile((1.0 + confidence) / 2.0, freedom)
    return math.expm1(min(t * math.sqrt(2.0 * squares / freedom), 700.0))
