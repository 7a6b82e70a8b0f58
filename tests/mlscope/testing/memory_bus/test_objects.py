"""An object store in memory counts what it holds; the contract suite says the rest."""

import pytest

from mlscope.bus.errors import NoSuchPayload, PayloadsFull
from mlscope.bus.streams import Store
from mlscope.testing.memory_bus.objects import ObjectState


@pytest.fixture
def store() -> ObjectState:
    return ObjectState(Store("batches", 10))


def test_room_comes_back_with_what_is_dropped(store: ObjectState) -> None:
    store.put("a.x", "one", bytes(6))
    with pytest.raises(PayloadsFull):
        store.put("a.x", "two", bytes(5))
    store.drop([("a.x", "one"), ("a.x", "one"), ("a.x", "nobody")])
    assert store.put("a.x", "two", bytes(10))
    with pytest.raises(NoSuchPayload):
        store.get("a.x", "one", "")


def test_the_same_again_takes_no_room(store: ObjectState) -> None:
    for _ in range(3):
        store.put("a.x", "one", bytes(10))


def test_objects_are_found_by_the_subject_of_their_fact(store: ObjectState) -> None:
    for name, subject in (("one", "a.x"), ("two", "a.y"), ("three", "b.x")):
        store.put(subject, name, b"")
    assert store.payloads_on("a.>") == [("a.x", "one"), ("a.y", "two")]
    assert store.payloads_on("*.x") == [("a.x", "one"), ("b.x", "three")]
