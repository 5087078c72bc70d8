"""BulkWriter: collects actions and sends them as bulk requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.connectors.batching import BatchLimits, Unsent
from penstock.connectors.changed_documents import ChangesWriter
from penstock.connectors.elasticsearch.actions import BulkAction, bulk_actions
from penstock.connectors.elasticsearch.cluster import transport_library
from penstock.errors import SinkError
from penstock.formats.misfit import meant_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.connectors.elasticsearch.cluster import Cluster

#: The statuses of an overloaded or unavailable node or shard.
_MAY_PASS: Final = frozenset({429, 502, 503, 504})

_NOT_FOUND: Final = 404


class BulkWriter(ChangesWriter[BulkAction]):
    """Sends the actions of records as bulk requests.

    Args:
        cluster: The cluster.
        limits: The limits of a bulk request.
        actions_of: Function that returns the actions of a record, in any form that an emitter
            may return.
        document_of: Function that returns the document of a changed row; None if records are not
            changes.
    """

    def __init__(
        self,
        cluster: Cluster,
        limits: BatchLimits,
        actions_of: Callable[[Any], Any],
        document_of: Callable[[Any], tuple[str, str]] | None,
    ) -> None:
        self._cluster = cluster
        self._actions_of = actions_of
        self._errors = transport_library("ElasticsearchSink")
        self._transport = cluster.transport()
        super().__init__("elasticsearch-sink", cluster.shown, limits, document_of)

    def keep_row(self, element: Any) -> None:
        """Buffer the actions of a record."""
        with meant_for(self._cluster.shown):
            actions = bulk_actions(self._actions_of(element))
        for action in actions:
            self.keep([action], len(action.body or b""))

    def send(self, entries: Sequence[BulkAction]) -> Unsent[BulkAction] | None:
        """Send a bulk request; return the actions that busy nodes rejected."""
        try:
            status, answer = self._transport.post_bulk(b"".join(each.lines() for each in entries))
        except self._errors.TlsError as error:
            raise SinkError(f"{self._cluster.shown} has no trusted certificate: {error}") from error
        except self._errors.TransportError as error:
            return Unsent(entries, f"{type(error).__name__}: {error}", error)
        if status in _MAY_PASS:
            return Unsent(entries, f"status {status}: {_reason(answer)}")
        if status != 200 or not isinstance(answer, dict) or "items" not in answer:
            raise SinkError(
                f"{self._cluster.shown} rejects a bulk request of {len(entries)} actions with "
                f"status {status}: {_reason(answer)}{_advice(status)}"
            )
        if not answer.get("errors"):
            return None
        return self._rejected(entries, answer["items"])

    def cut_short(self) -> None:
        """Abort the request that the thread waits for."""
        self._transport.interrupt()

    def release(self) -> None:
        """Close the connections."""
        self._transport.close()

    def _rejected(
        self, entries: Sequence[BulkAction], items: Sequence[dict[str, Any]]
    ) -> Unsent[BulkAction] | None:
        """Return the actions to send again: those rejected, and later ones of their documents.

        A later action of the same document may have succeeded; the rejected one, sent alone, would
        overwrite it.
        """
        again: list[BulkAction] = []
        documents: set[tuple[str, str]] = set()
        reason = ""
        for action, item in zip(entries, items, strict=True):
            (outcome,) = item.values()
            status = outcome["status"]
            if status in _MAY_PASS:
                reason = reason or f"status {status}: {_reason(outcome)}"
                if action.document is not None:
                    documents.add(action.document)
                again.append(action)
            elif status >= 300 and not (status == _NOT_FOUND and action.operation == "delete"):
                raise SinkError(
                    f"{self._cluster.shown} rejects '{action.operation}' of document "
                    f"{action.document_id!r} in index {action.index!r} with status {status}: "
                    f"{_reason(outcome)}"
                )
            elif action.document in documents:
                again.append(action)
        return Unsent(again, reason) if again else None


def _reason(answer: Any) -> str:
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    if isinstance(error, dict) and "reason" in error:
        cause = error.get("caused_by") or {}
        further = f" ({cause['reason']})" if cause.get("reason") else ""
        return f"{error.get('type', 'error')}: {error['reason']}{further}"
    return f"{error!s:.500}"


def _advice(status: int) -> str:
    if status in (401, 403):
        return "; check the user name, the password and the user's privileges"
    if status == 413:
        return "; set a smaller limit of bytes for bulk requests"
    return ""
