"""Files of models and datasets, by address: fetched once, checked, stored in a bounded cache.

Owns: addresses, checksums, the cache of this host, downloads, archives, the artifact repository.
Knows: the bus, for artifacts only. Fetching a `file:`, `https:`, `pypi:` or `hf:` address imports
only the standard library, so that an agent without a NATS server can use it.
"""
