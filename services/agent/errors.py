"""The errors of an agent. `kind` is the value of `RunFailed.error`."""

from collections.abc import Iterable
from typing import ClassVar

from mlscope.datasets.errors import DatasetError


class AgentError(Exception):
    """A run can't be carried out on this agent."""

    kind: ClassVar[str] = "open"


class UnknownName(AgentError):
    """A step or a framework is not installed here."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        """Give what is named (its `kind`), its `name`, and the `known` names."""
        self.name, self.known = name, tuple(sorted(known))
        super().__init__(f"unknown {kind} {name!r}; known: {', '.join(self.known)}")


class BadParameter(AgentError):
    """A parameter of a step is missing, unknown or out of range."""

    def __init__(self, operator: str, field: str, value: object, expected: str) -> None:
        """Name the `operator`, its parameter `field`, the `value` found and what is `expected`."""
        self.operator, self.field, self.value, self.expected = operator, field, value, expected
        super().__init__(f"step {operator}: {field} must be {expected} (found {value!r})")


class BadOption(AgentError):
    """A predictor's option is unknown or out of range."""

    def __init__(self, option: str, value: object, expected: str) -> None:
        """Name the `option`, the `value` found and what is `expected`."""
        self.option, self.value, self.expected = option, value, expected
        super().__init__(f"option {option} must be {expected} (found {value!r})")


class DevicesNotFound(AgentError):
    """A predictor's package cannot look for its devices."""

    def __init__(self, framework: str, reason: str) -> None:
        """Name the framework and why."""
        self.framework, self.reason = framework, reason
        super().__init__(f"devices of framework {framework}: {reason}")


class PackageMissing(AgentError):
    """A Python package is needed that is not installed here."""

    def __init__(self, needed_by: str, reason: str) -> None:
        """Name what needs the package, and give the import's error text."""
        self.needed_by, self.reason = needed_by, reason
        super().__init__(f"{needed_by} can't be used here: {reason}")


class ModelNotAllowed(AgentError):
    """The agent's owner lets it open the models of its own catalog alone."""

    def __init__(self, model: str) -> None:
        """Name the model."""
        self.model = model
        super().__init__(
            f"{model} is not in this agent's own catalog (MLSCOPE_MANIFESTS) with verified files; "
            "its owner opens other models with MLSCOPE_MODELS=any"
        )


class OpenFailed(AgentError):
    """The framework could not open the model."""

    def __init__(self, model: str, reason: str) -> None:
        """Name the model, and give the framework's error text."""
        self.model, self.reason = model, reason
        super().__init__(f"cannot open {model}: {reason}")


class EngineFailed(AgentError):
    """The container engine does not do what it is asked for."""

    def __init__(self, engine: str, reason: str) -> None:
        """Name the engine, and give its error text."""
        self.engine, self.reason = engine, reason
        super().__init__(f"container engine {engine}: {reason}")


class GivenUp(AgentError):
    """An engine's answer is not waited for any longer: something else comes first."""


class ContainerRefused(AgentError):
    """A session can't be started in its container here."""

    def __init__(self, image: str, reason: str) -> None:
        """Name the image, and why it can't be started."""
        self.image, self.reason = image, reason
        super().__init__(f"container {image}: {reason}")


class FileUnusable(AgentError):
    """A file of a model or dataset can't be used."""

    kind = "assets"


class FileMissing(FileUnusable):
    """A file is missing where its manifest says it is."""

    def __init__(self, path: str, reason: str) -> None:
        """Name the file, and why it can't be read."""
        self.path, self.reason = path, reason
        super().__init__(f"asset {path}: {reason}")


class ChecksumMissing(FileUnusable):
    """A file has no checksum in its manifest, which is required."""

    def __init__(self, path: str) -> None:
        """Name the file."""
        self.path = path
        super().__init__(f"asset {path}: its manifest has no checksum; add its sha256")


class FileUnverified(FileUnusable):
    """A file from the web has no checksum, and the request does not accept that."""

    def __init__(self, address: str) -> None:
        """Give its address."""
        self.address = address
        super().__init__(
            f"asset {address}: its manifest has no checksum; "
            "it is used only with the option weights=unverified"
        )


