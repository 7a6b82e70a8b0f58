"""The settings are what a connection asks for."""

from mlscope.bus.nats.settings import NatsSettings
from mlscope.provision import ProvisionSettings
from mlscope.settings import Settings


def test_the_settings_have_what_a_connection_needs() -> None:
    settings: ProvisionSettings = Settings()
    for protocol in (NatsSettings, ProvisionSettings):
        needed = {name for each in protocol.__mro__[:-3] for name in vars(each) if name[0] != "_"}
        assert needed
        assert all(hasattr(settings, name) for name in needed), needed
