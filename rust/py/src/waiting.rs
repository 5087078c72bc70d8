//! Waits that a signal's handler can end, as those of Python's own locks.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// Time that a wait lasts before the main thread checks for signals.
const SLICE: Duration = Duration::from_millis(200);

/// Waits without the GIL until `wait`, which is told how long, gives something.
///
/// `timeout` `None` waits for as long as it takes; `Ok(None)` means that the time is over.
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

/// The same for a thread without the GIL, which it takes only where signals' handlers run: any
/// other thread waits in one piece.
///
/// # Errors
///
/// The exception that a signal handler raised.
pub(crate) fn interruptibly_detached<T>(
    timeout: Option<Duration>,
    mut wait: impl FnMut(Option<Duration>) -> Option<T>,
) -> PyResult<Option<T>> {
    // After a short wait the interpreter looks by itself.
    if timeout.is_some_and(|timeout| timeout <= SLICE) || !runs_handlers() {
        return Ok(wait(timeout));
    }
    in_slices(
        timeout,
        |slice| wait(Some(slice)),
        || Python::attach(|py| py.check_signals()),
    )
}

/// Returns whether this is the main thread, of the interpreter as of the process, also after a
/// fork.
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

/// A timeout in milliseconds; one that is over already does not wait.
pub(crate) fn at_most(timeout_ms: i64) -> Option<Duration> {
    Some(Duration::from_millis(
        u64::try_from(timeout_ms).unwrap_or(0),
    ))
}

/// Calls `wait` without the GIL with a question that it asks now and then: whether to go on.
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
