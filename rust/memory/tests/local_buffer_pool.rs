//! Requests, quotas, overdraft, listeners and the end of a local buffer pool.

#![cfg(not(feature = "loom"))]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use penstock_memory::{
    Buffer, BufferListener, DEFAULT_REQUEST_TIMEOUT, DataType, LocalBufferPool, LocalPoolOptions,
    NetworkBufferPool, PoolError, UniqueBuffer,
};

fn pools(
    segments: usize,
    options: LocalPoolOptions,
) -> (Arc<NetworkBufferPool>, Arc<LocalBufferPool>) {
    let network_pool = NetworkBufferPool::new(segments, 128, DEFAULT_REQUEST_TIMEOUT).unwrap();
    let pool = network_pool.create_buffer_pool(options).unwrap();
    (network_pool, pool)
}

fn take(pool: &LocalBufferPool) -> UniqueBuffer {
    pool.request_buffer().unwrap().expect("a buffer")
}

/// a buffer that leaves its pool makes room there, and returns to the network pool.
#[test]
fn a_buffer_leaves_for_a_free_segment() {
    let options = LocalPoolOptions::new(1, 2).with_quota(1, 2);
    let (network_pool, pool) = pools(3, options);
    let request = || pool.request_buffer_for(0).unwrap();
    let mut first = request().unwrap();
    first.as_mut_slice().fill(7);
    first.set_size(128).unwrap();
    let mut first = first.into_buffer(DataType::DataBuffer);
    let second = request().unwrap();
    assert!(request().is_none() && !pool.is_available());
    assert_eq!(network_pool.available_segments(), 1);
    // Somebody else has it.
    let other = first.clone();
    assert!(!first.leave_local_pool());
    drop(other);
    assert!(first.leave_local_pool());
    assert!(pool.is_available(), "its quota is free, too");
    assert_eq!(network_pool.available_segments(), 0);
    assert_eq!(
        (pool.requested_segments(), pool.available_segments()),
        (2, 1)
    );
    // It left already, and for the second one there is no segment to spare.
    assert!(!first.leave_local_pool());
    let mut second = second.into_buffer(DataType::DataBuffer);
    assert!(!second.leave_local_pool());
    let third = request().unwrap();
    assert_eq!(first.as_slice(), [7; 128]);
    drop(first);
    assert_eq!(network_pool.available_segments(), 1);
    // The pool may end meanwhile.
    assert!(second.leave_local_pool());
    drop((pool, third));
    assert_eq!(network_pool.available_segments(), 2);
    drop(second);
    assert_eq!(network_pool.available_segments(), 3);
}

/// Buffers of no local pool cannot leave one.
#[test]
fn only_buffers_of_local_pools_leave() {
    let mut bytes = Buffer::from_bytes(vec![1, 2], DataType::DataBuffer);
    assert!(!bytes.leave_local_pool());
}

/// a pool gives its size and no more; sizes above the maximum mean the maximum.
#[test]
fn bounded_pool_changes_its_size() {
    let (_network_pool, pool) = pools(1024, LocalPoolOptions::new(1, 2));
    pool.set_num_buffers(1).unwrap();
    assert_eq!(pool.available_segments(), 1);
    let first = take(&pool);
    assert_eq!(pool.available_segments(), 0);
    assert!(pool.request_buffer().unwrap().is_none());
    drop(first);
    pool.set_num_buffers(2).unwrap();
    assert_eq!(pool.available_segments(), 1);
    let first = take(&pool);
    assert_eq!(pool.available_segments(), 1);
    let second = take(&pool);
    assert!(pool.request_buffer().unwrap().is_none());
    drop((first, second));
    assert_eq!(pool.available_segments(), 2);
    pool.set_num_buffers(3).unwrap();
    assert_eq!((pool.available_segments(), pool.num_buffers()), (2, 2));
    pool.set_num_buffers(1).unwrap();
    assert_eq!(
        (pool.available_segments(), pool.requested_segments()),
        (1, 1)
    );
}

