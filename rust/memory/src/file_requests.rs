//! Requests of temporary files' channels, run in order by the caller or by a thread of the file's
//! directory; the first error is stored.

use std::io;

use crate::io_thread::IoThread;
use crate::sync::{Arc, Condvar, Mutex, lock};

/// Thread that runs the requests of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAccess {
    /// The caller, before the call returns.
    Synchronous,
    /// The directory's thread, in the order of the requests of all its channels.
    Asynchronous,
}

/// The requests of one channel.
pub(crate) struct Requests {
    /// `None` if the caller runs them.
    thread: Option<Arc<IoThread>>,
    pending: Arc<Pending>,
}

impl Requests {
    pub(crate) fn new(access: FileAccess, thread: &Arc<IoThread>) -> Self {
        let thread = (access == FileAccess::Asynchronous).then(|| Arc::clone(thread));
        Self {
            thread,
            pending: Arc::new(Pending::default()),
        }
    }

    /// Runs a request, or queues it.
    ///
    /// # Errors
    ///
    /// The error of an earlier request; of this one as well if the caller runs it.
    pub(crate) fn run(
        &self,
        request: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let ending = self.pending.begin()?;
        match &self.thread {
            None => {
                ending.end(request());
                self.pending.error()
            }
            Some(thread) => thread.submit(Box::new(move || ending.end(request()))),
        }
    }

    /// Waits until no request is pending and returns the first error.
    ///
    /// # Errors
    ///
    /// The first error of a request.
    pub(crate) fn wait(&self) -> io::Result<()> {
        self.pending.wait()
    }
}

/// Returns an error of a read that says what the end of the file has cut off.
pub(crate) fn ends_inside(what: &str, error: io::Error) -> io::Error {
    match error.kind() {
        kind @ io::ErrorKind::UnexpectedEof => {
            io::Error::new(kind, format!("the file ends inside a {what}"))
        }
        _ => error,
    }
}

#[derive(Default)]
struct Pending {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    requests: usize,
    error: Option<io::Error>,
}

impl Pending {
    /// Registers a request, unless an earlier one failed.
    fn begin(self: &Arc<Self>) -> io::Result<Ending> {
        self.error()?;
        lock(&self.state).requests += 1;
        Ok(Ending(Arc::clone(self)))
    }

    /// Waits until every registered request has ended; returns the stored error.
    fn wait(&self) -> io::Result<()> {
        let mut state = lock(&self.state);
        while state.requests > 0 {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        drop(state);
        self.error()
    }

    /// Returns the stored error, to every caller.
    fn error(&self) -> io::Result<()> {
        match &lock(&self.state).error {
            Some(error) => Err(match error.raw_os_error() {
                Some(number) => io::Error::from_raw_os_error(number),
                None => io::Error::new(error.kind(), error.to_string()),
            }),
            None => Ok(()),
        }
    }
}

/// Unregisters a request at its end, even if it panics or its thread rejects it.
struct Ending(Arc<Pending>);

impl Ending {
    fn end(self, result: io::Result<()>) {
        if let Err(error) = result {
            lock(&self.0.state).error.get_or_insert(error);
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        lock(&self.0.state).requests -= 1;
        self.0.changed.notify_all();
    }
}

/// A model, beside what is private; the queue between channel and thread is the standard library's.
#[cfg(all(test, feature = "loom"))]
mod loom_models {
    use loom::thread;

    use super::*;

    /// A waiter sees every end of a channel: done, failed, or refused.
    #[test]
    fn waiting_channel_sees_every_end() {
        loom::model(|| {
            let pending = Arc::new(Pending::default());
            let (failing, refused) = (pending.begin().unwrap(), pending.begin().unwrap());
            let thread = thread::spawn(move || failing.end(Err(io::ErrorKind::StorageFull.into())));
            let closing = thread::spawn(move || drop(refused));
            let error = pending.wait().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
            thread.join().unwrap();
            closing.join().unwrap();
            assert!(pending.begin().is_err());
            assert!(pending.wait().is_err());
        });
    }
}
