"""The steps of a classic BPF program that decides about system calls (pure).

At the start of a rule the number of the call is loaded. A step is 8 bytes long; one that compares
skips as many steps as it says. Of an argument, the lower 32 bits are seen.
"""

import errno
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LOAD, AND, IS, AT_LEAST, RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
"""What a step does: it loads a word of `struct seccomp_data`, or works on the loaded one."""
ALLOW, END, FAIL = 0x7FFF0000, 0x80000000, 0x00050000
"""Verdicts: the process ends by END, and FAIL is added to an error's number."""
NUMBER, ARCHITECTURE = 0, 4
"""Where they lie, in bytes; `argument_at` says it of arguments."""
_ALL_BITS = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Rule:
    """A call that is allowed where an argument (numbered from 0), masked, has an allowed value."""

    number: int
    argument: int
    allowed: Sequence[int]
    mask: int = _ALL_BITS


def on_itself(number: int, kind: int) -> Iterator[bytes]:
    """Refuse the call `number` unless its first arguments name its thread: the `kind`, and 0."""
    fail = FAIL | errno.EPERM
    checks = (
        step(LOAD, argument_at(0)),
        *unless_loaded((kind,), fail),
        step(LOAD, argument_at(1)),
        *unless_loaded((0,), fail),
    )
    yield from for_call(number, b"".join(checks))


def for_call(number: int, body: bytes) -> Iterator[bytes]:
    """Run the `body` for the call `number`; at its end the number is loaded again."""
    whole = body + step(LOAD, NUMBER)
    yield step(IS, number, 0, len(whole) // 8)
    yield whole


def where_argument(argument: int, value: int, body: bytes) -> bytes:
    """Run the `body` where an `argument` (numbered from 0) has this `value`."""
    return step(LOAD, argument_at(argument)) + step(IS, value, 0, len(body) // 8) + body


def unless_loaded(values: Sequence[int], verdict: int) -> Iterator[bytes]:
    """Return the `verdict` unless the loaded value is one of `values`."""
    for position, value in enumerate(values):
        yield step(IS, value, len(values) - position, 0)
    yield step(RETURN, verdict)


def checked(rule: Rule, error: int = errno.EPERM) -> Iterator[bytes]:
    """Decide about a call by its argument, as the `rule` says: allow it, or fail with `error`."""
    checks = b"".join(b"".join(answer(value, ALLOW)) for value in rule.allowed)
    body = b"".join(
        (
            step(LOAD, argument_at(rule.argument)),
            step(AND, rule.mask),
            checks,
            step(RETURN, FAIL | error),
        )
    )
    yield step(IS, rule.number, 0, len(body) // 8)
    yield body


def answer(value: int, verdict: int) -> Iterator[bytes]:
    """Return the `verdict` where the loaded value is `value`; else continue."""
    yield step(IS, value, 0, 1)
    yield step(RETURN, verdict)


def argument_at(position: int) -> int:
    """Return where the lower half of an argument lies, in bytes; its `position` begins with 0."""
    return 16 + 8 * position


def step(code: int, operand: int, if_so: int = 0, if_not: int = 0) -> bytes:
    """Return a `struct sock_filter`: a `code`, its `operand`, and how many steps it skips.

    `if_so`, `if_not`: where a comparison holds, and where it does not.
    """
    return struct.pack("=HBBI", code, if_so, if_not, operand)
