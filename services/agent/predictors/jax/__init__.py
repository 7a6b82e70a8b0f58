"""JAX: models as functions that XLA compiles."""
