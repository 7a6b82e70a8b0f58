"""Parse the optimised HLO text of a compiled XLA program and describe its instructions. Pure.

A profile names instructions. The text has their shapes, the instructions that were fused into them,
and in `op_name` the scopes that the model's author gave (`jit(f)/layer1/dot_general`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

from mlscope.tracing.layer_attributes import LayerAttributes, Shapes, plain_flops, product_flops
from services.agent.predictors.xla.graphs import Graphable

_COMPUTATION = re.compile(r"^(?:ENTRY )?%?(?P<name>[\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(
    r"^\s+(?P<root>ROOT )?%?(?P<name>[\w.\-]+) = "
    r"(?P<type>\(.*?\)|\S+) (?P<opcode>[\w\-]+)\((?P<arguments>.*)$"
)
_TENSOR = re.compile(r"(?P<type>[a-z]\w*)\[(?P<sizes>[\d,]*)\]")
_OPERAND = re.compile(r"%([\w.\-]+)")
_OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_WRAPPER = re.compile(r"p?jit\(|(?:Stateful)?PartitionedCall|main$")
_CALLS = re.compile(r"calls=%?([\w.\-]+)")
_CONTRACTED = re.compile(r"lhs_contracting_dims=\{([\d,]*)\}")
_GEMM = re.compile(r'custom_call_target="__cublas.*"lhs_contracting_dimensions":\[([\d,"]*)\]')
"""`backend_config` of a cuBLAS or cuBLASLt product names the dimensions that it sums over."""
_SCRATCH_TYPES = ("u8", "s8")
_KERNEL = re.compile(r"dim_labels=\w+_(\w+)->")
_DILATED = re.compile(r"lhs_dilate=([\dx]+)")
_TRANSPOSED = '"__cudnn$convBackwardInput"'
_WINDOW = re.compile(r"window=\{size=([\dx]+)")
_BITS = re.compile(r"\d+")
_PLAIN_NAMES: Mapping[str, str] = {
    "maximum": "max", "minimum": "min", "exponential": "exp", "subtract": "sub",
    "multiply": "mul", "divide": "div", "logistic": "sigmoid", "power": "pow", "negate": "neg",
}  # fmt: skip
_HEAVY_OPCODES = ("convolution", "dot", "custom-call", "reduce-window", "reduce")
"""Opcodes that a fusion is named after, the most expensive first."""
_ROW_OPCODES = ("gather", "dynamic-slice", "slice")
"""Opcodes that read only some rows of their first operand."""
_SAME_BYTES = ("bitcast", "reshape")
CONTAINER_OPCODES = ("while", "conditional", "call")
"""Instructions that only run others; their time is the time of those."""
_KERNEL_OPCODES = frozenset({
    "fusion", "custom-call", "convolution", "dot", "copy", "reduce", "reduce-window",
    "sort", "scatter", "gather", "rng", "fft", "cholesky", "triangular-solve",
})  # fmt: skip
"""Instructions that a GPU runs a kernel for."""

Result = tuple[str, tuple[int, ...]]
"""A tensor's element type (`f32`) and its shape in elements."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line of a program's text."""

    name: str
    opcode: str
    results: tuple[Result, ...]
    operands: tuple[str, ...]
    #: the text behind the opcode's parenthesis: operands, then attributes and metadata
    arguments: str
    is_root: bool

    @property
    def op_name(self) -> str:
        """The scope in the model's code that it comes from; '' when XLA made it."""
        quoted = _OP_NAME.search(self.arguments)
        if quoted is None:
            return ""
        # XLA joins the names of the operations it merged with `;`; the last is where it ended.
        scopes = _ESCAPED.sub(r"\1", quoted[1]).rpartition(";")[2].split("/")
        return "/".join(scope for scope in scopes if not _WRAPPER.match(scope)) or scopes[-1]


Computation = Mapping[str, Instruction]
"""The instructions of one computation by name, in the order of the schedule."""


