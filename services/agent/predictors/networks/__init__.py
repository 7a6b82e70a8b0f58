"""Networks of the catalog whose code no Python package provides.

Each module has one framework's networks. Manifests name their builders, for example
`services.agent.predictors.networks.pytorch.espcn`; those shipped since release 0.1 keep that one's
path (`mlscope.manifests.builders`). Parameters have the names of the published weights, so that
those load unchanged.
"""
