"""What `mlscope` offers at its root, imported only when used."""

import pytest

from mlscope.client import Client


def test_the_light_import_knows_the_client() -> None:
    import mlscope

    assert mlscope.Client is Client
    with pytest.raises(AttributeError):
        _ = mlscope.nothing
