"""Packages that models need beside their framework: which work here, found without an import.

To import torchvision or timm takes seconds, so an agent tries what is cheap: whether Python finds
the package, whether the versions that it requires are installed, and whether PyTorch has the
libraries that torchvision was built for. The worker that opens a model imports them.
"""

import importlib.metadata
import mmap
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from schemas.agent import PackageFacts

_EXTRAS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "PIL": ("pillow", "images"),
        "efficientnet_lite_pytorch": ("efficientnet-lite-pytorch", "pytorch"),
        "keras": ("keras", "tensorflow"),
        "safetensors": ("safetensors", "pytorch"),
        "timm": ("timm", "vision"),
        "torchvision": ("torchvision", "vision"),
    }
)
"""By import name: the distribution, and the extra of mlscope that installs it."""
_COUPLED = frozenset({"h5py", "jax", "numpy", "pillow", "tensorflow", "torch", "torchvision"})
"""Requirements without which, or with other versions of which, a package cannot be imported."""
_CUDA_LIBRARY = "libtorch_cuda.so"
_ORT_BUILD = Path("capi", "build_and_package_info.py")
_ASSIGNED = re.compile(r"""^(?P<name>\w+)\s*=\s*['"](?P<text>[^'"]*)['"]""", re.MULTILINE)
"""An assignment of a text in a module of Python."""
_WHEELS = "https://download.pytorch.org/whl"


def package_facts(builders: Iterable[str]) -> Iterator[PackageFacts]:
    """Yield each package that a model may need here, and why it cannot be used.

    They are those of the `builders`, which are import paths, and those that decode and load.
    """
    roots = (path.partition(".")[0] for path in builders)
    for name in sorted({*_EXTRAS, *roots} - {"services"}):
        yield package_fact(name)


def package_fact(name: str) -> PackageFacts:
    """Return what is here of the package with an import `name`."""
    distribution, extra = _EXTRAS.get(name, (name.replace("_", "-"), ""))
    # Of a builder's package nobody knows under which name, if any, an index has it.
    install = f": pip install 'mlscope[{extra}]'" if extra else ""
    spec = _spec_of(name)
    if spec is None:
        return PackageFacts(name=name, reason=f"not installed{install}")
    try:
        version = importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return PackageFacts(name=name)  # a folder on the path: nothing says what it requires
    faults = "; ".join(requirement_faults(distribution, _COUPLED))
    if faults:
        return PackageFacts(name=name, version=version, reason=f"{faults}{install}")
    if name == "torchvision" and spec.origin:
        reason = torchvision_fault(Path(spec.origin).parent, version)
        return PackageFacts(name=name, version=version, reason=reason)
    if name == "timm":  # it imports torchvision
        return PackageFacts(name=name, version=version, reason=package_fact("torchvision").reason)
    return PackageFacts(name=name, version=version)


def onnxruntime_build() -> tuple[str, str] | None:
    """Return the distribution whose files are ONNX Runtime's, and its version; None where unknown.

    `onnxruntime` and `onnxruntime-gpu` have the same files: where both count as installed, the last
    one replaced those of the first, and only the build itself says which one it is.
    """
    spec = _spec_of("onnxruntime")
    if spec is None or spec.origin is None:
        return None
    try:
        text = (Path(spec.origin).parent / _ORT_BUILD).read_text("utf-8", "replace")
    except OSError:
        return None
    facts = {match["name"]: match["text"] for match in _ASSIGNED.finditer(text)}
    name, version = facts.get("package_name"), facts.get("__version__")
    return (name, version) if name and version else None


def requirement_faults(distribution: str, counted: Collection[str]) -> Iterator[str]:
    """Yield each requirement of an installed `distribution` that is missing or of another version.

    Requirements count whose names are among the `counted`; those of extras and of other systems
    never do, nor those that can't be read. A borrowed machine without `packaging` checks none.
    """
    try:
        from packaging.requirements import InvalidRequirement, Requirement
        from packaging.version import InvalidVersion
    except ImportError:
        return
    for text in importlib.metadata.requires(distribution) or ():
        with suppress(InvalidRequirement, InvalidVersion):
            requirement = Requirement(text)
            is_needed = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if not is_needed or requirement.name.lower() not in counted:
                continue
            try:
                version = importlib.metadata.version(requirement.name)
            except importlib.metadata.PackageNotFoundError:
                yield f"{distribution} needs {requirement.name}, which is not installed"
                continue
            if not requirement.specifier.contains(version, prereleases=True):
                required = f"{requirement.name}{requirement.specifier}"
                yield f"{distribution} needs {required}, and {version} is installed"


def torchvision_fault(folder: Path, version: str) -> str:
    """Return why the torchvision in a `folder` cannot load beside this PyTorch, '' where it can.

    A torchvision for CUDA asks for a library of PyTorch that a build for the CPU lacks; importing
    it then ends in "operator torchvision::nms does not exist". `version` is torchvision's.
    """
    torch = _spec_of("torch")
    if torch is None or torch.origin is None:
        return ""
    has_cuda = (Path(torch.origin).parent / "lib" / _CUDA_LIBRARY).exists()
    if has_cuda or not _has_text(folder / "_C.so", _CUDA_LIBRARY.encode()):
        return ""
    build = f"torch {importlib.metadata.version('torch')}"
    number = version.partition("+")[0]
    mend = (
        f"pip install --force-reinstall --no-deps torchvision=={number} --index-url {_WHEELS}/cpu"
    )
    return f"torchvision {version} is built for CUDA, and {build} is not: {mend}"


def _spec_of(name: str) -> ModuleSpec | None:
    """Return where Python finds a package, None where it finds none or a broken one."""
    try:
        return find_spec(name)
    except (ImportError, ValueError):
        return None


def _has_text(file: Path, text: bytes) -> bool:
    """Tell whether a `file` contains a `text`; False where it can't be read."""
    try:
        with (
            file.open("rb") as opened,
            mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            return content.find(text) >= 0
    except (OSError, ValueError):
        return False
