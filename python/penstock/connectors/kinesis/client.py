"""AwsClientConfig: region, endpoint and credentials of an AWS service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.common.packages.optional_library import optional_library
from penstock.errors import InvalidProgramError, WrongArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

REGION: Final = "aws.region"
ENDPOINT: Final = "aws.endpoint"
PROVIDER: Final = "aws.credentials.provider"
_KEY_ID: Final = f"{PROVIDER}.basic.accesskeyid"
_SECRET: Final = f"{PROVIDER}.basic.secretkey"
_PROFILE: Final = f"{PROVIDER}.profile.name"
_PROVIDERS: Final = ("AUTO", "BASIC", "ENV_VAR", "PROFILE")

_CONNECT_TIMEOUT_S: Final = 10
_READ_TIMEOUT_S: Final = 30

#: Errors of a busy service, which are transient.
_MAY_PASS: Final = frozenset(
    {
        "InternalFailure",
        "KMSThrottlingException",
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestTimeout",
        "ServiceUnavailable",
        "ServiceUnavailableException",
        "Throttling",
        "ThrottlingException",
    }
)


@dataclass(frozen=True)
class AwsClientConfig:
    """Region, endpoint and credentials, under Flink's property names.

    Attributes:
        used_by: The connector, for errors.
        properties: The properties ``aws.region``, ``aws.endpoint`` and
            ``aws.credentials.provider…``.
    """

    used_by: str
    properties: Mapping[str, str]

    def check(self) -> None:
        """Check the properties.

        Raises:
            InvalidProgramError: A property is missing or invalid.
            DependencyError: boto3 is not installed.
        """
        optional_library("boto3", "boto3", "kinesis", self.used_by)
        given = self.properties
        if not given.get(REGION):
            raise InvalidProgramError(f"{self.used_by} needs the property '{REGION}'")
        provider = given.get(PROVIDER, "AUTO").upper()
        if provider not in _PROVIDERS:
            raise InvalidProgramError(
                f"{self.used_by}: '{PROVIDER}' is one of {', '.join(_PROVIDERS)}, got {provider!r}"
            )
        if provider == "BASIC" and not (given.get(_KEY_ID) and given.get(_SECRET)):
            raise InvalidProgramError(
                f"{self.used_by}: '{PROVIDER}' = 'BASIC' needs '{_KEY_ID}' and '{_SECRET}'"
            )

    def client(self, service: str) -> Any:
        """Return a client of a service, which connects on its first request and does not retry."""
        boto3 = optional_library("boto3", "boto3", "kinesis", self.used_by)
        config = optional_library("botocore.config", "boto3", "kinesis", self.used_by)
        given = self.properties
        session = boto3.session.Session(
            aws_access_key_id=given.get(_KEY_ID),
            aws_secret_access_key=given.get(_SECRET),
            profile_name=given.get(_PROFILE),
            region_name=given[REGION],
        )
        return session.client(
            service,
            endpoint_url=given.get(ENDPOINT),
            config=config.Config(
                connect_timeout=_CONNECT_TIMEOUT_S,
                read_timeout=_READ_TIMEOUT_S,
                retries={"total_max_attempts": 1},
            ),
        )


def text_properties(used_by: str, given: Any) -> dict[str, str]:
    """Check that properties are strings, and return them.

    Raises:
        InvalidProgramError: The argument is not a dictionary of strings.
    """
    if not isinstance(given, dict) or not all(
        isinstance(key, str) and isinstance(value, str) for key, value in given.items()
    ):
        raise WrongArgumentError(
            f"{used_by}: properties must be a dictionary of strings, got {given!r}"
        )
    return dict(given)


def stream_argument(stream: str) -> dict[str, str]:
    """Return the request argument that names a stream, by its ARN or its name."""
    return {"StreamARN" if stream.startswith("arn:") else "StreamName": stream}


def error_code(error: BaseException) -> str:
    """Return the code of a service's error; empty for other errors."""
    answer = getattr(error, "response", None) or {}
    code: str = answer.get("Error", {}).get("Code", "")
    return code


def is_transient(error: BaseException) -> bool:
    """Return whether a failed request may succeed later."""
    errors = optional_library("botocore.exceptions", "boto3", "kinesis", "Kinesis")
    connection = (errors.HTTPClientError, errors.ConnectionError)
    status = (getattr(error, "response", None) or {}).get("ResponseMetadata", {})
    return (
        isinstance(error, connection)
        or error_code(error) in _MAY_PASS
        or status.get("HTTPStatusCode", 0) >= 500
    )


def aws_errors() -> Any:
    """Return boto3's error classes."""
    errors = optional_library("botocore.exceptions", "boto3", "kinesis", "Kinesis")
    return (errors.BotoCoreError, errors.ClientError)
