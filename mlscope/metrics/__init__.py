"""The figures of running services: declared once, told to service discovery and to Prometheus."""
