"""A viewer: the story whole and in order, progress bounded, what was dropped named."""

import json

from hypothesis import given
from hypothesis import strategies as st

from services.gateway.live.events import Event, Tick
from services.gateway.live.viewer import Viewer


def _story(count: int) -> list[Event]:
    return [Event("state", "{}", number) for number in range(1, count + 1)]


def test_an_event_is_lines_and_a_blank_one() -> None:
    assert Event("run", '{"a":1}', 7).encoded() == b'id: 7\nevent: run\ndata: {"a":1}\n\n'
    assert Event("end", "{}").encoded() == b"event: end\ndata: {}\n\n"


@given(st.lists(st.integers(0, 5), max_size=8), st.integers(0, 20))
def test_the_story_comes_once_from_where_a_client_was(grows: list[int], after: int) -> None:
    story: list[Event] = []
    viewer, seen = Viewer(story, after=after), []
    for more in grows:
        story += [Event("state", "{}", len(story) + n) for n in range(1, more + 1)]
        seen += viewer.take()
    assert [event.sequence for event in seen] == [*range(after + 1, len(story) + 1)]


@given(st.integers(0, 12), st.integers(1, 5))
def test_what_was_dropped_is_named_before_what_is_left(pushed: int, limit: int) -> None:
    viewer = Viewer([], after=0, limit=limit)
    for number in range(pushed):
        viewer.push(Tick(number, str(number)))
    events = viewer.take()
    lost = max(0, pushed - limit)
    if lost:
        gap = events.pop(0)
        assert (gap.name, json.loads(gap.data)) == ("gap", {"from": 0, "to": lost - 1})
    assert [int(event.data) for event in events] == [*range(lost, pushed)]
    assert viewer.take() == []


async def test_waiting_ends_with_news_or_with_its_time() -> None:
    viewer = Viewer(_story(1), after=0)
    assert not await viewer.wait(0.01)
    viewer.wake()
    assert await viewer.wait(30.0)
    assert not await viewer.wait(0.01)
    viewer.push(Tick(1, "{}"))
    assert await viewer.wait(30.0)
