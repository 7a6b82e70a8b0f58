"""Calls of cuBLAS, cuBLASLt and cuDNN, from the libraries' own logs."""
