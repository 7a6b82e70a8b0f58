"""People: whoever asks, with the role that says what they may ask, and with limits. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from schemas.exploration import Explore
from schemas.message import Fact
from schemas.price import SetPrice
from schemas.publishing import PublishManifest, WithdrawManifest
from schemas.request import (
    Cancel,
    Compare,
    Evaluate,
    ListEvaluations,
    Match,
    ShowCatalog,
    ShowEvaluation,
    ShowFlow,
    ShowPredictions,
    ShowTables,
)
from schemas.trace import ShowSpan, ShowSpans, ShowTrace, ShowWindow, Watch
from schemas.values.identity import Token

Role = Literal["viewer", "requester", "owner"]
ROLES: tuple[Role, ...] = get_args(Role)

_READ_COMMANDS = (
    Match,
    ListEvaluations,
    ShowEvaluation,
    ShowCatalog,
    ShowTables,
    ShowPredictions,
    Compare,
    Explore,
    ShowSpans,
    ShowFlow,
    ShowTrace,
    ShowWindow,
    ShowSpan,
    Watch,
)
_VIEWER = tuple(command.verb for command in _READ_COMMANDS)
_REQUESTER = (*_VIEWER, Evaluate.verb, Cancel.verb)

VERBS: Mapping[Role, tuple[str, ...]] = MappingProxyType(
    {
        "viewer": _VIEWER,
        "requester": _REQUESTER,
        "owner": (*_REQUESTER, PublishManifest.verb, WithdrawManifest.verb, SetPrice.verb),
    }
)
"""The commands that each role may send."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks. Without a name it is the cluster's own user, who is an owner."""

    name: str = ""
    role: Role = "owner"
    #: the most evaluations that may be open at once; 0 is no limit
    at_most: int = 0
    #: the most evaluations that may be requested within a day; 0 is no limit
    per_day: int = 0

    @property
    def is_owner(self) -> bool:
        """Whether everything of everybody is theirs to see and to cancel."""
        return self.role == "owner"

    def may_change(self, requested_by: str) -> bool:
        """Tell whether an evaluation that `requested_by` asked for is theirs to cancel."""
        return self.is_owner or (bool(self.name) and self.name == requested_by)

    def may_see(self, requested_by: str, *, is_private: bool) -> bool:
        """Tell whether an evaluation that `requested_by` asked for is theirs to look at."""
        return not is_private or self.may_change(requested_by)


THE_USER = Asker()
"""The cluster's own user: whoever has the key `requester` or the gateway's own token."""


class PersonAdded(Fact):
    """The operator added a person, or changed a person's role and limits."""

    entity = "person"
    happened = "added"
    person: Token
    role: Role
    at_most: int = 0
    per_day: int = 0


class PersonRemoved(Fact):
    """The operator revoked a person's key and token."""

    entity = "person"
    happened = "removed"
    person: Token


class PersonRefused(Fact):
    """A person's command was refused: beyond a limit, or about another person's evaluation."""

    entity = "person"
    happened = "refused"
    person: Token
    verb: Token
    reason: str
