"""Load shapes that several threads share."""

import threading
from collections.abc import Mapping
from typing import Any

from services.scheduler.placement.load_shapes import LoadShape, LoadShapes


class SharedLoadShapes(LoadShapes):
    """Makes one load at a time, whichever thread asks: several large ones may not fit in memory."""

    def __init__(self) -> None:
        """Begin without any shape."""
        super().__init__()
        self._lock = threading.Lock()

    def of(
        self, scenario: str, parameters: Mapping[str, Any], size: int, samples: int
    ) -> LoadShape:
        """Return the shape of a `scenario`'s load with its `parameters`.

        `size` is the batch size, `samples` the number of the dataset's samples. Errors are those
        of `LoadShapes.of`.
        """
        with self._lock:
            return super().of(scenario, parameters, size, samples)
