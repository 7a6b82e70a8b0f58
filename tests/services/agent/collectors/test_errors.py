"""Errors that leave a collector's code."""

import pytest

from services.agent.collectors.errors import (
    CollectorUnavailable,
    UnknownCollector,
    calling_collector,
)


@pytest.mark.parametrize(
    ("error", "reason"), [(OSError("no device"), "no device"), (KeyError(), "KeyError")]
)
def test_what_a_collector_raises_names_it(error: Exception, reason: str) -> None:
    with pytest.raises(CollectorUnavailable) as failure, calling_collector("perf"):
        raise error
    assert (failure.value.collector, failure.value.reason) == ("perf", reason)


def test_an_error_of_collectors_passes() -> None:
    error = UnknownCollector("pref", ["perf"])
    with pytest.raises(UnknownCollector) as failure, calling_collector("pref"):
        raise error
    assert failure.value is error
