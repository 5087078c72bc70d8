"""Random requests, returns, resizing and destruction never lose or double a segment."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule
from penstock.errors import InsufficientBuffersError
from penstock.network.pure.network_buffer_pool import NetworkBufferPool

TOTAL = 20


class Pools(RuleBasedStateMachine):
    """A network pool with local pools and exclusive segments against a plain count."""

    pools = Bundle("pools")

    def __init__(self):
        super().__init__()
        self.network = NetworkBufferPool(TOTAL, 16)
        self.held = {}
        self.exclusive = []

    @rule(
        target=pools,
        low=st.integers(1, 6),
        extra=st.integers(0, 10),
        overdraft=st.integers(0, 3),
        quota=st.integers(1, 4),
    )
    def create(self, low, extra, overdraft, quota):
        try:
            pool = self.network.create_buffer_pool(low, low + extra, 2, quota, overdraft)
        except InsufficientBuffersError:
            assert self.network.required_segments + low > TOTAL
            return multiple()
        self.held[pool] = []
        return pool

    @rule(pool=pools, channel=st.integers(-1, 1))
    def request(self, pool, channel):
        if pool.is_destroyed:
            return
        before = pool.requested
        segment = pool.request_segment(channel)
        if segment is not None:
            self.held[pool].append((segment, channel))
        if pool.requested > before:
            assert pool.requested <= max(before, pool.num_buffers + pool._max_overdraft)

    @rule(pool=pools, index=st.integers(0, 30))
    def recycle(self, pool, index):
        if self.held[pool]:
            segment, channel = self.held[pool].pop(index % len(self.held[pool]))
            pool.recycle_segment(segment, channel)

    @rule(count=st.integers(1, 4))
    def take_exclusive(self, count):
        # What is promised but in use would block, so only what is free is asked for.
        room = TOTAL - self.network.required_segments
        if count <= room and count <= self.network.available_segments:
            self.exclusive.append(self.network.request_unpooled_segments(count))

    @rule()
    def return_exclusive(self):
        if self.exclusive:
            self.network.recycle_unpooled_segments(self.exclusive.pop())

    @rule(pool=pools)
    def destroy(self, pool):
        pool.lazy_destroy()

    def alive(self):
        return [pool for pool in self.held if not pool.is_destroyed]

    @invariant()
    def sizes_fill_what_is_there(self):
        """A-14, A-15."""
        alive = self.alive()
        unpooled = sum(map(len, self.exclusive))
        assert all(p.min_segments <= p.num_buffers <= p.max_segments for p in alive)
        most = sum(p.max_segments for p in alive)
        assert sum(p.num_buffers for p in alive) == min(TOTAL - unpooled, most)

    @invariant()
    def no_segment_is_lost_or_doubled(self):
        """A-20."""
        segments = [segment for held in self.held.values() for segment, _ in held]
        segments += [segment for taken in self.exclusive for segment in taken]
        assert len(set(map(id, segments))) == len(segments)
        at_hand = sum(pool.available_segments for pool in self.held)
        assert len(segments) + at_hand + self.network.available_segments == TOTAL

    @invariant()
    def availability_is_the_formula(self):
        """A-19: a segment at hand and no channel at its quota."""
        for pool in self.alive():
            formula = pool.available_segments > 0 and pool._at_quota == 0
            assert pool.is_available == formula
            assert pool.available_future.is_done == formula

    @invariant()
    def quotas_are_counted(self):
        for pool, held in self.held.items():
            counts = [sum(at == channel for _, at in held) for channel in range(2)]
            assert pool._counts == counts
            assert pool._at_quota == sum(count >= pool._max_per_channel for count in counts)

    def teardown(self):
        """A-16: everything comes back."""
        for pool, held in self.held.items():
            pool.lazy_destroy()
            for segment, channel in held:
                pool.recycle_segment(segment, channel)
        for taken in self.exclusive:
            self.network.recycle_unpooled_segments(taken)
        assert self.network.available_segments == TOTAL
        assert self.network.required_segments == 0


TestPools = Pools.TestCase
TestPools.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
