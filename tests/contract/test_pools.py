"""The global pool, its redistribution, and local pools of both runtimes (internals M4, M5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock.errors import IllegalStateError, InsufficientBuffersError

from contract.plane import Background, Plane, eventually
from contract.pools import KINDS, SEGMENT_BYTES, give, pool_of, sizes, take, take_all

__all__ = ["pool_of"]


class TestRedistribution:
    """A-14, A-15, A-17: the worked scenarios."""

    def test_fixed_then_growing(self, pool_of):
        """A-15."""
        pool = pool_of(1024)
        assert sizes(pool.create_buffer_pool(1, 1), pool.create_buffer_pool(1, 2)) == [1, 2]

    def test_lone_unbounded(self, pool_of):
        """A-14."""
        local = pool_of(1024).create_buffer_pool(1)
        assert sizes(local) == [1024]

    def test_fixed_and_unbounded(self, pool_of):
        """A-14, A-15."""
        pool = pool_of(1024)
        assert sizes(pool.create_buffer_pool(24, 24), pool.create_buffer_pool(1)) == [24, 1000]

    @pytest.mark.parametrize(("limits", "each"), [([1], 512), ([512], 512), ([1, 10], 10)])
    def test_two_alike(self, pool_of, limits, each):
        """A-14, A-17."""
        pool = pool_of(1024)
        both = [pool.create_buffer_pool(*limits) for _ in range(2)]
        assert sizes(*both) == [each, each]

    def test_uneven(self, pool_of):
        """A-17: the remainder goes to some pools, and nothing is lost."""
        pool = pool_of(3)
        one = pool.create_buffer_pool(1)
        assert sizes(one) == [3]
        two = pool.create_buffer_pool(1)
        assert sum(sizes(one, two)) == 3
        assert 3 not in sizes(one, two)
        three = pool.create_buffer_pool(1)
        assert sizes(one, two, three) == [1, 1, 1]

    def test_exclusive_segments_shrink_the_pools(self, pool_of):
        """A-14: exclusive segments are not shared, until they return."""
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

    def test_over_provisioned(self, pool_of):
        """A-15: one pool's surplus goes to the other when it is recycled."""
        pool = pool_of(1024)
        first = pool.create_buffer_pool(511, 1024)
        held = take(first, 513)
        second = pool.create_buffer_pool(513, 1024)
        assert sizes(first, second) == [511, 513]
        assert first.request_buffer() is None
        others = take_all(second)
        assert (second.requested, second.is_available) == (511, False)
        held.pop().recycle()
        assert second.is_available
        give(held)
        give(others)

    @pytest.mark.parametrize("kind", KINDS)
    @given(
        total=st.integers(1, 60),
        limits=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 30)), max_size=8),
    )
    def test_any_pools(self, kind, total, limits):
        """A-14, A-15, A-16, A-17: sizes use all segments, in proportion and within limits."""
        pool = Plane(kind).load("NetworkBufferPool")(total, SEGMENT_BYTES)
        made = {}
        for low, extra in limits:
            try:
                made[pool.create_buffer_pool(low, low + extra)] = (low, low + extra)
            except InsufficientBuffersError:
                assert sum(low for low, _ in made.values()) + low > total
        assert all(low <= p.num_buffers <= high for p, (low, high) in made.items())
        assert sum(sizes(*made)) == min(total, sum(high for _, high in made.values()))
        free = total - sum(low for low, _ in made.values())
        wanted = [min(free, high - low) for low, high in made.values()]
        for local, want in zip(made, wanted, strict=True):
            if sum(wanted) and free:
                exact = min(free, sum(wanted)) * want / sum(wanted)
                assert abs(local.num_buffers - made[local][0] - exact) < 1
        for each in made:
            each.lazy_destroy()
        assert pool.available_segments == total


