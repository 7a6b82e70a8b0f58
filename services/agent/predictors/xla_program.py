"""What the instructions of a compiled XLA program are, read from its optimised HLO text. Pure.

A profile names instructions; the text has their shapes, what was fused into them, and in `op_name`
the scopes that the model's author gave (`jit(f)/layer1/dot_general`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from services.agent.predictors.natures import Nature, Shapes, plain_flops, product_flops
from services.agent.predictors.xla_graphs import Graphable

_COMPUTATION = re.compile(r"^(?:ENTRY )?%?(?P<name>[\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(
    r"^\s+(?P<root>ROOT )?%?(?P<name>[\w.\-]+) = "
    r"(?P<type>\(.*?\)|\S+) (?P<opcode>[\w\-]+)\((?P<rest>.*)$"
)
_TENSOR = re.compile(r"(?P<type>[a-z]\w*)\[(?P<sizes>[\d,]*)\]")
_OPERAND = re.compile(r"%([\w.\-]+)")
_OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_WRAPPING = re.compile(r"p?jit\(|(?:Stateful)?PartitionedCall|main$")
_CALLS = re.compile(r"calls=%?([\w.\-]+)")
_CONTRACTED = re.compile(r"lhs_contracting_dims=\{([\d,]*)\}")
_GEMM = re.compile(r'custom_call_target="__cublas.*"lhs_contracting_dimensions":\[([\d,"]*)\]')
"""cuBLAS' and cuBLASLt's products say in `backend_config` what they sum over."""
_SCRATCH = ("u8", "s8")
_KERNEL = re.compile(r"dim_labels=\w+_(\w+)->")
_DILATED = re.compile(r"lhs_dilate=([\dx]+)")
_TRANSPOSED = '"__cudnn$convBackwardInput"'
_WINDOW = re.compile(r"window=\{size=([\dx]+)")
_BITS = re.compile(r"\d+")
_PLAIN: Mapping[str, str] = {
    "maximum": "max", "minimum": "min", "exponential": "exp", "subtract": "sub",
    "multiply": "mul", "divide": "div", "logistic": "sigmoid", "power": "pow", "negate": "neg",
}  # fmt: skip
_HEAVY = ("convolution", "dot", "custom-call", "reduce-window", "reduce")
_TAKING = ("gather", "dynamic-slice", "slice")
_SAME_BYTES = ("bitcast", "reshape")
HOLDING = ("while", "conditional", "call")
"""Instructions whose time is that of others."""
_STARTING = frozenset(
    {
        *("fusion", "custom-call", "convolution", "dot", "copy", "reduce", "reduce-window"),
        *("sort", "scatter", "gather", "rng", "fft", "cholesky", "triangular-solve"),
    }
)
"""Instructions that a GPU runs a kernel for."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line of a program: its results as (element type, shape), and what is behind its name."""

    name: str
    opcode: str
    results: tuple[tuple[str, tuple[int, ...]], ...]
    operands: tuple[str, ...]
    rest: str
    is_root: bool

    @property
    def op_name(self) -> str:
        """Where in the model's code it comes from; '' when XLA made it."""
        found = _OP_NAME.search(self.rest)
        if found is None:
            return ""
        # XLA joins the names of what it merged with `;`; the last is where it ended.
        parts = _ESCAPED.sub(r"\1", found[1]).rpartition(";")[2].split("/")
        kept = [part for part in parts if not _WRAPPING.match(part)]
        return "/".join(kept) or parts[-1]


Computation = Mapping[str, Instruction]


