//! A barrier on every channel of a gate: from the broadcast until the last one has arrived.

use std::sync::mpsc;
use std::time::Instant;

use penstock_memory::DataType;
use penstock_network::Batch;

use crate::exchange::{Link, environment, partition, reader};
use crate::report::{Report, p50_us};

/// An event's bytes; what they mean plays no part here.
const BARRIER: [u8; 24] = [0; 24];

pub(crate) fn measure(report: &Report) {
    let rounds = report.count(200, 2);
    for (name, data_type, channels) in [
        (
            "aligned barrier, 1 channel",
            DataType::AlignedCheckpointBarrier,
            1,
        ),
        (
            "aligned barrier, 100 channels",
            DataType::AlignedCheckpointBarrier,
            100,
        ),
        (
            "aligned barrier, 1,000 channels",
            DataType::AlignedCheckpointBarrier,
            1_000,
        ),
        (
            "unaligned barrier, 1,000 channels",
            DataType::PrioritizedEventBuffer,
            1_000,
        ),
    ] {
        report.row(name, "us", || until_all(data_type, channels, rounds, false));
    }
    report.row(
        "unaligned barrier, 1,000 channels, first arrival",
        "us",
        || until_all(DataType::PrioritizedEventBuffer, 1_000, rounds, true),
    );
    report.row(
        "unaligned barrier, 1,000 channels, first arrival at a waiting reader",
        "us",
        || until_first(1_000, rounds),
    );
}

/// The middle time in microseconds until the first channel has delivered to a thread that waits at
/// the gate, as another executor's task does.
fn until_first(channels: usize, rounds: usize) -> f64 {
    let producer = environment("producer", channels, Link::Tcp);
    let consumer = environment("consumer", channels, Link::Tcp);
    let partition = partition(&producer, 1, channels, -1);
    let mut reader = reader(&consumer, &producer, 1, channels);
    let (arrived, arrivals) = mpsc::sync_channel(1);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..=rounds {
                let mut first = None;
                for _ in 0..channels {
                    let batch = reader.next_batch(None).expect("a batch");
                    assert!(matches!(batch, Batch::Event { .. }));
                    first.get_or_insert_with(Instant::now);
                }
                arrived.send(first).expect("told");
            }
        });
        let mut times = Vec::with_capacity(rounds);
        // The first round also waits for the connection.
        for _ in 0..=rounds {
            let started = Instant::now();
            partition
                .broadcast_event(&BARRIER, DataType::PrioritizedEventBuffer)
                .expect("sent");
            let first = arrivals.recv().expect("the reader lives").expect("a time");
            times.push(first - started);
        }
        times.remove(0);
        p50_us(times)
    })
}

/// The middle time in microseconds until all channels, or the first one, have delivered.
fn until_all(data_type: DataType, channels: usize, rounds: usize, first: bool) -> f64 {
    let producer = environment("producer", channels, Link::Tcp);
    let consumer = environment("consumer", channels, Link::Tcp);
    let partition = partition(&producer, 1, channels, -1);
    let mut reader = reader(&consumer, &producer, 1, channels);
    let gate = reader.gate().clone();
    let mut times = Vec::with_capacity(rounds);
    // The first round also waits for the connection.
    for _ in 0..=rounds {
        let started = Instant::now();
        partition
            .broadcast_event(&BARRIER, data_type)
            .expect("sent");
        let mut elapsed = None;
        let mut blocked = Vec::with_capacity(channels);
        while blocked.len() < channels {
            if let Batch::Event { channel, .. } = reader.next_batch(None).expect("a batch") {
                blocked.push(channel);
                if first {
                    elapsed.get_or_insert_with(|| started.elapsed());
                }
            }
        }
        times.push(elapsed.unwrap_or_else(|| started.elapsed()));
        if data_type.is_blocking_upstream() {
            for channel in blocked {
                gate.resume_consumption(channel).expect("resumed");
            }
        }
    }
    times.remove(0);
    p50_us(times)
}
