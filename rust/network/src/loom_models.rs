//! Models of what several threads share: every interleaving of small programs over the real code.
//!
//! A lost wake-up shows as a deadlock, which loom reports.  Run with `make proof PARTS=models`.

use std::net::SocketAddr;
use std::time::Duration;

use loom::thread;
use penstock_memory::{
    Buffer, BufferBuilder, BufferConsumer, DataType, LocalBufferPool, LocalPoolOptions,
    NetworkBufferPool, UniqueBuffer,
};

use crate::environment::EnvironmentCore;
use crate::framing::FramingLimits;
use crate::gate::{
    Batch, Due, InputChannel, InputGate, LocalInputChannel, Next, RecordReader,
    RemoteChannelConfig, RemoteInputChannel, SingleInputGate, UnionInputGate, Wait,
};
use crate::partition::{
    AvailabilityListener, BufferAndBacklog, PartitionShared, PipelinedSubpartition, Released,
    Wakeups,
};
use crate::sync::{Arc, Condvar, Mutex, Ordering, Weak};
use crate::transport::{Command, Waiting};
use crate::wire::{PartitionId, ReceiverId};

const SIZE: usize = 8;
/// A producer that says nothing of what waits: no floating buffer is asked for.
const NO_BACKLOG: i32 = -1;

/// A reader's ear: keeps that there was something to hear.
#[derive(Default)]
pub(crate) struct Ear {
    heard: Mutex<bool>,
    changed: Condvar,
}

impl Ear {
    pub(crate) fn wait(&self) {
        let mut heard = self.heard.lock();
        while !std::mem::take(&mut *heard) {
            heard = self.changed.wait(heard);
        }
    }
}

impl AvailabilityListener for Ear {
    fn notify_data_available(&self) {
        *self.heard.lock() = true;
        self.changed.notify_all();
    }

    fn notify_priority_event(&self) {
        self.notify_data_available();
    }
}

fn open() -> (BufferBuilder, BufferConsumer) {
    let mut builder = UniqueBuffer::unpooled(SIZE).into_builder();
    let consumer = builder.create_buffer_consumer_from_beginning().unwrap();
    (builder, consumer)
}

pub(crate) fn finished(bytes: &[u8]) -> BufferConsumer {
    let (mut builder, consumer) = open();
    builder.append_and_commit(bytes).unwrap();
    builder.finish();
    consumer
}

fn end(subpartition: &PipelinedSubpartition) {
    let mut wakeups = Wakeups::default();
    subpartition.finish(&mut wakeups);
    wakeups.ring();
}

pub(crate) fn end_of(partition: &PartitionShared) {
    let mut wakeups = Wakeups::default();
    partition.subpartitions[0].finish(&mut wakeups);
    wakeups.ring();
}

/// Reads as a view's owner does, woken by its ear alone, until `EndOfPartition`.
fn read_to_end(subpartition: &PipelinedSubpartition, ear: &Ear) -> Vec<u8> {
    let (mut bytes, mut sequence_number) = (Vec::new(), 0);
    loop {
        ear.wait();
        while let Some(BufferAndBacklog {
            buffer,
            next_type,
            sequence_number: number,
            backlog,
            ..
        }) = subpartition.poll().unwrap()
        {
            assert!(backlog >= 0);
            assert_eq!(number, sequence_number);
            sequence_number += 1;
            if buffer.data_type() == DataType::EndOfPartition {
                return bytes;
            }
            bytes.extend_from_slice(&buffer);
            if next_type == DataType::None {
                break;
            }
        }
    }
}

/// C-3, C-4: a reader that sleeps between notifications gets everything, in order, once.
#[test]
fn subpartition_loses_no_notification() {
    loom::model(|| {
        let subpartition = Arc::new(PipelinedSubpartition::new(SIZE));
        let ear = Arc::new(Ear::default());
        subpartition.create_view(Arc::<Ear>::clone(&ear)).unwrap();
        let writer = {
            let subpartition = Arc::clone(&subpartition);
            thread::spawn(move || {
                subpartition.add(finished(&[1, 2]));
                subpartition.add(finished(&[3]));
                end(&subpartition);
            })
        };
        assert_eq!(read_to_end(&subpartition, &ear), [1, 2, 3]);
        writer.join().unwrap();
    });
}

