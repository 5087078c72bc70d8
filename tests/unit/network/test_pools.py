"""The global pool, its redistribution, and local pools (SEMANTICS A4, A5)."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock.errors import CancelTaskError, IllegalStateError, InsufficientBuffersError
from penstock.network.pure.network_buffer_pool import UNBOUNDED, NetworkBufferPool

SEGMENT_BYTES = 128


def pool_of(count, **settings):
    return NetworkBufferPool(count, SEGMENT_BYTES, **settings)


def sizes(*pools):
    return [pool.num_buffers for pool in pools]


class TestRedistribution:
    """A-14, A-15, A-17: the worked scenarios."""

    def test_fixed_then_growing(self):
        pool = pool_of(1024)
        assert sizes(pool.create_buffer_pool(1, 1), pool.create_buffer_pool(1, 2)) == [1, 2]

    def test_lone_unbounded(self):
        assert sizes(pool_of(1024).create_buffer_pool(1)) == [1024]

    def test_fixed_and_unbounded(self):
        pool = pool_of(1024)
        assert sizes(pool.create_buffer_pool(24, 24), pool.create_buffer_pool(1)) == [24, 1000]

    @pytest.mark.parametrize(
        ("low", "high", "each"), [(1, UNBOUNDED, 512), (512, UNBOUNDED, 512), (1, 10, 10)]
    )
    def test_two_alike(self, low, high, each):
        pool = pool_of(1024)
        assert sizes(*[pool.create_buffer_pool(low, high) for _ in range(2)]) == [each, each]

    def test_uneven(self):
        pool = pool_of(3)
        one = pool.create_buffer_pool(1)
        assert sizes(one) == [3]
        two = pool.create_buffer_pool(1)
        assert sum(sizes(one, two)) == 3
        assert 3 not in sizes(one, two)
        three = pool.create_buffer_pool(1)
        assert sizes(one, two, three) == [1, 1, 1]

    def test_exclusive_segments_shrink_the_pools(self):
        pool = pool_of(10)
        first = pool.create_buffer_pool(1, 10)
        assert sizes(first) == [10]
        taken = [pool.request_unpooled_segments(2)]
        assert sizes(first) == [8]
        second = pool.create_buffer_pool(1, 10)
        assert sizes(first, second) == [4, 4]
        for expected in (3, 2):
            taken.append(pool.request_unpooled_segments(2))
            assert sizes(first, second) == [expected, expected]
        for expected in (3, 4, 5):
            pool.recycle_unpooled_segments(taken.pop())
            assert sizes(first, second) == [expected, expected]
        first.lazy_destroy()
        assert sizes(second) == [10]

    def test_over_provisioned(self):
        """What one pool holds too much goes to the other when it is recycled."""
        pool = pool_of(1024)
        first = pool.create_buffer_pool(511, 1024)
        held = [first.request_segment() for _ in range(513)]
        second = pool.create_buffer_pool(513, 1024)
        assert sizes(first, second) == [511, 513]
        assert first.request_segment() is None
        while second.request_segment() is not None:
            pass
        assert (second.requested, second.is_available) == (511, False)
        first.recycle(held.pop())
        assert second.is_available

    @given(
        total=st.integers(1, 60),
        limits=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 30)), max_size=8),
    )
    def test_any_pools(self, total, limits):
        """The sizes fill what is there and respect every pool's limits."""
        pool = pool_of(total)
        made = []
        for low, extra in limits:
            try:
                made.append(pool.create_buffer_pool(low, low + extra))
            except InsufficientBuffersError:
                assert sum(p.min_segments for p in made) + low > total
        assert all(p.min_segments <= p.num_buffers <= p.max_segments for p in made)
        assert sum(sizes(*made)) == min(total, sum(p.max_segments for p in made))
        for each in made:
            each.lazy_destroy()
        assert pool.available_segments == total


