"""The first lane with room: also among many it is found with few comparisons."""

from typing import Any

from mlscope.exchange.first_fit import FirstFit


class _CountedEnd(int):
    """The end of an interval; the class counts how often one is compared."""

    compared = 0

    def _counted(self, compare: Any, other: object) -> Any:
        _CountedEnd.compared += 1
        return compare(int(self), other)

    def __lt__(self, other: object) -> Any:
        return self._counted(int.__lt__, other)

    def __le__(self, other: object) -> Any:
        return self._counted(int.__le__, other)

    def __gt__(self, other: object) -> Any:
        return self._counted(int.__gt__, other)

    def __ge__(self, other: object) -> Any:
        return self._counted(int.__ge__, other)


def test_a_lane_is_found_without_trying_all_before_it() -> None:
    lanes = FirstFit()
    count = 1000
    placed = [lanes.place(start, _CountedEnd(count + start)) for start in range(count)]
    assert placed == list(range(count))
    # Each tries a few lanes per level of a tree of 1024; all before it would be half a million.
    assert 0 < _CountedEnd.compared < 100 * count


def test_lanes_are_used_again_from_the_first_on() -> None:
    lanes = FirstFit()
    assert [lanes.place(0, end) for end in (9, 8, 7)] == [0, 0, 0]
    assert [lanes.place(start, 20 + start) for start in (1, 2, 3)] == [1, 2, 3]
    assert [lanes.place(9, end) for end in (40, 30)] == [0, 0]
    assert lanes.place(22, 50) == 1
