"""Any message of the contract, made from its fields' own types and bounds."""

import string
import types
from functools import cache
from itertools import chain
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from hypothesis import strategies as st
from pydantic import StringConstraints
from pydantic.fields import FieldInfo

from schemas.agent import AgentAnnounced, Announcement
from schemas.level import Level
from schemas.manifest import Port
from schemas.message import Message
from schemas.request import Blocks, Evaluate

_TOKENS = st.text(string.ascii_letters + string.digits + "_-", min_size=1, max_size=64)
_INT64 = (-(2**63), 2**63 - 1)
_TEXT = st.text(max_size=20)
_JSON_LIKE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(*_INT64)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=5,
)


@cache
def messages(kind: type[Message]) -> st.SearchStrategy[Any]:
    """Return a strategy of valid messages of a kind."""
    fields = {name: _field(kind, name, field) for name, field in kind.model_fields.items()}
    if kind is AgentAnnounced:
        announced = st.tuples(fields["agent"], fields["announcement"])
        return announced.map(lambda pair: _announced(*pair))
    return st.fixed_dictionaries(fields).map(lambda values: kind(**values))


def _announced(agent: str, announcement: Announcement) -> AgentAnnounced:
    own = announcement.model_copy(update={"agent": agent})
    return AgentAnnounced(agent=agent, announcement=own)


def _field(kind: type[Message], name: str, field: FieldInfo) -> st.SearchStrategy[Any]:
    if kind is Blocks and name != "of":
        return st.just(5) if name == "most" else st.just(2) if name == "least" else st.just(0.5)
    if kind is Port and name == "range":
        return st.sampled_from([None, (0, 7)])
    if issubclass(kind, Evaluate) and name == "batch_sizes":
        return st.lists(st.integers(1, 65_536), min_size=1, max_size=5, unique=True).map(tuple)
    if issubclass(kind, Evaluate) and name == "levels":
        # Level none is no deeper than any that may be traced.
        return st.sampled_from([(), (Level.NONE,)])
    return _of(field.annotation, tuple(field.metadata))


def _of(annotation: Any, bounds: tuple[Any, ...] = ()) -> st.SearchStrategy[Any]:
    """Return a strategy of one type; `bounds` are what `Annotated` and `Field` add to it."""
    if hasattr(annotation, "__metadata__"):
        said = (each.metadata if isinstance(each, FieldInfo) else [each]
                for each in annotation.__metadata__)  # fmt: skip
        return _of(annotation.__origin__, (*chain.from_iterable(said), *bounds))
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return st.one_of([_of(each) for each in inner])
    if origin is Literal:
        return st.sampled_from(inner)
    if origin is tuple:
        least = next((b.min_length for b in bounds if isinstance(b, MinLen)), 0)
        return st.lists(_of(inner[0]), min_size=least, max_size=3).map(tuple)
    if origin is dict:
        return st.dictionaries(_of(inner[0]), _of(inner[1]), max_size=3)
    if isinstance(annotation, type) and issubclass(annotation, Message):
        return messages(annotation)
    return _plain(annotation, bounds)


def _plain(annotation: Any, bounds: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if annotation is Level:
        return st.sampled_from(Level)
    if annotation is str:
        longest = next((b.max_length for b in bounds if isinstance(b, MaxLen)), 20)
        is_token = any(isinstance(b, StringConstraints) for b in bounds)
        return _TOKENS if is_token else st.text(max_size=min(longest or 20, 20))
    if annotation is int:
        return st.integers(*_range(bounds, _INT64))
    if annotation is float:
        low, high = _range(bounds, (-1e12, 1e12))
        is_open = any(isinstance(b, Gt | Lt) for b in bounds)
        return st.floats(low + 1e-6, high - 1e-6) if is_open else st.floats(low, high)
    plain = {bool: st.booleans(), bytes: st.binary(max_size=40), Any: _JSON_LIKE}
    plain[types.NoneType] = st.none()
    return plain[annotation]


def _range(bounds: tuple[Any, ...], widest: tuple[Any, Any]) -> tuple[Any, Any]:
    low, high = widest
    for bound in bounds:
        if isinstance(bound, Ge | Gt):
            low = bound.ge if isinstance(bound, Ge) else bound.gt
        if isinstance(bound, Le | Lt):
            high = bound.le if isinstance(bound, Le) else bound.lt
    return low, high
