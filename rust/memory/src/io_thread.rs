//! A thread that runs the I/O requests of many files in order.

use std::fmt;
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::sync::{Mutex, lock};

/// Number of waiting requests; a further one waits for room.
const QUEUE_LENGTH: usize = 256;

/// Work of the thread for one request.
type Request = Box<dyn FnOnce() + Send>;

/// A thread with a bounded queue of requests.
pub(crate) struct IoThread {
    requests: Mutex<Option<SyncSender<Request>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl IoThread {
    pub(crate) fn start(name: &str) -> io::Result<Self> {
        let (sender, receiver) = sync_channel::<Request>(QUEUE_LENGTH);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                for request in receiver {
                    request();
                }
            })?;
        Ok(Self {
            requests: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Queues a request, waiting for room.
    ///
    /// # Errors
    ///
    /// `BrokenPipe` after [`stop`](Self::stop).
    pub(crate) fn submit(&self, request: Request) -> io::Result<()> {
        let closed = || io::Error::new(io::ErrorKind::BrokenPipe, "the I/O manager is closed");
        let sender = lock(&self.requests).clone().ok_or_else(closed)?;
        sender.send(request).map_err(|_| closed())
    }

    /// Ends the thread after the queued requests.
    pub(crate) fn stop(&self) {
        drop(lock(&self.requests).take());
        if let Some(thread) = lock(&self.thread).take() {
            // A request that panicked has already ended for its channel.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for IoThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoThread").finish_non_exhaustive()
    }
}
