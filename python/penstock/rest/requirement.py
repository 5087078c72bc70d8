"""Packages that the REST interface requires, and the message if one is missing."""

from penstock.errors import ConfigurationError


def require_rest(wanted: str) -> None:
    """Import the packages that the interface needs.

    Args:
        wanted: The feature that needs a REST interface, as the beginning of a sentence.

    Raises:
        ConfigurationError: A package is not installed.
    """
    try:
        import penstock.rest.server  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(
            f"{wanted}, and {error.name} is not installed: pip install 'penstock-engine[rest]'"
        ) from error
