//! Goal: data written in one environment arrives in another, whole and in order, and every buffer
//! is back in its pool afterwards.
//! Method: two environments in this process talk over loopback; local channels run alongside.

mod common;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use common::{
    Item, OneChannel, PATIENCE, Writer, assert_all_returned, channel, drain, environment, gate,
    next_items, partition, reader, records_of,
};
use penstock_memory::DataType;
use penstock_network::{Error, Next, RecordReader};

fn payload(index: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + index) as u8).collect()
}

/// B-1, B-4: records of all sizes, over a remote and a local channel at once, keep bytes and order.
#[test]
fn records_arrive_whole_and_in_order() {
    let producer = environment("producer");
    let consumer = environment("consumer");
    let remote = partition(&producer, 1, 1, 5);
    let local = partition(&consumer, 2, 1, 5);
    let gate = gate(
        &consumer,
        &[channel(1, 0, Some(producer.address())), channel(2, 0, None)],
    );
    let mut reader = reader(&consumer, &gate);
    let sizes = [
        0,
        1,
        8,
        100,
        32_764,
        32_765,
        40_000,
        3,
        1_000_000,
        6 << 20,
        17,
    ];
    thread::scope(|scope| {
        for partition in [&remote, &local] {
            scope.spawn(move || {
                let mut writer = Writer::new(partition);
                for (index, &size) in sizes.iter().enumerate() {
                    writer.emit(0, &payload(index, size)).expect("written");
                }
                writer.finish().expect("finished");
                assert!(partition.wait_consumed(PATIENCE));
            });
        }
        let items = drain(&mut reader);
        for channel in 0..2 {
            let got = records_of(&items, channel);
            assert_eq!(got.len(), sizes.len());
            for (index, &size) in sizes.iter().enumerate() {
                assert!(
                    got[index] == payload(index, size),
                    "record {index} of channel {channel}"
                );
            }
        }
    });
    assert!(gate.is_finished());
    drop(reader);
    gate.close();
    remote.release();
    local.release();
    assert_all_returned(&[&producer, &consumer]);
}

/// A record of 64 MB crosses segments intact.
#[test]
fn a_record_of_64_mb_arrives_intact() {
    let producer = environment("producer");
    let consumer = environment("consumer");
    let partition = partition(&producer, 1, 1, 100);
    let gate = gate(&consumer, &[channel(1, 0, Some(producer.address()))]);
    let mut reader = reader(&consumer, &gate);
    let large = payload(3, 64 << 20);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = Writer::new(&partition);
            writer.emit(0, &large).expect("written");
            writer.emit(0, b"after").expect("written");
            writer.finish().expect("finished");
        });
        let items = drain(&mut reader);
        assert_eq!(items.len(), 3);
        assert!(items[0] == Item::Record(0, large.clone()));
        assert_eq!(items[1], Item::Record(0, b"after".to_vec()));
    });
}

/// B3: broadcasts, unicasts and events mixed keep their order on every channel.
#[test]
fn broadcasts_and_events_keep_their_place() {
    let producer = environment("producer");
    let consumer = environment("consumer");
    let partition = partition(&producer, 1, 3, -1);
    let address = Some(producer.address());
    let gate = gate(
        &consumer,
        &[
            channel(1, 0, address),
            channel(1, 1, address),
            channel(1, 2, address),
        ],
    );
    let mut reader = reader(&consumer, &gate);
    let mut writer = Writer::new(&partition);
    writer.emit(1, b"one").unwrap();
    writer.broadcast(b"all").unwrap();
    writer.broadcast(b"again").unwrap();
    writer.emit(1, b"two").unwrap();
    writer.event(&[0, 0, 0, 8, 0], DataType::EndOfData).unwrap();
    writer.emit(2, b"three").unwrap();
    writer.finish().unwrap();
    let items = drain(&mut reader);
    let of = |channel: usize| -> Vec<Item> {
        items
            .iter()
            .filter(
                |item| matches!(item, Item::Record(c, _) | Item::Event(c, _, _) if *c == channel),
            )
            .cloned()
            .collect()
    };
    let record = |channel, bytes: &[u8]| Item::Record(channel, bytes.to_vec());
    for channel in 0..3 {
        let mut wanted = vec![record(channel, b"all"), record(channel, b"again")];
        if channel == 1 {
            wanted.insert(0, record(1, b"one"));
            wanted.push(record(1, b"two"));
        }
        wanted.push(Item::Event(channel, 9, vec![0, 0, 0, 8, 0]));
        if channel == 2 {
            wanted.push(record(2, b"three"));
        }
        wanted.push(Item::Event(channel, 10, vec![0, 0, 0, 0]));
        assert_eq!(of(channel), wanted);
    }
}

