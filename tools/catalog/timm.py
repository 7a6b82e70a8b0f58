"""timm's models: the smaller ones of every family, with the metadata of their default weights.

timm has over a thousand architectures; `PER_FAMILY` of each of its modules are enough to have
every kind. The rest run just so: `builder: timm.create_model` and the name.

Of most weights timm knows a hub's repository alone, neither a commit nor a checksum: the manifest
says so, and they are used only on request. Some are also a file of timm's own releases, whose name
ends in the first digits of its sha256, and that one is named where it is loaded as it is.
"""

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from tools.catalog.entries import IMAGENET_LABELS, Entry, LabelFiles, Picture
from tools.catalog.releases import FILE as RELEASES_FILE

PER_FAMILY = 4
MOST_PARAMETERS = 100_000_000
_VERSION, _CORRECTED, _BOUNDED = "1.1.0", "1.2.0", "1.3.0"
"""What manifests say whose pictures are cropped and weights learnt from ImageNet-1K; others; and
those of models that some release of timm lacks.
"""
_FIRST_RELEASES: Mapping[str, str] = json.loads(RELEASES_FILE.read_text("utf-8"))

_LEARNT = re.compile(r"(?:^|_)in(?P<thousands>\d+)k(?=_|$)")
_UNSAID = "ssld"
"""Learnt from more pictures than the weights' tag names."""

_RELEASED = re.compile(
    r"(?P<base>https://github\.com/\w+/pytorch-image-models/releases/download/[^/]+/)"
    r"(?P<file>[^/]+-(?P<hash>[0-9a-f]{8,64})\.pth)"
)
_UNVERIFIABLE = "timm's metadata names a branch of the repository, no commit and no checksum"
_UNBUILDABLE = (RuntimeError, NotImplementedError, ValueError, TypeError, AssertionError)
"""What a model raises that does not build, or run, without memory."""


def entries(timm: Any, torch: Any, labels: LabelFiles) -> Iterator[Entry]:
    """Yield the chosen models, by name; each is built once without memory to be counted.

    `timm` and `torch` are the modules; `labels` gives the file of the classes.
    """
    families: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for name in timm.list_models():
        config = timm.models.get_pretrained_cfg(name)
        if config is None or not config.hf_hub_id or config.num_classes != 1000:
            continue
        if (parameters := parameters_of(timm, torch, name)) <= MOST_PARAMETERS:
            families[timm.models.model_entrypoint(name).__module__].append((parameters, name))
    chosen = sorted(
        model_name for family in families.values() for model_name in sorted(family)[:PER_FAMILY]
    )
    for parameters, name in sorted(chosen, key=lambda model_name: model_name[1]):
        config = timm.models.get_pretrained_cfg(name)
        sizes = {"parameters": parameters, "gmacs": gmacs_of(timm, torch, name, config.input_size)}
        weights = weights_of(config, changes_names=is_converted(timm, name))
        yield _entry(name, config, sizes, weights, labels)


def package(timm: Any) -> str:
    """Return what the entries come from."""
    return f"timm {timm.__version__}"


def parameters_of(timm: Any, torch: Any, name: str) -> int:
    """Return the number of parameters of the model `name`, built without memory.

    `timm` and `torch` are the modules. A model that does not build so has one too many.
    """
    try:
        with torch.device("meta"):
            model = timm.create_model(name, pretrained=False)
    except _UNBUILDABLE:
        return MOST_PARAMETERS + 1
    return sum(parameter.numel() for parameter in model.parameters())


def gmacs_of(timm: Any, torch: Any, name: str, size: Sequence[int]) -> float | None:
    """Return 10^9 multiply-adds of one picture, as torch counts them; None where it can't.

    Counted without memory: matrix products and convolutions, half a FLOP each. `timm` and `torch`
    are the modules, `name` is the model's, `size` is of its pictures: channels, height, width.
    """
    counter = import_module("torch.utils.flop_counter").FlopCounterMode(display=False)
    try:
        with torch.device("meta"):
            model = timm.create_model(name, pretrained=False).eval().requires_grad_(False)
            picture = torch.empty(1, *size)
        with counter:
            model(picture)
    except _UNBUILDABLE:
        return None
    flops: int = counter.get_total_flops()
    return round(flops / 2e9, 4)


def _entry(
    name: str,
    config: Any,
    sizes: Mapping[str, Any],
    weights: Mapping[str, str],
    labels: LabelFiles,
) -> Entry:
    learnt = training_dataset_of(config.tag or "")
    papers = config.paper_ids or []
    papers = [papers] if isinstance(papers, str) else list(papers)
    is_first = learnt == "ImageNet-1K" and config.crop_mode == "center"
    bound = bound_of(name)
    version = _BOUNDED if bound else _VERSION if is_first else _CORRECTED
    return Entry(
        name=f"timm-{name.replace('_', '-')}",
        task="image classification",
        description=f"{name} of timm, weights {config.tag or 'default'}.",
        framework="pytorch",
        framework_version=">=2.0",
        version=version,
        license=config.license or "",
        references=[*papers, *([config.origin_url] if config.origin_url else [])],
        inputs=[input_of(config)],
        outputs=[
            {
                "type": "classification",
                "layer_name": "scores",
                "element_type": "float32",
                "shape": [-1, config.num_classes],
                "steps": [{"softmax": None}, {"topk": None, "k": 5, "labels": IMAGENET_LABELS}],
            }
        ],
        model={
            **weights,
            "builder": "timm.create_model",
            **bound,
            "arguments": {"model_name": name, "pretrained": False},
            "assets": labels.imagenet(),
        },
        attributes={"weights": config.tag, **sizes, "training_dataset": learnt},
        dataset="photos",
    )


def bound_of(name: str) -> dict[str, str]:
    """Return the constraint on timm's version, for a model that not every release has."""
    first = _FIRST_RELEASES.get(name)
    return {"builder_version": f">={first}"} if first else {}


def training_dataset_of(tag: str) -> str:
    """Return the data sets that a weights' tag names, in the order of learning; "" for none."""
    if _UNSAID in tag:
        return ""
    named = (f"ImageNet-{match['thousands']}K" for match in _LEARNT.finditer(tag))
    return ", ".join(dict.fromkeys(named))


def weights_of(config: Any, *, changes_names: bool) -> dict[str, str]:
    """Return where a model's weights are; `changes_names` says that timm changes what it loads."""
    released = _RELEASED.fullmatch(config.url or "")
    if released is None or changes_names:
        return {
            "base_url": f"hf://{config.hf_hub_id}@main/",
            "weights_path": "model.safetensors",
            "unverifiable": _UNVERIFIABLE,
        }
    return {
        "base_url": released["base"],
        "weights_path": released["file"],
        "weights_checksum": f"sha256-prefix:{released['hash']}",
    }


def is_converted(timm: Any, name: str) -> bool:
    """Say whether a model's module changes names or shapes of published weights as it loads."""
    module = sys.modules[timm.models.model_entrypoint(name).__module__]
    return any("checkpoint" in variable and "filter" in variable for variable in vars(module))


def input_of(config: Any) -> dict[str, Any]:
    """Return the input of a model by the configuration of its weights."""
    channels, height, width = config.input_size
    picture = Picture(
        channels=channels,
        height=height,
        width=width,
        resize=0 if config.crop_mode == "squash" else int(height / config.crop_pct),
        mean=config.mean,
        deviation=config.std,
        method=config.interpolation,
    )
    return {
        "type": "image",
        "layer_name": "x",
        "element_type": "float32",
        "shape": picture.shape(),
        "steps": picture.steps(),
    }
