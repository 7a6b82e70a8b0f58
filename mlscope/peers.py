"""Who is at the other end of a connection within this machine: its socket belongs to a user.

A port that is free for a moment is anybody's, and one that listens on loopback is asked by anybody.
A key proves to a broker who connects, but nothing proves to a client who the broker is, unless it
uses TLS. The kernel knows (proc(5), /proc/net/tcp).
"""

import socket
import sys
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

Address = tuple[str, int]
"""A numeric host and a port."""

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOCAL, _REMOTE, _USER, _INODE = 1, 2, 7, 9
_ORPHANED = "0"


def foreign_user(client: Address, server: Address, expected: int | None) -> int | None:
    """Return the user who answers a connection from `client` to `server`, if it is another one.

    `expected` is the user id (uid) that the server has; None: anybody may. None is returned for a
    server on another machine, for the expected one and root, and where the kernel does not say.
    The server must have accepted the connection: until then the kernel names root.
    """
    if expected is None or not ip_address(server[0].partition("%")[0]).is_loopback:
        return None
    user = owner_of(server, client)
    return None if user in (None, 0, expected) else user


def are_known() -> bool:
    """Tell whether this kernel lists whose the sockets are."""
    return _TABLES[0].exists()


def expect_user(connection: socket.socket, expected: int | None) -> None:
    """Raise ConnectionRefusedError if another user than `expected` answers a `connection`."""
    user = foreign_user(connection.getsockname()[:2], connection.getpeername()[:2], expected)
    if user is not None:
        raise ConnectionRefusedError(wrong_user(user))


def wrong_user(user: int) -> str:
    """Return why nothing is said to a broker of another user."""
    return f"another user of this machine (uid {user}) answers there; it gets no login"


def owner_of(local: Address, remote: Address) -> int | None:
    """Return the user of the open socket with these two ends; None where the kernel lists none.

    One that is closed already is no user's any more, and listed as root's.
    """
    ends = {f"{own}|{other}" for own in _spelt(local) for other in _spelt(remote)}
    for table in _TABLES:
        try:
            lines = table.read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            is_open = words[_INODE] != _ORPHANED
            if is_open and f"{words[_LOCAL]}|{words[_REMOTE]}" in ends:
                return int(words[_USER])
    return None


def _spelt(address: Address) -> Iterator[str]:
    """Yield an address as the kernel writes it: words of 32 bits in the machine's own order."""
    host, port = ip_address(address[0].partition("%")[0]), address[1]
    spellings: list[IPv4Address | IPv6Address] = [host]
    if isinstance(host, IPv4Address):
        spellings.append(IPv6Address(f"::ffff:{host}"))
    for spelling in spellings:
        packed = spelling.packed
        words = (packed[at : at + 4] for at in range(0, len(packed), 4))
        numbers = (int.from_bytes(word, sys.byteorder) for word in words)
        yield f"{''.join(f'{number:08X}' for number in numbers)}:{port:04X}"
