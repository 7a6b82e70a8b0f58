"""Directions of copies of memory, as every source of device work calls them."""

COPY_KINDS = (
    "Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH",
    "PtoP", "UVM HtoD", "UVM DtoH", "UVM DtoD",
)  # fmt: skip
"""The values of a span's attribute `copy_kind`, by their number in CUpti_ActivityMemcpyKind.

H is the host, D a device, A an array on a device, P a peer device; UVM is unified memory, which
Nsight Systems alone reports.
"""


def copy_kind_of(number: int) -> str:
    """Return the direction of a copy from its `number` in CUpti_ActivityMemcpyKind."""
    return COPY_KINDS[number] if 0 <= number < len(COPY_KINDS) else COPY_KINDS[0]
