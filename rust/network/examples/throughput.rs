//! Measures what two environments in one process exchange: by TCP, by the same-host path, by TCP with LZ4, or
//! through local channels.
//!
//! `cargo run --profile develop --example throughput -- [tcp|lz4|same-host|local] RECORD_BYTES CHANNELS
//! FLUSH_TIMEOUT_MS MEGABYTES`; prints records per second, GB/s and a checksum of what arrived.
//! With `latency` in the first place it measures flushed single records there and back.

#![allow(clippy::print_stdout, reason = "a command line program prints")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use penstock_network::{
    Batch, ChannelDescriptor, ChannelLocation, Cursor, EnvironmentConfig, NetworkEnvironment,
    PartitionType, RecordReader, ResultPartition, wire::Compression,
};

/// How the data goes; `Lz4` is TCP with compression.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Path {
    Tcp,
    SameHost,
    Lz4,
    Local,
}

impl Path {
    fn parse(text: &str) -> Self {
        match text {
            "tcp" => Self::Tcp,
            "same-host" => Self::SameHost,
            "lz4" => Self::Lz4,
            _ => Self::Local,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::SameHost => "same-host",
            Self::Lz4 => "lz4",
            Self::Local => "local",
        }
    }
}

fn environment(name: &str, channels: usize, path: Path) -> NetworkEnvironment {
    let config = EnvironmentConfig {
        same_host_path: path == Path::SameHost,
        compression: if path == Path::Lz4 {
            Compression::Lz4
        } else {
            Compression::None
        },
        num_segments: 256 + 4 * channels,
        ..EnvironmentConfig::new(name, b"token")
    };
    NetworkEnvironment::new(config).expect("an environment")
}

/// Writes one framed record: in place when it fits, over several buffers when not.
#[inline]
fn emit(partition: &ResultPartition, subpartition: usize, cursor: &mut Cursor, framed: &[u8]) {
    let position = cursor.position as usize;
    if framed.len() > cursor.capacity as usize - position {
        partition
            .append(Some(subpartition), cursor, framed)
            .expect("appended");
        return;
    }
    // SAFETY: the cursor is open and the record fits behind its position.
    let target = unsafe { cursor.data.add(position) };
    // SAFETY: as above; the record lies elsewhere.
    unsafe { std::ptr::copy_nonoverlapping(framed.as_ptr(), target, framed.len()) };
    publish(cursor, framed.len() as u32);
}

/// Writes one framed long as a typed codec does: length and value straight into the buffer.
#[inline]
fn emit_long(partition: &ResultPartition, subpartition: usize, cursor: &mut Cursor, value: u64) {
    if cursor.capacity - cursor.position < 12 {
        let framed = [&8_u32.to_be_bytes()[..], &value.to_be_bytes()].concat();
        partition
            .append(Some(subpartition), cursor, &framed)
            .expect("appended");
        return;
    }
    // SAFETY: the cursor is open and twelve bytes fit behind its position.
    let target = unsafe { cursor.data.add(cursor.position as usize) };
    // SAFETY: as above; unaligned stores are allowed.
    unsafe { target.cast::<[u8; 4]>().write(8_u32.to_be_bytes()) };
    // SAFETY: as above.
    let target = unsafe { target.add(4) };
    // SAFETY: as above.
    unsafe { target.cast::<[u8; 8]>().write(value.to_be_bytes()) };
    publish(cursor, 12);
}

#[inline]
fn publish(cursor: &mut Cursor, bytes: u32) {
    cursor.position += bytes;
    // SAFETY: an open cursor's marker points to the position marker of its buffer.
    unsafe { AtomicI32::from_ptr(cursor.marker) }
        .store(cursor.position.cast_signed(), Ordering::Release);
    // SAFETY: an open cursor's dirty byte lives as long as its partition.
    unsafe { AtomicU8::from_ptr(cursor.dirty) }.store(1, Ordering::Release);
}

