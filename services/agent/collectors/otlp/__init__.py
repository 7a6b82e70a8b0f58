"""OpenTelemetry spans, received over OTLP/HTTP while a block runs."""
