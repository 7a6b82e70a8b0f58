"""Which tests begin: those that take long, so that no worker ends long after the others."""

import pytest

LONGEST = (
    "tests/flow/",
    "tests/faults/",
    "tests/catalog/",
    "tests/timescale/",
    "tests/docs/",
    "tests/services/agent/predictors/",
)


def begins_late(item: pytest.Item) -> bool:
    """Tell whether a test's file is not among those that take long; a key to sort by."""
    return not item.nodeid.startswith(LONGEST)
