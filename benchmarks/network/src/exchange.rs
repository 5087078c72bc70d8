//! Two environments in one process exchange records, by TCP or by the same-host path.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use penstock_network::framing::Records;
use penstock_network::{
    Batch, ChannelDescriptor, ChannelLocation, Cursor, EnvironmentConfig, NetworkEnvironment,
    PartitionType, RecordReader, ResultPartition,
};

use crate::report::{Report, p50_us};

pub(crate) fn measure(report: &Report) {
    let small = report.count(60_000_000, 100_000) as u64;
    for (name, channels, flush_ms) in [
        ("8 B records, 1 channel, 100 ms", 1, 100),
        ("8 B records, 1,000 channels, 1 ms", 1_000, 1),
    ] {
        report.row(name, "M/s", || {
            throughput(false, 8, channels, flush_ms, small).0
        });
    }
    let bytes = report.count(2 << 30, 4 << 20) as u64;
    for (name, size) in [("1 KiB", 1 << 10), ("32 KiB", 32 << 10)] {
        for (path, same_host) in [("TCP", false), ("same host", true)] {
            report.row(&format!("{name} records, {path}"), "GB/s", || {
                throughput(same_host, size, 1, 100, bytes / size as u64).1
            });
        }
    }
    let rounds = report.count(20_000, 10);
    for (path, same_host) in [("TCP", false), ("same host", true)] {
        report.row(&format!("flushed 8 B record one way, {path}"), "us", || {
            one_way(same_host, rounds)
        });
    }
}

pub(crate) fn environment(name: &str, channels: usize, same_host: bool) -> NetworkEnvironment {
    let config = EnvironmentConfig {
        num_segments: 256 + 4 * channels,
        same_host_path: same_host,
        ..EnvironmentConfig::new(name, b"token")
    };
    NetworkEnvironment::new(config).expect("an environment")
}

pub(crate) fn partition(
    owner: &NetworkEnvironment,
    id: u8,
    channels: usize,
    flush_ms: i64,
) -> Arc<ResultPartition> {
    owner
        .create_result_partition(
            [id; 60],
            channels,
            PartitionType::PipelinedBounded,
            flush_ms,
        )
        .expect("a partition")
}

pub(crate) fn reader(
    consumer: &NetworkEnvironment,
    producer: &NetworkEnvironment,
    id: u8,
    channels: usize,
) -> RecordReader {
    let location = ChannelLocation::Remote(producer.address());
    let descriptors: Vec<_> = (0..channels)
        .map(|subpartition| ChannelDescriptor {
            partition_id: [id; 60],
            subpartition,
            location,
        })
        .collect();
    let gate = consumer.create_input_gate(&descriptors).expect("a gate");
    gate.request_partitions().expect("requested");
    RecordReader::new(gate, consumer.framing_limits())
}

/// Writes one framed record: in place when it fits, over several buffers when not.
#[inline]
fn emit(partition: &ResultPartition, subpartition: usize, cursor: &mut Cursor, framed: &[u8]) {
    if framed.len() > (cursor.capacity - cursor.position) as usize {
        partition
            .append(Some(subpartition), cursor, framed)
            .expect("appended");
        return;
    }
    // SAFETY: the cursor is open and the record fits behind its position.
    let target = unsafe { cursor.data.add(cursor.position as usize) };
    // SAFETY: as above; the record lies elsewhere.
    unsafe { std::ptr::copy_nonoverlapping(framed.as_ptr(), target, framed.len()) };
    cursor.position += framed.len() as u32;
    // SAFETY: an open cursor's marker points to the position marker of its buffer.
    unsafe { AtomicI32::from_ptr(cursor.marker) }
        .store(cursor.position.cast_signed(), Ordering::Release);
    // SAFETY: an open cursor's dirty byte lives as long as its partition.
    unsafe { AtomicU8::from_ptr(cursor.dirty) }.store(1, Ordering::Release);
}

/// Reads to the end and returns the number of records.
fn consume(mut reader: RecordReader) -> u64 {
    let (mut count, mut sum) = (0, 0_u64);
    loop {
        match reader.next_batch(None).expect("a batch") {
            Batch::Data {
                spanning, records, ..
            } => {
                if let Some(payload) = spanning {
                    count += 1;
                    sum += u64::from(payload[0]);
                }
                for payload in Records::new(records) {
                    count += 1;
                    sum += u64::from(payload[payload.len() - 1]);
                }
            }
            Batch::End => {
                std::hint::black_box(sum);
                return count;
            }
            Batch::Event { .. } | Batch::Nothing => {}
        }
    }
}

/// Millions of records and gigabytes a second.
fn throughput(
    same_host: bool,
    record_bytes: usize,
    channels: usize,
    flush_ms: i64,
    total: u64,
) -> (f64, f64) {
    let producer = environment("producer", channels, same_host);
    let consumer = environment("consumer", channels, same_host);
    let partition = partition(&producer, 1, channels, flush_ms);
    let reader = reader(&consumer, &producer, 1, channels);
    let mut framed = (record_bytes as u32).to_be_bytes().to_vec();
    framed.resize(4 + record_bytes, 1);
    let small: Option<[u8; 12]> = framed.as_slice().try_into().ok();
    let started = Instant::now();
    let count = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut cursors: Vec<Cursor> = (0..channels).map(|_| Cursor::void()).collect();
            let mut subpartition = 0;
            for index in 0..total {
                let cursor = &mut cursors[subpartition];
                if let Some(mut small) = small {
                    // A size that the compiler knows, as the typed codec of a long has.
                    small[4..].copy_from_slice(&index.to_be_bytes());
                    emit(&partition, subpartition, cursor, &small);
                } else {
                    emit(&partition, subpartition, cursor, &framed);
                }
                subpartition += 1;
                if subpartition == channels {
                    subpartition = 0;
                }
            }
            partition.finish().expect("finished");
            assert!(partition.wait_consumed(Duration::from_secs(60)));
        });
        consume(reader)
    });
    let seconds = started.elapsed().as_secs_f64();
    assert_eq!(count, total);
    let bytes = total as f64 * framed.len() as f64;
    (total as f64 / seconds / 1e6, bytes / seconds / 1e9)
}

/// Half of the middle round trip of a flushed record, in microseconds.
fn one_way(same_host: bool, rounds: usize) -> f64 {
    let left = environment("left", 1, same_host);
    let right = environment("right", 1, same_host);
    let (there, back) = (partition(&left, 1, 1, 0), partition(&right, 2, 1, 0));
    let mut at_right = reader(&right, &left, 1, 1);
    let mut at_left = reader(&left, &right, 2, 1);
    let framed = [0, 0, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut cursor = Cursor::void();
            for _ in 0..rounds {
                at_right.next_batch(None).expect("a batch");
                emit(&back, 0, &mut cursor, &framed);
                back.flush(Some(0)).expect("flushed");
            }
        });
        let mut cursor = Cursor::void();
        let times = (0..rounds).map(|_| {
            let started = Instant::now();
            emit(&there, 0, &mut cursor, &framed);
            there.flush(Some(0)).expect("flushed");
            at_left.next_batch(None).expect("a batch");
            started.elapsed()
        });
        p50_us(times.collect()) / 2.0
    })
}
