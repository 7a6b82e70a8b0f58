"""NVML: a GPU's power, clocks, temperature and utilisation while a block runs."""
