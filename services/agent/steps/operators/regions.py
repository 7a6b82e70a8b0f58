"""regions: a map of likelihoods to boxes around the likely regions."""

from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from services.agent.steps.parameters import Parameters
from services.agent.steps.touching import touching

Feature = dict[str, Any]
Map = npt.NDArray[Any]


def regions(parameters: Parameters) -> Callable[[Map], list[list[Feature]]]:
    """Return (batch, 1, h, w) of likelihoods -> for each sample its boxes, the likeliest first.

    A region is a group of touching pixels (also at corners) above `threshold` that is more than
    `least` wide and high; its likelihood is their mean, and at least `score`. Each side of its
    upright box moves outwards by area * `unclip` / perimeter (Liao et al. 2020, section 3.4: the
    map shows shrunk text). A feature is like those of `boxes`, with the text `label`, in pixels of
    the map.
    """
    threshold = parameters.number("threshold", default=0.3)
    least = parameters.integer("least", default=3)
    score = parameters.number("score", default=0.5)
    unclip = parameters.number("unclip", default=1.6, minimum=0.0)
    label = parameters.text("label", "text")

    def apply(values: Map) -> list[list[Feature]]:
        if values.ndim != 4 or values.shape[1] != 1:
            raise ValueError(f"shape {values.shape} is not a map of likelihoods (batch, 1, h, w)")
        return [features_of(sample[0]) for sample in values]

    def features_of(likelihoods: Map) -> list[Feature]:
        features = []
        for rows, columns in touching(likelihoods > threshold):
            low_y, high_y = int(rows[0]), int(rows[-1]) + 1
            low_x, high_x = int(columns.min()), int(columns.max()) + 1
            width, height = high_x - low_x, high_y - low_y
            if min(height, width) <= least:
                continue
            mean = float(likelihoods[rows, columns].mean())
            if mean < score:
                continue
            margin = width * height * unclip / (2 * (width + height))
            features.append(
                {
                    "type": "boundingbox",
                    "index": 0,
                    "label": label,
                    "probability": mean,
                    "xmin": float(max(low_x - margin, 0.0)),
                    "ymin": float(max(low_y - margin, 0.0)),
                    "xmax": float(min(high_x + margin, likelihoods.shape[1])),
                    "ymax": float(min(high_y + margin, likelihoods.shape[0])),
                }
            )
        return sorted(features, key=lambda feature: -feature["probability"])

    return apply
