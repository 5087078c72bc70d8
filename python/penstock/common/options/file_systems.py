"""Options of the file systems that URLs name."""

from __future__ import annotations

from typing import Final

from penstock.common.options.option import Option
from penstock.common.options.value_types import BooleanType, TextType

S3_ENDPOINT: Final[Option[str | None]] = Option(
    "s3.endpoint",
    TextType(),
    None,
    "server of `s3://` URLs, such as `http://host:9000`; without it Amazon's",
    alternate_keys=("fs.s3a.endpoint",),
)
S3_REGION: Final[Option[str | None]] = Option(
    "s3.region",
    TextType(),
    None,
    "region of the buckets; without it that of the environment, else the bucket's",
    alternate_keys=("s3.endpoint.region", "fs.s3a.endpoint.region"),
)
S3_ACCESS_KEY: Final[Option[str | None]] = Option(
    "s3.access-key",
    TextType(),
    None,
    "access key; without it the AWS SDK looks in environment, files or machine",
    alternate_keys=("s3.access.key", "fs.s3a.access.key"),
)
S3_SECRET_KEY: Final[Option[str | None]] = Option(
    "s3.secret-key",
    TextType(),
    None,
    "secret of the access key; never logged or written to a file",
    alternate_keys=("s3.secret.key", "fs.s3a.secret.key"),
)
S3_SESSION_TOKEN: Final[Option[str | None]] = Option(
    "s3.session-token",
    TextType(),
    None,
    "token of temporary keys",
    alternate_keys=("s3.session.token", "fs.s3a.session.token"),
)
S3_PATH_STYLE: Final[Option[bool | None]] = Option(
    "s3.path.style.access",
    BooleanType(),
    None,
    "put the bucket into the path of a request instead of its host; the default with an endpoint",
    alternate_keys=("s3.path-style-access", "fs.s3a.path.style.access"),
)
