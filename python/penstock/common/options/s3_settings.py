"""Settings of access to `s3://` URLs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from penstock.common.options.file_systems import (
    S3_ACCESS_KEY,
    S3_ENDPOINT,
    S3_PATH_STYLE,
    S3_REGION,
    S3_SECRET_KEY,
    S3_SESSION_TOKEN,
)
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class S3Settings:
    """Settings of access to `s3://` URLs; the representation shows no secret.

    Attributes:
        endpoint: The URL of the server; None for Amazon's.
        region: The region of the buckets; None to detect it.
        access_key: The access key; None to detect it.
        secret_key: The secret of the access key.
        session_token: The token of temporary keys.
        path_style: Whether the bucket is in the path; None to do so if there is an endpoint.
    """

    endpoint: str | None
    region: str | None
    access_key: str | None = field(repr=False)
    secret_key: str | None = field(repr=False)
    session_token: str | None = field(repr=False)
    path_style: bool | None

    @staticmethod
    def of(configuration: Mapping[str, str]) -> S3Settings:
        """Return the settings of the configuration.

        Raises:
            ConfigurationError: The options do not fit together.
        """
        settings = S3Settings(
            S3_ENDPOINT.read(configuration),
            S3_REGION.read(configuration),
            S3_ACCESS_KEY.read(configuration),
            S3_SECRET_KEY.read(configuration),
            S3_SESSION_TOKEN.read(configuration),
            S3_PATH_STYLE.read(configuration),
        )
        if (settings.access_key is None) != (settings.secret_key is None):
            raise ConfigurationError(
                f"{S3_ACCESS_KEY.key} and {S3_SECRET_KEY.key} belong together: set both, or neither"
            )
        if settings.session_token is not None and settings.access_key is None:
            raise ConfigurationError(
                f"{S3_SESSION_TOKEN.key} needs {S3_ACCESS_KEY.key} and {S3_SECRET_KEY.key}: set "
                "all three"
            )
        if settings.path_style and settings.endpoint is None:
            raise ConfigurationError(
                f"{S3_PATH_STYLE.key} needs {S3_ENDPOINT.key}: name the server, such as "
                "https://s3.eu-central-1.amazonaws.com"
            )
        if settings.endpoint is not None:
            _check_endpoint(settings.endpoint)
        return settings


def _check_endpoint(endpoint: str) -> None:
    parts = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
    is_server = parts.scheme in ("http", "https") and parts.hostname and parts.username is None
    if not is_server or parts.path.rstrip("/") or parts.query:
        raise ConfigurationError(
            f"{S3_ENDPOINT.key} must be a server, such as http://host:9000 or host:9000 (by "
            "HTTPS), without user, path and query"
        )
