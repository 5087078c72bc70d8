"""Random requests, returns, resizing and destruction never lose or duplicate a segment."""

from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from penstock.errors import InsufficientBuffersError

from contract.plane import NATIVE_IS_BUILT, Plane

KINDS = ["native", "pure"] if NATIVE_IS_BUILT else ["pure"]
TOTAL = 20
SETTINGS = settings(max_examples=60, stateful_step_count=50, deadline=None)


class Model:
    """The parameters of a local pool, and the owners of its buffers."""

    def __init__(self, low, high, overdraft, quota):
        self.low, self.high, self.overdraft, self.quota = low, high, overdraft, quota
        self.held = []

    @property
    def at_quota(self):
        return any(sum(at == c for _, at, _ in self.held) >= self.quota for c in range(2))


class Pools(RuleBasedStateMachine):
    """A network pool with local pools and exclusive segments against a plain count."""

    pools = Bundle("pools")

    def __init__(self, kind):
        super().__init__()
        self.network = Plane(kind).load("NetworkBufferPool")(TOTAL, 16)
        self.models = {}
        self.exclusive = []
        self.serial = count()

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
        self.models[pool] = Model(low, low + extra, overdraft, quota)
        return pool

    @rule(pool=pools, channel=st.integers(-1, 1))
    def request(self, pool, channel):
        """A-18; mark the segment, to recognise it later."""
        if pool.is_destroyed:
            return
        model, before = self.models[pool], pool.requested
        builder = pool.request_builder(channel)
        if builder is not None:
            consumer = builder.create_buffer_consumer()
            mark = next(self.serial).to_bytes(8, "big")
            builder.append_and_commit(mark)
            model.held.append(((builder, consumer), channel, mark))
        if pool.requested > before:
            assert pool.requested <= max(before, pool.num_buffers + model.overdraft)

    @rule(pool=pools, index=st.integers(0, 30))
    def recycle(self, pool, index):
        held = self.models[pool].held
        if held:
            self.give(held.pop(index % len(held)))

    def give(self, held):
        """A-20: no other holder has written into the segment meanwhile."""
        (builder, consumer), _, mark = held
        built = consumer.build()
        assert bytes(built.view()) == mark
        built.recycle()
        consumer.close()
        builder.close()

    @rule(pool=pools, size=st.integers(1, 20))
    def shrink_and_regrow(self, pool, size):
        """A size set by a caller lasts until the next redistribution."""
        model = self.models[pool]
        if not pool.is_destroyed:
            before = pool.num_buffers
            pool.set_num_buffers(max(size, model.low))
            assert pool.num_buffers == min(max(size, model.low), model.high)
            pool.set_num_buffers(before)

    @rule(count=st.integers(1, 4))
    def take_exclusive(self, count):
        # Promised but used segments would block, so the test requests only free ones, and none that
        # a pool without a segment at hand may take when the sizes change.
        room = TOTAL - self.network.required_segments
        takers = sum(pool.available_segments == 0 for pool in self.alive())
        if count <= room and count + takers <= self.network.available_segments:
            self.exclusive.append(self.network.request_unpooled_segments(count))

    @rule()
    def return_exclusive(self):
        if self.exclusive:
            self.network.recycle_unpooled_segments(self.exclusive.pop())

    @rule(pool=pools)
    def destroy(self, pool):
        pool.lazy_destroy()

    def alive(self):
        return {pool: model for pool, model in self.models.items() if not pool.is_destroyed}

    @invariant()
    def sizes_fill_what_is_there(self):
        """A-14, A-15."""
        alive = self.alive()
        unpooled = sum(map(len, self.exclusive))
        assert all(m.low <= p.num_buffers <= m.high for p, m in alive.items())
        most = sum(m.high for m in alive.values())
        assert sum(p.num_buffers for p in alive) == min(TOTAL - unpooled, most)

    @invariant()
    def no_segment_is_lost(self):
        """A-20."""
        held = sum(len(model.held) for model in self.models.values())
        held += sum(map(len, self.exclusive))
        at_hand = sum(pool.available_segments for pool in self.models)
        assert held + at_hand + self.network.available_segments == TOTAL

    @invariant()
    def availability_is_the_formula(self):
        """A-19: a segment at hand and no channel at its quota."""
        for pool, model in self.alive().items():
            formula = pool.available_segments > 0 and not model.at_quota
            assert pool.is_available == formula
            assert pool.available_future.is_done == formula

    @invariant()
    def destroyed_pools_take_nothing(self):
        """A-22: a destroyed pool only counts segments in use."""
        for pool, model in self.models.items():
            if pool.is_destroyed:
                assert (pool.requested, pool.available_segments) == (len(model.held), 0)

    def teardown(self):
        """A-16: everything returns."""
        for pool, model in self.models.items():
            pool.lazy_destroy()
            for held in model.held:
                self.give(held)
        for taken in self.exclusive:
            self.network.recycle_unpooled_segments(taken)
        assert self.network.available_segments == TOTAL
        assert self.network.required_segments == 0


@pytest.mark.parametrize("kind", KINDS)
def test_pools(kind):
    """A-14 to A-22 hold after every step of any sequence of operations."""
    run_state_machine_as_test(lambda: Pools(kind), settings=SETTINGS)
