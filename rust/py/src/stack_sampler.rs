//! `penstock._core.StackSampler`.

use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use penstock_profile::{FrameLayout, ProfileError, Sampler, Thread};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

/// The fields of a [`FrameLayout`], in its order.
type Layout = (
    usize,
    Option<usize>,
    usize,
    usize,
    usize,
    Option<usize>,
    Option<(usize, u8)>,
);

/// The stack of one thread: whether the thread runs, whether the native stack is complete, the
/// addresses of that stack, and the Python frames as code, instruction, and whether native code has
/// called it.  The innermost are first.
type Look = (bool, bool, Vec<u64>, Vec<(u64, u64, bool)>);

/// Reads the stacks of threads of this process from outside, without their cooperation.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct StackSampler {
    sampler: Mutex<Sampler>,
}

#[pymethods]
impl StackSampler {
    /// Prepares the sampling; raises OSError with the reason where it is impossible.
    #[new]
    fn new(layout: Layout) -> PyResult<Self> {
        let (thread_frame, holder_frame, previous, code, instruction, entry, shim) = layout;
        let layout = FrameLayout {
            thread_frame,
            holder_frame,
            previous,
            code,
            instruction,
            entry,
            shim,
        };
        let sampler = Sampler::new(layout)
            .map_err(|error: ProfileError| PyOSError::new_err(error.to_string()))?;
        Ok(Self {
            sampler: Mutex::new(sampler),
        })
    }

    /// Waits `delay_ms` and then reads the stacks of threads; each is given by its number in the
    /// kernel and the address of its state in the interpreter.
    ///
    /// Releases the GIL, so that a thread is seen where it runs, not where it hands the GIL over.
    fn look(&self, py: Python<'_>, threads: Vec<(i32, u64)>, delay_ms: u64) -> Vec<Option<Look>> {
        let threads: Vec<_> = threads
            .into_iter()
            .map(|(id, state)| Thread { id, state })
            .collect();
        let found = py.detach(|| {
            sleep(Duration::from_millis(delay_ms));
            let mut sampler = self.sampler.lock().unwrap_or_else(PoisonError::into_inner);
            sampler.look(&threads)
        });
        found
            .into_iter()
            .map(|look| {
                look.map(|look| {
                    let frames = look.frames.into_iter();
                    let frames = frames.map(|one| (one.code, one.instruction, one.is_entry));
                    (
                        look.is_running,
                        look.is_complete,
                        look.native,
                        frames.collect(),
                    )
                })
            })
            .collect()
    }

    /// Returns the names of the function at an address and of its library; the first is empty if
    /// the library does not tell it.
    fn name(&self, py: Python<'_>, address: u64) -> (String, String) {
        py.detach(|| {
            let mut sampler = self.sampler.lock().unwrap_or_else(PoisonError::into_inner);
            sampler.name(address)
        })
    }
}
