"""Files on the web: connections to allowed hosts, downloads that resume, probes of a server."""
