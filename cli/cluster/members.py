"""The machines that joined a cluster and the invitations to join, as files of the data folder.

    keys/members/NAME.pub        public key of the agent NAME on another machine, which has the seed
    keys/invitations/NAME.json   public key of an invitation, and when it ends

The supervisor makes the broker's users of them: again after `SIGUSR1`, and every few seconds, as
invitations end.
"""

import json
import os
import re
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cli.cluster.keys import write_secret
from cli.cluster.state import running_state
from mlscope.bus.permissions import agent_key, invitation_key

_PUBLIC_KEY = re.compile(r"U[A-Z2-7]{55}")


@dataclass(frozen=True, slots=True)
class Members:
    """The members of the cluster in one data folder."""

    folder: Path

    @property
    def keys(self) -> dict[str, str]:
        """The public keys of agents on other machines, by agent."""
        public = {}
        for file in sorted((self.folder / "keys" / "members").glob("*.pub")):
            with suppress(FileNotFoundError):  # it was revoked meanwhile
                public[file.stem] = file.read_text("ascii").strip()
        return public

    def invitations(self, now_s: float) -> dict[str, tuple[str, float]]:
        """Return the public key and the end of each invitation that is open at `now_s` (epoch)."""
        is_open = {}
        for file in sorted((self.folder / "keys" / "invitations").glob("*.json")):
            with suppress(FileNotFoundError):  # it was used meanwhile
                invitation = json.loads(file.read_text("ascii"))
                if now_s < invitation["ends_s"]:
                    is_open[file.stem] = (invitation["public"], invitation["ends_s"])
        return is_open

    def users(self) -> Mapping[str, str]:
        """Return the public keys that the broker knows, by connection name."""
        members = {agent_key(agent): public for agent, public in self.keys.items()}
        invited = self.invitations(time.time())
        return members | {invitation_key(agent): public for agent, (public, _) in invited.items()}

    def invite(self, agent: str, public: str, ends_s: float) -> None:
        """Let whoever has the seed of `public` join as `agent`, once, until `ends_s` (epoch)."""
        text = json.dumps({"public": public, "ends_s": ends_s})
        write_secret(self._invitation(agent), text)

    def admit(self, agent: str, public: str) -> bool:
        """Use up the invitation of `agent` and keep its `public` key; False: there is none.

        Of several who use one invitation at once, one succeeds.
        """
        if agent not in self.invitations(time.time()) or not _PUBLIC_KEY.fullmatch(public):
            return False
        try:
            self._invitation(agent).unlink()
        except FileNotFoundError:
            return False
        write_secret(self._member(agent), public)
        return True

    def remove(self, agent: str) -> bool:
        """Forget the key of `agent` and an invitation of it; return whether there was one."""
        is_known = False
        for file in (self._member(agent), self._invitation(agent)):
            is_known |= file.exists()
            file.unlink(missing_ok=True)
        return is_known

    def notify(self) -> None:
        """Have the supervisor tell the broker who the members are. Raises NotUp."""
        os.kill(running_state(self.folder).supervisor.pid, signal.SIGUSR1)

    def _member(self, agent: str) -> Path:
        return self.folder / "keys" / "members" / f"{agent}.pub"

    def _invitation(self, agent: str) -> Path:
        return self.folder / "keys" / "invitations" / f"{agent}.json"
