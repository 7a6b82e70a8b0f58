"""Counts in sentences: the plural of a noun, and the verb that agrees with the count. Pure."""


def many(count: int, noun: str) -> str:
    """Return a count with its noun: `1 layer`, `3 layers`, `2 queries`, `0 batches`."""
    return f"{count} {noun if count == 1 else _plural(noun)}"


def counted(mean: float, noun: str) -> str:
    """Return a mean count with its noun: `1 call`, `1.5 calls`."""
    return f"{mean:g} {noun if mean == 1 else _plural(noun)}"


def verb(count: int, singular: str, plural: str) -> str:
    """Return `singular` if `count` is 1, else `plural`: `1 of 3 layers is`, `2 of 3 layers are`."""
    return singular if count == 1 else plural


def be(count: int) -> str:
    """Return `is` for one, `are` otherwise."""
    return verb(count, "is", "are")


def _plural(noun: str) -> str:
    if noun.endswith(("ay", "ey", "oy", "uy")) or not noun.endswith(("y", "ch", "sh", "s", "x")):
        return f"{noun}s"
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}es"
