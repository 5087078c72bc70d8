//! The limit of the same-host path: records written to memory that the other side has mapped, and
//! copied out of it once.

use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use penstock_memory::{
    DEFAULT_REQUEST_TIMEOUT, ForeignMemory, LocalPoolOptions, NetworkBufferPool,
};

use crate::report::gigabytes;

const SEGMENT_BYTES: usize = 32 << 10;
/// As many buffers as a channel has credit for.
const BUFFERS: usize = 10;
/// Buffers are given back by so many.
const GIVEN_BACK: usize = BUFFERS / 2;

/// Gigabytes a second, of `buffers` buffers full of records: each is announced by a byte through a
/// Unix socket, and given back in the same way.
pub(crate) fn throughput(record_bytes: usize, buffers: usize) -> f64 {
    let pool = NetworkBufferPool::new_shared(BUFFERS, SEGMENT_BYTES, DEFAULT_REQUEST_TIMEOUT);
    let pool = pool.expect("shared memory");
    let memory = pool.shared_memory().expect("it is shared");
    let foreign = ForeignMemory::map(memory.descriptor()).expect("mapped");
    let local = pool.create_buffer_pool(LocalPoolOptions::new(BUFFERS, BUFFERS));
    let local = local.expect("a pool");
    let request = || local.request_buffer().expect("alive").expect("a buffer");
    let mut segments: Vec<_> = std::iter::repeat_with(request).take(BUFFERS).collect();
    let places: Arc<[u64]> = segments
        .iter_mut()
        .map(|segment| {
            memory
                .offset_of(segment.as_mut_slice())
                .expect("it is there") as u64
        })
        .collect();
    let (mut writer, mut reader) = UnixStream::pair().expect("a socket pair");
    let record = vec![3_u8; record_bytes];
    let records = SEGMENT_BYTES / record_bytes;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut free = BUFFERS;
            let mut returned = [0; BUFFERS];
            for index in 0..buffers {
                if free == 0 {
                    free = writer.read(&mut returned).expect("returned");
                }
                let segment = segments[index % BUFFERS].as_mut_slice();
                if record_bytes < SEGMENT_BYTES {
                    // Fetches it back into the cache of this core, between distant ones twice as
                    // fast as record by record.
                    black_box(&mut *segment).fill(0);
                }
                for place in segment.chunks_exact_mut(record_bytes) {
                    place.copy_from_slice(black_box(&record));
                }
                free -= 1;
                writer.write_all(&[0]).expect("announced");
            }
        });
        let mut copies = vec![vec![0_u8; SEGMENT_BYTES]; BUFFERS];
        let mut announced = [0; BUFFERS];
        let (mut left, mut owed) = (0, 0);
        let mut index = 0;
        gigabytes(records * record_bytes, buffers, || {
            if left == 0 {
                left = reader.read(&mut announced).expect("announced");
            }
            let place = index % BUFFERS;
            assert!(foreign.copy_to(places[place], &mut copies[place]));
            black_box(&copies[place]);
            (left, owed, index) = (left - 1, owed + 1, index + 1);
            if owed == GIVEN_BACK && index < buffers {
                // Who has written everything does not listen any more.
                let _ = reader.write_all(&[0; GIVEN_BACK]);
                owed = 0;
            }
        })
    })
}
