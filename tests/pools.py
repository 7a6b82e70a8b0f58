"""Thread pools that are a process's own, made alike by whichever test comes first in it."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def tensorflow_pool() -> None:
    """Give TensorFlow one thread: its pool is made by the process's first use.

    Import it where a module uses TensorFlow or Keras, and name that in `tests/scheduling.py`.
    """
    threading = pytest.importorskip("tensorflow").config.threading
    threading.set_intra_op_parallelism_threads(1)
    threading.set_inter_op_parallelism_threads(1)
