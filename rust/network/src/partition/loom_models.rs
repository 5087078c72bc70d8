//! Models of what the writing task waits for besides buffers; see `crate::loom_models`.

use std::time::Duration;

use loom::thread;
use penstock_memory::{Buffer, BufferConsumer, DataType};

use super::blocking::{BlockingPosition, BlockingSubpartition, PartitionFile};
use super::subpartition::{AvailabilityListener, Released};
use super::task_events::TaskEvents;
use crate::error::Error;
use crate::event::OTHER_EVENT;
use crate::framing::SpillDirectories;
use crate::loom_models::{Ear, partition};
use crate::sync::Arc;

/// A task that waits for events gets each of them, in the order of each sender, and then learns
/// that the partition is gone.
#[test]
fn waiting_task_gets_every_event() {
    loom::model(|| {
        let events = Arc::new(TaskEvents::default());
        let event = |last: u8| [&OTHER_EVENT.to_be_bytes()[..], &[0, 0, last]].concat();
        let sender = {
            let events = Arc::clone(&events);
            thread::spawn(move || {
                events.push(event(1)).unwrap();
                events.push(event(2)).unwrap();
            })
        };
        for last in [1, 2] {
            let taken = events.next(Duration::MAX).unwrap();
            assert_eq!(taken, Some(event(last)));
        }
        sender.join().unwrap();
        let releasing = {
            let events = Arc::clone(&events);
            thread::spawn(move || events.release())
        };
        let end = events.next(Duration::MAX);
        assert!(matches!(end, Err(Error::CancelTask(_))));
        releasing.join().unwrap();
        assert!(events.push(event(3)).is_err());
    });
}

/// Time does not pass in a model: who waits this long is woken, or sleeps for ever.
const LONG: Duration = Duration::from_secs(3600);

/// B-7: a writer that waits for its readers wakes when the last of them is done, not before.
#[test]
fn waiting_writer_outlasts_its_readers() {
    loom::model(|| {
        let partition = partition(1, 2);
        let readers = [0, 1].map(|subpartition| {
            let partition = Arc::clone(&partition);
            thread::spawn(move || partition.on_consumed(subpartition))
        });
        assert!(partition.wait_consumed(LONG));
        assert!(partition.wait_consumed(Duration::ZERO));
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

/// The same when the partition is released while readers are not done, or done at that moment.
#[test]
fn waiting_writer_learns_of_release() {
    loom::model(|| {
        let partition = partition(1, 2);
        let reader = {
            let partition = Arc::clone(&partition);
            thread::spawn(move || partition.on_consumed(1))
        };
        let releasing = {
            let partition = Arc::clone(&partition);
            thread::spawn(move || partition.release(&Released::Released))
        };
        assert!(partition.wait_consumed(LONG));
        reader.join().unwrap();
        releasing.join().unwrap();
        assert!(partition.wait_consumed(Duration::ZERO));
    });
}

/// The reader of a blocking partition wakes when it is complete or released, whichever comes first:
/// it reads the partition from its beginning or learns of the release.
#[test]
fn blocking_partition_is_complete_or_released() {
    loom::model(|| {
        let directories = SpillDirectories::default();
        let (file, directory) = directories.create_file("a model", "partition").unwrap();
        let file = Arc::new(PartitionFile::new(file, directory));
        let partition = Arc::new(BlockingSubpartition::new(Arc::clone(&file), 8));
        let ear = Arc::new(Ear::default());
        let listener: Arc<dyn AvailabilityListener> = ear.clone();
        partition.connect(listener).unwrap();
        let releasing = {
            let (partition, file) = (Arc::clone(&partition), Arc::clone(&file));
            thread::spawn(move || {
                partition.release(Released::Released);
                file.release();
            })
        };
        let page = Buffer::from_bytes([1], DataType::DataBuffer);
        partition.add(BufferConsumer::finished(page));
        partition.finish();
        partition.place_finished();
        file.write_region();
        partition.publish();
        ear.wait();
        let mut at = BlockingPosition::default();
        if let Ok(Some(first)) = partition.poll(&mut at) {
            assert_eq!(first.buffer.as_slice(), [1]);
            assert_eq!(first.next_type, DataType::EndOfPartition);
        } else {
            assert!(partition.released().is_some());
        }
        releasing.join().unwrap();
    });
}