@dataclass(slots=True)
class Program:
    """A compiled program's computations by name, and its instructions' rows as they are asked."""

    provider: str
    computations: Mapping[str, Computation]
    _owners: dict[str, Computation] = field(default_factory=dict)
    _rows: dict[tuple[str, int], tuple[str, bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Note which computation each instruction is in."""
        for computation in self.computations.values():
            for name in computation:
                self._owners[name] = computation

    def holds_others(self, name: str) -> bool:
        """Whether an instruction only runs others."""
        owner = self._owners.get(name)
        return owner is not None and owner[name].opcode in HOLDING

    def knows(self, name: str) -> bool:
        """Whether a name is one of its instructions'."""
        return name in self._owners

    def graphable(self) -> list[Graphable]:
        """Return the instructions that start kernels in the order of the schedule.

        They are of the entry computation: the last one of a program's text.
        """
        computations = list(self.computations.values())
        entry: Computation = computations[-1] if computations else {}
        return [
            Graphable(name, self.row(name, 0)[0])
            for name, one in entry.items()
            if one.opcode in _STARTING
        ]

    def row(self, name: str, nth: int) -> tuple[str, bytes]:
        """Return the layer name and attributes of an instruction's nth run in a call."""
        key = (name, nth)
        if key not in self._rows:
            self._rows[key] = self._described(name)
        return self._rows[key]

    def _described(self, name: str) -> tuple[str, bytes]:
        owner = self._owners.get(name)
        if owner is None:
            return name, Nature(len(self._rows), name.split(".")[0], provider=self.provider).text()
        one = owner[name]
        inside = list(self._inside(one))
        origins = list(dict.fromkeys(each.op_name for each in inside if each.op_name))
        given = [owner[each] for each in one.operands if each in owner]
        written = _bytes(one.results)
        nature = Nature(
            index=len(self._rows),
            type=_type_of(one, inside),
            shapes=[shape for _, shape in one.results],
            input_shapes=[shape for each in given for _, shape in each.results],
            provider=self.provider,
            original=origins,
            memory_bytes=written,
            memory_kind="outputs",
            flops=self._flops(one),
            bytes_read=self._bytes_read(one, owner),
            bytes_written=_bytes(_products(one)),
            more={"instruction": name},
        )
        own = one.op_name or next((each.op_name for each in inside if each.is_root), "")
        return own or next(iter(reversed(origins)), name), nature.text()

    def _inside(self, one: Instruction) -> Iterator[Instruction]:
        """Yield an instruction, or those that were fused into it."""
        called = _CALLS.search(one.rest)
        if called is None or called[1] not in self.computations:
            yield one
            return
        for each in self.computations[called[1]].values():
            yield from self._inside(each)

    def _bytes_read(self, one: Instruction, owner: Computation) -> int:
        """Return the bytes of an instruction's operands; of those it only takes rows of, these.

        Source: XLA's HloCostAnalysis, which counts of a gather and of slices what they return, in
        a fusion where nothing else there uses that operand.
        """
        called = _CALLS.search(one.rest)
        fused = self.computations.get(called[1]) if called else None
        total = 0
        for place, name in enumerate(one.operands):
            whole = _bytes(owner[name].results) if name in owner else 0
            taken = None
            if fused is not None:
                inner = (each for each in fused.values() if each.opcode == "parameter")
                known = next((each for each in inner if each.rest.startswith(f"{place})")), None)
                taken = _taken_bytes(known.name, fused) if known is not None else None
            elif one.opcode in _TAKING and place == 0:
                taken = _bytes(one.results)
            total += whole if taken is None else min(whole, taken)
        return total

    def _flops(self, one: Instruction) -> int | None:
        called = _CALLS.search(one.rest)
        if called is not None and called[1] in self.computations:
            parts = [self._flops(each) for each in self.computations[called[1]].values()]
            return None if None in parts else sum(part or 0 for part in parts)
        return _own_flops(one, self._owners[one.name])


def program_of(text: str, provider: str) -> Program:
    """Return a program from its HLO text."""
    return Program(provider, dict(_computations(text.splitlines())))


def _computations(lines: Iterable[str]) -> Iterator[tuple[str, Computation]]:
    name, found = "", dict[str, Instruction]()
    for line in lines:
        header = _COMPUTATION.match(line)
        if header:
            name, found = header["name"], {}
        elif line.startswith("}") and name:
            yield name, found
        else:
            matched = _INSTRUCTION.match(line)
            if matched:
                one = _instruction(matched)
                found[one.name] = one


def _instruction(matched: re.Match[str]) -> Instruction:
    results = tuple(
        (each["type"], tuple(int(size) for size in each["sizes"].split(",") if size))
        for each in _TENSOR.finditer(matched["type"])
    )
    operands = tuple(_OPERAND.findall(matched["rest"].partition(")")[0]))
    return Instruction(
        matched["name"],
        matched["opcode"],
        results,
        operands,
        matched["rest"],
        bool(matched["root"]),
    )


def _own_flops(one: Instruction, owner: Computation) -> int | None:
    """Return the FLOPs of an instruction that holds no others; None where it does not say."""
    outputs = [shape for _, shape in one.results]
    given = [owner[each].results[0][1] for each in one.operands if each in owner]
    if one.opcode == "dot" and given:
        contracted = _CONTRACTED.search(one.rest)
        axes = [int(axis) for axis in contracted[1].split(",") if axis] if contracted else []
        return product_flops(outputs, prod(given[0][axis] for axis in axes))
    if one.opcode == "convolution" and len(given) > 1:
        return _convolution_flops(one, given, outputs)
    if one.opcode == "reduce" and given:
        return prod(given[0])
    if one.opcode == "reduce-window":
        window = _WINDOW.search(one.rest)
        return (
            product_flops(outputs, 1) // 2 * prod(map(int, window[1].split("x")) if window else ())
        )
    if one.opcode == "custom-call":
        return _library_flops(one, given, outputs)
    if one.opcode in HOLDING:
        return None
    return plain_flops(_PLAIN.get(one.opcode, one.opcode), given, outputs) or 0


def _convolution_flops(one: Instruction, given: Shapes, outputs: Shapes) -> int:
    """Return a convolution's FLOPs; a transposed one's zeros between its inputs are not counted."""
    labels = _KERNEL.search(one.rest)
    place = labels[1].index("o") if labels else -1
    of = given if _TRANSPOSED in one.rest else outputs
    dilated = _DILATED.search(one.rest)
    zeros = prod(map(int, dilated[1].split("x"))) if dilated else 1
    return product_flops(of, prod(given[1]) // max(1, given[1][place])) // zeros


def _library_flops(one: Instruction, given: Shapes, outputs: Shapes) -> int | None:
    """Return the FLOPs of cuDNN's convolutions and cuBLAS' products; None of other libraries'.

    What they add or activate behind the product is not counted, as it is less than 1 %.
    """
    if len(given) > 1 and _KERNEL.search(one.rest):
        return _convolution_flops(one, given, outputs)
    if given and (summed := _GEMM.search(one.rest)):
        axes = [int(axis) for axis in summed[1].replace('"', "").split(",") if axis]
        return product_flops(outputs, prod(given[0][axis] for axis in axes))
    return None


def _products(one: Instruction) -> Sequence[tuple[str, Sequence[int]]]:
    """Return an instruction's results without the working memory that a library was lent."""
    if one.opcode != "custom-call":
        return one.results
    return [
        each
        for at, each in enumerate(one.results)
        if not at or each[0] not in _SCRATCH or len(each[1]) != 1
    ]


def _taken_bytes(name: str, fused: Computation) -> int | None:
    """Return the bytes that a fusion takes of a tensor by rows; None where it uses the whole."""
    total = 0
    for user in fused.values():
        if name not in user.operands:
            continue
        taken = None
        if user.opcode in _TAKING and name not in user.operands[1:]:
            taken = _bytes(user.results)
        elif user.opcode in _SAME_BYTES and not user.is_root:
            taken = _taken_bytes(user.name, fused)
        if taken is None:
            return None
        total += taken
    return total


def _type_of(one: Instruction, inside: Sequence[Instruction]) -> str:
    """Return an instruction's opcode; of a fusion the heaviest one in it."""
    if one.opcode != "fusion":
        return one.opcode
    kinds = {each.opcode for each in inside}
    heaviest = next((kind for kind in _HEAVY if kind in kinds), "")
    root = next((each.opcode for each in inside if each.is_root), "")
    return f"{heaviest or root} fusion".strip()


def _bytes(results: Iterable[tuple[str, Sequence[int]]]) -> int:
    return sum(_bits(kind) * prod(shape) // 8 for kind, shape in results)


def _bits(kind: str) -> int:
    found = _BITS.search(kind)
    return int(found[0]) if found else 8 if kind == "pred" else 0
