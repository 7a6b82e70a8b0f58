"""Inboxes: the subjects on which a connection receives the answers to its requests. Pure."""

_INBOX = "_INBOX_"
_CROSSING = "_R_."

ANSWERS = f"{_CROSSING}>"
"""The reply subjects that the server makes for requests from other accounts."""


def inbox_prefix(name: str) -> str:
    """Return the inbox prefix of the connection called `name`, without the final dot."""
    return f"{_INBOX}{name}"


def is_inbox(reply: str) -> bool:
    """Tell whether a reply subject may be answered.

    The server lets a requester name any reply subject, and the answer is sent with the permissions
    of the service that answers: on a subject that is no inbox it could pass for a fact. A request
    from another account has a reply subject of the server's own.
    """
    return reply.startswith((_INBOX, _CROSSING))
