"""What a nats-server saw each key say and hear: read from its own protocol trace."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from cli.cluster.keys.secret_files import ensure_key
from cli.cluster.processes import Command
from cli.cluster.servers.nats_conf import NatsLayout
from cli.cluster.servers.nats_server import NatsServer

_USE = re.compile(r"/nkey:(U\w+)\" - <<- \[(SUB|PUB|HPUB) (\S+)")
_REFUSAL = re.compile(r"/nkey:(U\w+)\" - (Publish|Subscription) Violation - .*Subject \"([^\"]+)\"")


@dataclass(frozen=True)
class Traced:
    """Pairs of a connection's name and a subject."""

    said: frozenset[tuple[str, str]]
    heard: frozenset[tuple[str, str]]
    refused: frozenset[tuple[str, str]]

    def subjects(self, name: str, *, said: bool) -> set[str]:
        """Return what a connection was allowed to say, or to hear."""
        pairs = (self.said if said else self.heard) - self.refused
        return {subject for owner, subject in pairs if owner == name}


class TracedServer(NatsServer):
    """A nats-server that writes every message's subject into its log."""

    def layout(self) -> NatsLayout:
        """Have it keep its whole log."""
        return replace(super().layout(), max_log_bytes=0)

    def command(self) -> Command:
        """Ask for the trace; of payloads it holds a few bytes."""
        command = super().command()
        conf = self.folder / "nats.conf"
        conf.write_text(f"{conf.read_text()}max_traced_msg_len: 8\n")
        return replace(command, argv=(*command.argv, "--trace"))

    def traced(self) -> Traced:
        """Return what was said, heard and refused so far."""
        keys = self.folder / "keys"
        names = {ensure_key(keys, name).public: name for name in self.seed_files}
        return read_trace((self.folder / "logs" / "nats.log").read_text(), names)


def read_trace(log: str, names: Mapping[str, str]) -> Traced:
    """Return what a log tells; `names` are those of public keys."""
    uses = {(names[key], verb == "SUB", subject) for key, verb, subject in _USE.findall(log)}
    return Traced(
        said=frozenset((name, subject) for name, is_heard, subject in uses if not is_heard),
        heard=frozenset((name, subject) for name, is_heard, subject in uses if is_heard),
        refused=frozenset((names[key], subject) for key, _, subject in _REFUSAL.findall(log)),
    )


def covers(right: str, subject: str) -> bool:
    """Tell whether a permission's subject allows a subject, which may hold wildcards itself."""
    wanted, given = right.split("."), subject.split(".")
    if wanted[-1] == ">":
        wanted, given = wanted[:-1], given[: len(wanted) - 1] if len(given) >= len(wanted) else []
    return len(wanted) == len(given) and all(
        each in ("*", token) and token != ">" for each, token in zip(wanted, given, strict=True)
    )


def unused(rights: Iterable[str], subjects: Iterable[str]) -> list[str]:
    """Return the rights that no subject made use of."""
    known = list(subjects)
    return [right for right in rights if not any(covers(right, each) for each in known)]
