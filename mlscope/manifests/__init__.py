"""Manifests as people write them: YAML read with every fault at its line, and their variants."""