@dataclass(slots=True)
class Program:
    """A compiled program: its computations by name, and the layers of its instructions.

    `provider` is written into the attributes of each layer.
    """

    provider: str
    computations: Mapping[str, Computation]
    _owners: dict[str, Computation] = field(default_factory=dict)
    _rows: dict[tuple[str, int], tuple[str, bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Note which computation each instruction is in."""
        for computation in self.computations.values():
            for name in computation:
                self._owners[name] = computation

    def is_container(self, name: str) -> bool:
        """Say whether an instruction only runs others."""
        owner = self._owners.get(name)
        return owner is not None and owner[name].opcode in CONTAINER_OPCODES

    def has_instruction(self, name: str) -> bool:
        """Say whether the program has an instruction of this name."""
        return name in self._owners

    def graphable(self) -> list[Graphable]:
        """Return the instructions that start kernels, in the order of the schedule.

        They are those of the entry computation, which is the last one of a program's text.
        """
        computations = list(self.computations.values())
        entry: Computation = computations[-1] if computations else {}
        return [
            Graphable(name, self.row(name, 0)[0])
            for name, instruction in entry.items()
            if instruction.opcode in _KERNEL_OPCODES
        ]

    def row(self, name: str, nth: int) -> tuple[str, bytes]:
        """Return a layer's name and its attributes as JSON.

        The layer is the run number `nth`, from 0, of the instruction `name` within one call.
        """
        key, index = (name, nth), len(self._rows)
        if key in self._rows:
            return self._rows[key]
        owner = self._owners.get(name)
        if owner is None:
            unknown = LayerAttributes(index, name.split(".")[0], provider=self.provider)
            self._rows[key] = (name, unknown.text())
            return self._rows[key]
        instruction = owner[name]
        fused = list(self._fused(instruction))
        origins = list(dict.fromkeys(inner.op_name for inner in fused if inner.op_name))
        root = next((inner for inner in fused if inner.is_root), None)
        opcode = instruction.opcode
        if opcode == "fusion":
            opcodes = {inner.opcode for inner in fused}
            heaviest = next((heavy for heavy in _HEAVY_OPCODES if heavy in opcodes), "")
            opcode = f"{heaviest or (root.opcode if root else '')} fusion".strip()
        inputs = [owner[operand] for operand in instruction.operands if operand in owner]
        # A library's call also returns the working memory that it was lent.
        written = [
            (kind, shape)
            for position, (kind, shape) in enumerate(instruction.results)
            if instruction.opcode != "custom-call"
            or not (position and kind in _SCRATCH_TYPES and len(shape) == 1)
        ]
        attributes = LayerAttributes(
            index=index,
            type=opcode,
            shapes=[shape for _, shape in instruction.results],
            input_shapes=[shape for operand in inputs for _, shape in operand.results],
            provider=self.provider,
            original=origins,
            memory_bytes=_bytes(instruction.results),
            memory_kind="outputs",
            flops=self._flops(instruction),
            bytes_read=self._bytes_read(instruction, owner),
            bytes_written=_bytes(written),
            extra={"instruction": name},
        )
        scope = instruction.op_name or (root.op_name if root else "")
        layer_name = scope or next(iter(reversed(origins)), name)
        self._rows[key] = (layer_name, attributes.text())
        return self._rows[key]

    def _called(self, instruction: Instruction) -> Computation | None:
        """Return the computation that a fusion runs; None of any other instruction."""
        called = _CALLS.search(instruction.arguments)
        return self.computations.get(called[1]) if called else None

    def _fused(self, instruction: Instruction) -> Iterator[Instruction]:
        """Yield the instructions that were fused into one, or itself where none were."""
        called = self._called(instruction)
        if called is None:
            yield instruction
            return
        for inner in called.values():
            yield from self._fused(inner)

    def _bytes_read(self, instruction: Instruction, owner: Computation) -> int:
        """Return the bytes of an instruction's operands; of a table only those of the rows read.

        Source: XLA's HloCostAnalysis, which counts for a gather and for slices the bytes that they
        return, in a fusion where nothing else there uses that operand.
        """
        fused = self._called(instruction)
        total = 0
        for position, name in enumerate(instruction.operands):
            all_bytes = _bytes(owner[name].results) if name in owner else 0
            row_bytes = None
            if fused is not None:
                parameter = parameter_at(fused, position)
                row_bytes = _row_bytes(parameter, fused) if parameter is not None else None
            elif instruction.opcode in _ROW_OPCODES and position == 0:
                row_bytes = _bytes(instruction.results)
            total += all_bytes if row_bytes is None else min(all_bytes, row_bytes)
        return total

    def _flops(self, instruction: Instruction) -> int | None:
        """Return an instruction's FLOPs, in a fusion those of all parts; None when unknown."""
        called = self._called(instruction)
        if called is None:
            return _own_flops(instruction, self._owners[instruction.name])
        parts = [self._flops(inner) for inner in called.values()]
        return None if None in parts else sum(part or 0 for part in parts)


def program_of(text: str, provider: str) -> Program:
    """Return a program from its HLO text."""
    computations = dict[str, Computation]()
    name, instructions = "", dict[str, Instruction]()
    for line in text.splitlines():
        if header := _COMPUTATION.match(line):
            name, instructions = header["name"], {}
        elif line.startswith("}") and name:
            computations[name] = instructions
        elif matched := _INSTRUCTION.match(line):
            results = tuple(
                (tensor["type"], tuple(int(size) for size in tensor["sizes"].split(",") if size))
                for tensor in _TENSOR.finditer(matched["type"])
            )
            instructions[matched["name"]] = Instruction(
                matched["name"],
                matched["opcode"],
                results,
                tuple(_OPERAND.findall(matched["arguments"].partition(")")[0])),
                matched["arguments"],
                bool(matched["root"]),
            )
    return Program(provider, computations)


def parameter_at(fused: Computation, position: int) -> str | None:
    """Return the name, in a fused computation, of the operand at a `position`; None without it."""
    for inner in fused.values():
        if inner.opcode == "parameter" and inner.arguments.startswith(f"{position})"):
            return inner.name
    return None


def _own_flops(instruction: Instruction, owner: Computation) -> int | None:
    """Return the FLOPs of an instruction without a computation of its own; None when unknown.

    Of libraries, cuDNN's convolutions and cuBLAS' products are known. What they add or activate
    behind the product is not counted, as it is less than 1%.
    """
    opcode, text = instruction.opcode, instruction.arguments
    outputs = [shape for _, shape in instruction.results]
    inputs = [owner[name].results[0][1] for name in instruction.operands if name in owner]
    if opcode == "dot" and inputs:
        return _product_flops(_CONTRACTED.search(text), inputs, outputs)
    is_library = opcode == "custom-call"
    if len(inputs) > 1 and (opcode == "convolution" or (is_library and _KERNEL.search(text))):
        return convolution_flops(text, inputs, outputs)
    if opcode == "reduce" and inputs:
        return prod(inputs[0])
    if opcode == "reduce-window":
        window = _WINDOW.search(text)
        elements = prod(map(int, window[1].split("x"))) if window else 1
        return product_flops(outputs, 1) // 2 * elements
    if is_library:
        gemm = _GEMM.search(text) if inputs else None
        return _product_flops(gemm, inputs, outputs) if gemm else None
    if opcode in CONTAINER_OPCODES:
        return None
    return plain_flops(_PLAIN_NAMES.get(opcode, opcode), inputs, outputs) or 0


def _product_flops(contracted: re.Match[str] | None, inputs: Shapes, outputs: Shapes) -> int:
    """Return a matrix product's FLOPs; `contracted` lists the axes of the first input it sums."""
    axes = contracted[1].replace('"', "").split(",") if contracted else []
    return product_flops(outputs, prod(inputs[0][int(axis)] for axis in axes if axis))


def convolution_flops(text: str, inputs: Shapes, outputs: Shapes) -> int:
    """Return a convolution's FLOPs, without the zeros a transposed one has between its inputs.

    `text` is the instruction's, `inputs` and `outputs` are shapes in elements; the second input is
    the kernel.
    """
    labels = _KERNEL.search(text)
    output_axis = labels[1].index("o") if labels else -1
    kernel = inputs[1]
    dilated = _DILATED.search(text)
    zeros = prod(map(int, dilated[1].split("x"))) if dilated else 1
    products = prod(kernel) // max(1, kernel[output_axis])
    return product_flops(inputs if _TRANSPOSED in text else outputs, products) // zeros


def _row_bytes(name: str, fused: Computation) -> int | None:
    """Return the bytes that a fusion reads of a tensor by rows; None where it reads all of it."""
    total = 0
    for user in fused.values():
        if name not in user.operands:
            continue
        row_bytes = None
        if user.opcode in _ROW_OPCODES and name not in user.operands[1:]:
            row_bytes = _bytes(user.results)
        elif user.opcode in _SAME_BYTES and not user.is_root:
            row_bytes = _row_bytes(user.name, fused)
        if row_bytes is None:
            return None
        total += row_bytes
    return total


def _bytes(results: Iterable[Result]) -> int:
    total = 0
    for element_type, shape in results:
        digits = _BITS.search(element_type)
        bits = int(digits[0]) if digits else 8 if element_type == "pred" else 0
        total += bits * prod(shape) // 8
    return total
