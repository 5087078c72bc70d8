"""Controls of the dashboard, configured by Flink's own options."""

from types import SimpleNamespace

import pytest
from penstock.rest.cluster_views import config, shown_options


@pytest.mark.parametrize(
    ("options", "may_cancel", "may_rescale"),
    [
        ({}, True, True),
        ({"web.cancel.enable": "false"}, False, True),
        ({"web.rescale.enable": "false"}, True, False),
        ({"rest.read-only": "true"}, False, False),
    ],
)
def test_buttons_are_offered_that_the_options_allow(options, may_cancel, may_rescale):
    features = config(SimpleNamespace(gateway=SimpleNamespace(configuration=options)))["features"]
    assert (features["web-cancel"], features["web-rescale"]) == (may_cancel, may_rescale)


def test_credentials_of_zookeeper_are_hidden():
    (found,) = shown_options({"high-availability.zookeeper.client.authorization": "digest:'u:p'"})
    assert "u:p" not in found["value"]
