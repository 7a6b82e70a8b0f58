"""The machines that joined a cluster and the invitations to join, as files of the data folder.

    keys/members/NAME.pub        public key of the agent NAME on another machine, which has the seed
    keys/members/NAME.revoking   a revocation that has begun; gone once it is recorded
    keys/invitations/NAME.json   public key of an invitation, and when it ends

The supervisor makes the broker's users of them: again after `SIGUSR1`, and every few seconds, as
invitations end.
"""

import base64
import binascii
import json
import logging
import os
import re
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cli.cluster.keys.secret_files import write_secret
from cli.cluster.state import running_state
from mlscope.bus.access.permissions import agent_key, invitation_key, permission_of

_PUBLIC_KEY = re.compile(r"U[A-Z2-7]{55}")
_log = logging.getLogger(__name__)


def is_public_key(text: str) -> bool:
    """Tell whether a text is the public key of a NATS user, with the checksum at its end.

    The broker starts with no configuration that has another one.
    """
    if not _PUBLIC_KEY.fullmatch(text):
        return False
    decoded = base64.b32decode(text)
    return binascii.crc_hqx(decoded[:-2], 0) == int.from_bytes(decoded[-2:], "little")


def is_agent(name: str) -> bool:
    """Tell whether an agent may have this `name`."""
    try:
        permission_of(agent_key(name))
    except KeyError:
        return False
    return True


@cache
def _warn_of(file: Path) -> None:
    """Say once that a file is passed over."""
    _log.warning("no member: not an agent's name, or not a key of its own", extra={"file": file})


@dataclass(frozen=True, slots=True)
class Members:
    """The members of the cluster in one data folder."""

    folder: Path

    @property
    def keys(self) -> dict[str, str]:
        """The public keys of agents on other machines, by agent."""
        public: dict[str, str] = {}
        for file in sorted((self.folder / "keys" / "members").glob("*.pub")):
            with suppress(FileNotFoundError):  # it was revoked meanwhile
                key = file.read_text("ascii", "replace").strip()
                if is_agent(file.stem) and is_public_key(key) and key not in public.values():
                    public[file.stem] = key
                else:
                    _warn_of(file)
        return public

    def invitations(self, now_s: float) -> dict[str, tuple[str, float]]:
        """Return the public key and the end of each invitation that is open at `now_s` (epoch)."""
        is_open = {}
        for file in sorted((self.folder / "keys" / "invitations").glob("*.json")):
            with suppress(FileNotFoundError):  # it was used meanwhile
                try:
                    invitation = json.loads(file.read_text("ascii"))
                    public, ends_s = str(invitation["public"]), float(invitation["ends_s"])
                except (ValueError, KeyError, TypeError):
                    public, ends_s = "", 0.0
                if not is_agent(file.stem) or not is_public_key(public):
                    _warn_of(file)
                elif now_s < ends_s:
                    is_open[file.stem] = (public, ends_s)
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

    def invitation_of(self, agent: str, public: str) -> str:
        """Return the public key of the invitation that lets `public` join as `agent`; '': none.

        A key is one agent's alone.
        """
        invitation, _ = self.invitations(time.time()).get(agent, ("", 0.0))
        is_new = is_public_key(public) and public not in self.keys.values()
        return invitation if is_new else ""

    def admit(self, agent: str, public: str) -> bool:
        """Use up the invitation of `agent` and keep its `public` key; False: there is none.

        Of several who use one invitation at once, one succeeds.
        """
        if not self.invitation_of(agent, public):
            return False
        try:
            self._invitation(agent).unlink()
        except FileNotFoundError:
            return False
        write_secret(self._member(agent), public)
        return True

    def remove(self, agent: str) -> bool:
        """Forget the key of `agent` and an invitation of it; return whether there was one.

        It returns the same again until `end_removal`.
        """
        files = (self._member(agent), self._invitation(agent))
        is_known = any(file.exists() for file in (*files, self._revoking(agent)))
        if is_known:
            write_secret(self._revoking(agent), "")
        for file in files:
            file.unlink(missing_ok=True)
        return is_known

    def is_being_removed(self, agent: str) -> bool:
        """Tell whether the removal of `agent` has begun and is not recorded yet."""
        return self._revoking(agent).exists()

    def end_removal(self, agent: str) -> None:
        """Note that all know of the removal of `agent`."""
        self._revoking(agent).unlink(missing_ok=True)

    def notify(self) -> None:
        """Have the supervisor tell the broker who the members are. Raises NotUp."""
        os.kill(running_state(self.folder).supervisor.pid, signal.SIGUSR1)

    def _member(self, agent: str) -> Path:
        return self.folder / "keys" / "members" / f"{agent}.pub"

    def _revoking(self, agent: str) -> Path:
        return self.folder / "keys" / "members" / f"{agent}.revoking"

    def _invitation(self, agent: str) -> Path:
        return self.folder / "keys" / "invitations" / f"{agent}.json"
