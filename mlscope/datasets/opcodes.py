"""What a pickle builds, told from its instructions before any of them is followed.

A small pickle can build a lot: a list that holds another twice, and so on, or a memo of any size.
"""

import pickle
import pickletools
from collections.abc import Sequence
from typing import Any

_MOST_STEPS = 8_000_000
_MOST_DEPTH = 8
_REFUSED = frozenset(
    ("POP", "POP_MARK", "DUP", "INST", "OBJ", "PERSID", "BINPERSID", "EXT1", "EXT2", "EXT4")
)
_PUTS = frozenset(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"))
_GETS = frozenset(("GET", "BINGET", "LONG_BINGET"))
_ADDS = frozenset(("APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS"))
_EMPTY = frozenset(("EMPTY_LIST", "EMPTY_TUPLE", "EMPTY_DICT", "EMPTY_SET"))
_GROUPS = frozenset(("LIST", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "DICT", "FROZENSET"))
_MARK = -1


def check_opcodes(body: bytes) -> None:
    """Raise UnpicklingError or ValueError for a pickle that is no tree of modest depth."""
    stack: list[int] = []  # how deep each value is nested: 0 for a number or a text
    memo: dict[int, int] = {}
    for step, (opcode, argument, _) in enumerate(pickletools.genops(body)):
        name = opcode.name
        if step >= _MOST_STEPS or name in _REFUSED:
            raise pickle.UnpicklingError(f"instruction {step}, {name}: not needed for data")
        if name in _PUTS:
            _put(memo, stack, len(memo) if argument is None else argument)
        elif name in _GETS:
            if memo.get(argument or 0, 1):
                raise pickle.UnpicklingError("holds a list, tuple or map twice")
            stack.append(0)
        elif name == "MARK":
            stack.append(_MARK)
        else:
            _follow(opcode, stack)


def _put(memo: dict[int, int], stack: Sequence[int], index: int) -> None:
    # Picklers number from 0 or 1; the memo is an array as long as its highest number.
    if not 0 <= index <= 2 * len(memo) + 64:
        raise pickle.UnpicklingError(f"memo {index} after {len(memo)} others")
    memo[index] = stack[-1]


def _follow(opcode: Any, stack: list[int]) -> None:
    """Take what an instruction takes off the stack, and put what it makes on it."""
    taken: list[int] = []
    wanted = opcode.stack_before
    if pickletools.markobject in wanted:
        while (value := stack.pop()) != _MARK:
            taken.append(value)
        wanted = wanted[: wanted.index(pickletools.markobject)]
    taken += [stack.pop() for _ in wanted]
    if not opcode.stack_after:
        return
    made = 0
    if opcode.name in _EMPTY:
        made = 1
    elif opcode.name in _GROUPS:
        made = 1 + max(taken, default=0)
    elif opcode.name in _ADDS:
        made = max(taken[-1], 1 + max(taken[:-1], default=0))
    if made > _MOST_DEPTH:
        raise pickle.UnpicklingError(f"is nested deeper than {_MOST_DEPTH}")
    stack.append(made)
