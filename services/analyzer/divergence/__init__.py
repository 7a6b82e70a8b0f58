"""How far two evaluations' answers to the same samples diverge. Pure.

Answers are paired by sample, output by output, and compared by their kind: classes as
probabilities, numbers element by element, shapes by overlap, texts by edits, maps by pixel.
Answers that can't be compared are refused with a reason.
"""

from schemas.analysis import Table
from services.analyzer.divergence.kinds import compare_answers
from services.analyzer.divergence.numbers import compare_raw_numbers
from services.analyzer.divergence.reports import overall_table, sample_table
from services.analyzer.divergence.sides import Side, features_by_output
from services.analyzer.errors import NotAlike

__all__ = ["Side", "compared"]


def compared(first: Side, second: Side) -> tuple[Table, Table]:
    """Return the measures over all samples, and sample by sample. Raises NotAlike."""
    for side in (first, second):
        side.require_answers()
    if not first.predictions.keys() & second.predictions.keys():
        raise NotAlike("samples", f"{first.name} and {second.name} have no sample in common")
    first_outputs, second_outputs = features_by_output(first), features_by_output(second)
    if first_outputs.keys() != second_outputs.keys():
        names = [", ".join(sorted(outputs)) or "one" for outputs in (first_outputs, second_outputs)]
        raise NotAlike("outputs", f"the outputs have different names: {' and '.join(names)}")
    comparisons = {
        name: compare_raw_numbers(name, first, second)
        or compare_answers(name, first_outputs[name], second_outputs[name])
        for name in first_outputs
    }
    return overall_table(first, second, comparisons), sample_table(first, comparisons)
