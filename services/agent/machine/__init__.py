"""What this machine is: hardware, frameworks, limits, noise, and the roofs of its devices."""