class TestNetworkBufferPool:
    def test_arguments(self):
        with pytest.raises(ValueError, match="timeout"):
            pool_of(1, request_timeout_ms=0)
        with pytest.raises(ValueError, match="-1"):
            pool_of(1).request_unpooled_segments(-1)
        assert pool_of(1).request_unpooled_segments(0) == []

    def test_insufficient(self):
        pool = pool_of(10)
        pool.create_buffer_pool(4)
        for request in (pool.create_buffer_pool, pool.request_unpooled_segments):
            with pytest.raises(InsufficientBuffersError) as caught:
                request(7)
            text = str(caught.value)
            assert text.startswith("Insufficient number of network buffers:")
            for part in ("required 7", "only 6 of 10", "128 bytes", "fraction", ".min", ".max"):
                assert part in text

    def test_timeout_returns_what_was_collected(self):
        pool = pool_of(4, request_timeout_ms=20)
        hog = pool.create_buffer_pool(1, 4)
        held = [hog.request_segment() for _ in range(3)]
        before = pool.available_segments
        with pytest.raises(InsufficientBuffersError, match="buffers-request-timeout"):
            pool.request_unpooled_segments(3)
        assert pool.required_segments == 1
        assert pool.available_segments >= before
        for segment in held:
            hog.recycle(segment)
        hog.lazy_destroy()
        assert pool.available_segments == 4

    def test_blocked_request_is_served(self):
        pool = pool_of(4)
        hog = pool.create_buffer_pool(1, 4)
        held = [hog.request_segment() for _ in range(4)]
        result = []
        thread = threading.Thread(target=lambda: result.append(pool.request_unpooled_segments(3)))
        thread.start()
        for segment in held:
            hog.recycle(segment)
        thread.join(10)
        assert len(result[0]) == 3

    def test_destroy(self):
        pool = pool_of(4)
        local = pool.create_buffer_pool(1)
        pool.destroy_all_buffer_pools()
        assert local.is_destroyed
        pool.destroy()
        assert pool.total_segments == 0
        with pytest.raises(IllegalStateError):
            pool.create_buffer_pool(1)
        with pytest.raises(IllegalStateError):
            pool.request_unpooled_segments(1)

    def test_destroy_wakes_a_blocked_request(self):
        pool = pool_of(2)
        hog = pool.create_buffer_pool(1, 2)
        held = [hog.request_segment() for _ in range(2)]
        errors = []

        def request():
            try:
                pool.request_unpooled_segments(1)
            except IllegalStateError as error:
                errors.append(error)

        thread = threading.Thread(target=request)
        thread.start()
        pool.destroy()
        thread.join(10)
        assert errors
        assert len(held) == 2

    def test_availability(self):
        pool = pool_of(2)
        assert pool.available_future.is_done
        first, second = (pool.request_pooled_segment(promised=False) for _ in range(2))
        waiting = pool.available_future
        assert not waiting.is_done
        assert pool.request_pooled_segment(promised=False) is None
        pool.recycle_pooled_segment(first)
        assert waiting.is_done
        assert pool.available_future.is_done
        pool.recycle_pooled_segment(second)


class Listener:
    """Takes buffers as long as it wants some."""

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


