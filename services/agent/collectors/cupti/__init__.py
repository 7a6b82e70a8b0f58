"""CUPTI: CUDA calls, kernels and copies."""
