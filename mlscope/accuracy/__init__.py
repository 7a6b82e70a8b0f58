"""Accuracy of predictions, and differences between the predictions of two evaluations.

Owns: each metric's definition, with its source and conventions. Pure functions over arrays, lists
and text, with NumPy and the standard library alone. Every metric of a dataset is an `Outcome`.
Does not know: files, datasets, models, messages, services.
"""

from mlscope.accuracy.classification import (
    Confusion,
    confusion,
    top_k,
    top_k_of_admissible,
    top_k_of_ranked,
)
from mlscope.accuracy.comparison import (
    Comparison,
    compare_outputs,
    compare_probabilities,
    compare_top_k,
)
from mlscope.accuracy.detection import Detection, average_precision
from mlscope.accuracy.errors import (
    AccuracyError,
    NotANumber,
    NotProbabilities,
    ShapesDiffer,
    UnknownLabel,
    Unusable,
)
from mlscope.accuracy.images import mean_psnr, mean_squared_error, mean_ssim, psnr, ssim
from mlscope.accuracy.matching import DetectedShapes, TrueShapes
from mlscope.accuracy.outcome import Outcome
from mlscope.accuracy.outlines import mask_of_outlines
from mlscope.accuracy.recommendation import auc
from mlscope.accuracy.segmentation import (
    PixelCounts,
    class_ious,
    count_pixels,
    mean_iou,
    mean_iou_of_images,
    pixel_accuracy,
)
from mlscope.accuracy.shapes import (
    Mask,
    boxes_of_corners,
    decompressed,
    map_of_runs,
    mask_of,
    overlaps,
    pixels_of,
    require_pixels,
)
from mlscope.accuracy.text import character_error_rate, exact_match, f1, word_error_rate

__all__ = [
    "AccuracyError",
    "Comparison",
    "Confusion",
    "DetectedShapes",
    "Detection",
    "Mask",
    "NotANumber",
    "NotProbabilities",
    "Outcome",
    "PixelCounts",
    "ShapesDiffer",
    "TrueShapes",
    "UnknownLabel",
    "Unusable",
    "auc",
    "average_precision",
    "boxes_of_corners",
    "character_error_rate",
    "class_ious",
    "compare_outputs",
    "compare_probabilities",
    "compare_top_k",
    "confusion",
    "count_pixels",
    "decompressed",
    "exact_match",
    "f1",
    "map_of_runs",
    "mask_of",
    "mask_of_outlines",
    "mean_iou",
    "mean_iou_of_images",
    "mean_psnr",
    "mean_squared_error",
    "mean_ssim",
    "overlaps",
    "pixel_accuracy",
    "pixels_of",
    "psnr",
    "require_pixels",
    "ssim",
    "top_k",
    "top_k_of_admissible",
    "top_k_of_ranked",
    "word_error_rate",
]
