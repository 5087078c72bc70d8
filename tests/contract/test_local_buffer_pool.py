"""The local buffer pool, in both runtimes: its requests, its notifications, and its end."""

import sys
import threading

import pytest
from penstock.errors import CancelTaskError

from contract.plane import Background
from contract.pools import give, pool_of, take, take_all

__all__ = ["pool_of"]


class Listener:
    """Takes buffers as long as it needs some."""

    def __init__(self, wants=1):
        self.wants = wants
        self.buffers = []
        self.destroyed = False

    def notify_buffer_available(self, buffer):
        if self.wants <= len(self.buffers):
            return False
        self.buffers.append(buffer)
        return True

    def notify_buffer_destroyed(self):
        self.destroyed = True


class ListenerError(Exception):
    """An exception that a listener raises."""


class RaisingListener(Listener):
    """Keeps the buffer and raises."""

    def notify_buffer_available(self, buffer):
        self.buffers.append(buffer)
        raise ListenerError


class TestLocalBufferPool:
    def test_holds_one_segment_from_the_start(self, pool_of):
        """A-19: a new pool has fetched one segment, so it is available."""
        local = pool_of(10).create_buffer_pool(2, 4)
        assert (local.requested, local.available_segments, local.is_available) == (1, 1, True)

    def test_request_more_than_available(self, pool_of):
        """A-18: a pool hands out no more than its size."""
        local = pool_of(10).create_buffer_pool(2, 4)
        held = take_all(local)
        assert len(held) == 4
        assert not local.is_available
        assert (local.requested, local.used_segments) == (4, 4)
        give(held)
        assert (local.requested, local.used_segments) == (4, 0)

    def test_bounded_pool_changes_its_size(self, pool_of):
        """A-18: sizes above the maximum mean the maximum; surplus segments return at once."""
        pool = pool_of(1024)
        local = pool.create_buffer_pool(1, 2)
        local.set_num_buffers(1)
        held = take_all(local)
        assert (len(held), local.available_segments) == (1, 0)
        local.set_num_buffers(2)
        held += take_all(local)
        assert len(held) == 2
        give(held)
        assert local.available_segments == 2
        local.set_num_buffers(3)
        assert (local.available_segments, local.num_buffers) == (2, 2)
        local.set_num_buffers(1)
        assert (local.available_segments, local.requested) == (1, 1)

    def test_recycle_after_destroy(self, pool_of):
        """A-16, A-22: a destroyed pool rejects requests and passes returned segments on."""
        pool = pool_of(10)
        local = pool.create_buffer_pool(2, 4)
        held = take(local, 4)
        local.lazy_destroy()
        local.lazy_destroy()
        assert local.available_future.is_done
        for request in (local.request_buffer, local.request_builder):
            with pytest.raises(CancelTaskError, match="already been destroyed"):
                request()
        local.set_num_buffers(4)
        assert local.requested == 4
        give(held)
        assert (local.requested, pool.available_segments) == (0, 10)

    def test_shrinking(self, pool_of):
        """A-18: idle segments return at once, used ones when they are recycled."""
        pool = pool_of(10)
        local = pool.create_buffer_pool(1, 6)
        held = take(local, 6)
        held.pop().recycle()
        local.set_num_buffers(3)
        assert (local.requested, local.available_segments) == (5, 0)
        held.pop().recycle()
        assert local.requested == 4
        for size in (0, -1):
            with pytest.raises(ValueError, match=str(size)):
                local.set_num_buffers(size)
        local.set_num_buffers(100)
        assert local.num_buffers == 6
        give(held)

    def test_availability_while_resizing(self, pool_of):
        """A-19: available means that a segment is at hand, whatever the size becomes."""
        local = pool_of(10).create_buffer_pool(1, 10)
        local.set_num_buffers(5)
        held = take(local, 3)
        states = []
        for size in (5, 2, 1):
            local.set_num_buffers(size)
            states.append(local.is_available)
        assert states == [True, False, False]
        waiting = local.available_future
        held.pop().recycle()
        held.pop().recycle()
        assert not waiting.is_done
        held.pop().recycle()
        assert waiting.is_done
        assert local.is_available

    def test_quota_makes_unavailable_and_refuses_nothing(self, pool_of):
        """A-19: the pool is available iff a segment is at hand and no channel is at its quota."""
        local = pool_of(20).create_buffer_pool(4, 10, 3, max_buffers_per_channel=2)
        builders = {channel: [] for channel in range(3)}

        def take_for(channel):
            builders[channel].append(local.request_builder(channel))
            assert builders[channel][-1] is not None
            return local.is_available

        def give_from(channel):
            builders[channel].pop().close()
            return local.is_available

        assert [take_for(0), take_for(1)] == [True, True]
        assert not take_for(0)
        waiting = local.available_future
        assert not take_for(0), "a third one on channel 0 is granted nevertheless"
        assert not take_for(1)
        assert not give_from(1)
        assert not give_from(0)
        assert not waiting.is_done
        assert give_from(0)
        assert waiting.is_done
        for channel in (0, 1):
            assert give_from(channel)

    def test_the_next_segment_is_fetched_at_a_quota_as_well(self, pool_of):
        """A pool that has room keeps a segment at hand, even if a channel is at its quota."""
        local = pool_of(20).create_buffer_pool(4, 10, 2, max_buffers_per_channel=1)
        held = []
        for channel in (0, 1, 0):
            held.append(local.request_builder(channel))
            assert (local.available_segments, local.requested) == (1, len(held) + 1)
        for builder in held:
            builder.close()

    @pytest.mark.parametrize("size", [1, 5, 10])
    @pytest.mark.parametrize("overdraft", [0, 1, 5])
    def test_overdraft(self, pool_of, size, overdraft):
        """A-18, A-21: overdraft is granted beyond the size and returns directly."""
        pool = pool_of(30)
        local = pool.create_buffer_pool(size, size, max_overdraft=overdraft)
        held = take_all(local)
        assert len(held) == size + overdraft
        for left in range(overdraft, 0, -1):
            assert pool.available_segments == 30 - size - left
            assert not local.is_available
            held.pop().recycle()
        assert pool.available_segments == 30 - size
        held.pop().recycle()
        assert local.is_available
        give(held)

    def test_overdraft_leaves_the_minimum_of_others(self, pool_of):
        """A-15: neither overdraft nor growth takes segments promised to others."""
        pool = pool_of(10)
        greedy = pool.create_buffer_pool(1, 3, max_overdraft=20)
        late, third = pool.create_buffer_pool(3, 5), pool.create_buffer_pool(2, 2)
        held = take_all(greedy)
        assert len(held) == 5
        assert pool.available_segments == pool.owed_segments
        others = take_all(late)
        assert len(others) == 3
        assert not late.is_available
        others += take_all(third)
        assert (len(others), pool.owed_segments) == (5, 0)
        give(held)
        assert late.is_available
        give(others)

    def test_end_of_a_promise_serves_those_who_wait(self, pool_of):
        """A-15, A-19: segments promised to a pool that ends go to waiting requests."""
        pool = pool_of(4)
        growing, promised = pool.create_buffer_pool(1, 4), pool.create_buffer_pool(2, 2)
        held = take_all(growing)
        assert len(held) == 2
        assert not growing.is_available
        promised.lazy_destroy()
        assert growing.is_available
        assert pool.owed_segments == 0
        give(held)

    def test_blocked_request_wakes_on_recycle(self, pool_of):
        """A-19: a waiting request gets the next buffer that returns."""
        local = pool_of(4).create_buffer_pool(1, 2)
        held = take(local, 2)
        blocked = Background(local.request_builder_blocking)
        held.pop().recycle()
        blocked.result().close()
        give(held)

    def test_blocked_request_wakes_on_destroy(self, pool_of):
        """A-22: the waiting request raises the cancel error."""
        local = pool_of(4).create_buffer_pool(1, 1)
        held = take(local)
        blocked = Background(local.request_builder_blocking)
        local.lazy_destroy()
        with pytest.raises(CancelTaskError):
            blocked.result()
        give(held)

    def test_global_shortage_ends(self, pool_of):
        """A-19: a pool that waits for the global one is served when another returns a segment."""
        pool = pool_of(4)
        hog = pool.create_buffer_pool(1, 3)
        held = take(hog, 3)
        poor = pool.create_buffer_pool(1, 2)
        taken = take(poor)
        waiting = poor.available_future
        assert not waiting.is_done
        held.pop().recycle()
        held.pop().recycle()
        assert waiting.is_done
        assert poor.is_available
        give(held)
        give(taken)

    def test_listener(self, pool_of):
        """C-10: listeners are FIFO, one buffer each; one that refuses passes it on."""
        local = pool_of(4).create_buffer_pool(1, 2)
        assert not local.add_buffer_listener(Listener()), "a segment is at hand"
        held = take(local, 2)
        first, refusing, last = Listener(), Listener(0), Listener()
        for listener in (first, refusing, last):
            assert local.add_buffer_listener(listener)
        held.pop().recycle()
        assert (len(first.buffers), len(last.buffers)) == (1, 0)
        held.pop().recycle()
        assert len(last.buffers) == 1
        waiting = Listener()
        assert local.add_buffer_listener(waiting)
        local.lazy_destroy()
        assert waiting.destroyed
        assert not local.add_buffer_listener(Listener())
        give(first.buffers)
        give(last.buffers)

    def test_listener_that_raises(self, pool_of, monkeypatch):
        """C-10: a listener that raises has not taken the buffer, even if it stored it."""
        errors = []
        monkeypatch.setattr(sys, "unraisablehook", lambda report: errors.append(report.exc_value))
        local = pool_of(4).create_buffer_pool(1, 1)
        held = take(local, 1)
        raising, following = RaisingListener(), Listener()
        for listener in (raising, following):
            assert local.add_buffer_listener(listener)
        held.pop().recycle()
        assert [type(error) for error in errors] == [ListenerError]
        assert [buffer.is_recycled for buffer in raising.buffers] == [True]
        assert len(following.buffers) == 1
        give(following.buffers)
        assert (local.available_segments, local.used_segments) == (1, 0)

    def test_listener_is_served_from_the_network_pool(self, pool_of):
        """C-10: listeners of a pool without segments get those that another pool returns."""
        pool = pool_of(2)
        hog = pool.create_buffer_pool(0, 2)
        held = take(hog, 2)
        poor = pool.create_buffer_pool(1, 1)
        listener = Listener()
        assert poor.add_buffer_listener(listener)
        give(held)
        assert len(listener.buffers) == 1
        give(listener.buffers)
        assert poor.available_segments == 1

    def test_unknown_subpartition(self, pool_of):
        """A-20: a subpartition that the pool does not have is rejected, and costs no segment."""
        local = pool_of(4).create_buffer_pool(1, 4, 2)
        for channel in (2, -2, 2**40):
            for request in (local.request_builder, local.request_builder_blocking):
                with pytest.raises(ValueError, match="subpartition"):
                    request(channel)
        assert (local.requested, local.available_segments, local.is_available) == (1, 1, True)

    def test_waits_that_are_over(self, pool_of):
        """A-19: a timeout in the past waits no longer than one of zero."""
        local = pool_of(1).create_buffer_pool(1, 1)
        assert local.available_future.wait(-1)
        _held = local.request_buffer()
        for seconds in (-1, -0.001, 0):
            assert not local.available_future.wait(seconds)

    def test_reserve(self, pool_of):
        """A-18: promised segments can be reserved in advance, and no more than these."""
        pool = pool_of(10)
        local = pool.create_buffer_pool(3, 5)
        local.reserve_segments(3)
        assert (local.requested, local.available_segments) == (3, 3)
        with pytest.raises(ValueError, match="requires 3"):
            local.reserve_segments(4)
        local.lazy_destroy()
        assert pool.available_segments == 10
        with pytest.raises(CancelTaskError):
            local.reserve_segments(1)

    def test_many_blocking_pools(self, pool_of):
        """A-20: pools whose threads all block and recycle neither deadlock nor lose a segment."""
        pool = pool_of(12)
        locals_ = [pool.create_buffer_pool(1, 12) for _ in range(6)]

        def work(local):
            for _ in range(200):
                builders = [local.request_builder_blocking()]
                if (extra := local.request_builder()) is not None:
                    builders.append(extra)
                for builder in builders:
                    builder.close()

        threads = [Background(lambda local=local: work(local)) for local in locals_]
        for thread in threads:
            thread.result()
        for local in locals_:
            local.lazy_destroy()
        assert pool.available_segments == 12

    def test_concurrent_resizing_and_end(self, pool_of):
        """A-20: concurrent requests, returns, resizing and the end lose and duplicate nothing."""
        pool = pool_of(8)
        for _ in range(20):
            local = pool.create_buffer_pool(1, 8)
            started = threading.Barrier(3)

            def work(local=local, started=started):
                started.wait()
                for _ in range(50):
                    try:
                        builder = local.request_builder_blocking()
                    except CancelTaskError:
                        return
                    builder.close()

            def resize(local=local, started=started):
                started.wait()
                for size in range(1, 9):
                    local.set_num_buffers(size)

            threads = [Background(work), Background(resize)]
            started.wait()
            local.lazy_destroy()
            for thread in threads:
                thread.result()
            assert pool.available_segments == 8
        assert (pool.required_segments, pool.num_pools) == (0, 0)