/// C-5: bytes of an open buffer that are flushed are delivered once, the rest later.
#[test]
fn flushed_bytes_are_delivered_once() {
    loom::model(|| {
        let subpartition = Arc::new(PipelinedSubpartition::new(SIZE));
        let ear = Arc::new(Ear::default());
        subpartition.create_view(Arc::<Ear>::clone(&ear)).unwrap();
        let (mut builder, consumer) = open();
        subpartition.add(consumer);
        let writer = {
            let subpartition = Arc::clone(&subpartition);
            thread::spawn(move || {
                builder.append_and_commit(&[1]).unwrap();
                subpartition.flush();
                builder.append_and_commit(&[2]).unwrap();
                builder.finish();
                end(&subpartition);
            })
        };
        assert_eq!(read_to_end(&subpartition, &ear), [1, 2]);
        writer.join().unwrap();
    });
}

/// A reader that sleeps while its subpartition ends early is woken.
#[test]
fn release_wakes_the_reader() {
    loom::model(|| {
        let subpartition = Arc::new(PipelinedSubpartition::new(SIZE));
        let ear = Arc::new(Ear::default());
        subpartition.create_view(Arc::<Ear>::clone(&ear)).unwrap();
        let releaser = {
            let subpartition = Arc::clone(&subpartition);
            thread::spawn(move || subpartition.release(Released::Failed("cause".into())))
        };
        subpartition.add(finished(&[1]));
        while subpartition.released().is_none() {
            ear.wait();
            drop(subpartition.poll().unwrap());
        }
        releaser.join().unwrap();
        assert!(subpartition.poll().unwrap().is_none());
        assert_eq!(subpartition.queued(), 0);
    });
}

pub(crate) fn pool() -> Arc<LocalBufferPool> {
    NetworkBufferPool::new(2, SIZE, Duration::from_secs(1))
        .unwrap()
        .create_buffer_pool(LocalPoolOptions::new(2, 2))
        .unwrap()
}

pub(crate) fn partition(number: u8, num_subpartitions: usize) -> Arc<PartitionShared> {
    let id: PartitionId = [number; 60];
    Arc::new(PartitionShared::new(
        id,
        num_subpartitions,
        SIZE,
        pool(),
        None,
    ))
}

/// B-5: what the writer publishes while the flusher looks is seen by this look or the next.
#[test]
fn flusher_misses_no_dirty_byte() {
    loom::model(|| {
        let shared = partition(1, 1);
        let ear = Arc::new(Ear::default());
        let crate::partition::Subpartition::Pipelined(pipelined) = &shared.subpartitions[0] else {
            unreachable!("it was made pipelined");
        };
        pipelined.create_view(Arc::<Ear>::clone(&ear)).unwrap();
        let (mut builder, consumer) = open();
        pipelined.add(consumer);
        let writer = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                for byte in [1, 2] {
                    builder.append_and_commit(&[byte]).unwrap();
                    shared.dirty(Some(0)).store(1, Ordering::Release);
                }
                builder
            })
        };
        shared.flush_dirty();
        let builder = writer.join().unwrap();
        shared.flush_dirty();
        let mut bytes = Vec::new();
        while bytes.len() < 2 {
            ear.wait();
            while let Some(next) = pipelined.poll().unwrap() {
                bytes.extend_from_slice(&next.buffer);
            }
        }
        assert_eq!(bytes, [1, 2]);
        drop(builder);
    });
}

/// Returns a gate with one local channel for each of `partitions`, attached.
fn local_gate(
    partitions: &[&Arc<PartitionShared>],
    environment: &Arc<EnvironmentCore>,
) -> Arc<SingleInputGate> {
    let mut channels = Vec::new();
    let gate = Arc::new_cyclic(|gate: &Weak<SingleInputGate>| {
        channels = (0..partitions.len())
            .map(|index| LocalInputChannel::new(Weak::clone(gate), index, [0; 60], 0))
            .collect();
        let kinds = channels
            .iter()
            .map(|channel| InputChannel::Local(Arc::clone(channel)));
        SingleInputGate::new(
            kinds.collect(),
            pool(),
            Arc::clone(environment),
            Waiting::local(),
        )
    });
    for (channel, partition) in channels.iter().zip(partitions) {
        channel.attach(Arc::clone(partition));
    }
    gate
}

/// Takes everything a gate gives; returns the bytes of its data in the order of arrival.
fn drain(mut poll: impl FnMut() -> Next) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        match poll() {
            Next::Buffer(next) if next.buffer.data_type().is_buffer() => {
                bytes.extend_from_slice(&next.buffer);
            }
            Next::Buffer(_) => {}
            Next::Nothing | Next::Woken => panic!("a reader that waits for ever was sent away"),
            Next::End => return bytes,
        }
    }
}

