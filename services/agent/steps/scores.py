"""Element types of scores: floats, and the whole numbers of quantized models."""

from typing import Any

import numpy as np


def float_type(scores: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of probabilities computed from `scores`: a float type stays as it is."""
    return scores if scores.kind == "f" else np.dtype(np.float64)
