"""Packages of the system that tests use."""

import os

import pytest


def required(found, package):
    """Return the part of a package if it is installed; otherwise skip the test (in CI: fail)."""
    if found is None:
        reason = f"it needs a package of the system: apt-get install {package}"
        if os.environ.get("PENSTOCK_PACKAGES_REQUIRED"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found
