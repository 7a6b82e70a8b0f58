"""EfficientNet-Lite0 answers alike in every framework; `benchmarks.consistency` prints how much."""

import numpy as np
import pytest

from benchmarks.consistency import FILES, Row, compare, rows


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_first_class_is_the_same_in_every_framework() -> None:
    found = compare()
    assert [row.framework for row in found] == list(FILES)
    assert {row.same_first for row in found} == {9}
    assert {row.photos for row in found} == {9}
    assert max(row.largest_difference for row in found) < 1e-3


def test_a_row_counts_photos_and_tells_the_largest_difference() -> None:
    pytorch = np.array([[0.0, 1.0], [1.0, 0.0]])
    added = np.array([[0.0, 0.5], [0.0, 1.5]])
    found = rows({"pytorch": pytorch, "other": pytorch + added})
    assert found == [Row("pytorch", 2, 2, 0.0), Row("other", 1, 2, 1.5)]
