"""Nsight Compute: its reports, and the counters of kernels in them."""
