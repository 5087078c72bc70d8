//! Goal: gates are fair, unions count channels right and no wake-up is lost (C-12, C-13).
//! Method: public interface, local and remote channels, random schedules.

mod common;

use std::thread;
use std::time::Duration;

use common::{
    Item, OneChannel, PATIENCE, Writer, channel, config, drain, environment, gate, id, partition,
    reader, records_of,
};
use penstock_network::{EnvironmentConfig, Error, NetworkEnvironment, Next, PartitionType};
use proptest::prelude::*;

/// C-12: with all channels always full, after k·n polls every channel has delivered k ± 1.
#[test]
fn full_channels_take_turns() {
    let environment = environment("executor");
    let channels = 4;
    let partition = partition(&environment, 1, channels, -1);
    let descriptors: Vec<_> = (0..channels).map(|index| channel(1, index, None)).collect();
    let mut writer = Writer::new(&partition);
    for _ in 0..3 {
        for index in 0..channels {
            writer.emit(index, &[0; 32_764]).unwrap();
        }
    }
    partition.flush_all();
    let gate = gate(&environment, &descriptors);
    let mut counts = vec![0; channels];
    for polls in 1..=3 * channels {
        let Ok(Next::Buffer(next)) = gate.try_next_buffer() else {
            panic!("full channels")
        };
        counts[next.channel] += 1;
        assert_eq!(next.more_available, polls < 3 * channels);
        let (min, max) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(max - min <= 1, "{counts:?}");
    }
}

/// A union shifts channel indices, delivers everything and ends when all of its gates have.
#[test]
fn a_union_delivers_every_gate() {
    let producer = environment("producer");
    let consumer = environment("consumer");
    let first = partition(&producer, 1, 2, 1);
    let second = partition(&consumer, 2, 1, 1);
    let address = Some(producer.address());
    let gates = [
        gate(&consumer, &[channel(1, 0, address), channel(1, 1, address)]),
        gate(&consumer, &[channel(2, 0, None)]),
    ];
    let union = consumer.create_union_gate(&gates).unwrap();
    assert_eq!(union.num_channels(), 3);
    assert!(matches!(
        consumer.create_union_gate(&gates),
        Err(Error::IllegalState(_))
    ));
    assert!(matches!(
        consumer.create_union_gate(&[]),
        Err(Error::IllegalState(_))
    ));
    let mut reader = reader(&consumer, &union);
    thread::scope(|scope| {
        for (partition, name) in [(&first, b'a'), (&second, b'b')] {
            scope.spawn(move || {
                let mut writer = Writer::new(partition);
                for index in 0..100 {
                    for subpartition in 0..partition.num_subpartitions() {
                        writer.emit(subpartition, &[name, index]).unwrap();
                    }
                }
                writer.finish().unwrap();
            });
        }
        let items = drain(&mut reader);
        for (channel, name) in [(0, b'a'), (1, b'a'), (2, b'b')] {
            let wanted: Vec<_> = (0..100).map(|index| vec![name, index]).collect();
            assert_eq!(records_of(&items, channel), wanted);
            assert!(items.contains(&Item::Event(channel, 10, vec![0; 4])));
        }
    });
    assert!(union.is_finished());
    union.wakeup();
    assert!(matches!(
        union.next_buffer(None),
        Ok(Next::Nothing) | Ok(Next::End)
    ));
    union.close();
    assert!(matches!(union.next_buffer(None), Err(Error::CancelTask(_))));
}

/// A union passes on errors, wake-ups and closing to a reader that waits.
#[test]
fn a_union_wakes_its_reader() {
    let environment = environment("executor");
    let partition = partition(&environment, 1, 2, -1);
    let gates = [
        gate(&environment, &[channel(1, 0, None)]),
        gate(&environment, &[channel(1, 1, None)]),
    ];
    let union = environment.create_union_gate(&gates).unwrap();
    thread::scope(|scope| {
        let woken = scope.spawn(|| union.next_buffer(None));
        union.wakeup();
        assert!(matches!(woken.join().unwrap(), Ok(Next::Woken)));
        let failed = scope.spawn(|| union.next_buffer(None));
        partition.fail("broken");
        assert!(matches!(
            failed.join().unwrap(),
            Err(Error::ProducerFailed(_))
        ));
    });
}

/// Pools that cannot give what is asked for say so and keep nothing.
#[test]
fn too_few_buffers_are_an_error() {
    let environment = NetworkEnvironment::new(EnvironmentConfig {
        num_segments: 8,
        ..config("executor")
    })
    .unwrap();
    let at = Some(environment.address());
    let channels: Vec<_> = (0..4).map(|index| channel(1, index, at)).collect();
    let error = environment.create_input_gate(&channels).unwrap_err();
    assert!(
        matches!(&error, Error::InsufficientBuffers(text)
            if text.starts_with("Insufficient number of network buffers")),
        "{error:?}"
    );
    let error = environment
        .create_result_partition(id(1), 8, PartitionType::PipelinedBounded, -1)
        .unwrap_err();
    assert!(matches!(error, Error::InsufficientBuffers(_)));
    assert_eq!(environment.available_segments(), 8);
}

