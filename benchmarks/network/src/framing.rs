//! Records into segments and out of them, without any exchange.

use std::hint::black_box;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use penstock_memory::{
    BufferBuilder, DEFAULT_REQUEST_TIMEOUT, LocalBufferPool, LocalPoolOptions, NetworkBufferPool,
};
use penstock_network::framing::{FramingLimits, RecordDeserializer, Records};

use crate::raw::copies;
use crate::report::{Quotient, Report, gigabytes};

const SEGMENT_BYTES: usize = 32 << 10;

pub(crate) fn measure(report: &Report) {
    let network = NetworkBufferPool::new(16, SEGMENT_BYTES, DEFAULT_REQUEST_TIMEOUT).expect("one");
    let pool = network
        .create_buffer_pool(LocalPoolOptions::new(8, 8))
        .expect("a pool");
    small(report, &pool);
    hundred_kibibytes(report, &pool);
    ten_mebibytes(report, &pool);
}

fn builder(pool: &LocalBufferPool) -> BufferBuilder {
    let buffer = pool.request_buffer().expect("alive").expect("a buffer");
    buffer.into_builder()
}

/// Eight bytes each, written in place as a codec does; read in place, of these and other lengths.
fn small(report: &Report, pool: &LocalBufferPool) {
    let records = report.count(20_000_000, 10_000);
    let mut value = 0_u64;
    let mut open = builder(pool);
    let mut position = 0;
    report.nanoseconds("serialize 8 B", records, || {
        if position + 12 > SEGMENT_BYTES {
            open = builder(pool);
            position = 0;
        }
        value += 1;
        // SAFETY: twelve bytes fit behind `position`.
        let target = unsafe { open.base_ptr().add(position) };
        // SAFETY: as above; unaligned stores are allowed.
        unsafe { target.cast::<[u8; 4]>().write(8_u32.to_be_bytes()) };
        // SAFETY: as above.
        let target = unsafe { target.add(4) };
        // SAFETY: as above.
        unsafe { target.cast::<[u8; 8]>().write(value.to_be_bytes()) };
        position += 12;
        // SAFETY: the marker lives as long as its builder.
        let marker = unsafe { AtomicI32::from_ptr(open.marker_ptr()) };
        marker.store(position as i32, Ordering::Release);
    });
    deserialize(report, "deserialize 8 B", |_| 8);
    // Lengths as words have them: no two neighbours need be alike.
    deserialize(report, "deserialize 8-15 B", |index| {
        8 + (index.wrapping_mul(0x9E37_79B9) >> 13) % 8
    });
}

/// A segment full of records, read in place as an operator does.
fn deserialize(report: &Report, name: &str, length: impl Fn(usize) -> usize) {
    let (mut buffer, mut count) = (Vec::new(), 0);
    loop {
        let length = length(count);
        if buffer.len() + 4 + length > SEGMENT_BYTES {
            break;
        }
        buffer.extend_from_slice(&(length as u32).to_be_bytes());
        buffer.resize(buffer.len() + length, 7);
        count += 1;
    }
    let mut deserializer = RecordDeserializer::new(FramingLimits::default());
    let rounds = report.count(10_000, 10);
    report.row(name, "ns", || {
        let started = Instant::now();
        let mut sum = 0_u64;
        for _ in 0..rounds {
            let range = deserializer.feed(black_box(&buffer)).expect("records");
            for payload in Records::new(&buffer[range]) {
                sum += payload
                    .first_chunk()
                    .map_or(0, |bytes| u64::from_be_bytes(*bytes));
            }
        }
        black_box(sum);
        started.elapsed().as_secs_f64() * 1e9 / (rounds * count) as f64
    });
}

/// Records over several segments, beside bare copies.
fn hundred_kibibytes(report: &Report, pool: &LocalBufferPool) {
    const BYTES: usize = 100 << 10;
    let rounds = report.count(10_000, 2);
    let (mut copy, mut write, mut read) =
        (copies(BYTES), serializer(pool, BYTES), Framed::of(BYTES));
    report.together(
        [
            ("raw memcpy 100 KiB", "GB/s", &mut || {
                gigabytes(BYTES, rounds, &mut copy)
            }),
            ("serialize 100 KiB", "GB/s", &mut || {
                gigabytes(BYTES, rounds, &mut write)
            }),
            ("deserialize 100 KiB", "GB/s", &mut || {
                gigabytes(BYTES, rounds, || read.deserialize())
            }),
        ],
        &[
            Quotient::part("serialize 100 KiB, by raw", 1, 0),
            Quotient::part("deserialize 100 KiB, by raw", 2, 0),
        ],
    );
}

/// Records that the reader spills to a file.
fn ten_mebibytes(report: &Report, pool: &LocalBufferPool) {
    const BYTES: usize = 10 << 20;
    let rounds = report.count(100, 2);
    report.gigabytes("serialize 10 MiB", BYTES, rounds, serializer(pool, BYTES));
    let mut read = Framed::of(BYTES);
    report.gigabytes("deserialize 10 MiB", BYTES, rounds, || read.deserialize());
    let mut copy = vec![0_u8; BYTES];
    report.row("read back 10 MiB", "GB/s", || {
        let mut spent = Duration::ZERO;
        for _ in 0..rounds {
            // Each record is mapped anew, and read once.
            read.feed();
            let started = Instant::now();
            copy.copy_from_slice(read.deserializer.spanning().expect("a record"));
            spent += started.elapsed();
        }
        (BYTES * rounds) as f64 / spent.as_secs_f64() / 1e9
    });
    black_box(&copy);
}

/// What writes a record of so many bytes, over as many segments as it takes.
fn serializer(pool: &LocalBufferPool, bytes: usize) -> impl FnMut() {
    let payload = vec![7_u8; bytes];
    let mut open = builder(pool);
    move || {
        for part in [&(bytes as u32).to_be_bytes()[..], &payload] {
            let mut rest = part;
            while !rest.is_empty() {
                let count = open.append_and_commit(rest).expect("open");
                rest = &rest[count..];
                if !rest.is_empty() {
                    open.finish();
                    open = builder(pool);
                }
            }
        }
    }
}

/// A record that spans segments, and what reads it.
struct Framed {
    bytes: Vec<u8>,
    deserializer: RecordDeserializer,
}

impl Framed {
    fn of(bytes: usize) -> Self {
        let mut framed = (bytes as u32).to_be_bytes().to_vec();
        framed.resize(framed.len() + bytes, 7);
        Self {
            bytes: framed,
            deserializer: RecordDeserializer::new(FramingLimits::default()),
        }
    }

    fn feed(&mut self) {
        for chunk in self.bytes.chunks(SEGMENT_BYTES) {
            self.deserializer.feed(black_box(chunk)).expect("a record");
        }
    }

    fn deserialize(&mut self) {
        self.feed();
        let record = self.deserializer.spanning().expect("a record");
        black_box(record[record.len() - 1]);
    }
}