class TestLocalBufferPool:
    def test_holds_one_segment_from_the_start(self):
        pool = pool_of(10).create_buffer_pool(2, 4)
        assert (pool.requested, pool.available_segments, pool.is_available) == (1, 1, True)

    def test_request_more_than_available(self):
        local = pool_of(10).create_buffer_pool(2, 4)
        assert [local.request_segment() is not None for _ in range(5)] == [True] * 4 + [False]
        assert not local.is_available

    def test_recycle_after_destroy(self):
        pool = pool_of(10)
        local = pool.create_buffer_pool(2, 4)
        held = [local.request_segment() for _ in range(4)]
        local.lazy_destroy()
        local.lazy_destroy()
        with pytest.raises(CancelTaskError, match="already been destroyed"):
            local.request_segment()
        for segment in held:
            local.recycle(segment)
        assert pool.available_segments == 10

    def test_shrinking(self):
        """A-18: what is at hand returns at once, what is in use when it is recycled."""
        pool = pool_of(10)
        local = pool.create_buffer_pool(1, 6)
        held = [local.request_segment() for _ in range(6)]
        local.recycle(held.pop())
        local.set_num_buffers(3)
        assert (local.requested, local.available_segments) == (5, 0)
        local.recycle(held.pop())
        assert local.requested == 4
        with pytest.raises(ValueError, match="below the required 1"):
            local.set_num_buffers(0)
        local.set_num_buffers(100)
        assert local.num_buffers == 6

    def test_availability_while_resizing(self):
        local = pool_of(10).create_buffer_pool(1, 5)
        held = [local.request_segment() for _ in range(2)]
        states = []
        for size in (5, 2, 1):
            local.set_num_buffers(size)
            states.append(local.is_available)
        assert states == [True, False, False]
        for segment in held:
            local.recycle(segment)
        assert local.is_available

    def test_quota_makes_unavailable_and_refuses_nothing(self):
        """A-19: the pool is available iff a segment is there and no channel is at its quota."""
        local = pool_of(20).create_buffer_pool(4, 10, 3, max_buffers_per_channel=2)
        builders = {channel: [] for channel in range(3)}

        def take(channel):
            builders[channel].append(local.request_builder(channel))
            assert builders[channel][-1] is not None
            return local.is_available

        def give(channel):
            builders[channel].pop().close()
            return local.is_available

        assert [take(0), take(1)] == [True, True]
        assert not take(0)
        assert not take(0), "a third one on channel 0 is granted nevertheless"
        assert not take(1)
        assert not give(1)
        assert not give(0)
        assert give(0)

    @pytest.mark.parametrize("size", [1, 5, 10])
    @pytest.mark.parametrize("overdraft", [0, 1, 5])
    def test_overdraft(self, size, overdraft):
        """A-18, A-21: overdraft is granted beyond the size and goes straight back."""
        pool = pool_of(30)
        local = pool.create_buffer_pool(size, size, max_overdraft=overdraft)
        held = []
        while (segment := local.request_segment()) is not None:
            held.append(segment)
        assert len(held) == size + overdraft
        for left in range(overdraft, 0, -1):
            assert pool.available_segments == 30 - size - left
            assert not local.is_available
            local.recycle(held.pop())
        assert pool.available_segments == 30 - size
        local.recycle(held.pop())
        assert local.is_available

    def test_overdraft_leaves_the_minimum_of_others(self):
        """A-15: neither overdraft nor growth takes what others were promised."""
        pool = pool_of(10)
        greedy = pool.create_buffer_pool(1, 3, max_overdraft=20)
        late, third = pool.create_buffer_pool(3, 5), pool.create_buffer_pool(2, 2)

        def take_all(local):
            return list(iter(local.request_segment, None))

        held = take_all(greedy)
        assert len(held) == 5
        assert pool.available_segments == pool.owed_segments
        assert len(take_all(late)) == 3
        assert not late.is_available
        assert (len(take_all(third)), pool.owed_segments) == (2, 0)
        for segment in held:
            greedy.recycle(segment)
        assert late.is_available

    def test_end_of_a_promise_serves_those_who_wait(self):
        pool = pool_of(4)
        growing, promised = pool.create_buffer_pool(1, 4), pool.create_buffer_pool(2, 2)
        assert len(list(iter(growing.request_segment, None))) == 2
        assert not growing.is_available
        promised.lazy_destroy()
        assert growing.is_available
        assert pool.owed_segments == 0

    def test_blocked_request_wakes_on_recycle(self):
        local = pool_of(4).create_buffer_pool(1, 2)
        held = [local.request_segment() for _ in range(2)]
        result = []
        thread = threading.Thread(target=lambda: result.append(local.request_segment_blocking()))
        thread.start()
        local.recycle(held.pop())
        thread.join(10)
        assert len(result) == 1

    def test_blocked_request_wakes_on_destroy(self):
        """A-22: the waiter gets the cancel error."""
        local = pool_of(4).create_buffer_pool(1, 1)
        local.request_segment()
        errors = []

        def request():
            try:
                local.request_segment_blocking()
            except CancelTaskError as error:
                errors.append(error)

        thread = threading.Thread(target=request)
        thread.start()
        local.lazy_destroy()
        thread.join(10)
        assert errors

    def test_global_shortage_ends(self):
        """A pool that waits for the global one is served when another returns a segment."""
        pool = pool_of(4)
        hog = pool.create_buffer_pool(1, 3)
        held = [hog.request_segment() for _ in range(3)]
        poor = pool.create_buffer_pool(1, 2)
        taken = poor.request_segment()
        assert taken is not None
        assert not poor.is_available
        hog.recycle(held.pop())
        hog.recycle(held.pop())
        assert poor.is_available

    def test_listener(self):
        """Listeners are FIFO, one buffer each; one that refuses passes it on."""
        local = pool_of(4).create_buffer_pool(1, 2)
        assert not local.add_buffer_listener(Listener()), "a segment is at hand"
        held = [local.request_segment() for _ in range(2)]
        first, refusing, last = Listener(), Listener(0), Listener()
        for listener in (first, refusing, last):
            assert local.add_buffer_listener(listener)
        local.recycle(held.pop())
        assert (len(first.buffers), len(last.buffers)) == (1, 0)
        local.recycle(held.pop())
        assert len(last.buffers) == 1
        waiting = Listener()
        assert local.add_buffer_listener(waiting)
        local.lazy_destroy()
        assert waiting.destroyed
        assert not local.add_buffer_listener(Listener())

    def test_reserve(self):
        pool = pool_of(10)
        local = pool.create_buffer_pool(3, 5)
        local.reserve_segments(3)
        assert local.requested == 3
        with pytest.raises(ValueError, match="3 are promised"):
            local.reserve_segments(4)
        local.lazy_destroy()
        assert pool.available_segments == 10

    def test_many_blocking_pools(self):
        """A-20: pools whose threads all block and recycle neither deadlock nor lose a segment."""
        pool = pool_of(12)
        locals_ = [pool.create_buffer_pool(1, 12) for _ in range(6)]

        def work(local):
            for _ in range(300):
                segments = [local.request_segment_blocking()]
                if (extra := local.request_segment()) is not None:
                    segments.append(extra)
                for segment in segments:
                    local.recycle(segment)

        threads = [threading.Thread(target=work, args=(local,)) for local in locals_]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        for local in locals_:
            local.lazy_destroy()
        assert pool.available_segments == 12
