"""Words the failure of one sample of a dataset."""

from collections.abc import Sequence
from typing import Any

from services.agent.errors import SampleUnusable
from services.agent.worker.files.samples import CachedSamples


def failure_of(samples: Sequence[Any], number: int, operator: str, reason: object) -> str:
    """Return why the sample with a `number` in a dataset's `samples` has no answer.

    It has the `operator`, the `reason`, and the sample's name where the dataset has one.
    """
    own_name = samples.name_of(number) if isinstance(samples, CachedSamples) else ""
    suffix = f" ({own_name})" if own_name else ""
    return str(SampleUnusable(number, operator, f"{reason}{suffix}"))
