"""Sentences that comparisons share. Pure."""

from collections.abc import Mapping

from mlscope.counts import be, verb


def changes_text(subject: str, counts: Mapping[str, int], least: str = "") -> str:
    """Return which of several things are slower or faster: `8 pairs: 1 is faster with …`.

    `subject` names all of them. `counts` are their numbers by result: slower, faster, unknown
    (without an interval), or same. `least` is by how much a change is at least: ` by 1% or more`.
    """
    changed = {name: counts[name] for name in ("slower", "faster") if counts.get(name)}
    texts = [f"{count} {be(count)} {name}" for name, count in changed.items()]
    text = " and ".join(texts) or "none is slower or faster"
    if sum(counts.values()) == 1:
        text = f"it is {next(iter(changed), 'neither slower nor faster')}"
    is_several = sum(changed.values()) > 1
    intervals = "intervals that exclude" if is_several else "an interval that excludes"
    unknown = counts.get("unknown", 0)
    doubt = f"; {unknown} {verb(unknown, 'has', 'have')} no interval" if unknown else ""
    return f"{subject}: {text}{least} with {intervals} 0{doubt}"
