from __future__ import annotations

import pytest
from tests.support.comparing import compared

remembered = pytest.fixture(compared, name="remembered")
"""The leases that a coordinator remembers, compared with those that are stored."""
