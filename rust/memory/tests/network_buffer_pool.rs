//! Promises, redistribution and availability of the network buffer pool.

#![cfg(not(feature = "loom"))]

use std::sync::Arc;
use std::time::Duration;

use penstock_memory::{
    DEFAULT_REQUEST_TIMEOUT, LocalBufferPool, LocalPoolOptions, NetworkBufferPool, PoolError,
};

const NO_LIMIT: usize = usize::MAX;

/// Minimum and maximum of a pool.
type Bounds = (usize, usize);

fn network_pool(segments: usize) -> Arc<NetworkBufferPool> {
    NetworkBufferPool::new(segments, 128, DEFAULT_REQUEST_TIMEOUT).unwrap()
}

fn local(pool: &Arc<NetworkBufferPool>, min: usize, max: usize) -> Arc<LocalBufferPool> {
    pool.create_buffer_pool(LocalPoolOptions::new(min, max))
        .unwrap()
}

fn sizes(pools: &[&Arc<LocalBufferPool>]) -> Vec<usize> {
    pools.iter().map(|pool| pool.num_buffers()).collect()
}

/// the documented sizes of pools among 1024 segments.
#[test]
fn worked_sizes() {
    let cases: [(&[Bounds], &[usize]); 7] = [
        (&[(1, 1)], &[1]),
        (&[(1, 2)], &[2]),
        (&[(1, NO_LIMIT)], &[1024]),
        (&[(24, 24), (1, NO_LIMIT)], &[24, 1000]),
        (&[(1, NO_LIMIT), (1, NO_LIMIT)], &[512, 512]),
        (&[(512, NO_LIMIT), (512, NO_LIMIT)], &[512, 512]),
        (&[(1, 10), (1, 10)], &[10, 10]),
    ];
    for (bounds, expected) in cases {
        let pool = network_pool(1024);
        let locals: Vec<_> = bounds
            .iter()
            .map(|&(min, max)| local(&pool, min, max))
            .collect();
        assert_eq!(
            sizes(&locals.iter().collect::<Vec<_>>()),
            expected,
            "{bounds:?}"
        );
    }
}

/// three segments among one, two and three pools; nothing is lost to rounding.
#[test]
fn remainders_are_shared_out() {
    let pool = network_pool(3);
    let first = local(&pool, 0, NO_LIMIT);
    assert_eq!(sizes(&[&first]), [3]);
    let second = local(&pool, 0, NO_LIMIT);
    assert_eq!(first.num_buffers() + second.num_buffers(), 3);
    assert_ne!(first.num_buffers(), 3);
    assert_ne!(second.num_buffers(), 3);
    let third = local(&pool, 0, NO_LIMIT);
    assert_eq!(sizes(&[&first, &second, &third]), [1, 1, 1]);
}

/// unpooled segments shrink the pools, and returning them grows the pools again.
#[test]
fn unpooled_segments_take_part_in_redistribution() {
    let pool = network_pool(10);
    let first = local(&pool, 1, 10);
    assert_eq!(sizes(&[&first]), [10]);
    let a = pool.request_unpooled_memory_segments(2).unwrap();
    assert_eq!(sizes(&[&first]), [8]);
    let second = local(&pool, 1, 10);
    assert_eq!(sizes(&[&first, &second]), [4, 4]);
    let b = pool.request_unpooled_memory_segments(2).unwrap();
    assert_eq!(sizes(&[&first, &second]), [3, 3]);
    let c = pool.request_unpooled_memory_segments(2).unwrap();
    assert_eq!(sizes(&[&first, &second]), [2, 2]);
    pool.recycle_unpooled_memory_segments(a);
    assert_eq!(sizes(&[&first, &second]), [3, 3]);
    pool.recycle_unpooled_memory_segments(b);
    assert_eq!(sizes(&[&first, &second]), [4, 4]);
    drop(c);
    assert_eq!(sizes(&[&first, &second]), [5, 5]);
    first.lazy_destroy();
    assert_eq!(sizes(&[&second]), [10]);
}

