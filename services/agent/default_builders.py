"""Builders of models that an agent allows where its owner says nothing."""

BUILDERS = (
    "torchvision.models",
    "timm.create_model",
    "keras.applications",
    "efficientnet_lite_pytorch.EfficientNet.from_name",
    "services.agent.predictors.networks",
)
"""Import paths, or what lies below them: each makes a model and does nothing else."""
