"""`Place`, the name that `ReaderInput` had in release 0.1. Release 0.3 drops this module."""

from mlscope.datasets.reader_input import Reader
from mlscope.datasets.reader_input import ReaderInput as Place

__all__ = ["Place", "Reader"]
