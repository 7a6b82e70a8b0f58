"""Calls of cuBLAS, cuBLASLt and cuDNN, read from their logs. Pure.

A library logs each call of its API when it begins, followed by parameters, but not how long it
took. cuDNN logs an execution once more when it is finished. cuBLASLt's descriptors are destroyed
right after a product: the call ends there at the latest. Messages during a call of cuBLAS come from
the calls of cuBLASLt that it makes: it lasts at least until the last of them. Otherwise a duration
is 0.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from mlscope.tracing.collected import CollectedSpan
from schemas.level import Level

_FUNCTION = re.compile(r"function (?:\w+ )?(\w+)\(")
_PARAMETER = re.compile(r"^i!\s+(\w+): type=[^;]*; val=(.*)$", re.DOTALL)
_VERSION = re.compile(r"\(v([\d.]+)")
_NO_COMPUTATION = re.compile(
    r"(?:cublas|cublasLt|cudnn)(?:Set|Get|Create|Destroy|Logger|Query|Init|Version"
    r"|Matmul(?:Desc|Preference|AlgoGet|AlgoInit|AlgoCheck|AlgoCap|AlgoConfig)"
    r"|Matrix(?:Layout|TransformDesc)|TSTMatmulAlgo|Backend(?!Execute$))"
)
"""Calls that compute nothing: they create, describe, query or free."""
_PARAMETERS = frozenset(
    {
        "m", "n", "k", "transa", "transb", "Atype", "Btype", "Ctype", "computeType", "batchCount",
        "algo", "Adesc", "Bdesc", "Ddesc", "computeDesc",
    }
)  # fmt: skip
"""Parameters that describe the problem and become attributes; pointers do not."""
_CODE = re.compile(r"\(\d+\)$")
_LT_FIELD = re.compile(r"(\w+)=(\[[^\]]*\]|\S+)")
LIBRARIES: Mapping[str, str] = MappingProxyType(
    {"cublas": "cuBLAS", "cublasLt": "cuBLASLt", "cudnn": "cuDNN"}
)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a library's log, with its time (CLOCK_MONOTONIC ns) and thread."""

    library: str
    at_ns: int
    thread: int
    text: str
    #: given by cuBLASLt; other libraries name the function in the text
    function: str = ""

    @property
    def logged_function(self) -> str:
        """The function that it logs; '' where it continues the message before."""
        match = _FUNCTION.search(self.text)
        return self.function or (match[1] if match else "")


@dataclass(slots=True)
class _Call:
    """A call that computes, while its log is read."""

    message: Message
    function: str
    #: the time of the last message from a call within it; 0 where there was none
    nested_ns: int = 0
    end_ns: int = 0
    attributes: dict[str, str] = field(default_factory=dict)

    def makes(self, library: str, function: str) -> bool:
        """Say whether this call makes a call of another function."""
        is_cublas = self.message.library == "cublas"
        if is_cublas and (library == "cublasLt" or function.startswith("cublasGet")):
            return True
        return function.startswith(self.function) and function != self.function

    def is_repeated_by(self, message: Message, function: str) -> bool:
        """Say whether a message logs this call again: with details, or because it is finished."""
        if message.library != self.message.library or function != self.function:
            return False
        return bool(self.nested_ns) or "=[" in message.text

    def accepts(self, message: Message, function: str) -> bool:
        """Say whether a message on this call's thread belongs to the call, and apply it.

        `function`: the function that the message logs, '' where it continues the message before. A
        message that shows that the call is finished sets its end.
        """
        if not function or self.is_repeated_by(message, function):
            self.add(message.text)
            if function and self.nested_ns:
                self.end_ns = message.at_ns
            return True
        if self.makes(message.library, function):
            self.nested_ns = message.at_ns
            return True
        is_same_library = message.library == self.message.library != "cublas"
        if is_same_library and _NO_COMPUTATION.match(function):
            self.end_ns = message.at_ns
        return False

    def add(self, text: str) -> None:
        """Keep the version and the parameters that a message has."""
        if version := _VERSION.search(text):
            self.attributes["version"] = version[1]
        if parameter := _PARAMETER.match(text):
            pairs = [(parameter[1], parameter[2].strip())]
        else:
            pairs = _LT_FIELD.findall(text) if self.message.library == "cublasLt" else []
        for name, value in pairs:
            if name in _PARAMETERS and not value.startswith("0X"):
                self.attributes[name] = _CODE.sub("", value)

    def span(self) -> CollectedSpan:
        """Return the call as a span; its duration is at most, at least, or unknown (0)."""
        message = self.message
        library = LIBRARIES.get(message.library, message.library)
        attributes = {"library": library, **self.attributes}
        end_ns = self.end_ns or self.nested_ns
        if end_ns:
            attributes["duration"] = "at most" if self.end_ns else "at least"
        return CollectedSpan(
            Level.LIBRARY,
            self.function.removesuffix("_v2"),
            message.at_ns,
            max(0, end_ns - message.at_ns),
            message.thread,
            attributes=attributes,
        )


def spans_of(messages: Iterable[Message]) -> Sequence[CollectedSpan]:
    """Return the calls that compute, as spans of level library in the order they began."""
    calls: list[_Call] = []
    open_calls: dict[int, _Call] = {}
    for message in messages:
        function = message.logged_function
        call = open_calls.get(message.thread)
        if call is not None and not call.end_ns and call.accepts(message, function):
            continue
        if not function:
            continue
        open_calls.pop(message.thread, None)
        if not _NO_COMPUTATION.match(function):
            call = open_calls[message.thread] = _Call(message, function)
            call.add(message.text)
            calls.append(call)
    return [call.span() for call in calls]
