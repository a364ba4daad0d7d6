"""May an expression read this name from where it stands? SEMANTICS X2, X3, X4, X9, asked of the indexed graph.

Node names are checked without a graph too, so that a misspelt one is found beside other mistakes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenuto.dsl.certain import uncertain
from tenuto.dsl.expressions import Owner, Use, name_of
from tenuto.dsl.findings import Findings, did_you_mean
from tenuto.model.definition import Definition, On
from tenuto.model.expressions import Root
from tenuto.model.graph import Graph
from tenuto.model.structure import Ancestry


def check_names(uses: Sequence[Use], definition: Definition, findings: Findings) -> None:
    """Refuse names of no node, and secrets where they would be stored (X9)."""
    numbers = {node.id: number for number, node in enumerate(definition.nodes)}
    for use in uses:
        read = use.read
        if read.root is Root.SECRETS and not use.secrets:
            findings.add("secret_not_allowed", use.at, name_of(read))
        elif read.root is Root.NODES and read.node not in numbers:
            meant = findings.suggest(read.node, numbers)
            cure = did_you_mean(
                meant and f"nodes.{meant}", "name a node that stands under `nodes:`"
            )
            findings.add("unknown_reference", use.at, name_of(read), node=read.node, cure=cure)


def check_reads(uses: Sequence[Use], graph: Graph, findings: Findings) -> None:
    """Refuse what the reader may not see. Names of no node are left to `check_names`."""
    checker = _Checker(graph, findings)
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


class _Checker:
    def __init__(self, graph: Graph, findings: Findings) -> None:
        self._graph = graph
        self._definition = graph.definition
        self._findings = findings
        self._numbers: Mapping[str, int] = graph.numbers
        self._ancestry: Ancestry | None = None

    def check(self, use: Use) -> None:
        if use.owner.edge is not None and use.owner.edge < 0:
            return  # of an edge that leads nowhere
        match use.read.root:
            case Root.ITERATION:
                reader = self._reader(use.owner)
                if reader is None or not self._graph.loops_of[reader]:
                    self._findings.add("not_in_loop", use.at, "iteration")
            case Root.ERROR:
                self._error(use)
            case Root.NODES:
                if use.read.node in self._numbers:
                    self._node(use, self._numbers[use.read.node])
            case Root.INPUT | Root.VARS | Root.SECRETS:
                pass

    def _reader(self, owner: Owner) -> int | None:
        """The node whose eyes it is: an edge's `when` stands at its source (X2). None: the run's output."""
        if owner.edge is not None:
            return self._definition.edges[owner.edge].source
        return owner.node

    def _error(self, use: Use) -> None:
        """X4: the source's in `when` of failure and always edges, the first failed one's in a node."""
        if use.owner.edge is not None:
            edge = self._definition.edges[use.owner.edge]
            if edge.on is not On.SUCCESS:
                return
            reader = "the condition of a success edge"
        elif use.owner.node is not None:
            return
        else:
            reader = "`output` of the workflow"
        self._findings.add("error_not_here", use.at, "error", reader=reader)

    def _node(self, use: Use, node: int) -> None:
        text = name_of(use.read)
        reader = self._reader(use.owner)
        loops = self._graph.loops
        if use.read.field == "iteration":
            around = self._graph.loops_of[reader] if reader is not None else ()
            if not any(loops[loop].header == node for loop in around):
                self._findings.add("not_in_loop", use.at, text)
            return
        if reader is None:
            return  # X4: the run's output may read every node
        if node == reader and use.owner.edge is not None:
            return  # X2: as it just ended
        if self._comes_before(node, reader):
            return
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
