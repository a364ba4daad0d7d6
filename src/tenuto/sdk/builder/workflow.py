"""`Workflow`: a definition built in Python, the same tree that YAML gives. It runs nothing itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from tenuto.model.errors import InvalidDefinition
from tenuto.sdk.builder.graph import Graph
from tenuto.sdk.builder.keys import Defaults, Duration, rendered
from tenuto.sdk.builder.nodes import Node
from tenuto.sdk.builder.origins import MadeMap, Places, mistake
from tenuto.sdk.builder.references import Json, render
from tenuto.sdk.builder.steps import Step, part_of
from tenuto.sdk.builder.text import Text, write

if TYPE_CHECKING:
    from tenuto.dsl.findings import Finding

_BELOW = frozenset({"nodes", "edges", "output", "on_failure"})
"""Keys that stand below the others."""


class Workflow(Graph):
    """A workflow under construction: nodes come from its methods, edges from `>>` between them.

    Everything that a definition in YAML can say can be said; values may hold references (`charge.output.id`), models,
    dates and the like. A mistake is an InvalidDefinition at the line that makes it, or, where only the whole graph
    shows it, a finding at the line that made the node or edge. `wf.on_failure = Step.task(…)` follows a failed run.
    """

    def __init__(
        self,
        name: str,
        *,
        description: str = "",
        input: Mapping[str, object] | type[Any] | None = None,
        vars: Mapping[str, object] | None = None,
        timeout: Duration | None = None,
        closing_timeout: Duration | None = None,
        defaults: Defaults | None = None,
        output: object = None,
    ) -> None:
        """Begin a workflow.

        Args:
            name: letters, digits, `_`, `.` and `-`.
            description: text for people.
            input: JSON Schema of the input, or a model or dataclass whose schema it is.
            vars: constants, that a start may override.
            timeout: of the whole run.
            closing_timeout: of the steps that undo a run that did not succeed.
            defaults: keys for all that a worker does.
            output: of the run; may be set later (`wf.output = …`), when the nodes are there.
        """
        super().__init__(output=output)
        self.name = name
        self._head: dict[str, Json] = {"name": render(name, "name")}
        if description:
            self._head["description"] = render(description, "description")
        for key, value in (
            ("vars", vars),
            ("input", _schema(input) if isinstance(input, type) else input),
            ("timeout", timeout),
            ("closing_timeout", closing_timeout),
            ("defaults", defaults),
        ):
            if value is not None:
                self._head[key] = rendered(key, value, key)

    @classmethod
    def from_yaml(cls, text: str, *, file: str = "<text>") -> Workflow:
        """Read a definition, to go on building from it.

        Raises:
            InvalidDefinition: with all findings.
        """
        from tenuto.app.definitions import load_definition
        from tenuto.dsl import yaml
        from tenuto.dsl.findings import Findings

        loaded = load_definition(text, file=file)
        if loaded.graph is None:
            raise InvalidDefinition(loaded.findings)
        text = text.removeprefix("\ufeff")
        read = yaml.read(text, Findings(file, text))
        assert read is not None
        tree = cast("dict[str, Any]", yaml.to_json(read))
        workflow = cls(tree["name"])
        workflow.origin = None
        workflow._head = {key: part for key, part in tree.items() if key not in _BELOW}
        for id, keys in tree["nodes"].items():
            workflow._sketch.nodes[id] = Node(id, keys, workflow._sketch, None)
        workflow._sketch.read(tree.get("edges") or [])
        workflow._tail = {key: tree[key] for key in ("output", "on_failure") if key in tree}
        return workflow

    def __repr__(self) -> str:
        return f"<workflow {self.name}: {len(self._sketch.nodes)} nodes>"

    @property
    def on_failure(self) -> Any:
        """What is done after a run that failed, as the definition has it."""
        return self._tail.get("on_failure")

    @on_failure.setter
    def on_failure(self, step: Step) -> None:
        self._tail["on_failure"] = part_of(step, "on_failure")

    # -- what it becomes ---------------------------------------------------------------------------------

    def part(self, use: str) -> MadeMap:
        """A workflow stands in no other; it is called."""
        cure = f"write `call={self.name!r}`, or make a `Graph()`"
        raise mistake("wrong_type", f"`{use}` cannot be a whole workflow", cure)

    def to_dict(self) -> dict[str, Any]:
        """The definition as the tree of JSON values that its YAML is."""
        return cast("dict[str, Any]", render(self._whole(), "the workflow"))

    def to_yaml(self) -> str:
        """The definition as a file for people."""
        return str(self._write())

    def validate(self) -> tuple[Finding, ...]:
        """All that is wrong with the definition, warnings too, at the lines of the Python that made it."""
        from tenuto.app.definitions import load_definition

        try:
            text, places = self.text()
        except InvalidDefinition as mistakes:
            return cast("tuple[Finding, ...]", mistakes.findings)
        return places.moved(load_definition(text, file=f"<workflow {self.name}>").findings)

    def text(self) -> tuple[str, Places]:
        """The YAML, and where each of its lines comes from."""
        written = self._write()
        return str(written), Places(written.origins)

    def _write(self) -> Text:
        self.to_dict()  # what JSON cannot hold is found there
        return write(self._whole())

    def _whole(self) -> MadeMap:
        self._refuse_loose_ends()
        return MadeMap({**self._head, **self._tree()}, self.origin)


def _schema(model: type[Any]) -> Mapping[str, object]:
    """The JSON Schema of a model or dataclass."""
    if not (hasattr(model, "model_json_schema") or dataclasses.is_dataclass(model)):
        cure = "give a JSON Schema, a pydantic model or a dataclass"
        raise mistake("wrong_type", f"`input` cannot be the class {model.__name__}", cure)
    from pydantic import TypeAdapter

    return TypeAdapter(model).json_schema()