/// A size below what is required is an argument error that names both.
#[test]
fn size_below_the_minimum_is_refused() {
    let (_network_pool, pool) = pools(10, LocalPoolOptions::new(3, 10));
    let text = pool.set_num_buffers(2).unwrap_err().to_string();
    assert!(text.contains('3') && text.contains('2'), "{text}");
    assert!(pool.reserve_segments(4).is_err());
    pool.reserve_segments(3).unwrap();
    assert_eq!(pool.available_segments(), 3);
}

/// Buffers beyond a lowered size go straight back to the network pool.
#[test]
fn excess_goes_back_when_it_is_recycled() {
    let (network_pool, pool) = pools(10, LocalPoolOptions::new(4, 10));
    let held: Vec<_> = (0..10).map(|_| take(&pool)).collect();
    pool.set_num_buffers(5).unwrap();
    assert_eq!(pool.requested_segments(), 10);
    drop(held);
    assert_eq!(pool.requested_segments(), 5);
    assert_eq!(network_pool.available_segments(), 5);
}

/// A quota makes the pool unavailable, never refuses, and frees when all are below it.
#[test]
fn quota_makes_unavailable_but_serves() {
    let (_network_pool, pool) = pools(10, LocalPoolOptions::new(10, 10).with_quota(3, 2));
    let request = |channel| pool.request_buffer_for(channel).unwrap().unwrap();
    let first = request(0);
    let other = request(1);
    assert!(pool.is_available());
    let second = request(0);
    assert!(!pool.is_available());
    let future = pool.availability();
    let third = request(0);
    let other_again = request(1);
    drop(first);
    assert!(!pool.is_available());
    drop(second);
    assert!(!pool.is_available(), "channel 1 is still at its quota");
    drop(other);
    assert!(pool.is_available());
    assert!(future.is_done());
    drop((third, other_again));
    assert!(pool.is_available());
}

/// availability when the size goes 5 → 2 → 1 and back while three buffers are in use.
#[test]
fn availability_follows_the_size() {
    let (_network_pool, pool) = pools(10, LocalPoolOptions::new(1, 10));
    pool.set_num_buffers(5).unwrap();
    let mut held: Vec<_> = (0..3).map(|_| take(&pool)).collect();
    assert!(pool.is_available());
    pool.set_num_buffers(2).unwrap();
    assert!(!pool.is_available());
    pool.set_num_buffers(1).unwrap();
    held.pop();
    held.pop();
    assert!(!pool.is_available());
    held.pop();
    assert!(pool.is_available());
}

/// futures that were asked for while the pool was unavailable are of one period.
#[test]
fn futures_of_one_period_are_the_same() {
    let (_network_pool, pool) = pools(2, LocalPoolOptions::new(1, 1));
    let available = pool.availability();
    let held = take(&pool);
    let (one, other) = (pool.availability(), pool.availability());
    assert!(one.is_same(&other) && !one.is_same(&available));
    drop(held);
    let _held = take(&pool);
    assert!(!one.is_same(&pool.availability()));
}

/// overdraft serves while unavailable, up to its limit, and goes straight back.
#[test]
fn overdraft_is_bounded_and_returned() {
    for size in 1..4 {
        for overdraft in 0..4 {
            let options = LocalPoolOptions::new(size, size).with_overdraft(overdraft);
            let (network_pool, pool) = pools(10, options);
            let mut held: Vec<_> = std::iter::from_fn(|| pool.request_buffer().unwrap()).collect();
            assert_eq!(held.len(), size + overdraft);
            assert_eq!(pool.requested_segments(), size + overdraft);
            assert!(!pool.is_available());
            for _ in 0..overdraft {
                let free = network_pool.available_segments();
                held.pop();
                assert_eq!(network_pool.available_segments(), free + 1);
                assert!(!pool.is_available());
            }
            held.pop();
            assert!(pool.is_available());
            assert_eq!(pool.requested_segments(), size);
        }
    }
}

