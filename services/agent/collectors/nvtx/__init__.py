"""NVTX ranges and marks that Python code makes."""
