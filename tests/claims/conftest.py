"""Claims as tests: ``@pytest.mark.claim("0-12", flip="...")`` on a test that takes the fixture ``variant``.

The test runs with ``variant=None`` (the honest core) and must hold; then once with the flip, where it must turn red by
an assertion. Anything else that goes wrong under a flip is an error, not a proof.
"""

from __future__ import annotations

import pytest


def pytest_generate_tests(metafunc):
    mark = metafunc.definition.get_closest_marker("claim")
    if mark is not None and "variant" in metafunc.fixturenames:
        flip = mark.kwargs.get("flip")
        metafunc.parametrize("variant", [None] if flip is None else [None, flip], ids=lambda v: v or "honest")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    call = getattr(pyfuncitem, "callspec", None)
    mark = pyfuncitem.get_closest_marker("claim")
    if mark is None or call is None or call.params.get("variant") is None:
        return (yield)
    try:
        yield
    except AssertionError:
        return True
    pytest.fail(f"claim {mark.args[0]}: the flip {call.params['variant']} does not turn its test red")