/// C-13: a reader that sleeps at its gate is woken for every channel.
#[test]
fn gate_loses_no_wake_up() {
    loom::model(|| {
        let environment = Arc::new(EnvironmentCore::detached());
        let (first, second) = (partition(1, 1), partition(2, 1));
        let gate = local_gate(&[&first, &second], &environment);
        let writer = {
            let (first, second) = (Arc::clone(&first), Arc::clone(&second));
            thread::spawn(move || {
                first.subpartitions[0].add(finished(&[1]));
                end_of(&second);
                end_of(&first);
            })
        };
        assert_eq!(drain(|| gate.poll(Wait::Forever).unwrap()), [1]);
        writer.join().unwrap();
        gate.close();
    });
}

/// C-13: the same through a union of gates.
#[test]
fn union_loses_no_wake_up() {
    loom::model(|| {
        let environment = Arc::new(EnvironmentCore::detached());
        let (first, second) = (partition(1, 1), partition(2, 1));
        let gates = vec![
            local_gate(&[&first], &environment),
            local_gate(&[&second], &environment),
        ];
        let union = UnionInputGate::new(gates).unwrap();
        let writer = {
            let (first, second) = (Arc::clone(&first), Arc::clone(&second));
            thread::spawn(move || {
                second.subpartitions[0].add(finished(&[1]));
                end_of(&first);
                end_of(&second);
            })
        };
        assert_eq!(drain(|| union.poll(Wait::Forever).unwrap()), [1]);
        writer.join().unwrap();
        union.close();
    });
}

const BARRIER: [u8; 12] = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7];

fn barrier() -> BufferConsumer {
    BufferConsumer::finished(Buffer::from_bytes(
        BARRIER,
        DataType::AlignedCheckpointBarrier,
    ))
}

/// Reads from a gate of two channels, of which one has a barrier, while both are written to by
/// others and the barriers are gathered; returns the data type of what is read first.
fn gathered(
    event: &'static [u8],
    second: impl Fn(&PartitionShared) + Copy + Send + 'static,
) -> DataType {
    let environment = Arc::new(EnvironmentCore::detached());
    let partitions = [partition(1, 1), partition(2, 1)];
    let gate = local_gate(&[&partitions[0], &partitions[1]], &environment);
    let limits = FramingLimits::default();
    let mut reader = RecordReader::new(InputGate::Single(Arc::clone(&gate)), &limits);
    reader.gather(event, 2);
    let writers = partitions.map(|partition| {
        thread::spawn(move || {
            if partition.id[0] == 1 {
                partition.subpartitions[0].add(barrier());
            } else {
                second(&partition);
            }
        })
    });
    let data_type = match reader.next_batch(None).unwrap() {
        Batch::Event { data_type, .. } => data_type,
        other => panic!("{other:?} was not expected"),
    };
    for writer in writers {
        writer.join().unwrap();
    }
    // The first barrier may still lie there when something else was read.
    let gathered = reader.take_gathered();
    let barriers = gathered.channels.len();
    assert_eq!(gathered.first.is_some(), barriers == 1 && event.is_empty());
    assert!(barriers == 1 || data_type != DataType::AlignedCheckpointBarrier);
    gate.close();
    data_type
}

/// C-13: a reader that sleeps until the last barrier is there hears of it.
#[test]
fn the_last_barrier_is_heard() {
    for event in [&BARRIER[..], &[]] {
        loom::model(move || {
            let data_type = gathered(event, |partition| {
                partition.subpartitions[0].add(barrier());
            });
            assert_eq!(data_type, DataType::AlignedCheckpointBarrier);
        });
    }
}

/// C-13: and of what comes instead.
#[test]
fn an_end_among_barriers_is_heard() {
    for event in [&BARRIER[..], &[]] {
        loom::model(move || {
            assert_eq!(gathered(event, end_of), DataType::EndOfPartition);
        });
    }
}

/// Reads from a gate without data while another thread wakes its reader and closes it.
pub(crate) fn expect_woken_and_cancelled(gate: &Arc<SingleInputGate>) {
    let other = {
        let gate = Arc::clone(gate);
        thread::spawn(move || {
            gate.wakeup();
            gate.close();
        })
    };
    while let Ok(next) = gate.poll(Wait::Forever) {
        assert!(matches!(next, Next::Woken));
    }
    other.join().unwrap();
}

/// C9: `wakeup` and `close` reach a reader that is about to sleep.
#[test]
fn sleeping_reader_is_woken_and_cancelled() {
    loom::model(|| {
        let environment = Arc::new(EnvironmentCore::detached());
        let partition = partition(1, 1);
        expect_woken_and_cancelled(&local_gate(&[&partition], &environment));
    });
}

/// A channel with two exclusive segments of a pool of three; the third is the floating pool's.
fn remote_channel(
    environment: &EnvironmentCore,
) -> (
    Arc<RemoteInputChannel>,
    Arc<NetworkBufferPool>,
    Arc<LocalBufferPool>,
) {
    remote_channel_of(environment, Weak::new())
}

