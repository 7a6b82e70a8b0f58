"""OpenTelemetry spans of mlscope itself, sent by OTLP/HTTP: off unless a setting says where to.

Needs the extra `telemetry`. Without the setting nothing here is imported.
"""
