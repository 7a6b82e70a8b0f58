"""Networks whose weights a package brings without code, or that no package brings at all.

Builders of manifests, one framework a file: `services.agent.networks.pytorch.espcn`. Parameters
are called as in the published weights, so that these load as they are.
"""
