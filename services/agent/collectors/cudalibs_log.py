"""What cuBLAS, cuBLASLt and cuDNN say in their logs, as calls. Pure.

A library tells each call of its own API as it begins, parameters behind it, and not how long it
took. cuDNN says an execution once more when it is through; cuBLASLt's descriptors are destroyed
right after a product: a call ends there at the latest. What is heard of cuBLAS after a call's
begin is what it asks of cuBLASLt within: it lasts until then at least. Else a length is 0.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from schemas.level import Level
from services.agent.collectors import CollectedSpan

_FUNCTION = re.compile(r"function (?:\w+ )?(\w+)\(")
_PARAMETER = re.compile(r"^i!\s+(\w+): type=[^;]*; val=(.*)$", re.DOTALL)
_VERSION = re.compile(r"\(v([\d.]+)")
_IDLE = re.compile(
    r"(?:cublas|cublasLt|cudnn)(?:Set|Get|Create|Destroy|Logger|Query|Init|Version"
    r"|Matmul(?:Desc|Preference|AlgoGet|AlgoInit|AlgoCheck|AlgoCap|AlgoConfig)"
    r"|Matrix(?:Layout|TransformDesc)|TSTMatmulAlgo|Backend(?!Execute$))"
)
"""Calls that compute nothing: they make, describe, ask or free."""
_KEPT = frozenset(
    {
        *("m", "n", "k", "transa", "transb", "Atype", "Btype", "Ctype", "computeType"),
        *("batchCount", "algo", "Adesc", "Bdesc", "Ddesc", "computeDesc"),
    }
)
_CODE = re.compile(r"\(\d+\)$")
_LT_FIELD = re.compile(r"(\w+)=(\[[^\]]*\]|\S+)")
LIBRARIES: Mapping[str, str] = MappingProxyType(
    {"cublas": "cuBLAS", "cublasLt": "cuBLASLt", "cudnn": "cuDNN"}
)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a library's log, stamped as it came: CLOCK_MONOTONIC ns, the thread."""

    library: str
    at_ns: int
    thread: int
    text: str
    #: cuBLASLt says the function beside the message, others in it
    function: str = ""


@dataclass(slots=True)
class _Call:
    """A call that computes, while its log is read."""

    message: Message
    function: str
    #: when something within it was heard last; 0 while nothing was
    within_ns: int = 0
    end_ns: int = 0
    told: dict[str, str] = field(default_factory=dict)

    def holds(self, library: str, function: str) -> bool:
        """Whether a message of another function comes from within."""
        is_cublas = self.message.library == "cublas"
        if is_cublas and (library == "cublasLt" or function.startswith("cublasGet")):
            return True
        return function.startswith(self.function) and function != self.function

    def again(self, message: Message, function: str) -> bool:
        """Whether a message is this call's own once more: in detail, or that it is through."""
        if message.library != self.message.library or function != self.function:
            return False
        return bool(self.within_ns) or "=[" in message.text


def spans_of(messages: Iterable[Message]) -> Sequence[CollectedSpan]:
    """Return the calls that compute, as spans of level library in the order they began."""
    return [_span(call) for call in _calls(messages)]


def _calls(messages: Iterable[Message]) -> Sequence[_Call]:
    found: list[_Call] = []
    under_way: dict[int, _Call] = {}
    for message in messages:
        function = message.function or _function_in(message.text)
        call = under_way.get(message.thread)
        if call is not None and _belongs(call, message, function):
            if call.end_ns:
                del under_way[message.thread]
            continue
        if not function:
            continue
        under_way.pop(message.thread, None)
        if not _IDLE.match(function):
            made = under_way[message.thread] = _Call(message, function)
            _add(made, message.text)
            found.append(made)
    return found


def _belongs(call: _Call, message: Message, function: str) -> bool:
    """Take what a message says of the call under way on its thread; False: it says nothing of it.

    One that shows that the call is through sets its end.
    """
    if not function or call.again(message, function):
        _add(call, message.text)
        if function and call.within_ns:
            call.end_ns = message.at_ns
        return True
    if call.holds(message.library, function):
        call.within_ns = message.at_ns
        return True
    same = message.library == call.message.library != "cublas"
    if same and _IDLE.match(function):
        call.end_ns = message.at_ns
    return False


def _function_in(text: str) -> str:
    found = _FUNCTION.search(text)
    return found[1] if found else ""


def _add(call: _Call, text: str) -> None:
    """Keep what a message says of a call: its problem, not its pointers."""
    if version := _VERSION.search(text):
        call.told["version"] = version[1]
    if parameter := _PARAMETER.match(text):
        pairs = [(parameter[1], parameter[2].strip())]
    else:
        pairs = _LT_FIELD.findall(text) if call.message.library == "cublasLt" else []
    for name, value in pairs:
        if name in _KEPT and not value.startswith("0X"):
            call.told[name] = _CODE.sub("", value)


def _span(call: _Call) -> CollectedSpan:
    begun = call.message
    told = {"library": LIBRARIES.get(begun.library, begun.library), **call.told}
    end_ns = call.end_ns or call.within_ns
    if end_ns:
        told["duration"] = "at most" if call.end_ns else "at least"
    return CollectedSpan(
        Level.LIBRARY,
        call.function.removesuffix("_v2"),
        begun.at_ns,
        max(0, end_ns - begun.at_ns),
        begun.thread,
        attributes=told,
    )