/// B-5: after `flush_all` everything committed is readable without further writes.
#[test]
fn flushed_records_are_readable() {
    for remote in [false, true] {
        let OneChannel {
            producer: _producer,
            consumer,
            partition,
            gate,
        } = OneChannel::new(remote);
        let mut reader = reader(&consumer, &gate);
        let mut writer = Writer::new(&partition);
        for index in 0..100_u8 {
            writer.emit(0, &[index]).unwrap();
            partition.flush_all();
            let batch = common::items(&reader.next_batch(Some(PATIENCE)).unwrap());
            assert_eq!(batch, [Item::Record(0, vec![index])]);
        }
    }
}

/// The flusher alone makes an unfinished buffer visible.
#[test]
fn the_flusher_makes_records_visible() {
    let producer = environment("producer");
    let consumer = environment("consumer");
    let partition = partition(&producer, 1, 2, 1);
    let address = Some(producer.address());
    let gate = gate(&consumer, &[channel(1, 0, address), channel(1, 1, address)]);
    let mut reader = reader(&consumer, &gate);
    let mut writer = Writer::new(&partition);
    writer.emit(1, b"seen").unwrap();
    let batch = common::items(&reader.next_batch(Some(PATIENCE)).unwrap());
    assert_eq!(batch, [Item::Record(1, b"seen".to_vec())]);
}

/// A gate that is requested before its partition exists waits for it.
#[test]
fn readers_may_come_before_the_partition() {
    let producer = environment("producer");
    let consumer = environment("consumer");
    let gate = gate(
        &consumer,
        &[channel(1, 0, Some(producer.address())), channel(2, 0, None)],
    );
    let mut reader = reader(&consumer, &gate);
    assert!(matches!(gate.try_next_buffer(), Ok(Next::Nothing)));
    let mut kept = Vec::new();
    for (owner, number) in [(&producer, 1), (&consumer, 2)] {
        let partition = partition(owner, number, 1, -1);
        kept.push(Arc::clone(&partition));
        let mut writer = Writer::new(&partition);
        writer.emit(0, &[number]).unwrap();
        partition.flush_all();
        let batch = common::items(&reader.next_batch(Some(PATIENCE)).unwrap());
        assert_eq!(batch, [Item::Record(usize::from(number) - 1, vec![number])]);
    }
}

/// A partition that never comes is reported after the request timeout.
#[test]
fn a_missing_partition_is_not_found() {
    let short = |name| {
        let timeout = Duration::from_millis(50);
        penstock_network::NetworkEnvironment::new(penstock_network::EnvironmentConfig {
            partition_request_timeout: timeout,
            ..common::config(name)
        })
        .unwrap()
    };
    let (producer, consumer) = (short("producer"), short("consumer"));
    for at in [None, Some(producer.address())] {
        let gate = gate(&consumer, &[channel(9, 0, at)]);
        let error = gate.next_buffer(Some(PATIENCE)).unwrap_err();
        assert!(matches!(error, Error::PartitionNotFound(_)), "{error:?}");
    }
}

/// C10: a failed producer's cause reaches its readers; the writer is cancelled.
#[test]
fn a_failure_reaches_the_readers() {
    for remote in [false, true] {
        let OneChannel {
            producer,
            consumer,
            partition,
            gate,
        } = OneChannel::new(remote);
        let mut writer = Writer::new(&partition);
        writer.emit(0, b"lost").unwrap();
        partition.fail("division by zero");
        let error = gate.next_buffer(Some(PATIENCE)).unwrap_err();
        assert!(
            matches!(&error, Error::ProducerFailed(cause) if cause.contains("division by zero")),
            "{error:?}"
        );
        assert!(matches!(writer.emit(0, b"more"), Err(Error::CancelTask(_))));
        assert!(partition.wait_consumed(PATIENCE));
        gate.close();
        drop((writer, partition));
        assert_all_returned(&[&producer, &consumer]);
    }
}

/// B-7, A-22: a writer that waits for a buffer wakes with a cancellation and leaks nothing.
#[test]
fn a_blocked_writer_is_cancelled() {
    let environment = environment("executor");
    let partition = partition(&environment, 1, 1, -1);
    thread::scope(|scope| {
        let blocked = scope.spawn(|| {
            let mut writer = Writer::new(&partition);
            loop {
                if let Err(error) = writer.emit(0, &[0; 30_000]) {
                    return error;
                }
            }
        });
        while partition.is_available() || partition.buffers_queued() < 30 {
            thread::yield_now();
        }
        partition.fail("cancelled");
        assert!(matches!(blocked.join().unwrap(), Error::CancelTask(_)));
    });
    drop(partition);
    assert_all_returned(&[&environment]);
}

