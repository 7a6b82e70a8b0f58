"""The texts of the bucket `catalog`, cached because few of hundreds of manifests change at once."""

from mlscope.manifests.digests import canonical
from schemas.message import Message
from services.registry.state import RegistryState, agent_key


class CatalogTexts:
    """The result of `entries`, with cached texts of messages that are the same objects."""

    def __init__(self) -> None:
        self._cached: dict[str, tuple[Message, str]] = {}

    def of(self, state: RegistryState) -> dict[str, str]:
        """Return the content of the bucket `catalog`: JSON text by key, agents first."""
        messages: dict[str, Message] = {
            agent_key(agent): message for agent, message in state.agents.items()
        }
        messages |= state.manifests
        cached, self._cached = self._cached, {}
        for key, message in messages.items():
            entry = cached.get(key)
            if entry is None or entry[0] is not message:
                entry = message, canonical(message)
            self._cached[key] = entry
        return {key: text for key, (_, text) in self._cached.items()}
