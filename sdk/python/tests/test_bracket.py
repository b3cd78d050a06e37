"""The search of the library as Python drives it."""

import math

import pytest

from gbcompress import _core


def last_that_holds(search, holds):
    tried = []
    while (x := search.next()) is not None:
        tried.append(x)
        search.tried(x, holds(x))
    return search.holds, tried


@pytest.mark.parametrize("edge", [0.3, 1.0, 7.3, 3000.0])
def test_the_least_lambda_that_holds_is_found(edge):
    search = _core.BracketSearch.make(first=1.0, fails=0.0, cuts=12, stride=4.0, limit=4096.0)
    found, tried = last_that_holds(search, lambda x: x >= edge)
    assert found is not None and edge <= found <= edge * 1.25 + 1 / 4096
    assert len(tried) <= 7 + 12


def test_nothing_holds():
    search = _core.BracketSearch.make(first=1.0, fails=0.0, cuts=12, stride=4.0, limit=4096.0)
    found, tried = last_that_holds(search, lambda x: math.nan >= x)
    assert found is None and tried == [4.0**i for i in range(7)]


def test_a_logarithmic_bracket_ends_at_its_resolution():
    search = _core.BracketSearch.make(logarithmic=True, first=2.0, fails=64.0, resolution=1.03)
    found, tried = last_that_holds(search, lambda x: x <= 11.0)
    assert tried[0] == 2.0 and found is not None and 11.0 / 1.03 <= found <= 11.0
