"""ShardEnumerator: searches for the shards of streams periodically, and assigns each once."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from penstock.connectors.kinesis.client import is_transient, stream_argument
from penstock.connectors.kinesis.shards import ShardSplit
from penstock.connectors.split_source import SplitEnumerator, SplitEnumeratorContext
from penstock.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.connectors.kinesis.description import StreamsDescription

logger = logging.getLogger(__name__)


class ShardEnumerator(SplitEnumerator[ShardSplit]):
    """Assigns shards to subtasks.

    Args:
        streams: The streams.
        context: The context of the enumerator.
        state: The result of `snapshot_state`; None for a new job.
    """

    def __init__(
        self,
        streams: StreamsDescription,
        context: SplitEnumeratorContext[ShardSplit],
        state: dict[str, Any] | None = None,
    ) -> None:
        self._streams = streams
        self._context = context
        self._client: Any = None
        #: The ids of all splits found, assigned or not; empty before the first search.
        self._known: set[str] = set() if state is None else set(state["known"])
        self._unassigned: list[ShardSplit] = [] if state is None else list(state["unassigned"])

    def start(self) -> None:
        """Start the periodic search for shards."""
        interval_ms = self._streams.discovery_interval_ms
        self._context.call_async(self._find, self._add, 0, interval_ms)

    def handle_split_request(self, subtask_id: int, requester_hostname: str) -> None:
        """Do nothing: shards are assigned without a request."""

    def add_splits_back(self, splits: list[ShardSplit], subtask_id: int) -> None:
        """Assign the shards of a failed reader again."""
        del subtask_id
        self._unassigned.extend(splits)
        self._assign()

    def add_reader(self, subtask_id: int) -> None:
        """Assign the shards that wait for the reader."""
        del subtask_id
        self._assign()

    def snapshot_state(self, checkpoint_id: int) -> dict[str, Any]:
        """Return the unassigned shards, and the ids of all."""
        del checkpoint_id
        return {"known": sorted(self._known), "unassigned": list(self._unassigned)}

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()

    def _find(self) -> list[ShardSplit]:
        """Search for the streams' shards; runs in another thread."""
        if self._client is None:
            self._client = self._streams.aws.client("kinesis")
        found = []
        for stream in self._streams.names:
            pages = self._client.get_paginator("list_shards").paginate(**stream_argument(stream))
            for page in pages:
                found += [_split_of(stream, shard) for shard in page["Shards"]]
        return found

    def _add(self, found: Sequence[ShardSplit] | None, error: BaseException | None) -> None:
        streams = self._streams
        if found is None:
            assert error is not None
            if is_transient(error):
                logger.warning("%s: cannot list shards: %s; retrying later", streams.shown, error)
                return
            raise SourceError(f"{streams.shown}: cannot list shards: {error}") from error
        # Shards that appear later continue others that were split or merged: from their beginning.
        is_first = not self._known
        start_ms = streams.position.start_ms(int(time.time() * 1000)) if is_first else None
        for split in found:
            if split.split_id() not in self._known:
                split.start_ms = start_ms
                self._unassigned.append(split)
        # A stream forgets a closed shard when its last record expires.
        self._known = {split.split_id() for split in found}
        self._assign()

    def _assign(self) -> None:
        readers = self._context.registered_readers()
        parallelism = self._context.current_parallelism()
        assigned: dict[int, list[ShardSplit]] = {}
        waiting = []
        for split in self._unassigned:
            subtask = self._streams.assigner.subtask_of(split, parallelism)
            if subtask in readers:
                assigned.setdefault(subtask, []).append(split)
            else:
                waiting.append(split)
        self._unassigned = waiting
        if assigned:
            self._context.assign_splits(assigned)


def _split_of(stream: str, shard: dict[str, Any]) -> ShardSplit:
    keys = shard["HashKeyRange"]
    first, last = int(keys["StartingHashKey"]), int(keys["EndingHashKey"])
    return ShardSplit(stream, shard["ShardId"], first, last)
