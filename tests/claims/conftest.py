"""Claims as tests: ``@pytest.mark.claim("0-12", flip="...")`` on a test that takes the fixture ``variant``.

The test runs with ``variant=None`` (the honest core) and must hold; then once with the build of the flip, where it must
turn red by an assertion. Anything else that goes wrong under a flip is an error, not a proof.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.claims.builds import build_of


def pytest_generate_tests(metafunc):
    mark = metafunc.definition.get_closest_marker("claim")
    if mark is not None and "variant" in metafunc.fixturenames:
        flip = mark.kwargs.get("flip")
        builds = {"honest": None}
        if flip is not None:
            builds[flip] = build_of(Path(metafunc.module.__file__).stem.removeprefix("test_"), flip)
        metafunc.parametrize("variant", list(builds.values()), ids=list(builds))


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
    pytest.fail(f"claim {mark.args[0]}: the flip {mark.kwargs['flip']} does not turn its test red")
