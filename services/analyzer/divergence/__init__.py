"""How far two evaluations' answers to the same samples are apart. Pure.

Answers are paired by sample, output by output. What is compared depends on their kind: classes as
probabilities, numbers element by element, shapes by overlap, texts by edits, maps by pixel. Things
that are not alike are refused by name, never forced.
"""

from schemas.analysis import Table
from services.analyzer.divergence.kinds import of_one_kind
from services.analyzer.divergence.numbers import whole_numbers
from services.analyzer.divergence.reports import each_sample, overall
from services.analyzer.divergence.sides import Side, by_output
from services.analyzer.errors import NotAlike

__all__ = ["Side", "compared"]


def compared(first: Side, second: Side) -> tuple[Table, Table]:
    """Return the measures over all samples, and sample by sample. Raises NotAlike."""
    for side in (first, second):
        if not side.predictions:
            raise NotAlike("predictions", f"{side.name} kept no answer")
    if not first.predictions.keys() & second.predictions.keys():
        raise NotAlike("samples", f"{first.name} and {second.name} have no sample in common")
    ones, others = by_output(first), by_output(second)
    if ones.keys() != others.keys():
        shown = " and ".join(", ".join(sorted(each)) or "one" for each in (ones, others))
        raise NotAlike("outputs", f"the outputs have other names: {shown}")
    found = {}
    for name in ones:
        found[name] = whole_numbers(name, first, second) or of_one_kind(
            name, ones[name], others[name]
        )
    return overall(first, second, found), each_sample(first, found)
