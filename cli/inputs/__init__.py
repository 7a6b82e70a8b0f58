"""Command-line arguments as requests, with the manifests and files that they name."""
