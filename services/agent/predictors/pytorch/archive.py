"""Load exported programs of PyTorch (.pt2) without running any of their contents as Python.

`torch.export.load` itself falls back to plain pickles, evaluates sizes and guards as Python text,
and imports what the description of a tree names. So everything that leads there is checked first.
"""

import ast
import io
import json
import os
import re
import zipfile
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
_SYMPY_FUNCTIONS = frozenset({
    "Symbol", "Integer", "Float", "Rational", "Add", "Mul", "Pow", "Max", "Min", "Mod", "Abs",
    "Eq", "Ne", "Lt", "Le", "Gt", "Ge", "And", "Or", "Not", "Equality", "Unequality", "LessThan",
    "StrictLessThan", "GreaterThan", "StrictGreaterThan", "Piecewise", "ExprCondPair", "floor",
    "ceiling", "FloorDiv", "ModularIndexing", "Where", "PythonMod", "CleanDiv", "CeilToInt",
    "FloorToInt", "CeilDiv", "LShift", "RShift", "PowByNatural", "FloatPow", "FloatTrueDiv",
    "IntTrueDiv", "IsNonOverlappingAndDenseIndicator", "TruncToFloat", "TruncToInt",
    "RoundToInt", "RoundDecimal", "ToFloat", "Identity",
})  # fmt: skip
"""Functions that the text of a size may call."""
_TENSOR_METHODS = frozenset(("size", "stride", "storage_offset"))
_ARITHMETIC_NODES = (
    ast.Expression, ast.Name, ast.Load, ast.keyword, ast.Subscript, ast.BinOp, ast.UnaryOp,
    ast.Compare, ast.BoolOp, ast.operator, ast.unaryop, ast.cmpop, ast.boolop,
)  # fmt: skip


class UnsafeArchive(Exception):
    """An exported program contains something that could run as code when it is opened."""

    def __init__(self, member: str, reason: str) -> None:
        """Name the member of the archive; `reason` says what it is or contains."""
        self.member, self.reason = member, reason
        super().__init__(f"{member} {reason}; it is refused, and no setting allows it")


def load_exported(body: bytes) -> Any:
    """Return the module of an exported program's file.

    Raises UnsafeArchive, and PyTorch's own errors.
    """
    check_archive(body)
    # `torch.load` then reads only tensors and plain data, whatever its caller asks for.
    before = os.environ.get(_FORCE)
    os.environ[_FORCE] = "1"
    try:
        return torch.export.load(io.BytesIO(body)).module()
    finally:
        os.environ.pop(_FORCE)
        if before is not None:
            os.environ[_FORCE] = before


def check_archive(body: bytes) -> None:
    """Raise UnsafeArchive where opening a .pt2 file could run code.

    Raises RuntimeError for another file.
    """
    # PyTorch falls back to an older format, which another unpacker recognises by this name.
    if zipfile.is_zipfile(io.BytesIO(body)):
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            if "version" in archive.namelist():
                raise UnsafeArchive("version", "marks the format of PyTorch 2.7 or older")
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
            _check_json(json.loads(reader.get_record(name)), name)
        elif lowered.endswith(".pt") and (pickled := reader.get_record(name)):
            try:
                torch.load(io.BytesIO(pickled), map_location="cpu", weights_only=True)
            except Exception as error:  # a hostile pickle raises what it likes
                reason = "is a pickle of more than tensors and plain data"
                raise UnsafeArchive(name, reason) from error


def _check_json(value: Any, member: str, key: str = "") -> None:
    """Raise UnsafeArchive for a text in a JSON value that PyTorch could run as code.

    `member`: the archive's member; `key`: that of the value in the enclosing object.
    """
    if isinstance(value, dict):
        for name, entry in value.items():
            if name in ("default_factory_module", "__enum__"):
                raise UnsafeArchive(member, f"names a module to import ({name})")
            _check_json(entry, member, name)
    elif isinstance(value, list):
        for entry in value:
            _check_json(entry, member, key)
    elif isinstance(value, str) and not _is_harmless(value, member, key):
        raise UnsafeArchive(member, f"has {key} {value[:80]!r}, which could run as code")


def _is_harmless(text: str, member: str, key: str) -> bool:
    if key in ("expr_str", "guards_code"):
        return is_arithmetic(text)
    if key in ("in_spec", "out_spec", "context"):
        try:
            parsed = json.loads(text)
        except ValueError:
            return _NAME.fullmatch(text) is not None
        _check_json(parsed, member, "context" if isinstance(parsed, dict | list) else "name")
        return True
    if key == "path_name":
        return _PAYLOAD.fullmatch(text) is not None
    if key == "target" and "." in text:
        return _TARGET.fullmatch(text) is not None and text not in _OPERATOR_CALLERS
    if key in ("name", "as_name", "target", "forward_arg_names", "type"):
        return _NAME.fullmatch(text) is not None
    return True


def is_arithmetic(text: str) -> bool:
    """Say whether a text, read as a Python expression, only computes with sizes."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return "\n" not in text and all(_is_arithmetic_node(node) for node in ast.walk(tree))


def _is_arithmetic_node(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        function = node.func
        return isinstance(function, ast.Attribute) or (
            isinstance(function, ast.Name) and function.id in _SYMPY_FUNCTIONS
        )
    if isinstance(node, ast.Attribute):
        return node.attr in _TENSOR_METHODS
    if isinstance(node, ast.Constant):
        value = node.value
        return not isinstance(value, bytes) and (
            not isinstance(value, str) or _NAME.fullmatch(value) is not None
        )
    return isinstance(node, _ARITHMETIC_NODES)
