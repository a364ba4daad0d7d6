"""What changed between two versions, as types: the part of `models` that `views.diff` shapes."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from tenuto.api.models import NodeType
from tenuto.api.shapes import Document, Json


class Difference(Document):
    """One thing that is said otherwise; null: it is not said."""

    what: str = Field(examples=["retry.max_attempts"])
    old: Json
    new: Json


class ChangedNode(NodeType):
    """A node that both versions have."""

    changes: list[Difference]


class DiffEdge(Document):
    """An edge of one version only."""

    model_config = ConfigDict(extra="forbid", serialize_by_alias=True)

    source: str = Field(alias="from")
    to: str
    on: Literal["success", "failure", "always"]
    when: str | None
    otherwise: bool = Field(alias="else")
    loop: int | None
    keep: int | None


class ChangedEdge(Document):
    """An edge that both versions have."""

    model_config = ConfigDict(extra="forbid", serialize_by_alias=True)

    source: str = Field(alias="from")
    to: str
    on: Literal["success", "failure", "always"]
    changes: list[Difference]


class NodeChanges(Document):
    """What became of the nodes. One of an inline graph is called `outer/inner`."""

    added: list[NodeType]
    removed: list[NodeType]
    changed: list[ChangedNode]


class EdgeChanges(Document):
    """What became of the edges."""

    added: list[DiffEdge]
    removed: list[DiffEdge]
    changed: list[ChangedEdge]


class Diff(Document):
    """What changed from one version to another."""

    old: str = Field(examples=["hello@1"])
    new: str = Field(examples=["hello@2"])
    same: bool = Field(description="they mean the same, whatever their texts look like")
    text: list[str] = Field(description="the lines of `diff -u`")
    workflow: list[Difference] = Field(description="what belongs to no node and no edge")
    nodes: NodeChanges
    edges: EdgeChanges
