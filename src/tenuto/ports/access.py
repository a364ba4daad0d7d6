"""Who may do what: what a token grants, and the door that reads it. Knows no kind of token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from tenuto.model.errors import Denied


class Scope(StrEnum):
    """What a token is for."""

    ADMIN = "admin"
    """REST, the page, and all that a worker may."""
    WORKER = "worker"
    """Work: the workers' gateway and language servers."""


MAKE_TOKEN: Mapping[Scope, str] = MappingProxyType(
    {
        Scope.ADMIN: "tenuto token create --scope admin --expires 12h",
        Scope.WORKER: "tenuto token create --scope worker --expires 90d",
    }
)
"""What makes a token of a scope, as it is typed: the cure wherever one is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grantee:
    """Who asks.

    Attributes:
        name: for people; empty for nobody in particular.
        queues: the only ones that it may work for; None for all.
        expires_at: what the token says, by its signer's clock; None for never.
        left_us: how long it holds from now on, what clocks may differ by included; None for ever.
    """

    scope: Scope
    name: str = ""
    queues: frozenset[str] | None = None
    expires_at: int | None = None
    left_us: int | None = None

    def must_administer(self) -> None:
        """Raise Denied for a worker's token."""
        if self.scope != Scope.ADMIN:
            raise Denied("this token is for workers; this needs one of scope admin", known=True)

    def must_serve(self, queues: frozenset[str]) -> None:
        """Raise Denied when the token is for other queues."""
        if self.queues is not None and (barred := sorted(queues - self.queues)):
            raise Denied(
                f"this token is for {_listed(self.queues)}, not for {_listed(barred)}", known=True
            )


Authorize = Callable[[str | None], Grantee]
"""What a token grants; None: none was shown. Raises Denied. Asked again, it says whether the token still holds."""

EVERYBODY = Grantee(scope=Scope.ADMIN)


def everybody(_token: str | None) -> Grantee:
    """The door of a process that only this machine can reach."""
    return EVERYBODY


def _listed(queues: frozenset[str] | list[str]) -> str:
    return f"queue{'' if len(queues) == 1 else 's'} {', '.join(sorted(queues))}"
