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
def frozen_garbage() -> Iterator[None]:
    """Exclude existing objects from collections, until the block ends.

    They stay excluded in a process that excluded objects before: including them again would
    include those as well.
    """
    excludes_others = gc.get_freeze_count() > 0
    freeze_garbage()
    try:
        yield
    finally:
        if not excludes_others:
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
