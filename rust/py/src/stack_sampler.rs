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

/// Running or not, complete native stack or not, its addresses, and frames: code, instruction,
/// called by native code or not.  The innermost are first.
type Look = (bool, bool, Vec<u64>, Vec<(u64, u64, bool)>);

/// Looks at threads of this process from outside, at any moment of theirs.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct StackSampler {
    sampler: Mutex<Sampler>,
}

#[pymethods]
impl StackSampler {
    /// Prepares; raises OSError where it cannot be done, with the reason.
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

    /// Waits, and looks at threads: kernel's number and address of the interpreter's state of each.
    ///
    /// Without the GIL, so that who holds it is seen where it is and not where it gives it away.
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

    /// The names of a function, empty where the library does not tell, and of the library.
    fn name(&self, py: Python<'_>, address: u64) -> (String, String) {
        py.detach(|| {
            let mut sampler = self.sampler.lock().unwrap_or_else(PoisonError::into_inner);
            sampler.name(address)
        })
    }
}
