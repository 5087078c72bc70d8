//! Waits that a signal handler can end, like those of Python's own locks.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// Time between two checks of the main thread for signals.
const SLICE: Duration = Duration::from_millis(200);

/// Releases the GIL and calls `wait`, with the time to wait, until it returns something.
///
/// A `timeout` of `None` means no timeout; returns `Ok(None)` after the timeout.
///
/// # Errors
///
/// The exception that a signal handler raised.
pub(crate) fn interruptibly<T: Send>(
    py: Python<'_>,
    timeout: Option<Duration>,
    mut wait: impl FnMut(Duration) -> Option<T> + Send,
) -> PyResult<Option<T>> {
    in_slices(
        timeout,
        |slice| py.detach(|| wait(slice)),
        || py.check_signals(),
    )
}

/// Like [`interruptibly`], for a thread that does not hold the GIL.
///
/// The GIL is taken, to check for signals, only in the thread where signal handlers run; any other
/// thread calls `wait` once, for the whole time.
///
/// # Errors
///
/// The exception that a signal handler raised.
pub(crate) fn interruptibly_detached<T>(
    timeout: Option<Duration>,
    mut wait: impl FnMut(Option<Duration>) -> Option<T>,
) -> PyResult<Option<T>> {
    // After a short wait the interpreter checks for signals itself.
    if timeout.is_some_and(|timeout| timeout <= SLICE) || !runs_handlers() {
        return Ok(wait(timeout));
    }
    in_slices(
        timeout,
        |slice| wait(Some(slice)),
        || Python::attach(|py| py.check_signals()),
    )
}

/// Returns whether signal handlers run in this thread: whether it is the main thread of the process
/// and of the interpreter, also after a fork.
fn runs_handlers() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}

fn in_slices<T>(
    timeout: Option<Duration>,
    mut wait: impl FnMut(Duration) -> Option<T>,
    check_signals: impl Fn() -> PyResult<()>,
) -> PyResult<Option<T>> {
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let slice = left.map_or(SLICE, |left| left.min(SLICE));
        if let Some(found) = wait(slice) {
            return Ok(Some(found));
        }
        check_signals()?;
        if left.is_some_and(|left| left == slice) {
            return Ok(None);
        }
    }
}

/// The duration of a timeout in milliseconds; 0 for a negative one.
pub(crate) fn at_most(timeout_ms: i64) -> Option<Duration> {
    Some(Duration::from_millis(
        u64::try_from(timeout_ms).unwrap_or(0),
    ))
}

/// Releases the GIL and calls `wait`, with a function that it calls now and then to learn whether
/// to go on.
///
/// # Errors
///
/// The exception that a signal handler raised, whatever `wait` returned.
pub(crate) fn unless_interrupted<T: Send>(
    py: Python<'_>,
    wait: impl FnOnce(&mut dyn FnMut() -> bool) -> T + Send,
) -> PyResult<T> {
    let mut raised = None;
    let result = py.detach(|| {
        wait(&mut || {
            raised = Python::attach(|py| py.check_signals()).err();
            raised.is_none()
        })
    });
    match raised {
        Some(error) => Err(error),
        None => Ok(result),
    }
}
