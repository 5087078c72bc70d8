"""Workers receive no secrets of the driver: user code can read their options."""

from penstock.common.options import high_availability, rest, security


def test_workers_do_not_receive_secrets():
    secrets = (rest.TOKEN, high_availability.ZOOKEEPER_AUTHORIZATION, security.REST_KEY_PASSWORD)
    options = {option.key: "hush" for option in secrets} | {"rest.bind-port": "8081"}
    assert rest.without_secrets(options) == {"rest.bind-port": "8081"}
