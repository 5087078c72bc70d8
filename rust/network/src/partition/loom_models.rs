//! Models of what the writing task waits for besides buffers; see `crate::loom_models`.

use std::time::Duration;

use loom::thread;

use super::subpartition::Released;
use super::task_events::TaskEvents;
use crate::error::Error;
use crate::event::OTHER_EVENT;
use crate::loom_models::partition;
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