class TestNetworkBufferPool:
    def test_arguments(self, pool_of):
        """A4: invalid arguments are rejected, and the attempt promises nothing."""
        for settings in ({"request_timeout_ms": 0}, {"count": -1}):
            with pytest.raises(ValueError, match=r"timeout|-1"):
                pool_of(**{"count": 1, **settings})
        pool = pool_of(4)
        with pytest.raises(ValueError, match="-1"):
            pool.request_unpooled_segments(-1)
        assert pool.request_unpooled_segments(0) == []
        for limits in ((2, 1), (0, 0), (-1, 2), (1, 2, 2, 0), (1, 2, 2, 1, -1)):
            with pytest.raises(ValueError, match=r"-1|segment|buffers"):
                pool.create_buffer_pool(*limits)
        assert (pool.required_segments, pool.owed_segments, pool.num_pools) == (0, 0, 0)

    def test_insufficient(self, pool_of):
        """A4: the error names the required and the available segments, and how to get more."""
        pool = pool_of(10)
        local = pool.create_buffer_pool(4)
        for request in (pool.create_buffer_pool, pool.request_unpooled_segments):
            with pytest.raises(InsufficientBuffersError) as caught:
                request(7)
            text = str(caught.value)
            assert text.startswith("Insufficient number of network buffers: required 7, but only 6")
            for part in ("10 of 128 bytes", "taskmanager.memory.network.segments"):
                assert part in text
        assert pool.required_segments == 4
        local.lazy_destroy()

    def test_timeout_returns_what_was_collected(self, pool_of):
        """A-16: a request that times out holds nothing and names its setting."""
        pool = pool_of(4, request_timeout_ms=20)
        hog = pool.create_buffer_pool(1, 4)
        held = take(hog, 3)
        with pytest.raises(InsufficientBuffersError, match=r"20 ms.*buffers-request-timeout"):
            pool.request_unpooled_segments(3)
        assert (pool.required_segments, pool.owed_segments) == (1, 0)
        assert sizes(hog) == [4]
        give(held)
        hog.lazy_destroy()
        assert pool.available_segments == 4

    def test_returned_twice(self, pool_of):
        """A-16, A-20: an exclusive segment returns once, to its own pool."""
        pool, other = pool_of(8), pool_of(8)
        segments = pool.request_unpooled_segments(2)
        pool.recycle_unpooled_segments(segments)
        with pytest.raises(IllegalStateError, match="before"):
            pool.recycle_unpooled_segments(segments)
        assert (pool.available_segments, pool.required_segments) == (8, 0)
        assert (other.available_segments, other.required_segments) == (8, 0)

    def test_destroy_all(self, pool_of):
        """A-16: exclusive segments that are still out are reported."""
        pool = pool_of(8)
        local = pool.create_buffer_pool(1, 4)
        segments = pool.request_unpooled_segments(2)
        with pytest.raises(IllegalStateError, match="0 pools and 2 promised"):
            pool.destroy_all_buffer_pools()
        assert local.is_destroyed
        pool.recycle_unpooled_segments(segments)
        pool.destroy_all_buffer_pools()
        assert pool.available_segments == 8

    def test_blocked_request_is_served(self, pool_of):
        """A-20: a request waits until the holders return their segments."""
        pool = pool_of(4)
        hog = pool.create_buffer_pool(1, 4)
        held = take(hog, 4)
        blocked = Background(lambda: pool.request_unpooled_segments(3))
        give(held)
        segments = blocked.result()
        assert len(segments) == 3
        pool.recycle_unpooled_segments(segments)
        hog.lazy_destroy()
        assert pool.available_segments == 4

    def test_destroy(self, pool_of):
        """A-16, A-22: a destroyed pool is empty, promises nothing and frees returned segments."""
        pool = pool_of(4)
        local = pool.create_buffer_pool(1)
        held = take(local, 2)
        pool.destroy_all_buffer_pools()
        assert (local.is_destroyed, pool.num_pools, pool.available_segments) == (True, 0, 2)
        pool.destroy()
        assert (pool.is_destroyed, pool.total_segments) == (True, 0)
        for request in (pool.create_buffer_pool, pool.request_unpooled_segments):
            with pytest.raises(IllegalStateError, match="destroyed"):
                request(1)
        give(held)
        assert pool.available_segments == 0

    def test_destroy_wakes_a_blocked_request(self, pool_of):
        """A-22: waiting requests fail, because there are no segments any more."""
        pool = pool_of(2)
        hog = pool.create_buffer_pool(1, 2)
        held = take(hog, 2)
        blocked = Background(lambda: pool.request_unpooled_segments(1))
        eventually(lambda: pool.required_segments == 2, "the request is not promised")
        pool.destroy()
        with pytest.raises(IllegalStateError, match="destroyed"):
            blocked.result()
        give(held)

    def test_availability(self, pool_of):
        """A-19: taking the last segment starts a new future, the first return completes it."""
        pool = pool_of(2)
        assert pool.available_future.is_done
        taken = pool.request_unpooled_segments(2)
        waiting = pool.available_future
        called = []
        waiting.add_callback(lambda: called.append("first"))
        assert not waiting.is_done
        assert not waiting.wait(0)
        pool.recycle_unpooled_segments([taken.pop()])
        assert waiting.is_done
        assert waiting.wait(0)
        waiting.add_callback(lambda: called.append("late"))
        assert called == ["first", "late"]
        assert pool.available_future.is_done
        pool.recycle_unpooled_segments(taken)

    def test_usage(self, pool_of):
        """A4: requests beyond 100 % are logged once, again at twice that, and when normal."""
        pool = pool_of(10)
        assert pool.usage_message() is None
        greedy = pool.create_buffer_pool(1, 12)
        assert "120%" in pool.usage_message()
        assert pool.usage_message() is None
        others = [pool.create_buffer_pool(1, 11)]
        assert pool.usage_message() is None, "230 %"
        others.append(pool.create_buffer_pool(1, 1))
        assert "240%" in pool.usage_message()
        for one in (greedy, *others):
            one.lazy_destroy()
        unbounded = pool.create_buffer_pool(2)
        assert "[20%] of network buffers is back to normal" in pool.usage_message()
        assert pool.usage_message() is None
        unbounded.lazy_destroy()
