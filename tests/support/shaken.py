"""A pytest plugin, `-p tests.support.shaken`: tests in another order, and each several times. See scripts/shake.py."""

from __future__ import annotations

import itertools
from random import Random

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The two choices."""
    parser.addoption("--order", type=int, default=0, help="the seed of an order; 0: as they are")
    parser.addoption("--times", type=int, default=1, help="how often each test is run")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make as many of each."""
    times = metafunc.config.getoption("--times")
    if times > 1:
        metafunc.fixturenames.append("time_of")
        metafunc.parametrize("time_of", range(times))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files in any order, and within each its tests: what is made once for a file is made once."""
    seed = config.getoption("--order")
    if not seed:
        return
    random = Random(seed)
    files = [list(tests) for _, tests in itertools.groupby(items, key=lambda item: item.path)]
    random.shuffle(files)
    for tests in files:
        random.shuffle(tests)
    items[:] = itertools.chain.from_iterable(files)