class FetchFailed(FileUnusable):
    """A file could not be fetched; the reason names it."""

    def __init__(self, reason: str) -> None:
        """Give the error text of the fetcher."""
        self.reason = reason
        super().__init__(reason)


class WrongChecksum(FileUnusable):
    """A file does not fit its checksum."""

    def __init__(self, path: str, expected: str, digest: str, algorithm: str = "sha256") -> None:
        """Name the `path`, the `expected` digest, the file's `digest` and the `algorithm`."""
        self.path, self.expected, self.digest = path, expected, digest
        self.algorithm = algorithm
        super().__init__(f"asset {path}: {algorithm} {digest}, expected {expected}")


class PathOutsideManifests(FileUnusable):
    """A path leads outside the manifests folder."""

    def __init__(self, path: str) -> None:
        """Name the path."""
        self.path = path
        super().__init__(
            f"asset {path}: leads outside the manifests folder; move the file below that folder"
        )


class FolderForbidden(FileUnusable):
    """A dataset lies in a folder of this host that the agent's owner does not allow."""

    def __init__(self, path: str, allowed: Iterable[str]) -> None:
        """Name the path, and the folders that are allowed."""
        self.path, self.allowed = path, tuple(allowed)
        folders = ", ".join(self.allowed) or "none"
        super().__init__(
            f"dataset {path}: the agent reads folders of its host only below those that its owner "
            f"allows in MLSCOPE_DATASET_FOLDERS ({folders})"
        )


class DatasetUnusable(AgentError):
    """The dataset does not supply the inputs of the model."""

    kind = "dataset"

    def __init__(self, dataset: str, reason: str) -> None:
        """Name the dataset, and what is wrong with it."""
        self.dataset, self.reason = dataset, reason
        super().__init__(f"dataset {dataset}: {reason}")


class BatchSizeUnsupported(AgentError):
    """A model's input does not fit this batch size."""

    kind = "batch_size"

    def __init__(self, batch_size: int, name: str, shape: Iterable[object]) -> None:
        """Name the `batch_size`, and the input with its `name` and `shape`, batch included."""
        self.batch_size, self.name, self.shape = batch_size, name, tuple(shape)
        text = ", ".join(str(size) for size in self.shape)
        super().__init__(f"batch size {batch_size} does not fit input {name} of shape [{text}]")


class MemoryExhausted(AgentError):
    """A session needs more memory than its worker can get."""

    kind = "batch_size"

    def __init__(self, batch_size: int, reason: str) -> None:
        """Name the batch size, and what could not be allocated."""
        self.batch_size, self.reason = batch_size, reason
        super().__init__(
            f"batch size {batch_size} needs more memory than there is here: {reason}; "
            "ask for a smaller batch size"
        )


class ProcessesUnavailable(AgentError):
    """No processes can prepare samples here; threads do."""

    def __init__(self, reason: str) -> None:
        """Say why not."""
        self.reason = reason
        super().__init__(f"samples can't be prepared in processes: {reason}")


class PredictFailed(AgentError):
    """The framework failed on a batch."""

    kind = "predict"

    def __init__(self, reason: str) -> None:
        """Give the framework's error text."""
        self.reason = reason
        super().__init__(f"predict: {reason}")


class Stopped(AgentError):
    """The run was stopped by a command."""

    kind = "stopped"

    def __init__(self, reason: str = "") -> None:
        """Give the reason of the command."""
        self.reason = reason
        super().__init__(reason or "stopped on request")


class StopIgnored(Stopped):
    """A worker did not end a stopped run, and was killed for it."""

    def __init__(self) -> None:
        """Say that; the reason of the stop is added where it is known."""
        super().__init__("the worker did not stop the run and was killed")