/// Segments that one pool holds beyond its new size go to the pool that was promised them.
#[test]
fn overprovisioned_pool_gives_back_to_the_promised_one() {
    let pool = network_pool(1024);
    let first = local(&pool, 511, NO_LIMIT);
    let mut held: Vec<_> = (0..1024)
        .map(|_| first.request_buffer().unwrap().unwrap())
        .collect();
    held.truncate(512);
    let second = local(&pool, 513, 1024);
    assert_eq!(sizes(&[&first, &second]), [511, 513]);
    assert!(first.request_buffer().unwrap().is_none());
    let taken: Vec<_> = std::iter::from_fn(|| second.request_buffer().unwrap()).collect();
    assert_eq!(taken.len(), 512);
    assert!(!second.is_available());
    held.pop();
    assert!(first.request_buffer().unwrap().is_none());
    assert!(second.is_available());
}

/// neither overdraft nor growth takes what others were promised, whoever comes first.
#[test]
fn overdraft_leaves_the_minimum_of_others() {
    let pool = network_pool(10);
    let greedy = pool
        .create_buffer_pool(LocalPoolOptions::new(1, 3).with_overdraft(20))
        .unwrap();
    let (late, third) = (local(&pool, 3, 5), local(&pool, 2, 2));
    let held: Vec<_> = std::iter::from_fn(|| greedy.request_buffer().unwrap()).collect();
    assert_eq!(held.len(), 5);
    assert_eq!(pool.available_segments(), pool.owed_segments());
    let promised: Vec<_> = std::iter::from_fn(|| late.request_buffer().unwrap()).collect();
    assert_eq!(promised.len(), 3);
    assert!(!late.is_available());
    let segments: Vec<_> = std::iter::from_fn(|| third.request_buffer().unwrap()).collect();
    assert_eq!((segments.len(), pool.owed_segments()), (2, 0));
    // The overdraft goes back, and the pool that waits to grow gets it.
    drop(held);
    assert!(late.is_available());
}

/// Segments that nobody is owed any more wake those who wait to grow.
#[test]
fn the_end_of_a_promise_serves_those_who_wait() {
    let pool = network_pool(4);
    let growing = local(&pool, 1, 4);
    let promised = local(&pool, 2, 2);
    let held: Vec<_> = std::iter::from_fn(|| growing.request_buffer().unwrap()).collect();
    assert_eq!(held.len(), 2);
    assert!(!growing.is_available());
    drop(promised);
    assert!(growing.is_available());
    assert_eq!(pool.owed_segments(), 0);
}

/// A request beyond what can be promised is refused and says what would help.
#[test]
fn insufficient_segments_are_named() {
    let pool = network_pool(10);
    let _first = local(&pool, 7, NO_LIMIT);
    let error = pool
        .create_buffer_pool(LocalPoolOptions::new(4, 4))
        .unwrap_err();
    assert_eq!(
        error,
        PoolError::Insufficient {
            required: 4,
            available: 3,
            total: 10,
            segment_size: 128
        }
    );
    let text = error.to_string();
    assert!(
        text.starts_with("Insufficient number of network buffers:"),
        "{text}"
    );
    for part in ["4", "3", "10", "128", "taskmanager.memory.network.segments"] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    assert_eq!(pool.request_unpooled_memory_segments(4).unwrap_err(), error);
    assert_eq!(pool.required_segments(), 7);
    assert!(pool.request_unpooled_memory_segments(0).unwrap().is_empty());
}

/// A request that times out names the setting, and keeps and promises nothing.
#[test]
fn timed_out_request_returns_its_segments() {
    let pool = NetworkBufferPool::new(10, 128, Duration::from_millis(5)).unwrap();
    let first = local(&pool, 1, 10);
    let held: Vec<_> = (0..6)
        .map(|_| first.request_buffer().unwrap().unwrap())
        .collect();
    let error = pool.request_unpooled_memory_segments(9).unwrap_err();
    assert_eq!(
        error,
        PoolError::Timeout {
            timeout: Duration::from_millis(5)
        }
    );
    assert!(error.to_string().contains("buffers-request-timeout"));
    assert_eq!(pool.required_segments(), 1);
    drop(held);
    drop(first);
    assert_eq!(pool.available_segments(), 10);
}

/// A blocked request gets the segments that a pool gives up.
#[test]
fn blocked_request_is_served_by_recycling() {
    let pool = network_pool(10);
    let first = local(&pool, 1, 10);
    let held: Vec<_> = (0..10)
        .map(|_| first.request_buffer().unwrap().unwrap())
        .collect();
    std::thread::scope(|scope| {
        let request = scope.spawn(|| pool.request_unpooled_memory_segments(9).unwrap().len());
        drop(held);
        assert_eq!(request.join().unwrap(), 9);
    });
    drop(first);
    assert_eq!(pool.available_segments(), 10);
}

