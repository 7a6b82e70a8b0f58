"""regions: a map of likelihoods to the boxes around what is likely."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from services.agent.steps.parameters import Parameters

Feature = dict[str, Any]
Map = npt.NDArray[Any]


def regions(parameters: Parameters) -> Callable[[Map], list[list[Feature]]]:
    """Return (batch, 1, h, w) of likelihoods -> for each sample its boxes, the likeliest first.

    A region is pixels above `threshold` that touch (corners too) and are more than `least` wide
    and high; its likelihood is their mean, of at least `score`. Each side of its box, upright,
    moves out by area * `unclip` / perimeter (Liao et al. 2020, section 3.4: the map is shrunk
    text). A feature is that of `boxes`, `label` text, in pixels of the map.
    """
    threshold = parameters.number("threshold", default=0.3)
    least = parameters.whole("least", default=3)
    score = parameters.number("score", default=0.5)
    unclip = parameters.number("unclip", default=1.6, least=0.0)
    label = parameters.letters("label", "text")

    def apply(values: Map) -> list[list[Feature]]:
        if values.ndim != 4 or values.shape[1] != 1:
            raise ValueError(f"shape {values.shape} is no map of likelihoods (batch, 1, h, w)")
        return [[_feature(box, label) for box in of_map(each[0])] for each in values]

    def of_map(likely: Map) -> list[tuple[float, ...]]:
        found = []
        for rows, columns in touching(likely > threshold):
            low_y, high_y = int(rows.min()), int(rows.max()) + 1
            low_x, high_x = int(columns.min()), int(columns.max()) + 1
            mean = float(likely[rows, columns].mean())
            if min(high_y - low_y, high_x - low_x) <= least or mean < score:
                continue
            width, height = high_x - low_x, high_y - low_y
            out = width * height * unclip / (2 * (width + height))
            box = (low_x - out, low_y - out, high_x + out, high_y + out)
            found.append((mean, *_within(box, likely.shape)))
        return sorted(found, key=lambda each: -each[0])

    return apply


def touching(mask: npt.NDArray[np.bool_]) -> list[tuple[Map, Map]]:
    """Return the rows and columns of each group of true pixels that touch, by rows."""
    labels = np.zeros(mask.shape, np.int64)
    parents = [0]
    for row, line in enumerate(mask):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], line.view(np.int8), [0]))))
        for start, end in edges.reshape(-1, 2):
            above = labels[row - 1, max(start - 1, 0) : end + 1] if row else labels[0, :0]
            roots = {_root(parents, int(each)) for each in np.unique(above) if each}
            own = min(roots, default=len(parents))
            if not roots:
                parents.append(own)
            for root in roots:
                parents[root] = own
            labels[row, start:end] = own
    rows, columns = np.nonzero(labels)
    if not len(rows):
        return []
    groups = np.array([_root(parents, each) for each in range(len(parents))])[labels[rows, columns]]
    order = np.argsort(groups, kind="stable")
    cuts = np.flatnonzero(np.diff(groups[order])) + 1
    return list(zip(np.split(rows[order], cuts), np.split(columns[order], cuts), strict=True))


def _root(parents: list[int], label: int) -> int:
    while parents[label] != label:
        label = parents[label]
    return label


def _within(box: tuple[float, ...], shape: tuple[int, ...]) -> tuple[float, ...]:
    height, width = shape
    return (max(box[0], 0.0), max(box[1], 0.0), min(box[2], width), min(box[3], height))


def _feature(box: tuple[float, ...], label: str) -> Feature:
    names = ("probability", "xmin", "ymin", "xmax", "ymax")
    numbers = dict(zip(names, (float(each) for each in box), strict=True))
    return {"type": "boundingbox", "index": 0, "label": label, **numbers}
