"""The tickets of addresses that log a browser in: each is taken once. Pure."""

from mlscope.logins import expiry_of


class Tickets:
    """The tickets that were taken and have not expired."""

    def __init__(self) -> None:
        """Start with none taken."""
        self._expiry_s: dict[str, int] = {}

    def take(self, ticket: str, token: str, now_s: float) -> bool:
        """Tell whether a `ticket` of `token` holds at `now_s` (epoch seconds), and use it up."""
        expiry_s = expiry_of(ticket, token)
        if expiry_s <= now_s or ticket in self._expiry_s:
            return False
        self._expiry_s = {used: end for used, end in self._expiry_s.items() if end > now_s}
        self._expiry_s[ticket] = expiry_s
        return True
