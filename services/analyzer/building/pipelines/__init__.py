"""Pipelines whose queries overlap: when their stages ran, and which of them limits the rate."""
