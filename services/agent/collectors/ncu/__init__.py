"""Nsight Compute: hardware counters of kernels, from a replay."""
