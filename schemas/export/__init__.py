"""The contract as files for other languages and for editors: `mlscope schemas --write`."""
