//! Records into segments and out of them, without any exchange.

use std::hint::black_box;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use penstock_memory::{
    BufferBuilder, DEFAULT_REQUEST_TIMEOUT, LocalBufferPool, LocalPoolOptions, NetworkBufferPool,
};
use penstock_network::framing::{FramingLimits, RecordDeserializer, Records};

use crate::report::Report;

const SEGMENT_BYTES: usize = 32 << 10;

pub(crate) fn measure(report: &Report) {
    let network = NetworkBufferPool::new(16, SEGMENT_BYTES, DEFAULT_REQUEST_TIMEOUT).expect("one");
    let pool = network
        .create_buffer_pool(LocalPoolOptions::new(8, 8))
        .expect("a pool");
    small(report, &pool);
    for (name, bytes, rounds) in [
        ("100 KiB", 100 << 10, report.count(20_000, 2)),
        ("10 MiB", 10 << 20, report.count(100, 2)),
    ] {
        large(report, &pool, name, bytes, rounds);
    }
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

/// Over as many segments as it takes.
fn large(report: &Report, pool: &LocalBufferPool, name: &str, bytes: usize, rounds: usize) {
    let payload = vec![7_u8; bytes];
    let mut open = builder(pool);
    report.gigabytes(&format!("serialize {name}"), bytes, rounds, || {
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
    });
    let mut framed = (bytes as u32).to_be_bytes().to_vec();
    framed.extend_from_slice(&payload);
    let mut deserializer = RecordDeserializer::new(FramingLimits::default());
    report.gigabytes(&format!("deserialize {name}"), bytes, rounds, || {
        feed(&mut deserializer, &framed);
        black_box(deserializer.spanning().expect("a record")[bytes - 1]);
    });
    if bytes > FramingLimits::default().spill_threshold_bytes {
        let mut copy = vec![0_u8; bytes];
        report.row(&format!("read back {name}"), "GB/s", || {
            let mut spent = Duration::ZERO;
            for _ in 0..rounds {
                // Each record is mapped anew, and read once.
                feed(&mut deserializer, &framed);
                let started = Instant::now();
                copy.copy_from_slice(deserializer.spanning().expect("a record"));
                spent += started.elapsed();
            }
            (bytes * rounds) as f64 / spent.as_secs_f64() / 1e9
        });
        black_box(&copy);
    }
}

fn feed(deserializer: &mut RecordDeserializer, framed: &[u8]) {
    for chunk in framed.chunks(SEGMENT_BYTES) {
        deserializer.feed(black_box(chunk)).expect("a record");
    }
}