#[derive(Default)]
struct Listener {
    refuses: bool,
    received: Mutex<Vec<UniqueBuffer>>,
    destroyed: Mutex<bool>,
}

impl BufferListener for Listener {
    fn on_buffer_available(&self, buffer: UniqueBuffer) -> Result<(), UniqueBuffer> {
        if self.refuses {
            return Err(buffer);
        }
        self.received.lock().unwrap().push(buffer);
        Ok(())
    }

    fn on_pool_destroyed(&self) {
        *self.destroyed.lock().unwrap() = true;
    }
}

impl Listener {
    fn received(&self) -> usize {
        self.received.lock().unwrap().len()
    }
}

/// C-10: listeners are served in order, once each; a refused buffer goes to the next.
#[test]
fn listeners_are_one_shot_and_first_come() {
    let (_network_pool, pool) = pools(10, LocalPoolOptions::new(2, 2));
    let refusing = Arc::new(Listener {
        refuses: true,
        ..Listener::default()
    });
    let patient: Arc<Listener> = Arc::default();
    let listen = |listener: &Arc<Listener>| {
        pool.add_buffer_listener(Arc::<Listener>::clone(listener) as Arc<dyn BufferListener>)
    };
    assert!(!listen(&patient), "a segment lies ready");
    let (first, second) = (take(&pool), take(&pool));
    assert!(listen(&refusing));
    assert!(listen(&patient));
    drop(first);
    assert_eq!((refusing.received(), patient.received()), (0, 1));
    drop(second);
    assert_eq!(patient.received(), 1);
    assert_eq!(pool.available_segments(), 1);
}

/// A listener that waits for a pool without segments is served when the network pool has some.
#[test]
fn listeners_are_served_from_the_network_pool() {
    let network_pool = NetworkBufferPool::new(2, 128, DEFAULT_REQUEST_TIMEOUT).unwrap();
    let greedy = network_pool
        .create_buffer_pool(LocalPoolOptions::new(0, 2))
        .unwrap();
    let held = [take(&greedy), take(&greedy)];
    let pool = network_pool
        .create_buffer_pool(LocalPoolOptions::new(1, 1))
        .unwrap();
    let listener: Arc<Listener> = Arc::default();
    assert!(pool.add_buffer_listener(Arc::<Listener>::clone(&listener) as Arc<dyn BufferListener>));
    drop(held);
    assert_eq!(listener.received(), 1);
    listener.received.lock().unwrap().clear();
    assert_eq!(pool.available_segments(), 1);
}

/// a destroyed pool tells its listeners, refuses requests and never acquires again.
#[test]
fn destroyed_pool_never_acquires() {
    let (network_pool, pool) = pools(4, LocalPoolOptions::new(2, 4).with_overdraft(2));
    let listener: Arc<Listener> = Arc::default();
    let held: Vec<_> = std::iter::from_fn(|| pool.request_buffer().unwrap()).collect();
    assert!(pool.add_buffer_listener(Arc::<Listener>::clone(&listener) as Arc<dyn BufferListener>));
    pool.lazy_destroy();
    pool.lazy_destroy();
    assert!(*listener.destroyed.lock().unwrap());
    assert_eq!(pool.request_buffer().unwrap_err(), PoolError::Destroyed);
    assert!(
        !pool.add_buffer_listener(Arc::<Listener>::clone(&listener) as Arc<dyn BufferListener>)
    );
    pool.set_num_buffers(4).unwrap();
    assert_eq!(pool.requested_segments(), 4);
    drop(held);
    assert_eq!(pool.requested_segments(), 0);
    assert_eq!(network_pool.available_segments(), 4);
}

/// A blocked requester is woken by the end of the pool and learns of it.
#[test]
fn blocked_requester_is_woken_by_the_end() {
    let (_network_pool, pool) = pools(1, LocalPoolOptions::new(1, 1));
    let held = take(&pool);
    let waiting = pool.availability();
    std::thread::scope(|scope| {
        let request = scope.spawn(|| pool.request_buffer_blocking(None, None).unwrap_err());
        pool.lazy_destroy();
        let error = request.join().unwrap();
        assert_eq!(error, PoolError::Destroyed);
        assert_eq!(error.to_string(), "Buffer pool has already been destroyed.");
    });
    assert!(waiting.is_done());
    drop(held);
}

