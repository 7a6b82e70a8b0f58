"""How the contract is written as JSON Schema: defaults as they are sent. Pure."""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from schemas.level import Level


class ContractSchema(GenerateJsonSchema):
    """pydantic's generator; the default of a level is its name, as messages have it."""

    def encode_default(self, dft: Any) -> Any:
        """Return a default as it stands in a message."""
        return dft.name.lower() if isinstance(dft, Level) else super().encode_default(dft)
