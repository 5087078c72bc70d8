"""Check that an installed package supports the store of a URL, such as S3."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

__all__ = ["S3_SCHEMES", "shown_url", "why_not_a_store"]

S3_SCHEMES: Final = ("s3", "s3a", "s3n")

#: Schemes that pyarrow supports; fsspec, and the packages that it names, support others.
_ARROW_SCHEMES: Final = (*S3_SCHEMES, "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss", "mock")


def why_not_a_store(url: str) -> str | None:
    """Return why the installed packages cannot read or write files of a URL, or None.

    The store itself is not contacted.
    """
    parts = urlsplit(url)
    scheme = parts.scheme
    try:
        import pyarrow.fs  # noqa: F401
    except ImportError:
        return "files outside of local disks need pyarrow: pip install 'penstock-engine[storage]'"
    if scheme in S3_SCHEMES and (parts.username is not None or parts.query):
        return (
            "a URL of S3 must consist of a bucket and a path: set everything else by options, such "
            "as s3.access-key, s3.secret-key and s3.endpoint"
        )
    if scheme in _ARROW_SCHEMES:
        return None
    try:
        import fsspec

        fsspec.get_filesystem_class(scheme or "without a scheme")  # '' is one of its names
    except (ImportError, ValueError) as error:
        return (
            f"no installed package supports {scheme!r}: use file, s3, gs, hdfs or abfs, or install "
            f"fsspec and its package for this scheme ({error})"
        )
    return None


def shown_url(url: str) -> str:
    """Return a URL without the part that may be a password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