class RunTimedOut(AgentError):
    """A run took longer than its time limit."""

    kind = "timeout"

    def __init__(self, seconds: float, doing: str, meanwhile: str = "") -> None:
        """Give the limit in `seconds`, what it was `doing`, and ` while …` what, `meanwhile`."""
        self.seconds, self.doing, self.meanwhile = seconds, doing, meanwhile
        super().__init__(f"{doing} took longer than {seconds:g} s{meanwhile}")


class SampleTimedOut(AgentError):
    """The preparation of one sample took longer than its time limit."""

    kind = "timeout"

    def __init__(self, sample: int, seconds: float) -> None:
        """Name the `sample` by its number, and give the limit in `seconds`."""
        self.sample, self.seconds = sample, seconds
        limit = f"{seconds:g} s (MLSCOPE_PREPARE_TIMEOUT_S)"
        super().__init__(f"sample {sample}: prepare took longer than {limit}")


class WorkerDied(AgentError):
    """The worker process ended during a run."""

    kind = "worker_died"

    def __init__(self, how: str, last_words: str = "") -> None:
        """Give how it ended (exit status or signal), and the last line of its stderr."""
        self.how, self.last_words = how, last_words
        super().__init__(f"worker {how}" + (f": {last_words}" if last_words else ""))


class DeviceLost(AgentError):
    """The worker's process can't use its device any more; a new worker and attempt may succeed."""

    kind = "worker_died"

    def __init__(self, reason: str) -> None:
        """Give the framework's error text."""
        self.reason = reason
        super().__init__(f"the worker lost its device: {reason}")


class SampleUnusable(AgentError):
    """One sample can't be pre-processed; only that sample fails."""

    kind = "dataset"

    def __init__(self, sample: int, operator: str, reason: str) -> None:
        """Name the `sample`, the `operator` that failed, and the `reason`."""
        self.sample, self.operator, self.reason = sample, operator, reason
        super().__init__(f"sample {sample}: {operator}: {reason}")


class CodeError(AgentError):
    """A model's inline Python can't be used."""

    kind = "inline"


class CodeRefused(CodeError):
    """A model includes inline Python, and the agent's owner does not allow it."""

    def __init__(self, model: str) -> None:
        """Name the model."""
        self.model = model
        super().__init__(
            f"{model} includes inline Python, which this agent does not run; "
            "its owner allows it with MLSCOPE_ALLOW_INLINE_PYTHON=true"
        )


class CodeFailed(CodeError):
    """Inline Python can't be run, or was ended because it exceeded a limit."""

    def __init__(self, name: str, reason: str) -> None:
        """Name the manifest's field, and what happened, with the line where it is known."""
        self.name, self.reason = name, reason
        super().__init__(f"inline Python, {name}: {reason}")


class CodeRaised(CodeError):
    """Inline Python raised an error for one sample or query; only those fail."""

    def __init__(self, name: str, reason: str) -> None:
        """Name the manifest's field, and give the line and the error text."""
        self.name, self.reason = name, reason
        super().__init__(reason)


class RingBroken(AgentError):
    """A record of the ring does not fit its checksum."""

    kind = "worker_died"


class NameTaken(AgentError):
    """Another living start holds the lease of this agent's name."""

    def __init__(self, agent: str, host: str, incarnation: str) -> None:
        """Name the `agent`, and the `host` and `incarnation` (start) that hold its lease."""
        self.agent, self.host, self.incarnation = agent, host, incarnation
        super().__init__(
            f"an agent called {agent} is already running on host {host or 'unknown'} "
            f"(start {incarnation}); set MLSCOPE_AGENT_ID to another name, or stop that one"
        )


# Names of release 0.1, for predictors of other packages. Release 0.3 drops them.
AssetError, AssetMissing, AssetUnchecked = FileUnusable, FileMissing, ChecksumMissing
AssetUnverified, AssetUnusable, ChecksumMismatch = FileUnverified, FetchFailed, WrongChecksum
PathEscapes = PathOutsideManifests

_PYTHON_ERRORS = (ValueError, TypeError, LookupError, ArithmeticError, OSError, MemoryError)
SAMPLE_ERRORS = (*_PYTHON_ERRORS, CodeRaised, DatasetError)
"""What an operator raises for a bad sample."""