/// C9: closing a gate wakes its reader with a cancellation; `wakeup` is sticky.
#[test]
fn a_blocked_reader_wakes() {
    let environment = environment("executor");
    let _partition = partition(&environment, 1, 1, -1);
    let gate = gate(&environment, &[channel(1, 0, None)]);
    gate.wakeup();
    assert!(matches!(gate.try_next_buffer(), Ok(Next::Nothing)));
    assert!(matches!(gate.next_buffer(None), Ok(Next::Woken)));
    thread::scope(|scope| {
        let blocked = scope.spawn(|| gate.next_buffer(None));
        gate.close();
        assert!(matches!(blocked.join().unwrap(), Err(Error::CancelTask(_))));
    });
}

/// C-6: behind a blocking event nothing is delivered, not even events, until resumed.
#[test]
fn a_blocking_event_holds_its_channel() {
    for remote in [false, true] {
        let producer = environment("producer");
        let consumer = environment("consumer");
        let owner = if remote { &producer } else { &consumer };
        let partition = partition(owner, 1, 1, -1);
        let other = common::partition(&consumer, 2, 1, -1);
        let gate = gate(
            &consumer,
            &[
                channel(1, 0, remote.then(|| producer.address())),
                channel(2, 0, None),
            ],
        );
        let mut reader = reader(&consumer, &gate);
        let mut writer = Writer::new(&partition);
        writer
            .event(&[0, 0, 0, 1], DataType::AlignedCheckpointBarrier)
            .unwrap();
        writer.emit(0, b"behind").unwrap();
        writer.event(&[0, 0, 0, 4], DataType::EventBuffer).unwrap();
        let batch = common::items(&reader.next_batch(Some(PATIENCE)).unwrap());
        assert_eq!(batch, [Item::Event(0, 4, vec![0, 0, 0, 1])]);
        // What the other channel sends passes; the blocked one stays silent.
        let mut passing = Writer::new(&other);
        for _ in 0..20 {
            passing.emit(0, b"passes").unwrap();
            other.flush_all();
            partition.flush_all();
            let batch = common::items(&reader.next_batch(Some(PATIENCE)).unwrap());
            assert_eq!(batch, [Item::Record(1, b"passes".to_vec())]);
        }
        gate.resume_consumption(0).unwrap();
        let batch = common::items(&reader.next_batch(Some(PATIENCE)).unwrap());
        assert_eq!(batch, [Item::Record(0, b"behind".to_vec())]);
        let batch = common::items(&reader.next_batch(Some(PATIENCE)).unwrap());
        assert_eq!(batch, [Item::Event(0, 2, vec![0, 0, 0, 4])]);
    }
}

/// Back pressure: a consumer that does not read stops the writer within the buffers granted.
#[test]
fn a_slow_consumer_stops_the_writer() {
    let producer = environment("producer");
    let consumer = environment("consumer");
    let partition = partition(&producer, 1, 1, -1);
    let gate = gate(&consumer, &[channel(1, 0, Some(producer.address()))]);
    thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut writer = Writer::new(&partition);
            for _ in 0..1000 {
                writer.emit(0, &[7; 32_764]).unwrap();
            }
            writer.finish().unwrap();
        });
        // 2 exclusive and 8 floating buffers at the reader are the most that can leave.
        while consumer.pool().used_segments() < 10 {
            thread::yield_now();
        }
        while partition.is_available() {
            thread::yield_now();
        }
        assert!(
            partition.buffers_in_use() <= 10 + 20,
            "{}",
            partition.buffers_in_use()
        );
        assert!(consumer.pool().used_segments() <= 10);
        let mut reader = reader(&consumer, &gate);
        let items = drain(&mut reader);
        assert_eq!(records_of(&items, 0).len(), 1000);
        writing.join().unwrap();
    });
}

/// Nobody waits for a writer: credits that come while it is away let what it has written leave.
#[test]
fn a_writer_that_stays_away_holds_nothing_up() {
    let producer = environment("producer");
    let consumer = environment("consumer");
    let partition = partition(&producer, 1, 1, -1);
    let gate = gate(&consumer, &[channel(1, 0, Some(producer.address()))]);
    let mut reader = reader(&consumer, &gate);
    let mut writer = Writer::new(&partition);
    let read = |reader: &mut RecordReader, count: usize| {
        (0..count).for_each(|_| assert!(!next_items(reader).is_empty()));
    };
    for _ in 0..3 {
        // A record fills a buffer.
        thread::scope(|scope| {
            scope.spawn(|| read(&mut reader, 200));
            // It comes to wait for buffers, and receives credits by itself.  If it waits at the end,
            // too, the last records fit: ten with the consumer, and fewer than ten here.
            (0..215).for_each(|_| writer.emit(0, &[7; 32_764]).unwrap());
        });
        // It is away now, with more written than the consumer has buffers for.
        assert!(partition.buffers_queued() > 0);
        partition.flush(Some(0)).unwrap();
        read(&mut reader, 15);
    }
    writer.finish().unwrap();
    assert!(records_of(&drain(&mut reader), 0).is_empty());
}
