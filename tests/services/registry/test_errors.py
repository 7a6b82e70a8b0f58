"""Refusals of the registry carry the answer to whoever asked."""

from schemas.request import Refused
from services.registry.errors import ManifestRefused, RegistryError, UnreadableManifest


def test_a_refused_manifest_carries_the_answer() -> None:
    refused = Refused(error="conflict", message="known with another text")
    error = ManifestRefused(refused)
    assert error.refused is refused
    assert str(error) == "conflict: known with another text"
    assert isinstance(error, RegistryError)


def test_an_unreadable_manifest_names_its_file() -> None:
    error = UnreadableManifest("a.yml", "a map is expected")
    assert (error.path, error.reason) == ("a.yml", "a map is expected")
    assert str(error) == "a.yml: a map is expected"
