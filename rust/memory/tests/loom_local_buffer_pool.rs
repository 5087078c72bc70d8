//! Interleavings of two users of a local pool with one segment.
//!
//! Run with `LOOM_MAX_PREEMPTIONS=2 cargo test --release -p penstock-memory --features loom
//! --test loom_local_buffer_pool`.

#![cfg(feature = "loom")]

use std::sync::Arc;

use loom::thread;
use penstock_memory::{
    DEFAULT_REQUEST_TIMEOUT, LocalBufferPool, LocalPoolOptions, NetworkBufferPool, PoolError,
};

fn pools() -> (Arc<NetworkBufferPool>, Arc<LocalBufferPool>) {
    let network_pool = NetworkBufferPool::new(1, 8, DEFAULT_REQUEST_TIMEOUT).unwrap();
    let pool = network_pool
        .create_buffer_pool(LocalPoolOptions::new(1, 1))
        .unwrap();
    (network_pool, pool)
}

/// a blocked requester is always woken, and the segment is neither lost nor doubled.
#[test]
fn blocked_requester_gets_the_recycled_segment() {
    loom::model(|| {
        let (network_pool, pool) = pools();
        let held = pool.request_buffer().unwrap().unwrap();
        let waiter = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                assert!(pool.request_buffer_blocking(None, None).unwrap().is_some());
            })
        };
        drop(held);
        waiter.join().unwrap();
        assert!(pool.is_available());
        assert_eq!(
            (pool.available_segments(), pool.requested_segments()),
            (1, 1)
        );
        drop(pool);
        assert_eq!(network_pool.available_segments(), 1);
    });
}

/// recycling races with the end of the pool; the segment goes home either way.
#[test]
fn recycling_races_with_the_end() {
    loom::model(|| {
        let (network_pool, pool) = pools();
        let held = pool.request_buffer().unwrap().unwrap();
        let recycler = thread::spawn(move || drop(held));
        pool.lazy_destroy();
        assert_eq!(pool.request_buffer().unwrap_err(), PoolError::Destroyed);
        recycler.join().unwrap();
        assert_eq!(pool.requested_segments(), 0);
        assert_eq!(network_pool.available_segments(), 1);
    });
}

/// two pools that share one segment both get it in the end.
#[test]
fn segment_moves_between_pools() {
    loom::model(|| {
        let network_pool = NetworkBufferPool::new(1, 8, DEFAULT_REQUEST_TIMEOUT).unwrap();
        let first = network_pool
            .create_buffer_pool(LocalPoolOptions::new(0, 1))
            .unwrap();
        let held = first.request_buffer().unwrap().unwrap();
        let second = network_pool
            .create_buffer_pool(LocalPoolOptions::new(1, 1))
            .unwrap();
        let waiter = thread::spawn(move || {
            assert!(
                second
                    .request_buffer_blocking(None, None)
                    .unwrap()
                    .is_some()
            );
        });
        drop(held);
        waiter.join().unwrap();
        drop(first);
        assert_eq!(network_pool.available_segments(), 1);
    });
}
