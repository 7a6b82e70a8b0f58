"""The registry: the catalog of agents and manifests, and which agents are live.

Owns: the catalog (a fold of FLEET and CATALOG), its copy in the bucket `catalog`, manifests.
Hears: agents' announcements, leases that run out, `publish`, `withdraw`, `catalog`.
Says: AgentLost, ManifestPublished, ManifestWithdrawn. Does not know: evaluations.
"""
