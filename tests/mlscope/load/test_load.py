"""A load says what it is from its arrays."""

import numpy as np
import pytest

from mlscope.load import Load


@pytest.mark.parametrize(("queries", "batch_size"), [(1, 1), (7, 3), (0, 4)])
def test_its_size_is_that_of_its_samples(queries: int, batch_size: int) -> None:
    load = Load("x", None, np.zeros((queries, batch_size), np.int32), 1, "local")
    assert (load.queries, load.batch_size) == (queries, batch_size)


def test_it_is_an_open_loop_where_queries_are_due() -> None:
    carried = np.zeros((2, 1), np.int32)
    assert not Load("x", None, carried, 1, "local").open_loop
    assert Load("x", np.zeros(2, np.int64), carried, 0, "remote").open_loop
    assert Load("x", np.zeros(0, np.int64), carried[:0], 0, "remote").open_loop
