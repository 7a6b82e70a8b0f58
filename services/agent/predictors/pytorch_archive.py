"""Exported programs of PyTorch (.pt2), read so that none of their contents is run as Python.

`torch.export.load` itself falls back to plain pickles, evaluates sizes and guards as Python text
and imports what a tree's description names. So everything that leads there is checked first.
"""

import ast
import io
import json
import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_FORCE = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
_NAME = re.compile(r"[\w.]*", re.ASCII)
_PAYLOAD = re.compile(r"(weight|tensor)_\d+", re.ASCII)
_TARGET = re.compile(
    r"torch\.ops\.(?!load_library\b)[a-z]\w*\.\w+(\.\w+)?|torch\.sym_\w+|torch\._sym_\w+"
    r"|(_operator|math)\.[a-z]\w*",
    re.ASCII,
)
_OPERATOR_CALLERS = ("_operator.methodcaller", "_operator.attrgetter", "_operator.call")
_CALLED = frozenset(
    (
        *("Symbol", "Integer", "Float", "Rational", "Add", "Mul"),
        *("Pow", "Max", "Min", "Mod", "Abs", "Eq"),
        *("Ne", "Lt", "Le", "Gt", "Ge", "And"),
        *("Or", "Not", "Equality", "Unequality", "LessThan", "StrictLessThan"),
        *("GreaterThan", "StrictGreaterThan", "Piecewise", "ExprCondPair", "floor", "ceiling"),
        *("FloorDiv", "ModularIndexing", "Where", "PythonMod", "CleanDiv", "CeilToInt"),
        *("FloorToInt", "CeilDiv", "LShift", "RShift", "PowByNatural", "FloatPow"),
        *(
            "FloatTrueDiv",
            "IntTrueDiv",
            "IsNonOverlappingAndDenseIndicator",
            "TruncToFloat",
            "TruncToInt",
            "RoundToInt",
        ),
        *("RoundDecimal", "ToFloat", "Identity"),
    )
)
_ASKED = frozenset(("size", "stride", "storage_offset"))
_PLAIN = (
    *(ast.Expression, ast.Name, ast.Load, ast.keyword, ast.Subscript, ast.BinOp, ast.UnaryOp),
    *(ast.Compare, ast.BoolOp, ast.operator, ast.unaryop, ast.cmpop, ast.boolop),
)


class UnsafeArchive(Exception):
    """An exported program holds what could run as code when it is opened."""

    def __init__(self, member: str, reason: str) -> None:
        """Name the member of the archive and what it holds."""
        self.member, self.reason = member, reason
        super().__init__(f"{member} {reason}: refused, and no setting allows it")


def load_exported(body: bytes) -> Any:
    """Return the module of an exported program's file.

    Raises UnsafeArchive, and what PyTorch raises.
    """
    check_archive(body)
    with _weights_only():
        return torch.export.load(io.BytesIO(body)).module()


def check_archive(body: bytes) -> None:
    """Raise UnsafeArchive where opening a .pt2 file could run code; RuntimeError: it is none."""
    # PyTorch falls back to a form read by another unpacker, which tells it by this name.
    if zipfile.is_zipfile(io.BytesIO(body)):
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            if "version" in archive.namelist():
                raise UnsafeArchive("version", "says that it is of the form before PyTorch 2.8")
    reader = torch._C.PyTorchFileReader(io.BytesIO(body))  # noqa: SLF001
    names = reader.get_all_records()
    if len({name.lower() for name in names}) != len(names):
        raise UnsafeArchive("archive", "has members of the same name")
    for name in names:
        lowered = name.lower()
        if "opaque_obj" in lowered or "custom_obj" in lowered:
            raise UnsafeArchive(name, "is a pickled object")
        if "aotinductor" in lowered:
            raise UnsafeArchive(name, "is compiled code")
        if lowered.startswith("models/") or lowered.endswith(".json"):
            _check(json.loads(reader.get_record(name)), name)
        elif lowered.endswith(".pt") and (pickled := reader.get_record(name)):
            _check_pickled(pickled, name)


@contextmanager
def _weights_only() -> Iterator[None]:
    """Let `torch.load` read nothing but tensors and plain data, whatever its caller asks for."""
    before = os.environ.get(_FORCE)
    os.environ[_FORCE] = "1"
    try:
        yield
    finally:
        os.environ.pop(_FORCE)
        if before is not None:
            os.environ[_FORCE] = before


def _check_pickled(body: bytes, member: str) -> None:
    try:
        torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
    except Exception as error:  # a hostile pickle raises what it likes
        raise UnsafeArchive(member, "is a pickle of more than tensors and plain data") from error


def _check(value: Any, member: str, key: str = "") -> None:
    """Walk what a JSON file says; the texts that PyTorch makes code of must be plain."""
    if isinstance(value, dict):
        for name, each in value.items():
            if name in ("default_factory_module", "__enum__"):
                raise UnsafeArchive(member, f"names a module to import ({name})")
            _check(each, member, name)
    elif isinstance(value, list):
        for each in value:
            _check(each, member, key)
    elif isinstance(value, str) and not _is_plain(value, member, key):
        raise UnsafeArchive(member, f"has {key} {value[:80]!r}, which could run as code")


def _is_plain(text: str, member: str, key: str) -> bool:
    if key in ("expr_str", "guards_code"):
        return _is_arithmetic(text)
    if key in ("in_spec", "out_spec", "context"):
        try:
            told = json.loads(text)
        except ValueError:
            return _NAME.fullmatch(text) is not None
        _check(told, member, "context" if isinstance(told, dict | list) else "name")
        return True
    if key == "path_name":
        return _PAYLOAD.fullmatch(text) is not None
    if key == "target" and "." in text:
        return _TARGET.fullmatch(text) is not None and text not in _OPERATOR_CALLERS
    if key in ("name", "as_name", "target", "forward_arg_names", "type"):
        return _NAME.fullmatch(text) is not None
    return True


def _is_arithmetic(text: str) -> bool:
    """Whether a text computes with sizes and calls nothing else."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return "\n" not in text and all(_is_part(node) for node in ast.walk(tree))


def _is_part(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        called = node.func
        return isinstance(called, ast.Attribute) or (
            isinstance(called, ast.Name) and called.id in _CALLED
        )
    if isinstance(node, ast.Attribute):
        return node.attr in _ASKED
    if isinstance(node, ast.Constant):
        value = node.value
        return not isinstance(value, bytes) and (
            not isinstance(value, str) or _NAME.fullmatch(value) is not None
        )
    return isinstance(node, _PLAIN)
