"""Columns as dbt sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dbt.adapters.base.column import Column

__all__ = ["SwingDBColumn"]


@dataclass
class SwingDBColumn(Column):
    """A column; its type is as DESCRIBE writes it, precision included."""

    TYPE_LABELS: ClassVar[dict[str, str]] = {"STRING": "VARCHAR", "FLOAT": "DOUBLE"}

    @property
    def data_type(self) -> str:
        """The type, as SQL takes it."""
        return self.dtype

    def is_string(self) -> bool:
        """Whether it is text; texts have no length here."""
        return self.dtype.lower() in ("varchar", "text", "string", "character varying")

    def is_number(self) -> bool:
        """Whether it is a number."""
        return self.is_integer() or self.is_float() or self.is_numeric()

    def is_integer(self) -> bool:
        """Whether it is a whole number."""
        return self.dtype.lower().lstrip("u") in (
            "tinyint", "smallint", "integer", "int", "bigint", "hugeint",
        )  # fmt: skip

    def is_float(self) -> bool:
        """Whether it is a floating-point number."""
        return self.dtype.lower() in ("real", "float", "double", "double precision")

    def is_numeric(self) -> bool:
        """Whether it is a decimal number."""
        return self.dtype.lower().startswith(("decimal", "numeric"))

    def string_size(self) -> int:
        """What dbt asks of texts before it widens them, which is never needed."""
        return 256

    def can_expand_to(self, other_column: Column) -> bool:
        """No type has a length that could be too small."""
        return False
