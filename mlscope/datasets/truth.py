"""What is true of a sample: the one form in which every reader gives its ground truth."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlscope.datasets.errors import BadField


@dataclass(frozen=True, slots=True, eq=False)
class Objects:
    """What is in one picture: n objects. Boxes are x, y, width and height in pixels."""

    #: float64 [n, 4]
    boxes: NDArray[np.float64]
    #: the file's own category numbers, [n]
    classes: NDArray[np.int64]
    #: shapes around many objects, [n]
    crowd: NDArray[np.bool_]
    #: pixels, as the file gives them, [n]
    areas: NDArray[np.float64]
    #: as the file gives them: polygons, run lengths, or None, [n]
    segmentations: tuple[Any, ...]
    #: of the picture, pixels; 0 where the file does not say
    height: int = 0
    width: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """The truth of one sample; a reader fills the fields that its dataset knows of."""

    #: the sample's own name: a file, an image's or a question's id
    name: str = ""
    #: every class that is right, counted from 0
    classes: tuple[int, ...] = ()
    #: every class name that is right
    labels: tuple[str, ...] = ()
    #: every answer that is right; empty: there is none; None: texts are not asked for
    texts: tuple[str, ...] | None = None
    objects: Objects | None = None
    #: numbers, as a regression's targets
    values: NDArray[np.float64] | None = None
    #: a file's bytes: a map of classes, or the picture that an output should equal
    picture: bytes | None = None


class Where(NamedTuple):
    """Where a label stands, for the error's reader."""

    file: str
    record: int | str
    field: str = "label"


@dataclass(frozen=True)
class Classes:
    """The classes of a dataset: their names by index, or only how many there are.

    `count` 0 is not known, and then nothing is checked.
    """

    names: tuple[str, ...] = ()
    count: int = 0

    def truth(self, index: int, name: str, where: Where) -> Truth:
        """Return the truth of a class index. Raises BadField for one that there is not."""
        count = self.count or len(self.names)
        if index < 0 or (count and index >= count):
            allowed = f"0 to {count - 1}" if count else "0 or more"
            raise BadField(*where, index, f"a class, {allowed}")
        known = self.names[index] if index < len(self.names) else ""
        return Truth(name, (index,), (known,) if known else ())

    def named(self, label: str, name: str, where: Where) -> Truth:
        """Return the truth of a class name. Raises BadField for one that there is not."""
        if not self.names:
            return Truth(name, (), (label,))
        found = self.places.get(label)
        if found is None:
            shown = ", ".join(self.names[:5]) + (", …" if len(self.names) > 5 else "")
            raise BadField(*where, label, f"one of {len(self.names)}: {shown}")
        return Truth(name, (found,), (label,))

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Return the index of each name."""
        return {label: index for index, label in enumerate(self.names)}
