"""The socket on which the gateway listens: its own, or one that its supervisor keeps.

A port is free while the process that bound it starts anew, and free is anybody's: another user of
the machine could bind it for a moment, and browsers would send that user the cookie of a session.
So a supervisor binds the port, keeps it, and hands the same socket to each gateway. Who connects
while none runs waits for the next one.
"""

import socket

from mlscope.settings import InvalidSetting

BACKLOG = 512
"""How many connections wait to be accepted."""

UNREAD_S = 60.0
"""The longest that a client may take in nothing of what is sent to it."""

_TCP = (socket.AF_INET, socket.AF_INET6)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on `port` of `host`. Raises OSError when the port is in use.

    The kernel ends connections whose clients read nothing for `UNREAD_S`. Only Linux does so; it
    hands the option on to the connections.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if option is not None:
        listener.setsockopt(socket.IPPROTO_TCP, option, int(UNREAD_S * 1000))
    return listener


def adopt(descriptor: int) -> socket.socket:
    """Return the listening socket of the `descriptor` with which this process was started.

    Processes that this one starts do not get it. Raises InvalidSetting where it is no TCP socket
    that listens.
    """
    try:
        handed = socket.socket(fileno=descriptor)
    except OSError:
        raise _unusable(descriptor) from None
    is_tcp = handed.family in _TCP and handed.type == socket.SOCK_STREAM
    if not (is_tcp and handed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)):
        handed.detach()
        raise _unusable(descriptor)
    handed.set_inheritable(False)
    return handed


def _unusable(descriptor: int) -> InvalidSetting:
    expected = "the descriptor of a TCP socket that listens; `mlscope up` hands on one"
    return InvalidSetting("MLSCOPE_GATEWAY_FD", str(descriptor), expected)
