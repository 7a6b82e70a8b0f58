"""Programs that XLA compiles for JAX and TensorFlow, and their layers."""
