"""Texts of the bucket are what `entries` says, and made once."""

from hypothesis import given

from schemas.message import Fact
from services.registry.state import RegistryState, entries, evolve
from services.registry.texts import CatalogTexts
from tests.services.registry.samples import a_model
from tests.services.registry.test_state import FLEET, MANIFESTS, log_of


@given(FLEET, MANIFESTS)
def test_they_are_the_entries_after_every_fact(fleet: list[Fact], manifests: list[Fact]) -> None:
    texts, state = CatalogTexts(), RegistryState()
    for recorded in log_of([*fleet, *manifests]):
        state = evolve(state, recorded)
        assert texts.of(state) == entries(state)


def test_a_manifest_that_stays_is_not_written_again() -> None:
    texts, state = CatalogTexts(), RegistryState(manifests={"m": a_model()})
    assert texts.of(state)["m"] is texts.of(state)["m"]
