"""Refusals of the registry carry the answer to whoever asked."""

from schemas.request import Refused
from services.registry.errors import ManifestRefused, RegistryError


def test_a_refused_manifest_carries_the_answer() -> None:
    refused = Refused(error="conflict", message="known with another text")
    error = ManifestRefused(refused)
    assert error.refused is refused
    assert str(error) == "conflict: known with another text"
    assert isinstance(error, RegistryError)
