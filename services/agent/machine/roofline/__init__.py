"""Rooflines: a device's peak arithmetic and memory throughput, measured or published."""
