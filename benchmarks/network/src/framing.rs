//! Records into segments and out of them, without any exchange.

use std::hint::black_box;
use std::sync::atomic::{AtomicI32, Ordering};

use penstock_memory::{
    BufferBuilder, DEFAULT_REQUEST_TIMEOUT, LocalBufferPool, LocalPoolOptions, NetworkBufferPool,
};
use penstock_network::framing::{FramingLimits, RecordDeserializer};

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

/// Eight bytes each: written in place as a codec does, read in place as an operator does.
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
    let mut buffer = Vec::new();
    while buffer.len() + 12 <= SEGMENT_BYTES {
        buffer.extend_from_slice(&8_u32.to_be_bytes());
        buffer.extend_from_slice(&(buffer.len() as u64).to_be_bytes());
    }
    let per_buffer = buffer.len() / 12;
    let mut deserializer = RecordDeserializer::new(FramingLimits::default());
    let rounds = report.count(10_000, 10);
    let value = report.median(|| {
        let started = std::time::Instant::now();
        let mut sum = 0_u64;
        for _ in 0..rounds {
            let range = deserializer.feed(black_box(&buffer)).expect("records");
            let mut rest = &buffer[range];
            while let Some((length, tail)) = rest.split_first_chunk::<4>() {
                let length = u32::from_be_bytes(*length) as usize;
                let (payload, tail) = tail.split_at(length);
                sum += payload
                    .first_chunk()
                    .map_or(0, |bytes| u64::from_be_bytes(*bytes));
                rest = tail;
            }
        }
        black_box(sum);
        started.elapsed().as_secs_f64() * 1e9 / (rounds * per_buffer) as f64
    });
    report.row("deserialize 8 B", value, "ns");
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
        let record = deserializer.spanning().expect("a record");
        black_box(record[bytes - 1]);
    });
    if bytes > FramingLimits::default().spill_threshold_bytes {
        let mut copy = vec![0_u8; bytes];
        report.gigabytes(&format!("read back {name}"), bytes, rounds, || {
            copy.copy_from_slice(deserializer.spanning().expect("a record"));
        });
        black_box(&copy);
    }
}

fn feed(deserializer: &mut RecordDeserializer, framed: &[u8]) {
    for chunk in framed.chunks(SEGMENT_BYTES) {
        deserializer.feed(black_box(chunk)).expect("a record");
    }
}
