"""Small models for sessions on a GPU, built by import path as a manifest would."""

from typing import Any


def tower() -> Any:
    """Return convolutions, norms, a pool and dense layers: kernels of several libraries."""
    from torch import nn

    def block(width: int) -> list[nn.Module]:
        return [nn.Conv2d(width, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()]

    head = [nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 128), nn.GELU()]
    return nn.Sequential(*block(3), *block(32), *block(32), *head, nn.Linear(128, 10))


def scoped(seed: int = 0) -> tuple[Any, Any]:
    """Return a JAX model of named scopes, and random parameters: a part of it becomes a graph."""
    import jax

    keys = jax.random.split(jax.random.key(seed), 3)
    kernel = jax.random.normal(keys[0], (32, 3, 3, 3)) * 0.1
    wide = jax.random.normal(keys[1], (32, 32)) * 0.1

    def apply(parameters: Any, x: Any) -> Any:
        with jax.named_scope("conv"):
            hidden = jax.nn.relu(jax.lax.conv(x, parameters["kernel"], (1, 1), "SAME"))
        with jax.named_scope("pool"):
            hidden = hidden.mean((2, 3))
        for number in range(3):
            with jax.named_scope(f"dense{number}"):
                hidden = jax.nn.relu(hidden @ parameters["wide"])
        with jax.named_scope("head"):
            return jax.nn.softmax(hidden)

    return apply, {"kernel": kernel, "wide": wide}


def keras_tower() -> Any:
    """Return a Keras model of a convolution and a dense layer, channels last."""
    import keras

    inputs = keras.Input((32, 32, 3), name="x")
    hidden = keras.layers.Conv2D(32, 3, activation="relu")(inputs)
    hidden = keras.layers.GlobalAveragePooling2D()(hidden)
    return keras.Model(inputs, keras.layers.Dense(10, name="dense")(hidden))
