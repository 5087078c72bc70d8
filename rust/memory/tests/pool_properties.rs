//! Invariants of the pools over random sequences of operations.

#![cfg(not(feature = "loom"))]

use std::sync::Arc;
use std::time::Duration;

use penstock_memory::{
    Buffer, DataType, LocalBufferPool, LocalPoolOptions, NetworkBufferPool, PoolBounds,
    PooledSegment, UniqueBuffer, redistribute,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    CreatePool {
        min: usize,
        extra: usize,
        overdraft: usize,
    },
    DestroyPool(usize),
    Request {
        pool: usize,
        channel: usize,
    },
    Recycle(usize),
    Leave(usize),
    Return(usize),
    RequestUnpooled(usize),
    RecycleUnpooled(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0_usize..4, 1_usize..9, 0_usize..3).prop_map(|(min, extra, overdraft)| {
            Step::CreatePool {
                min,
                extra,
                overdraft,
            }
        }),
        (0_usize..8).prop_map(Step::DestroyPool),
        (0_usize..8, 0_usize..2).prop_map(|(pool, channel)| Step::Request { pool, channel }),
        (0_usize..8, 0_usize..2).prop_map(|(pool, channel)| Step::Request { pool, channel }),
        (0_usize..32).prop_map(Step::Recycle),
        (0_usize..16).prop_map(Step::Leave),
        (0_usize..16).prop_map(Step::Return),
        (0_usize..4).prop_map(Step::RequestUnpooled),
        (0_usize..8).prop_map(Step::RecycleUnpooled),
    ];
    prop::collection::vec(step, 0..80)
}

const TOTAL: usize = 16;

/// Short: a request may wait for buffers that only the test itself could recycle.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(1);

struct World {
    network_pool: Arc<NetworkBufferPool>,
    pools: Vec<(Arc<LocalBufferPool>, usize)>,
    buffers: Vec<UniqueBuffer>,
    /// Buffers whose local pools were asked to take other segments for them.
    left: Vec<Buffer>,
    unpooled: Vec<Vec<PooledSegment>>,
}

impl World {
    fn apply(&mut self, step: &Step) {
        match *step {
            Step::CreatePool {
                min,
                extra,
                overdraft,
            } => {
                let options = LocalPoolOptions::new(min, min + extra)
                    .with_quota(2, 3)
                    .with_overdraft(overdraft);
                if let Ok(pool) = self.network_pool.create_buffer_pool(options) {
                    self.pools.push((pool, overdraft));
                }
            }
            Step::DestroyPool(index) if index < self.pools.len() => {
                drop(self.pools.remove(index));
            }
            Step::Request { pool, channel } if pool < self.pools.len() => {
                let (pool, overdraft) = &self.pools[pool];
                let before = pool.requested_segments();
                self.buffers
                    .extend(pool.request_buffer_for(channel).unwrap());
                let after = pool.requested_segments();
                assert!(
                    after <= before || after <= pool.num_buffers() + overdraft,
                    "A-18"
                );
            }
            Step::Recycle(index) if index < self.buffers.len() => {
                drop(self.buffers.swap_remove(index));
            }
            Step::Leave(index) if index < self.buffers.len() => {
                let mut buffer = self
                    .buffers
                    .swap_remove(index)
                    .into_buffer(DataType::DataBuffer);
                let pool = &self.network_pool;
                let surplus = pool.available_segments() > pool.owed_segments();
                assert_eq!(buffer.leave_local_pool(), surplus);
                self.left.push(buffer);
            }
            Step::Return(index) if index < self.left.len() => {
                drop(self.left.swap_remove(index));
            }
            Step::RequestUnpooled(count) => {
                self.unpooled
                    .extend(self.network_pool.request_unpooled_memory_segments(count));
            }
            Step::RecycleUnpooled(index) if index < self.unpooled.len() => {
                let segments = self.unpooled.swap_remove(index);
                self.network_pool.recycle_unpooled_memory_segments(segments);
            }
            _ => {}
        }
    }

    fn check(&self) {
        let unpooled: usize = self.unpooled.iter().map(Vec::len).sum();
        let sizes: usize = self.pools.iter().map(|(pool, _)| pool.num_buffers()).sum();
        let most: usize = self.pools.iter().map(|(pool, _)| pool.max_segments()).sum();
        let any_resizable = self
            .pools
            .iter()
            .any(|(pool, _)| pool.min_segments() < pool.max_segments());
        assert!(sizes <= TOTAL - unpooled, "A-14");
        let owed = self.pools.iter().map(|(pool, _)| {
            pool.min_segments()
                .saturating_sub(pool.requested_segments())
        });
        assert_eq!(self.network_pool.owed_segments(), owed.sum::<usize>());
        if any_resizable {
            assert_eq!(sizes, most.min(TOTAL - unpooled), "A-14");
        }
        for (pool, _) in &self.pools {
            let size = pool.num_buffers();
            assert!(
                (pool.min_segments()..=pool.max_segments()).contains(&size),
                "A-15"
            );
        }
    }
}

proptest! {
    /// after any sequence of operations.
    #[test]
    fn promises_are_kept(steps in steps()) {
        let mut world = World {
            network_pool: NetworkBufferPool::new(TOTAL, 64, REQUEST_TIMEOUT).unwrap(),
            pools: Vec::new(),
            buffers: Vec::new(),
            left: Vec::new(),
            unpooled: Vec::new(),
        };
        for step in &steps {
            world.apply(step);
            world.check();
        }
        world.pools.clear();
        world.buffers.clear();
        world.left.clear();
        world.unpooled.clear();
        prop_assert_eq!(world.network_pool.available_segments(), TOTAL, "A-16");
        prop_assert_eq!(world.network_pool.required_segments(), 0);
    }

    /// a share is the exact one rounded up or down, and the shares add up.
    #[test]
    fn shares_are_proportional(
        available in 1_usize..200,
        pools in prop::collection::vec((0_usize..5, 0_usize..50), 1..12),
    ) {
        let bounds: Vec<PoolBounds> =
            pools.iter().map(|&(min, room)| PoolBounds { min, max: min + room }).collect();
        let rooms: Vec<usize> = pools.iter().map(|&(_, room)| room.min(available)).collect();
        let total_room: usize = rooms.iter().sum();
        let shared = available.min(total_room);
        let mut given = 0;
        for ((size, bound), room) in redistribute(available, &bounds).iter().zip(&bounds).zip(&rooms) {
            match size {
                Some(size) => {
                    let share = size - bound.min;
                    let exact = shared as f64 * *room as f64 / total_room as f64;
                    prop_assert!((share as f64 - exact).abs() < 1.0 + 1e-9);
                    prop_assert!(*size <= bound.max);
                    given += share;
                }
                None => prop_assert!(*room == 0 || total_room == 0),
            }
        }
        prop_assert_eq!(given, shared);
    }
}
