"""The stop rule of a request that gives none. Pure."""

from schemas.request import Blocks, Evaluate

RESULT_RULE = Blocks(least=1, most=20, interval=0.1, budget_s=10.0, of="result")
"""Go on until the scenario's result is known to 5% each way, half of `interval`.

10 s hold the 64 queries that certify a p90 for queries of up to 150 ms, and a sweep over ten loads
still ends in two minutes. The budget is that of a load, whatever its levels: their blocks share it.
A model of seconds ends after its first block, as before there was a rule. 20 blocks bound the spans
that a model of microseconds would fill 10 s with.
"""


def with_stop_rule(request: Evaluate, budget_s: float) -> Evaluate:
    """Return the request with the default stop rule where it has none; one with a rule as it is.

    `budget_s` is the rule's budget; 0 is one block.
    """
    if request.blocks is not None:
        return request
    budget = {"budget_s": float(budget_s)}
    rule = RESULT_RULE.model_copy(update=budget) if budget_s else Blocks()
    return request.model_copy(update={"blocks": rule})
