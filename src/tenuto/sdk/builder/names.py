"""The names that expressions read, as references: `wf.input.order_id`, `wf.item`. They hold nothing."""

from __future__ import annotations

from tenuto.sdk.builder.references import Ref


class Names:
    """What a workflow and a graph offer to its nodes by name; where each may be read, the compiler says."""

    __slots__ = ()

    @property
    def input(self) -> Ref:
        """The run's input."""
        return Ref("input")

    @property
    def vars(self) -> Ref:
        """The run's constants."""
        return Ref("vars")

    @property
    def secrets(self) -> Ref:
        """The worker's secrets, for `headers`, `auth`, `json`, `body` and `form` of a request."""
        return Ref("secrets")

    @property
    def error(self) -> Ref:
        """The failure that led to the node that reads it; in `compensate` and `on_failure` the run's."""
        return Ref("error")

    @property
    def iteration(self) -> Ref:
        """The number of the pass of the innermost loop, from 1."""
        return Ref("iteration")

    @property
    def params(self) -> Ref:
        """In a graph that stands in `do`: the params beside it."""
        return Ref("params")

    @property
    def item(self) -> Ref:
        """In a foreach: the item; with `batch`, the list of them."""
        return Ref("item")

    @property
    def index(self) -> Ref:
        """In a foreach: the item's number, from 0."""
        return Ref("index")

    @property
    def event(self) -> Ref:
        """In `match` and `fail_when`: the payload of the event."""
        return Ref("event")

    @property
    def cursor(self) -> Ref:
        """In the params of a `source`: where the page before ended, null for the first."""
        return Ref("cursor")

    @property
    def child_output(self) -> Ref:
        """In `output` of a call: what the called run gave."""
        return Ref("output")

    @property
    def node(self) -> Ref:
        """The node that reads it: `entered_at`, `callback_key`."""
        return Ref("node")
