//! The scenarios of internals M16, one subpartition with a listener that counts.

use std::sync::atomic::{AtomicUsize, Ordering};

use penstock_memory::{Buffer, BufferBuilder, BufferConsumer, DataType, UniqueBuffer};

use super::*;

#[derive(Default)]
struct Ear {
    data: AtomicUsize,
    priority: AtomicUsize,
}

impl AvailabilityListener for Ear {
    fn notify_data_available(&self) {
        self.data.fetch_add(1, Ordering::Relaxed);
    }

    fn notify_priority_event(&self) {
        self.priority.fetch_add(1, Ordering::Relaxed);
    }
}

impl Ear {
    fn notifications(&self) -> usize {
        self.data.load(Ordering::Relaxed)
    }
}

const SIZE: usize = 4096;

fn viewed() -> (PipelinedSubpartition, Arc<Ear>) {
    let subpartition = PipelinedSubpartition::new(SIZE);
    let ear = Arc::new(Ear::default());
    subpartition.create_view(Arc::<Ear>::clone(&ear)).unwrap();
    (subpartition, ear)
}

fn builder(bytes: usize) -> (BufferBuilder, BufferConsumer) {
    let mut builder = UniqueBuffer::unpooled(SIZE).into_builder();
    let consumer = builder.create_buffer_consumer_from_beginning().unwrap();
    builder.append_and_commit(&vec![1; bytes]).unwrap();
    (builder, consumer)
}

fn finished(bytes: usize) -> BufferConsumer {
    let (mut builder, consumer) = builder(bytes);
    builder.finish();
    consumer
}

fn event(data_type: DataType) -> BufferConsumer {
    BufferConsumer::finished(Buffer::from_bytes([0, 0, 0, 1], data_type))
}

/// Polls and returns size, backlog, whether more is available, and the sequence number.
fn poll(subpartition: &PipelinedSubpartition) -> Option<(usize, i32, bool, i32)> {
    subpartition.poll().unwrap().map(|next| {
        let more = next.next_type != DataType::None;
        (next.buffer.size(), next.backlog, more, next.sequence_number)
    })
}

/// C-1: an unfinished element before others is an error.
#[test]
fn two_unfinished_buffers_are_an_error() {
    let (subpartition, _ear) = viewed();
    let (_first, first) = builder(10);
    let (_second, second) = builder(10);
    subpartition.add(first).unwrap();
    subpartition.add(second).unwrap();
    assert!(matches!(subpartition.poll(), Err(Error::IllegalState(_))));
}

/// C-4: an empty unfinished buffer notifies nobody; finishing it and adding one does, once.
#[test]
fn an_empty_unfinished_buffer_is_nothing() {
    let (subpartition, ear) = viewed();
    let (mut first, consumer) = builder(0);
    subpartition.add(consumer).unwrap();
    assert_eq!(ear.notifications(), 0);
    assert_eq!(poll(&subpartition), None);
    first.append_and_commit(&[1; 1025]).unwrap();
    first.finish();
    let (_second, consumer) = builder(1024);
    subpartition.add(consumer).unwrap();
    assert_eq!(ear.notifications(), 1);
    assert_eq!(subpartition.backlog(), 1);
    assert_eq!(poll(&subpartition), Some((1025, 0, false, 0)));
    assert_eq!(subpartition.backlog(), 0);
}

/// An unfinished buffer behind a finished one: sizes 1025 then 1024, and rule C-5.
#[test]
fn flushed_bytes_of_an_unfinished_buffer_are_delivered_once() {
    let (subpartition, ear) = viewed();
    subpartition.add(finished(1025)).unwrap();
    let (mut second, consumer) = builder(1024);
    subpartition.add(consumer).unwrap();
    assert_eq!(ear.notifications(), 1);
    subpartition.flush();
    assert_eq!(ear.notifications(), 1, "two elements are known already");
    assert_eq!(poll(&subpartition), Some((1025, 1, true, 0)));
    assert_eq!(poll(&subpartition), Some((1024, 0, false, 1)));
    assert_eq!(poll(&subpartition), None);
    second.append_and_commit(&[1; 8]).unwrap();
    assert_eq!(ear.notifications(), 1);
    subpartition.flush();
    assert_eq!(ear.notifications(), 2, "exactly one more");
    assert_eq!(poll(&subpartition), Some((8, 0, false, 2)));
}

/// Flushing an empty queue or one without unread bytes does nothing.
#[test]
fn a_flush_without_bytes_is_nothing() {
    let (subpartition, ear) = viewed();
    subpartition.flush();
    let (_first, consumer) = builder(0);
    subpartition.add(consumer).unwrap();
    subpartition.flush();
    assert_eq!(ear.notifications(), 0);
    assert!(!subpartition.is_available(true));
}