/// Reads to the end and returns the number of records and a sum over their first bytes.
fn consume(mut reader: RecordReader) -> (u64, u64) {
    let (mut count, mut sum) = (0, 0_u64);
    loop {
        match reader.next_batch(None).expect("a batch") {
            Batch::Data {
                spanning, records, ..
            } => {
                if let Some(payload) = spanning {
                    count += 1;
                    sum += u64::from(payload[payload.len() - 1]);
                }
                let mut rest = records;
                while let Some((length, tail)) = rest.split_first_chunk::<4>() {
                    let length = u32::from_be_bytes(*length) as usize;
                    count += 1;
                    sum += u64::from(tail[length - 1]);
                    rest = &tail[length..];
                }
            }
            Batch::End => return (count, sum),
            Batch::Event { .. } | Batch::Nothing => {}
        }
    }
}

fn partition(
    owner: &NetworkEnvironment,
    id: u8,
    channels: usize,
    flush_timeout_ms: i64,
) -> Arc<ResultPartition> {
    owner
        .create_result_partition(
            [id; 60],
            channels,
            PartitionType::PipelinedBounded,
            flush_timeout_ms,
        )
        .expect("a partition")
}

fn reader(
    consumer: &NetworkEnvironment,
    id: u8,
    channels: usize,
    location: ChannelLocation,
) -> RecordReader {
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

fn throughput(path: Path, record_bytes: usize, channels: usize, flush_ms: i64, megabytes: u64) {
    let producer = environment("producer", channels, path);
    let consumer = environment("consumer", channels, path);
    let (owner, location) = if path != Path::Local {
        (&producer, ChannelLocation::Remote(producer.address()))
    } else {
        (&consumer, ChannelLocation::Local)
    };
    let partition = partition(owner, 1, channels, flush_ms);
    let reader = reader(&consumer, 1, channels, location);
    let mut framed = (record_bytes as u32).to_be_bytes().to_vec();
    framed.resize(4 + record_bytes, 1);
    let total = (megabytes << 20) / framed.len() as u64;
    let started = Instant::now();
    let (count, sum) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut cursors: Vec<Cursor> = (0..channels).map(|_| Cursor::void()).collect();
            let mut subpartition = 0;
            for index in 0..total {
                let cursor = &mut cursors[subpartition];
                if record_bytes == 8 {
                    emit_long(&partition, subpartition, cursor, index);
                } else {
                    framed[4] = index as u8;
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
    println!(
        "{} {record_bytes} B x {channels} channels, flush {flush_ms} ms: {:.2} M records/s, {:.3} \
         GB/s, checksum {sum}",
        path.name(),
        total as f64 / seconds / 1e6,
        bytes / seconds / 1e9,
    );
}

fn latency(path: Path, rounds: usize) {
    let left = environment("left", 1, path);
    let right = environment("right", 1, path);
    let at = |owner: &NetworkEnvironment| {
        if path != Path::Local {
            ChannelLocation::Remote(owner.address())
        } else {
            ChannelLocation::Local
        }
    };
    let (there, back) = (partition(&left, 1, 1, 0), partition(&right, 2, 1, 0));
    let (mut at_right, mut at_left) = if path != Path::Local {
        (
            reader(&right, 1, 1, at(&left)),
            reader(&left, 2, 1, at(&right)),
        )
    } else {
        (
            reader(&left, 1, 1, at(&left)),
            reader(&right, 2, 1, at(&right)),
        )
    };
    let framed = [0, 0, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8];
    let mut times = Vec::with_capacity(rounds);
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
        for _ in 0..rounds {
            let started = Instant::now();
            emit(&there, 0, &mut cursor, &framed);
            there.flush(Some(0)).expect("flushed");
            at_left.next_batch(None).expect("a batch");
            times.push(started.elapsed());
        }
    });
    times.sort_unstable();
    println!(
        "{} round trip of a flushed 8 B record: p50 {:?}, p99 {:?}",
        path.name(),
        times[rounds / 2],
        times[rounds * 99 / 100]
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| -> i64 { arguments[at].parse().expect("a number") };
    match arguments.len() {
        5 => throughput(
            Path::parse(&arguments[0]),
            number(1) as usize,
            number(2) as usize,
            number(3),
            number(4).unsigned_abs(),
        ),
        3 if arguments[0] == "latency" => latency(Path::parse(&arguments[1]), number(2) as usize),
        _ => println!(
            "usage: throughput [tcp|lz4|same-host|local] RECORD_BYTES CHANNELS FLUSH_TIMEOUT_MS MEGABYTES\n\
             \x20      throughput latency [tcp|lz4|same-host|local] ROUNDS"
        ),
    }
}