/// A cancelled reader frees its producer: writing goes on into the void, everything is consumed.
#[test]
fn a_reader_that_leaves_does_not_block_the_writer() {
    for remote in [false, true] {
        let OneChannel {
            producer,
            consumer,
            partition,
            gate,
        } = OneChannel::new(remote);
        let owner = if remote { &producer } else { &consumer };
        thread::scope(|scope| {
            let writing = scope.spawn(|| {
                let mut writer = Writer::new(&partition);
                for _ in 0..500 {
                    writer.emit(0, &[1; 20_000]).unwrap();
                }
                writer.finish().unwrap();
            });
            assert!(matches!(
                gate.next_buffer(Some(PATIENCE)),
                Ok(Next::Buffer(_))
            ));
            gate.close();
            writing.join().unwrap();
        });
        assert!(partition.wait_consumed(PATIENCE));
        drop(partition);
        // What was on its way comes back, too.
        while owner.available_segments() < owner.total_segments() {
            thread::yield_now();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any schedule of writes, flushes and pauses over any number of buffers delivers every record
    /// once and in order, and all buffers return (C-7, C-11, C-13).
    #[test]
    fn any_credit_schedule_delivers(
        exclusive in 0_usize..4,
        floating in 1_usize..6,
        segment_bytes in 64_usize..600,
        channels in 1_usize..4,
        writes in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..900, any::<bool>()), 1..120),
        pauses in prop::collection::vec(any::<bool>(), 1..40),
    ) {
        let small = |name| NetworkEnvironment::new(EnvironmentConfig {
            num_segments: 64,
            segment_bytes,
            exclusive_buffers_per_channel: exclusive,
            floating_buffers_per_gate: floating,
            ..config(name)
        }).unwrap();
        let (producer, consumer) = (small("producer"), small("consumer"));
        let partition = partition(&producer, 1, channels, -1);
        let address = Some(producer.address());
        let descriptors: Vec<_> =
            (0..channels).map(|index| channel(1, index, address)).collect();
        let gate = gate(&consumer, &descriptors);
        let mut wanted = vec![Vec::new(); channels];
        for (number, (to, size, _)) in writes.iter().enumerate() {
            wanted[to.index(channels)].push(vec![number as u8; *size]);
        }
        let items = thread::scope(|scope| {
            scope.spawn(|| {
                let mut writer = Writer::new(&partition);
                for (number, (to, size, flush)) in writes.iter().enumerate() {
                    writer.emit(to.index(channels), &vec![number as u8; *size]).unwrap();
                    if *flush {
                        partition.flush_all();
                    }
                }
                writer.finish().unwrap();
            });
            let mut reader = reader(&consumer, &gate);
            let mut items = Vec::new();
            for pause in pauses.iter().cycle() {
                if *pause {
                    thread::yield_now();
                }
                let batch = common::items(&reader.next_batch(Some(PATIENCE)).unwrap());
                assert_ne!(batch, [Item::Nothing], "nothing came");
                if batch == [Item::End] {
                    break;
                }
                items.extend(batch);
            }
            items
        });
        for (channel, wanted) in wanted.iter().enumerate() {
            prop_assert!(&records_of(&items, channel) == wanted, "channel {}", channel);
        }
        prop_assert!(partition.wait_consumed(PATIENCE));
        gate.close();
        drop(partition);
        // What the consumer has copied is returned a moment later.
        while producer.available_segments() < 64 {
            thread::yield_now();
        }
        prop_assert_eq!(consumer.available_segments(), 64);
    }
}

/// The threads of an environment end with it, however often it is closed.
#[test]
fn environments_close_cleanly() {
    for _ in 0..20 {
        let environment = environment("executor");
        let partition = partition(&environment, 1, 2, 1);
        let gate = gate(&environment, &[channel(1, 0, Some(environment.address()))]);
        let mut writer = Writer::new(&partition);
        writer.emit(0, b"self").unwrap();
        assert!(matches!(
            gate.next_buffer(Some(PATIENCE)),
            Ok(Next::Buffer(_))
        ));
        environment.close();
        environment.close();
        assert!(matches!(
            gate.next_buffer(Some(Duration::ZERO)),
            Err(Error::CancelTask(_))
        ));
        assert!(matches!(
            environment.create_input_gate(&[channel(1, 0, None)]),
            Err(Error::IllegalState(_))
        ));
    }
}
