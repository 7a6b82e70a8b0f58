"""What can go wrong on an agent. `kind` is what `RunFailed.error` says of it."""

from collections.abc import Iterable
from typing import ClassVar


class AgentError(Exception):
    """A run can't be done here."""

    kind: ClassVar[str] = "open"


class UnknownStep(AgentError):
    """No operator of this name is known."""

    def __init__(self, operator: str, known: Iterable[str]) -> None:
        """Name the operator asked for and those there are."""
        self.operator, self.known = operator, tuple(sorted(known))
        super().__init__(f"unknown step {operator!r}; known: {', '.join(self.known)}")


class BadParameter(AgentError):
    """A parameter of a step is missing, unknown or out of range."""

    def __init__(self, operator: str, field: str, found: object, expected: str) -> None:
        """Name the step, its parameter, what was found and what is expected."""
        self.operator, self.field, self.found, self.expected = operator, field, found, expected
        super().__init__(f"step {operator}: {field} must be {expected} (found {found!r})")


class UnknownFramework(AgentError):
    """No predictor for this framework is installed here."""

    def __init__(self, framework: str, known: Iterable[str]) -> None:
        """Name the framework asked for and those there are."""
        self.framework, self.known = framework, tuple(sorted(known))
        super().__init__(f"no predictor for {framework!r}; known: {', '.join(self.known)}")


class BadOption(AgentError):
    """A predictor's option is unknown or out of range."""

    def __init__(self, option: str, found: object, expected: str) -> None:
        """Name the option, what was found and what is expected."""
        self.option, self.found, self.expected = option, found, expected
        super().__init__(f"option {option} must be {expected} (found {found!r})")


class PackageMissing(AgentError):
    """Something needs a Python package that is not installed here."""

    def __init__(self, needed_by: str, reason: str) -> None:
        """Name what needs it and the import's own words."""
        self.needed_by, self.reason = needed_by, reason
        super().__init__(f"{needed_by} can't be used here: {reason}")


class OpenFailed(AgentError):
    """The framework could not open the model."""

    def __init__(self, model: str, reason: str) -> None:
        """Name the model and the framework's own words."""
        self.model, self.reason = model, reason
        super().__init__(f"cannot open {model}: {reason}")


class AssetError(AgentError):
    """A file of a model or dataset can't be used."""

    kind = "assets"


class AssetMissing(AssetError):
    """A file is not where its manifest says."""

    def __init__(self, path: str, reason: str) -> None:
        """Name the file and why it can't be read."""
        self.path, self.reason = path, reason
        super().__init__(f"asset {path}: {reason}")


class AssetUnchecked(AssetError):
    """A file has no checksum in its manifest, so it is not used."""

    def __init__(self, path: str) -> None:
        """Name the file."""
        self.path = path
        super().__init__(f"asset {path}: its manifest has no checksum")


class AssetUnverified(AssetError):
    """A file on the web has no checksum, and the request does not take it so."""

    def __init__(self, address: str) -> None:
        """Give its address."""
        self.address = address
        super().__init__(
            f"asset {address}: its manifest has no checksum; "
            "it is used only with the option weights=unverified"
        )


class AssetUnusable(AssetError):
    """A file could not be brought; the reason names it."""

    def __init__(self, reason: str) -> None:
        """Give the words of who tried."""
        self.reason = reason
        super().__init__(reason)


class ChecksumMismatch(AssetError):
    """A file is not what its checksum says."""

    def __init__(self, path: str, expected: str, found: str, algorithm: str = "sha256") -> None:
        """Name the file, both checksums and how they are made."""
        self.path, self.expected, self.found = path, expected, found
        self.algorithm = algorithm
        super().__init__(f"asset {path}: {algorithm} {found}, expected {expected}")


class PathEscapes(AssetError):
    """A path leads out of the manifests folder."""

    def __init__(self, path: str) -> None:
        """Name the path."""
        self.path = path
        super().__init__(f"asset {path}: leads out of the manifests folder")


class FolderForbidden(AssetError):
    """A dataset lies in a folder of this host that the agent's owner did not allow."""

    def __init__(self, path: str, allowed: Iterable[str]) -> None:
        """Name the path and the folders that are allowed."""
        self.path, self.allowed = path, tuple(allowed)
        below = ", ".join(self.allowed) or "none"
        super().__init__(
            f"dataset {path}: folders of the agent's host are read only below those its owner "
            f"allows in MLSCOPE_DATASET_FOLDERS ({below})"
        )


class DatasetUnusable(AgentError):
    """The dataset does not supply what the model takes."""

    kind = "dataset"

    def __init__(self, dataset: str, reason: str) -> None:
        """Name the dataset and what is wrong."""
        self.dataset, self.reason = dataset, reason
        super().__init__(f"dataset {dataset}: {reason}")


