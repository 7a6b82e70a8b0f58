"""Python's garbage collector, kept out of the time that is measured."""

import contextlib
import gc
from collections.abc import Iterator


def freeze_garbage() -> None:
    """Exclude existing objects, those of frameworks and models, from the blocks' collections.

    Otherwise a million objects of imports cost each block 0.15 s.
    """
    gc.collect()
    gc.freeze()


@contextlib.contextmanager
def included_afterwards() -> Iterator[None]:
    """Include what was excluded in collections again when the block ends.

    For a process that is its caller's own: what others excluded is included as well.
    """
    try:
        yield
    finally:
        gc.unfreeze()


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Keep Python's garbage collector out of the measured time."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
