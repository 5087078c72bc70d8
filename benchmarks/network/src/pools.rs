//! What a buffer costs, and what it costs that a pool comes or goes.

use std::hint::black_box;

use penstock_memory::{
    DEFAULT_REQUEST_TIMEOUT, LocalBufferPool, LocalPoolOptions, NetworkBufferPool, PoolBounds,
    redistribute,
};

use crate::raw::{LockedList, on_two_threads};
use crate::report::{Quotient, Report, nanoseconds};

const POOLS: usize = 1_000;

pub(crate) fn measure(report: &Report) {
    let network = NetworkBufferPool::new(64, 32 << 10, DEFAULT_REQUEST_TIMEOUT).expect("memory");
    let pool = network
        .create_buffer_pool(LocalPoolOptions::new(32, 32))
        .expect("a pool");
    let list = LockedList::new();
    let rounds = report.count(1_000_000, 1_000);
    report.together(
        [
            ("raw lock + list, 1 thread", "ns", &mut || {
                nanoseconds(rounds, || list.exchange())
            }),
            ("request + recycle, 1 thread", "ns", &mut || {
                nanoseconds(rounds, || request(&pool))
            }),
            ("raw lock + list, 2 threads", "ns", &mut || {
                on_two_threads(rounds, &|| list.exchange())
            }),
            ("request + recycle, 2 threads", "ns", &mut || {
                on_two_threads(rounds, &|| request(&pool))
            }),
        ],
        &[
            Quotient::times("request + recycle, 1 thread, by raw", 1, 0),
            Quotient::times("request + recycle, 2 threads, by raw", 3, 2),
        ],
    );
    let bounds = vec![PoolBounds { min: 2, max: 10 }; POOLS];
    let rounds = report.count(20_000, 10);
    report.nanoseconds("redistribution, 1,000 pools", rounds, || {
        black_box(redistribute(black_box(4 * POOLS), &bounds));
    });
}

fn request(pool: &LocalBufferPool) {
    black_box(pool.request_buffer().expect("alive").expect("a buffer"));
}
