"""How it stands with an engine over its database, as `/readyz` tells it. Repairs nothing."""

from __future__ import annotations

from tenuto.api.backend import Readiness
from tenuto.app.core import Core
from tenuto.app.database import Opened
from tenuto.model.errors import Unavailable
from tenuto.ports.database import AWAY


async def readiness_of(core: Core, opened: Opened) -> Readiness:
    """Troubles: loops without success, runs that will be refused, a database that takes no writes. Degraded: dispatch
    that makes do with the database; a database that may have lost commits.
    """
    refusal, away = None, ""
    try:
        refusal = await opened.refusal()
    except Unavailable as error:
        away = str(error)
    loops = core.health.troubles()
    problem = opened.problem()
    troubles = [f"{AWAY}{away}"] if away else []
    # Each loop says in its own words that the database is away: that is one cause.
    place = away.partition(" ")[0] if "://" in away.partition(" ")[0] else away
    causes: dict[str, list[str]] = {}
    for name, why in loops.items():
        if not away or place not in why:
            causes.setdefault(why, []).append(name)
    troubles += [f"{', '.join(names)}: {why}" for why, names in causes.items()]
    if problem is not None and not (away and place in problem):
        troubles.append(problem)
    if refusal is not None:
        troubles.append(f"database: {refusal}")
    degraded = []
    lame, doubt = core.dispatch.trouble, opened.doubt()
    if lame is not None:
        degraded.append(f"dispatch by {core.dispatch.name}: {lame}")
    if doubt is not None:
        degraded.append(f"database: {doubt}")
    return Readiness(troubles=tuple(dict.fromkeys(troubles)), degraded=tuple(degraded))
