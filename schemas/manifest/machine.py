"""Where and how models run, as data: frameworks, scenarios, hardware and software."""

from typing import Literal

from pydantic import Field

from schemas.manifest.described import DescribedManifest
from schemas.message import Message
from schemas.values.framework_names import FrameworkName
from schemas.values.json_values import JsonObject
from schemas.values.numbers import Integer


class FrameworkManifest(Message):
    """A build of a framework, and its container images by architecture and device."""

    kind: Literal["framework"] = "framework"
    name: FrameworkName
    version: str
    description: str = ""
    containers: dict[str, dict[str, str]] = Field(default_factory=dict)
    #: description of each predictor option
    options: dict[str, str] = Field(default_factory=dict)
    #: default predictor options of every model on this build
    defaults: JsonObject = Field(default_factory=dict)


class ScenarioManifest(DescribedManifest):
    """Default parameters of a scenario, and its description."""

    kind: Literal["scenario"] = "scenario"
    parameters: JsonObject = Field(default_factory=dict)


class HardwareManifest(DescribedManifest):
    """Hardware of a machine as DLSpec describes it: required parts, and setup outside mlscope."""

    kind: Literal["hardware"] = "hardware"
    architecture: str = ""
    cpu: JsonObject = Field(default_factory=dict)
    accelerators: tuple[JsonObject, ...] = ()
    interconnect: str = ""
    memory_bytes: Integer = Field(default=0, ge=0)
    #: instructions for people, never executed: as `turbo off`
    setup: str = ""


class SoftwareManifest(DescribedManifest):
    """Software of a machine as DLSpec describes it: image, environment and packages."""

    kind: Literal["software"] = "software"
    container: str = ""
    environment: dict[str, str] = Field(default_factory=dict)
    packages: dict[str, str] = Field(default_factory=dict)
