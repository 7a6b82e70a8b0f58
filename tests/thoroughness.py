"""How many examples a property is tried with."""

from hypothesis import settings

LEAST = 5


def examples(count: int) -> int:
    """Return `count` where all are tried, and a share of it in a brief run, which is less."""
    return min(count, max(LEAST, count * settings().max_examples // 100))
