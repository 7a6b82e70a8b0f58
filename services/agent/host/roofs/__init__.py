"""The roofs of the agent's devices: measured in processes of their own, stored, announced."""