/// Returns the same, as a channel of a gate.
pub(crate) fn remote_channel_of(
    environment: &EnvironmentCore,
    gate: Weak<SingleInputGate>,
) -> (
    Arc<RemoteInputChannel>,
    Arc<NetworkBufferPool>,
    Arc<LocalBufferPool>,
) {
    remote_channel_with(environment, gate, [1; 16])
}

pub(crate) fn remote_channel_with(
    environment: &EnvironmentCore,
    gate: Weak<SingleInputGate>,
    id: ReceiverId,
) -> (
    Arc<RemoteInputChannel>,
    Arc<NetworkBufferPool>,
    Arc<LocalBufferPool>,
) {
    let global = NetworkBufferPool::new(3, SIZE, Duration::from_secs(1)).unwrap();
    let floating = global
        .create_buffer_pool(LocalPoolOptions::new(1, 1))
        .unwrap();
    let config = RemoteChannelConfig {
        index: 0,
        id,
        address: SocketAddr::from(([127, 0, 0, 1], 1)),
        partition_id: [1; 60],
        subpartition: 0,
        exclusive: global.request_unpooled_memory_segments(2).unwrap(),
        floating_pool: Arc::clone(&floating),
        transport: Arc::clone(environment.transport_handle()),
    };
    let channel = RemoteInputChannel::new(gate, config);
    (channel, global, floating)
}

/// Fills the channel's two exclusive buffers, as the I/O thread does.
pub(crate) fn receive_two(channel: &RemoteInputChannel) {
    for sequence_number in 0..2 {
        let mut unique = channel.take_buffer().unwrap().unwrap();
        unique.append(&[1]);
        let buffer: Buffer = unique.into_buffer(DataType::DataBuffer);
        assert_eq!(
            channel
                .on_buffer(Some(buffer), sequence_number, NO_BACKLOG)
                .0,
            Due::No
        );
    }
}

/// Returns whether a round of the I/O thread's commands holds an announcement, and the credit it
/// brings.
fn announced(commands: Vec<Command>) -> i32 {
    commands
        .into_iter()
        .map(|command| match command {
            Command::AnnounceCredit(channel) => channel.take_credits(),
            // The reader goes on.
            Command::WatchCredit(_) => 0,
            other => panic!("{other:?} was not expected"),
        })
        .sum()
}

/// C-7: every buffer that comes back is announced, however recycling and announcing interleave,
/// and the I/O thread is never left asleep over it.
#[test]
fn every_credit_is_announced() {
    loom::model(|| {
        let environment = Arc::new(EnvironmentCore::detached());
        let (channel, _global, _floating) = remote_channel(&environment);
        receive_two(&channel);
        let task = {
            let channel = Arc::clone(&channel);
            thread::spawn(move || {
                while let Some(next) = channel.poll().unwrap() {
                    drop(next.buffer);
                }
            })
        };
        let transport = environment.transport_handle();
        let mut credit = 0;
        while credit < 2 {
            credit += announced(transport.wait_for_commands());
        }
        assert_eq!(credit, 2);
        task.join().unwrap();
        assert_eq!(channel.take_credits(), 0);
    });
}

/// C-11: a channel released while its task and the I/O thread are at work loses no segment.
#[test]
fn released_channel_returns_every_segment() {
    loom::model(|| {
        let environment = Arc::new(EnvironmentCore::detached());
        let (channel, global, _floating) = remote_channel(&environment);
        receive_two(&channel);
        let task = {
            let channel = Arc::clone(&channel);
            thread::spawn(move || {
                if let Some(next) = channel.poll().unwrap() {
                    drop(next.buffer);
                }
            })
        };
        channel.release();
        task.join().unwrap();
        drop(channel);
        let exclusive_back = 2;
        assert_eq!(global.available_segments(), exclusive_back);
    });
}

/// Commands of two threads all reach an I/O thread that sleeps when there is nothing to do.
#[test]
fn parked_io_thread_misses_no_command() {
    loom::model(|| {
        let environment = Arc::new(EnvironmentCore::detached());
        let transport = environment.transport_handle();
        let post = || Command::Transmit(1);
        let poster = {
            let transport = Arc::clone(transport);
            let command = post();
            thread::spawn(move || transport.post(command))
        };
        let other = {
            let transport = Arc::clone(transport);
            let command = post();
            thread::spawn(move || transport.post(command))
        };
        let mut count = 0;
        while count < 2 {
            count += transport.wait_for_commands().len();
        }
        poster.join().unwrap();
        other.join().unwrap();
    });
}
