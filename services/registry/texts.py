"""The bucket's texts, each made once: of hundreds of manifests one changes at a time."""

from schemas.message import Message
from services.registry.state import RegistryState, agent_key, canonical


class Texts:
    """What `entries` returns, remembered as long as the messages stay the same objects."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[Message, str]] = {}

    def of(self, state: RegistryState) -> dict[str, str]:
        """Return the bucket `catalog` as it should be: key to JSON text, agents first."""
        messages: dict[str, Message] = {
            agent_key(agent): each for agent, each in state.agents.items()
        }
        messages |= state.manifests
        self._made = {key: self._text(key, each) for key, each in messages.items()}
        return {key: text for key, (_, text) in self._made.items()}

    def _text(self, key: str, message: Message) -> tuple[Message, str]:
        known = self._made.get(key)
        if known is not None and known[0] is message:
            return known
        return message, canonical(message)
