"""Tables and views as dbt names them."""

from __future__ import annotations

from dataclasses import dataclass, field

from dbt.adapters.base import BaseRelation
from dbt.adapters.contracts.relation import RelationType

__all__ = ["SwingDBRelation"]


@dataclass(frozen=True, eq=False, repr=False)
class SwingDBRelation(BaseRelation):
    """A table or a view of SwingDB; names are compared without regard to case, as SQL does."""

    require_alias: bool = False
    renameable_relations: frozenset[RelationType] = field(
        default_factory=lambda: frozenset((RelationType.View, RelationType.Table))
    )
    replaceable_relations: frozenset[RelationType] = field(
        default_factory=lambda: frozenset((RelationType.View, RelationType.Table))
    )
