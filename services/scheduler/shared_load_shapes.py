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
        """Return the shape of a scenario's load; arguments and errors as of `LoadShapes.of`."""
        with self._lock:
            return super().of(scenario, parameters, size, samples)