/// Three empty finished buffers: one notification, and the reader sees only what follows them.
#[test]
fn empty_finished_buffers_are_skipped() {
    let (subpartition, ear) = viewed();
    for _ in 0..3 {
        subpartition.add(finished(0)).unwrap();
    }
    assert_eq!(ear.notifications(), 1);
    assert_eq!(subpartition.backlog(), 2);
    assert_eq!(poll(&subpartition), None);
    subpartition.add(finished(1024)).unwrap();
    subpartition.flush();
    assert_eq!(poll(&subpartition), Some((1024, 0, false, 0)));
}

/// C-2: events are not counted in the backlog, and need no credit.
#[test]
fn events_are_not_backlog() {
    let (subpartition, _ear) = viewed();
    subpartition.add(event(DataType::EventBuffer)).unwrap();
    assert_eq!(subpartition.backlog(), 0);
    assert!(subpartition.is_available(false));
    subpartition.add(finished(5)).unwrap();
    subpartition.add(event(DataType::EventBuffer)).unwrap();
    assert_eq!(subpartition.backlog(), 1);
    assert_eq!(poll(&subpartition), Some((4, 1, true, 0)));
    assert!(!subpartition.is_available(false));
    assert_eq!(poll(&subpartition), Some((5, 0, true, 1)));
}

/// C-3: a priority event overtakes data, behind earlier priority events.
#[test]
fn priority_events_overtake() {
    let (subpartition, ear) = viewed();
    subpartition.add(finished(5)).unwrap();
    subpartition.add(event(DataType::EventBuffer)).unwrap();
    for _ in 0..2 {
        subpartition
            .add(event(DataType::PrioritizedEventBuffer))
            .unwrap();
    }
    assert_eq!(
        ear.priority.load(Ordering::Relaxed),
        1,
        "only the first is announced"
    );
    let types: Vec<DataType> = std::iter::from_fn(|| subpartition.poll().unwrap())
        .map(|next| next.buffer.data_type())
        .collect();
    let priority = DataType::PrioritizedEventBuffer;
    assert_eq!(
        types,
        [
            priority,
            priority,
            DataType::DataBuffer,
            DataType::EventBuffer
        ]
    );
}

/// C-6: after a blocking event nothing leaves until consumption resumes, not even events.
#[test]
fn a_blocking_event_blocks() {
    let (subpartition, ear) = viewed();
    assert!(subpartition.resume_consumption().is_err(), "nothing blocks");
    subpartition
        .add(event(DataType::AlignedCheckpointBarrier))
        .unwrap();
    subpartition.add(finished(5)).unwrap();
    subpartition.add(event(DataType::EventBuffer)).unwrap();
    let before = ear.notifications();
    assert_eq!(poll(&subpartition), Some((4, 0, false, 0)));
    subpartition
        .add(event(DataType::PrioritizedEventBuffer))
        .unwrap();
    subpartition.flush();
    assert_eq!(ear.notifications(), before);
    assert_eq!(ear.priority.load(Ordering::Relaxed), 0);
    assert!(!subpartition.is_available(true));
    assert_eq!(poll(&subpartition), None);
    subpartition.resume_consumption().unwrap();
    assert_eq!(poll(&subpartition), Some((4, 1, true, 1)));
    assert_eq!(poll(&subpartition), Some((5, 0, true, 2)));
}

/// A pipelined subpartition is consumed once; finished or released it takes nothing more.
#[test]
fn the_end_is_final() {
    let (subpartition, ear) = viewed();
    let second: Arc<Ear> = Arc::default();
    let again = subpartition.create_view(second);
    assert!(matches!(again, Err(Error::IllegalState(_))));
    let mut wakeups = Wakeups::default();
    subpartition.finish(&mut wakeups);
    wakeups.ring();
    assert_eq!(ear.notifications(), 1);
    assert_eq!(subpartition.add(finished(5)), None);
    assert_eq!(poll(&subpartition), Some((4, 0, false, 0)));

    let (subpartition, ear) = viewed();
    subpartition.add(finished(5)).unwrap();
    subpartition.release(Released::Failed("why".into()));
    subpartition.release(Released::Released);
    assert_eq!(ear.notifications(), 1);
    assert_eq!(poll(&subpartition), None);
    assert_eq!(
        subpartition.released(),
        Some(Released::Failed("why".into()))
    );
    assert_eq!(subpartition.queued(), 0);
}
