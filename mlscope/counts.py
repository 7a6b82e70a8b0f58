"""Counts in sentences: a noun by how many there are, and the verb that goes with it."""


def many(count: int, what: str) -> str:
    """Return a count with its noun: `1 layer`, `3 layers`, `2 queries`, `0 batches`."""
    return f"{count} {what if count == 1 else _plural(what)}"


def counted(mean: float, what: str) -> str:
    """Return a mean count with its noun: `1 call`, `1.5 calls`."""
    return f"{mean:g} {what if mean == 1 else _plural(what)}"


def verb(count: int, one: str, more: str) -> str:
    """Return the verb for a count: `1 of 3 layers is`, `2 of 3 layers are`."""
    return one if count == 1 else more


def be(count: int) -> str:
    """Return `is` for one, `are` otherwise."""
    return verb(count, "is", "are")


def _plural(noun: str) -> str:
    if noun.endswith(("ay", "ey", "oy", "uy")) or not noun.endswith(("y", "ch", "sh", "s", "x")):
        return f"{noun}s"
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}es"
