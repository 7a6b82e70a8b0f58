"""Ground truth of a sample, in the one form that all readers return. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from mlscope.datasets.errors import BadField

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Objects:
    """The n objects in one picture. A box is x, y, width and height in pixels."""

    #: float64 [n, 4]
    boxes: "NDArray[np.float64]"
    #: the file's own category numbers, [n]
    classes: "NDArray[np.int64]"
    #: whether a shape covers a crowd of objects, [n]
    crowd: "NDArray[np.bool_]"
    #: in pixels, as the file gives them, [n]
    areas: "NDArray[np.float64]"
    #: as the file gives them: polygons, run lengths, or None, [n]
    segmentations: tuple[Any, ...]
    #: size of the picture in pixels; 0 where the file does not say
    height: int = 0
    width: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """The ground truth of one sample. A reader fills the fields that its dataset has."""

    #: the sample's own name: its file, or the id of its image or question
    name: str = ""
    #: every correct class, counted from 0
    classes: tuple[int, ...] = ()
    #: every correct class name
    labels: tuple[str, ...] = ()
    #: every correct answer; () where no answer exists, None where the task has no texts
    texts: tuple[str, ...] | None = None
    objects: Objects | None = None
    #: numbers, as the targets of a regression
    values: "NDArray[np.float64] | None" = None
    #: content of a file: a map of classes, or the picture that an output should equal
    picture: bytes | None = None


class LabelLocation(NamedTuple):
    """The file, record and field of a label, for errors."""

    file: str
    record: int | str
    field: str = "label"


@dataclass(frozen=True)
class Classes:
    """The classes of a dataset: their names by index, or only their number.

    A `count` of 0 is unknown; then an index has no upper bound.
    """

    names: tuple[str, ...] = ()
    count: int = 0

    def truth_of_index(self, index: int, sample: str, location: LabelLocation) -> Truth:
        """Return the truth of a `sample` with the class `index`.

        Raises BadField, which names the `location`, where no such class exists.
        """
        count = self.count or len(self.names)
        if index < 0 or (count and index >= count):
            allowed = f"0 to {count - 1}" if count else "0 or more"
            raise BadField(*location, index, f"a class, {allowed}")
        label = self.names[index] if index < len(self.names) else ""
        return Truth(sample, (index,), (label,) if label else ())

    def truth_of_name(self, label: str, sample: str, location: LabelLocation) -> Truth:
        """Return the truth of a `sample` with the class name `label`.

        Raises BadField, which names the `location`, where no such class exists.
        """
        if not self.names:
            return Truth(sample, (), (label,))
        index = self.index_by_name.get(label)
        if index is None:
            examples = ", ".join(self.names[:5]) + (", …" if len(self.names) > 5 else "")
            raise BadField(*location, label, f"one of {len(self.names)}: {examples}")
        return Truth(sample, (index,), (label,))

    @cached_property
    def index_by_name(self) -> Mapping[str, int]:
        """Return the index of each class name."""
        return {label: index for index, label in enumerate(self.names)}

    # Names of release 0.1, for readers in other packages. Release 0.3 drops them.
    named, truth = truth_of_name, truth_of_index

    @property
    def places(self) -> Mapping[str, int]:
        """Return `index_by_name`, under its name of release 0.1."""
        return self.index_by_name


Where = LabelLocation  # its name of release 0.1
