"""May an expression read this name from where it stands? SEMANTICS X2, X3, X4, X9, asked of the indexed graph.

Node names are checked without a graph too, so that a misspelt one is found beside other mistakes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tenuto.dsl.certain import uncertain
from tenuto.dsl.expressions import Owner, Use, name_of
from tenuto.dsl.findings import Findings, did_you_mean
from tenuto.model.definition import Definition, NodeType, On
from tenuto.model.expressions import Root
from tenuto.model.graph import Graph
from tenuto.model.structure import Ancestry


def check_names(
    uses: Sequence[Use], definition: Definition, outer: Collection[str], findings: Findings
) -> None:
    """Refuse names of no node, and secrets where they would be stored (X9). `outer`: nodes of the graphs around."""
    numbers = {node.id: number for number, node in enumerate(definition.nodes)}
    for use in uses:
        read = use.read
        if read.root is Root.SECRETS and not use.secrets:
            findings.add("secret_not_allowed", use.at, name_of(read))
        elif read.root is Root.NODES and read.node not in numbers and not use.owner.alone:
            if read.node in outer:
                findings.add("outer_node", use.at, name_of(read), node=read.node)
                continue
            meant = findings.suggest(read.node, numbers)
            cure = did_you_mean(
                meant and f"nodes.{meant}", "name a node that stands under `nodes:`"
            )
            findings.add("unknown_reference", use.at, name_of(read), node=read.node, cure=cure)


def check_reads(
    uses: Sequence[Use], graph: Graph, sees: Collection[Root], findings: Findings
) -> None:
    """Refuse what the reader may not see. Names of no node are left to `check_names`.

    `sees`: names that have a value in all of the graph: those of an inline graph.
    """
    checker = _Checker(graph, sees, findings)
    for use in uses:
        checker.check(use)
    _check_output(uses, graph, findings)


def _check_output(uses: Sequence[Use], graph: Graph, findings: Findings) -> None:
    """Warn of outputs that the run's own `output` reads as if they were always there."""
    bare = [
        use
        for use in uses
        if use.owner == Owner()
        and use.read.root is Root.NODES
        and use.read.field == "output"
        and use.read.node in graph.numbers
        and not (use.guarded or use.conditional)
    ]
    if not bare:
        return
    found = uncertain(graph, {graph.numbers[use.read.node] for use in bare})
    for use in bare:
        when = found.get(graph.numbers[use.read.node])
        if when is not None:
            text = name_of(use.read)
            findings.add("unguarded_output", use.at, text, node=use.read.node, when=when)


_READ_BY: Mapping[Root, str] = {
    Root.PARAMS: "only a graph in `do:` has `params`; elsewhere read `input`, or the node that made the value",
    Root.EVENT: "only `match` and `fail_when` read it; elsewhere read `nodes.<id>.output` of the wait",
    Root.OUTPUT: "only `output` of a call or foreach reads what the child gave; elsewhere read `nodes.<id>.output`",
    Root.CURSOR: "only `params` of a `source` read it",
    Root.NODE: "it is the node that reads it; read it in a `set` node, and that node's output here",
}
"""Names that have a value in few places -> where."""
_EVERYWHERE = frozenset({Root.INPUT, Root.VARS, Root.SECRETS})
_FIELDS: Mapping[str, NodeType] = {
    "callback_key": NodeType.WAIT_FOR_EVENT,
    "failures": NodeType.FOREACH,
    "items": NodeType.FOREACH,
}
"""Fields that nodes of one type have."""