class BatchSizeUnsupported(AgentError):
    """The model's input does not take this batch size."""

    kind = "batch_size"

    def __init__(self, batch_size: int, name: str, shape: Iterable[object]) -> None:
        """Name the batch size, the input and its shape."""
        self.batch_size, self.name, self.shape = batch_size, name, tuple(shape)
        text = ", ".join(str(size) for size in self.shape)
        super().__init__(f"batch size {batch_size} does not fit input {name} of shape [{text}]")


class MemoryExhausted(AgentError):
    """A session needs more memory than its worker can have."""

    kind = "batch_size"

    def __init__(self, batch_size: int, reason: str) -> None:
        """Name the batch size and what could not be had."""
        self.batch_size, self.reason = batch_size, reason
        super().__init__(
            f"batch size {batch_size} needs more memory than there is here: {reason}; "
            "ask for a smaller one"
        )


class WorkerTooLarge(AgentError):
    """A worker holds more memory than its agent's owner allows."""

    kind = "memory"

    def __init__(self, held_bytes: int, most_bytes: int) -> None:
        """Give what it held when it was ended, and what it may hold."""
        self.held_bytes, self.most_bytes = held_bytes, most_bytes
        super().__init__(
            f"the worker held {held_bytes} bytes of memory, it may hold {most_bytes}: "
            "ask for a smaller batch size, or have MLSCOPE_WORKER_MEMORY_BYTES raised"
        )


class PredictFailed(AgentError):
    """The framework failed on a batch."""

    kind = "predict"

    def __init__(self, reason: str) -> None:
        """Give the framework's own words."""
        self.reason = reason
        super().__init__(f"predict: {reason}")


class Stopped(AgentError):
    """The run was ended from outside."""

    kind = "stopped"

    def __init__(self, reason: str = "") -> None:
        """Say who or what ended it."""
        self.reason = reason
        super().__init__(reason or "stopped on request")


class RunTimedOut(AgentError):
    """The run took longer than it may."""

    kind = "timeout"

    def __init__(self, seconds: float, doing: str) -> None:
        """Name the bound and what was going on."""
        self.seconds, self.doing = seconds, doing
        super().__init__(f"{doing} took longer than {seconds:g} s")


class WorkerDied(AgentError):
    """The worker process ended in the middle of its work."""

    kind = "worker_died"

    def __init__(self, how: str, last_words: str = "") -> None:
        """Say how it ended (exit status or signal) and the end of its stderr."""
        self.how, self.last_words = how, last_words
        super().__init__(f"worker {how}" + (f": {last_words}" if last_words else ""))


class DeviceLost(AgentError):
    """The device is gone for this process: its worker is replaced, and another attempt may do."""

    kind = "worker_died"

    def __init__(self, reason: str) -> None:
        """Give the framework's own words."""
        self.reason = reason
        super().__init__(f"the worker lost its device: {reason}")


class SampleUnusable(AgentError):
    """One sample can't be pre-processed; its query fails and others go on."""

    kind = "dataset"

    def __init__(self, sample: int, operator: str, reason: str) -> None:
        """Name the sample, the operator it failed in and why."""
        self.sample, self.operator, self.reason = sample, operator, reason
        super().__init__(f"sample {sample}: {operator}: {reason}")


class CodeError(AgentError):
    """A model's inline Python can't be used."""

    kind = "inline"


class CodeRefused(CodeError):
    """A model brings inline Python, and the agent's owner does not allow it."""

    def __init__(self, model: str) -> None:
        """Name the model."""
        self.model = model
        super().__init__(
            f"{model} brings inline Python, which this agent does not run; "
            "its owner allows it with MLSCOPE_ALLOW_INLINE_PYTHON=true"
        )


class CodeFailed(CodeError):
    """Inline Python can't be run, or was ended because it broke a limit."""

    def __init__(self, name: str, reason: str) -> None:
        """Name the manifest's field and what happened, with the line where it is known."""
        self.name, self.reason = name, reason
        super().__init__(f"inline Python, {name}: {reason}")


class CodeRaised(CodeError):
    """Inline Python raised an error over one sample or query; others go on."""

    def __init__(self, name: str, reason: str) -> None:
        """Name the manifest's field, and give the line and the error's own words."""
        self.name, self.reason = name, reason
        super().__init__(reason)


class RingBroken(AgentError):
    """A record of the ring is not what its checksum says."""

    kind = "worker_died"


class BundleBroken(AgentError):
    """A bundle file is cut short or altered."""

    def __init__(self, path: str, reason: str) -> None:
        """Name the file and what is wrong with it."""
        self.path, self.reason = path, reason
        super().__init__(f"bundle {path}: {reason}")


class NameTaken(AgentError):
    """Another start holds the lease of this agent's name, and lives."""

    def __init__(self, agent: str, host: str, incarnation: str) -> None:
        """Give the name, and the holder's host and start."""
        self.agent, self.host, self.incarnation = agent, host, incarnation
        super().__init__(
            f"an agent called {agent} lives already, on host {host or 'unknown'} "
            f"(start {incarnation}); set MLSCOPE_AGENT_ID to another name, or stop that one"
        )