/// A blocking request with a timeout gives up without an error.
#[test]
fn blocking_request_times_out() {
    let (_network_pool, pool) = pools(1, LocalPoolOptions::new(1, 1));
    let _held = take(&pool);
    let timeout = Some(Duration::from_millis(1));
    assert!(
        pool.request_buffer_blocking(None, timeout)
            .unwrap()
            .is_none()
    );
}

/// A blocked requester is woken by a recycled buffer.
#[test]
fn blocked_requester_is_woken_by_recycling() {
    let (_network_pool, pool) = pools(1, LocalPoolOptions::new(1, 1));
    let held = take(&pool);
    std::thread::scope(|scope| {
        let request = scope.spawn(|| pool.request_buffer_blocking(None, None).unwrap().is_some());
        drop(held);
        assert!(request.join().unwrap());
    });
    assert_eq!(pool.available_segments(), 1);
}

/// Number of rounds of racing threads.  Miri is a thousand times slower, and checks every access.
const ROUNDS: usize = if cfg!(miri) { 20 } else { 2_000 };

/// nothing is lost or doubled under concurrent request, recycle, resize and destroy.
#[test]
fn nothing_is_lost_under_concurrency() {
    let (network_pool, pool) = pools(
        16,
        LocalPoolOptions::new(2, 16)
            .with_overdraft(2)
            .with_quota(2, 3),
    );
    std::thread::scope(|scope| {
        for channel in 0..2 {
            let pool = &pool;
            scope.spawn(move || {
                let mut held = Vec::new();
                for round in 0_usize..10 * ROUNDS {
                    match pool.request_buffer_for(channel) {
                        Ok(Some(mut buffer)) => {
                            // Two holders of one segment would see each other's bytes.
                            buffer.as_mut_slice().fill(channel as u8);
                            held.push(buffer);
                        }
                        Ok(None) => held.clear(),
                        Err(_) => break,
                    }
                    if round % 5 == channel {
                        held.clear();
                    }
                    for buffer in &mut held {
                        assert!(
                            buffer
                                .as_mut_slice()
                                .iter()
                                .all(|&b| usize::from(b) == channel)
                        );
                    }
                }
            });
        }
        scope.spawn(|| {
            for round in 0..ROUNDS {
                pool.set_num_buffers(2 + round % 15).unwrap();
                let other = network_pool
                    .create_buffer_pool(LocalPoolOptions::new(1, 4))
                    .unwrap();
                drop(other.request_buffer());
            }
            pool.lazy_destroy();
        });
    });
    assert_eq!(pool.requested_segments(), 0);
    assert_eq!(network_pool.available_segments(), 16);
}

/// A quota that changes counts what is in use already, and tells who waits.
#[test]
fn quota_changes_while_buffers_are_in_use() {
    let (_network_pool, pool) = pools(10, LocalPoolOptions::new(10, 10).with_quota(2, 10));
    let request = |channel| pool.request_buffer_for(channel).unwrap().unwrap();
    let mut held: Vec<_> = (0..4).map(|_| request(0)).collect();
    let other = request(1);
    pool.set_quota(0, 5);
    assert!(pool.is_available());
    pool.set_quota(0, 4);
    assert!(!pool.is_available());
    pool.set_quota(0, 2);
    pool.set_quota(1, 1);
    held.truncate(2);
    drop(other);
    assert!(!pool.is_available(), "two of channel 0 are in use");
    let future = pool.availability();
    held.pop();
    assert!(pool.is_available() && future.is_done());
    held.push(request(0));
    let future = pool.availability();
    assert!(!future.is_done());
    pool.set_quota(0, 3);
    assert!(pool.is_available() && future.is_done());
}
