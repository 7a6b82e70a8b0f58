"""Known names that a misspelt one is similar to, at a cost that no sender chooses. Pure."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

LONGEST_SPELT = 64
"""Characters of names that are compared: difflib's time grows with more than their square."""
MOST_KNOWN = 1000


def close_names(
    name: str, known: Iterable[str], *, most: int = 3, cutoff: float = 0.6
) -> list[str]:
    """Return up to `most` of the `known` names, the most similar to a `name` first.

    Their similarity (difflib's ratio) is at least `cutoff`. Names beyond `LONGEST_SPELT` characters
    are similar to none, and of the others the first `MOST_KNOWN` are compared.
    """
    if len(name) > LONGEST_SPELT:
        return []
    short = islice((other for other in known if len(other) <= LONGEST_SPELT), MOST_KNOWN)
    return get_close_matches(name, list(short), n=most, cutoff=cutoff)
