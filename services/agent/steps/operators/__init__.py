"""The operators of steps; `steps.OPERATOR_FACTORIES` lists them."""