class _Checker:
    def __init__(self, graph: Graph, sees: Collection[Root], findings: Findings) -> None:
        self._graph = graph
        self._definition = graph.definition
        self._sees = sees
        self._findings = findings
        self._numbers: Mapping[str, int] = graph.numbers
        self._ancestry: Ancestry | None = None

    def check(self, use: Use) -> None:
        owner, root = use.owner, use.read.root
        if owner.edge is not None and owner.edge < 0:
            return  # of an edge that leads nowhere
        if owner.alone and root not in owner.sees and root not in _EVERYWHERE:
            self._not_here(use, "write it on the node that it is for")
            return
        match root:
            case Root.ITERATION:
                reader = self._reader(owner)
                if reader is None or not self._graph.loops_of[reader]:
                    self._findings.add("not_in_loop", use.at, "iteration")
            case Root.ERROR:
                self._error(use)
            case Root.NODES:
                if use.read.node in self._numbers:
                    self._node(use, self._numbers[use.read.node])
            case Root.ITEM | Root.INDEX:
                if root not in self._sees and root not in owner.sees:
                    self._findings.add("not_in_foreach", use.at, name_of(use.read))
            case Root.PARAMS | Root.EVENT | Root.OUTPUT | Root.CURSOR:
                if root not in self._sees and root not in owner.sees:
                    self._not_here(use, _READ_BY[root])
            case Root.NODE:
                self._itself(use)
            case Root.INPUT | Root.VARS | Root.SECRETS:
                pass

    def _reader(self, owner: Owner) -> int | None:
        """The node whose eyes it is: an edge's `when` stands at its source (X2). None: the graph's output."""
        if owner.edge is not None:
            return self._definition.edges[owner.edge].source
        return owner.node

    def _words(self, owner: Owner) -> str:
        """The reader, in words."""
        if owner.alone:
            return owner.alone
        if owner.edge is not None:
            return "the condition of an edge"
        if owner.node is not None:
            id = f"`{self._definition.nodes[owner.node].id}`"
            return f"`compensate` of {id}" if owner.handler else id
        return "`on_failure`" if owner.handler else f"`output` of {self._whole()}"

    def _whole(self) -> str:
        return "the graph" if self._definition.inline else "the workflow"

    def _not_here(self, use: Use, cure: str) -> None:
        text, reader = name_of(use.read), self._words(use.owner)
        self._findings.add("name_not_here", use.at, text, reader=reader, cure=cure)

    def _error(self, use: Use) -> None:
        """X4: the source's in `when` of failure and always edges, the first failed one's in a node, the run's in a
        handler.
        """
        owner = use.owner
        if owner.edge is not None:
            edge = self._definition.edges[owner.edge]
            if edge.on is not On.SUCCESS:
                return
            reader = "the condition of a success edge"
        elif owner.node is not None or owner.handler or Root.ERROR in owner.sees:
            return
        else:
            reader = self._words(owner)
        self._findings.add("error_not_here", use.at, "error", reader=reader)

    def _itself(self, use: Use) -> None:
        """X6: what a node knows of itself."""
        reader = self._reader(use.owner)
        if reader is None and not use.owner.handler:
            self._not_here(use, _READ_BY[Root.NODE])
        elif use.read.field in _FIELDS and (
            reader is None or self._definition.nodes[reader].type is not _FIELDS[use.read.field]
        ):
            self._no_field(use, self._words(use.owner), _FIELDS[use.read.field])

    def _no_field(self, use: Use, who: str, type: NodeType) -> None:
        text, field = name_of(use.read), use.read.field
        self._findings.add("field_not_here", use.at, text, who=who, field=field, type=type)

    def _node(self, use: Use, node: int) -> None:
        read, owner = use.read, use.owner
        reader = self._reader(owner)
        type = _FIELDS.get(read.field)
        if type is not None and self._definition.nodes[node].type is not type:
            self._no_field(use, f"`{read.node}`", type)
            return
        match read.field:
            case "iteration":
                around = self._graph.loops_of[reader] if reader is not None else ()
                if not any(self._graph.loops[loop].header == node for loop in around):
                    self._findings.add("not_in_loop", use.at, name_of(read))
                return
            case "callback_key":
                around = self._graph.loops_of[reader] if reader is not None else ()
                if not set(self._graph.loops_of[node]) <= set(around):
                    words = {"node": read.node, "reader": self._words(owner)}
                    self._findings.add("callback_key_outside_loop", use.at, name_of(read), **words)
                return
            case "iterations":
                if self._iterations(use, node, reader):
                    return
            case _:
                pass
        if reader is None or owner.handler:
            return  # X4: the output and handlers may read every node
        self._sees_node(use, node, reader)

    def _iterations(self, use: Use, node: int, reader: int | None) -> bool:
        """L5: the passes are listed outside the loop only. Whether that is a finding."""
        loops = self._graph.loops_of[node]
        inside = self._graph.loops_of[reader] if reader is not None else ()
        if loops and not set(loops) & set(inside):
            return False
        code = "iterations_inside_loop" if loops else "not_in_loop"
        self._findings.add(code, use.at, name_of(use.read), node=use.read.node)
        return True

    def _sees_node(self, use: Use, node: int, reader: int) -> None:
        """X2, X3: an ancestor, or a previous pass."""
        if node == reader and use.owner.edge is not None:
            return  # X2: as it just ended
        if self._comes_before(node, reader):
            return
        text, loops = name_of(use.read), self._graph.loops
        words = {"node": use.read.node, "reader": f"`{self._definition.nodes[reader].id}`"}
        common = [loop for loop in self._graph.loops_of[reader] if node in loops[loop].body]
        if not common:
            self._findings.add("not_upstream", use.at, text, **words)
        elif use.owner.edge is not None:
            # A condition sees no previous pass (X2): what comes after its source has not run.
            self._findings.add("racy_reference", use.at, text, **words)
        elif node != reader and not self._comes_before(reader, node):
            self._findings.add("racy_reference", use.at, text, **words)
        elif not use.guarded:
            self._findings.add("unguarded_previous_pass", use.at, text, **words)

    def _comes_before(self, node: int, reader: int) -> bool:
        """Whether forward edges lead from one to the other; at once for neighbours."""
        edges = self._definition.edges
        if any(edges[number].source == node for number in self._graph.ins[reader]):
            return True
        if self._graph.rank[node] > self._graph.rank[reader]:
            return False
        if self._ancestry is None:
            self._ancestry = Ancestry(self._graph)
        return self._ancestry.is_ancestor(node, reader)
