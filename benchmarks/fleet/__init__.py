"""A fleet of simulated agents against real services: `python -m benchmarks.fleet`."""
