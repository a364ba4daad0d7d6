"""Sets this process's wall clock wrong by CHAOS_SKEW_S seconds. Python imports it by its name at every start.

For tests alone: hosts of a cluster differ, and only durations may be used on them. The monotonic clock is left alone.
"""

from __future__ import annotations

import os
import time

_SKEW_NS = int(float(os.environ.get("CHAOS_SKEW_S", "0")) * 1e9)
if _SKEW_NS:
    _time_ns = time.time_ns
    time.time_ns = lambda: _time_ns() + _SKEW_NS
    time.time = lambda: (_time_ns() + _SKEW_NS) / 1e9
