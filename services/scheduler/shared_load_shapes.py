"""Load shapes that several threads share."""

import threading
from collections.abc import Mapping
from typing import Any

from mlscope.load.scenarios import BUILT_IN
from services.scheduler.placement.load_shapes import LoadShape, LoadShapes, ShapeKey


class SharedLoadShapes(LoadShapes):
    """Makes one load of another package at a time: several large ones may not fit in memory.

    A thread that asks for a shape that is known, or for that of a built-in scenario, does not wait
    for it.
    """

    def __init__(self) -> None:
        """Begin without any shape."""
        super().__init__()
        self._making = threading.Lock()
        self._keeping = threading.Lock()

    def known(self, key: ShapeKey) -> LoadShape | None:
        """Return the shape of `key`, as `LoadShapes.known`."""
        with self._keeping:
            return super().known(key)

    def make(self, key: ShapeKey, parameters: Mapping[str, Any]) -> LoadShape:
        """Make the load of `key` with its `parameters`, as `LoadShapes.make`."""
        if key[0] in BUILT_IN:
            return super().make(key, parameters)
        with self._making:
            # Another thread may have made it meanwhile.
            return self.known(key) or super().make(key, parameters)

    def keep(self, key: ShapeKey, shape: LoadShape) -> None:
        """Keep the `shape` of `key`, as `LoadShapes.keep`."""
        with self._keeping:
            super().keep(key, shape)