/// Destroying the pool ends a blocked request, which leaves nothing behind.
#[test]
fn destroy_ends_a_blocked_request() {
    let pool = network_pool(4);
    let first = local(&pool, 1, 4);
    let held: Vec<_> = (0..4)
        .map(|_| first.request_buffer().unwrap().unwrap())
        .collect();
    std::thread::scope(|scope| {
        let request = scope.spawn(|| pool.request_unpooled_memory_segments(3).unwrap_err());
        while pool.required_segments() != 4 {
            std::thread::yield_now();
        }
        pool.destroy();
        assert_eq!(request.join().unwrap(), PoolError::NetworkPoolDestroyed);
    });
    assert_eq!(pool.total_segments(), 0);
    assert_eq!(pool.required_segments(), 1);
    assert_eq!(
        pool.create_buffer_pool(LocalPoolOptions::new(1, 1))
            .unwrap_err(),
        PoolError::NetworkPoolDestroyed
    );
    drop(held);
}

/// destroying all pools returns everything that is not in use, the rest when it is recycled.
#[test]
fn destroy_all_returns_everything() {
    let pool = network_pool(10);
    let first = local(&pool, 1, 4);
    let second = local(&pool, 2, 10);
    let held = (
        first.request_buffer().unwrap().unwrap(),
        second.request_buffer().unwrap(),
    );
    pool.destroy_all_buffer_pools().unwrap();
    assert_eq!(pool.registered_pools(), 0);
    assert_eq!(pool.required_segments(), 0);
    assert_eq!(pool.available_segments(), 8);
    assert!(first.is_destroyed());
    drop(held);
    assert_eq!(pool.available_segments(), 10);
}

/// The pool is available while it has free segments; its future completes when one comes back.
#[test]
fn availability_follows_the_free_segments() {
    let pool = network_pool(2);
    assert!(pool.availability().is_done());
    let mut held = pool.request_unpooled_memory_segments(2).unwrap();
    let future = pool.availability();
    assert!(!pool.is_available());
    assert!(!future.is_done());
    assert!(!future.wait(Some(Duration::ZERO)));
    held.pop();
    assert!(future.is_done());
    assert!(future.wait(None));
    assert!(pool.is_available());
}

/// Bad arguments are refused.
#[test]
fn arguments_are_checked() {
    assert!(NetworkBufferPool::new(1, 0, DEFAULT_REQUEST_TIMEOUT).is_err());
    assert!(NetworkBufferPool::new(1, 1, Duration::ZERO).is_err());
    let pool = network_pool(4);
    assert!(
        pool.create_buffer_pool(LocalPoolOptions::new(2, 1))
            .is_err()
    );
    assert!(
        pool.create_buffer_pool(LocalPoolOptions::new(0, 0))
            .is_err()
    );
    assert_eq!(pool.required_segments(), 0);
}

/// Usage is reported when it crosses 100 %, at each doubling, and when it is back to normal.
#[test]
fn usage_is_reported_on_change() {
    let pool = network_pool(10);
    assert_eq!(pool.usage_message(), None);
    let first = local(&pool, 1, 12);
    assert_eq!(pool.estimated_usage_percent(), 120);
    assert!(pool.usage_message().unwrap().contains("120%"));
    assert_eq!(pool.usage_message(), None);
    let second = local(&pool, 1, 11);
    assert_eq!(pool.usage_message(), None);
    let third = local(&pool, 1, 1);
    assert!(pool.usage_message().unwrap().contains("240%"));
    drop((first, second, third));
    assert!(pool.usage_message().unwrap().contains("back to normal"));
    assert_eq!(pool.usage_message(), None);
}

/// Blocking requests of many pools with little to share end for all of them.
#[test]
fn many_pools_do_not_deadlock() {
    // Miri is a thousand times slower, and looks at every access.
    let rounds = if cfg!(miri) { 20 } else { 2_000 };
    let pool = network_pool(8);
    let locals: Vec<_> = (0..4).map(|_| local(&pool, 1, NO_LIMIT)).collect();
    std::thread::scope(|scope| {
        for local in &locals {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let first = local.request_buffer_blocking(None, None).unwrap();
                    let second = local.request_buffer().unwrap();
                    drop((first, second));
                }
            });
        }
    });
    drop(locals);
    assert_eq!(pool.available_segments(), 8);
}
