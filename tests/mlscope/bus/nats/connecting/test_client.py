"""nats-py's client is used with one method of its own replaced: it must still be there."""

import inspect

from nats.aio.client import Client

from mlscope.bus.nats.connecting.client import TidyClient


def test_what_is_replaced_is_still_what_nats_py_calls() -> None:
    replaced = "_connect_to_server"
    assert f"self.{replaced}(" in inspect.getsource(Client._select_next_server)
    ours, theirs = (inspect.signature(getattr(kind, replaced)) for kind in (TidyClient, Client))
    assert ours.parameters.keys() == theirs.parameters.keys()
