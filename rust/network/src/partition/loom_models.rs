//! Models of what the writing task waits for besides buffers; see `crate::loom_models`.

use std::time::Duration;

use loom::thread;

use super::task_events::TaskEvents;
use crate::error::Error;
use crate::event::OTHER_EVENT;
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
