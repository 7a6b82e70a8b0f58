"""OpenVINO: models compiled for CPUs, and their layers."""
