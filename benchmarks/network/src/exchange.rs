//! Two environments in one process exchange records, by TCP, plain, encrypted or compressed, or by
//! the same-host path.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use penstock_network::framing::Records;
use penstock_network::{
    Batch, ChannelDescriptor, ChannelLocation, Cursor, EnvironmentConfig, NetworkEnvironment,
    PartitionType, RecordReader, ResultPartition, TlsIdentity, wire::Compression,
};

use crate::raw::{tcp_one_way, tcp_throughput};
use crate::report::{Quotient, Report, p50_us};
use crate::shared_memory;

/// How the two environments reach each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Tcp,
    Tls,
    Lz4,
    SameHost,
}

impl Link {
    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
            Self::Lz4 => "LZ4",
            Self::SameHost => "same host",
        }
    }
}

pub(crate) fn measure(report: &Report) {
    let small = report.count(60_000_000, 100_000) as u64;
    for (name, channels, flush_ms) in [
        ("8 B records, 1 channel, 100 ms", 1, 100),
        ("8 B records, 1,000 channels, 1 ms", 1_000, 1),
    ] {
        report.row(name, "M/s", || {
            throughput(Link::Tcp, 8, channels, flush_ms, small).0
        });
    }
    let flushed = report.count(1_000_000, 1_000) as u64;
    for link in [Link::Tcp, Link::SameHost] {
        let name = format!("8 B records, each flushed, {}", link.name());
        report.row(&name, "M/s", || throughput(link, 8, 1, 0, flushed).0);
    }
    plain_and_shared(report);
    let bytes = report.count(2 << 30, 4 << 20) as u64;
    for (name, size) in [("1 KiB", 1 << 10), ("32 KiB", 32 << 10)] {
        for link in [Link::Tls, Link::Lz4] {
            report.row(&format!("{name} records, {}", link.name()), "GB/s", || {
                throughput(link, size, 1, 100, bytes / size as u64).1
            });
        }
    }
    let rounds = report.count(20_000, 10);
    for link in [Link::Tls, Link::SameHost] {
        let name = format!("flushed 8 B record one way, {}", link.name());
        report.row(&name, "us", || one_way(link, rounds));
    }
    let rounds = report.count(5_000, 10);
    report.together(
        [
            ("raw TCP one way", "us", &mut || tcp_one_way(rounds)),
            ("flushed 8 B record one way, TCP", "us", &mut || {
                one_way(Link::Tcp, rounds)
            }),
        ],
        &[Quotient::times(
            "flushed 8 B record one way, TCP, by raw",
            1,
            0,
        )],
    );
}

/// Records by TCP and by memory that both sides have mapped, beside what carries nothing else.
fn plain_and_shared(report: &Report) {
    // So much that connecting and touching memory for the first time, of which the raw figures are
    // free, is lost in it: 3 ms.
    let bytes = report.count(1 << 30, 4 << 20);
    let buffers = bytes / (32 << 10);
    let through = |link, size| throughput(link, size, 1, 100, (bytes / size) as u64).1;
    report.together(
        [
            ("1 KiB records, TCP", "GB/s", &mut || {
                through(Link::Tcp, 1 << 10)
            }),
            ("1 KiB records, same host", "GB/s", &mut || {
                through(Link::SameHost, 1 << 10)
            }),
            ("32 KiB records, TCP", "GB/s", &mut || {
                through(Link::Tcp, 32 << 10)
            }),
            ("32 KiB records, same host", "GB/s", &mut || {
                through(Link::SameHost, 32 << 10)
            }),
            ("raw TCP 32 KiB writes", "GB/s", &mut || {
                tcp_throughput(buffers)
            }),
            ("raw shared memory, 1 KiB records", "GB/s", &mut || {
                shared_memory::throughput(1 << 10, buffers)
            }),
            ("raw shared memory, 32 KiB records", "GB/s", &mut || {
                shared_memory::throughput(32 << 10, buffers)
            }),
        ],
        &[
            ("1 KiB records, TCP, by raw", 0, 4),
            ("1 KiB records, same host, by TCP", 1, 0),
            ("1 KiB records, same host, by raw", 1, 5),
            ("raw shared memory, 1 KiB records, by TCP", 5, 0),
            ("32 KiB records, TCP, by raw", 2, 4),
            ("32 KiB records, same host, by TCP", 3, 2),
            ("32 KiB records, same host, by raw", 3, 6),
            ("raw shared memory, 32 KiB records, by TCP", 6, 2),
        ]
        .map(|(name, of, by)| Quotient::part(name, of, by)),
    );
}

/// What the tests show each other; it protects nothing.
fn identity() -> TlsIdentity {
    TlsIdentity {
        certificate: include_bytes!("../../../rust/network/tests/identity/certificate.der").into(),
        private_key: include_bytes!("../../../rust/network/tests/identity/private_key.der").into(),
    }
}

pub(crate) fn environment(name: &str, channels: usize, link: Link) -> NetworkEnvironment {
    let config = EnvironmentConfig {
        num_segments: 256 + 4 * channels,
        same_host_path: link == Link::SameHost,
        tls: (link == Link::Tls).then(identity),
        compression: if link == Link::Lz4 {
            Compression::Lz4
        } else {
            Compression::None
        },
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
            Batch::Event { .. } | Batch::Nothing | Batch::Woken => {}
        }
    }
}

/// Bytes that compress about as well as prose: words drawn at random from a short list.
fn text(bytes: usize) -> impl Iterator<Item = u8> {
    const WORDS: [&str; 8] = [
        "stream ", "of ", "the ", "records ", "and ", "buffers ", "credit ", "waits ",
    ];
    let mut state = 1_u64;
    std::iter::repeat_with(move || {
        // Knuth's linear congruential generator.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        WORDS[(state >> 61) as usize]
    })
    .flat_map(str::bytes)
    .take(bytes)
}

/// Millions of records and gigabytes a second.
fn throughput(
    link: Link,
    record_bytes: usize,
    channels: usize,
    flush_ms: i64,
    total: u64,
) -> (f64, f64) {
    let producer = environment("producer", channels, link);
    let consumer = environment("consumer", channels, link);
    let partition = partition(&producer, 1, channels, flush_ms);
    let reader = reader(&consumer, &producer, 1, channels);
    let mut framed = (record_bytes as u32).to_be_bytes().to_vec();
    framed.extend(text(record_bytes));
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
                if flush_ms == 0 {
                    partition.flush(Some(subpartition)).expect("flushed");
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
fn one_way(link: Link, rounds: usize) -> f64 {
    let left = environment("left", 1, link);
    let right = environment("right", 1, link);
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
