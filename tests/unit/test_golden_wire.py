"""This release reads the bytes that each release wrote for its own processes."""

import json
from pathlib import Path

import pytest
from golden import wire_bytes
from golden.wire_bytes import SAMPLES

KEPT = [
    pytest.param(name, bytes.fromhex(text), id=f"{path.parent.name}-{name}")
    for path in sorted(Path(wire_bytes.__file__).parent.glob("*/wire.json"))
    for name, text in json.loads(path.read_text()).items()
]


@pytest.mark.parametrize(("name", "data"), KEPT)
def test_bytes_of_a_release_are_read(name: str, data: bytes) -> None:
    assert SAMPLES[name].decode(data) == SAMPLES[name].value


def test_each_sample_has_kept_bytes() -> None:
    assert {param.values[0] for param in KEPT} == set(SAMPLES)
