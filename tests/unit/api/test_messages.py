"""Bodies of events."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tenuto.api.messages import EVENTS_MAX, EventsBody
from tenuto.api.models import STARTS_MAX

ONE = {"event": "e", "key": "k"}


def test_as_many_events_are_sent_together_as_runs_are_started() -> None:
    assert EVENTS_MAX == STARTS_MAX
    assert len(EventsBody.model_validate({"events": [ONE] * EVENTS_MAX}).events) == EVENTS_MAX


@pytest.mark.parametrize("events", [[], [ONE] * (EVENTS_MAX + 1), [{"event": "e"}], {}])
def test_more_or_none_are_refused(events: object) -> None:
    with pytest.raises(ValidationError):
        EventsBody.model_validate({"events": events})
