"""An OpenAPI document of the interface, generated from the table of endpoints."""

from __future__ import annotations

import re
from typing import Any

from penstock import __version__
from penstock.rest.routes import ENDPOINTS, Endpoint

_PARAMETER = re.compile(r"\{(\w+)\}")
_NUMBERS = frozenset({"subtaskindex", "attempt", "checkpointid"})
_DESCRIPTION = (
    "Flink's REST API, version 1, and some paths of penstock's own. Times are milliseconds since "
    "1970, durations are milliseconds. An invalid parameter is answered with 400, a missing or "
    "wrong token with 401, and an unknown job, vertex, subtask or TaskExecutor with 404."
)


def openapi_document() -> dict[str, Any]:
    """Return the document, as JSON-compatible values."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(f"/v1{endpoint.path}", {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "penstock REST interface",
            "description": _DESCRIPTION,
            "version": f"v1/{__version__}",
        },
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Errors": {
                    "type": "object",
                    "properties": {"errors": {"type": "array", "items": {"type": "string"}}},
                }
            },
        },
        "security": [{"token": []}],
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    paragraphs = [
        " ".join(paragraph.split()).replace("``", "`")
        for paragraph in (endpoint.handler.__doc__ or "").split("\n\n")
    ]
    name = "_".join(part for part in re.split(r"\W+", endpoint.path) if part)
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Errors"}}}
    operation: dict[str, Any] = {
        "operationId": f"{endpoint.method.lower()}_{name}",
        "summary": paragraphs[0].replace("`", ""),
        "description": " ".join(paragraphs),
        "parameters": [
            {
                "name": parameter,
                "in": "path",
                "required": True,
                "schema": {"type": "integer" if parameter in _NUMBERS else "string"},
            }
            for parameter in _PARAMETER.findall(endpoint.path)
        ]
        + [
            {"name": parameter, "in": "query", "schema": {"type": "string"}}
            for parameter in endpoint.query
        ],
        "responses": {
            str(endpoint.status): {
                "description": "The answer.",
                "content": {"application/json": {"schema": {}}},
            },
            "default": {"description": "The reasons for an error.", "content": error},
        },
    }
    if endpoint.body:
        fields = {field: {"type": kind} for field, kind in endpoint.body}
        operation["requestBody"] = {
            "content": {"application/json": {"schema": {"type": "object", "properties": fields}}}
        }
    return operation
