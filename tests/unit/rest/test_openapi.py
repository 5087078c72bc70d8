"""The OpenAPI document describes each endpoint in words."""

import pytest
from penstock.rest.openapi import openapi_document

OPERATIONS = [
    pytest.param(operation, id=operation["operationId"])
    for methods in openapi_document()["paths"].values()
    for operation in methods.values()
]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_says_what_it_does(operation: dict) -> None:
    summary = operation["summary"]
    assert summary[0].isupper()
    assert summary.endswith(".")
    assert operation["description"].replace("`", "").startswith(summary)
