use std::fs;

use crate::modules::Modules;
use crate::{FrameLayout, Look, ProfileError, Thread, capture, memory, stack};

/// Samples threads of this process.
///
/// Only one caller samples at a time; others wait for their turn.
#[derive(Debug)]
pub struct Sampler {
    layout: FrameLayout,
    modules: Modules,
}

impl Sampler {
    /// Installs the handler of an unused signal, which stays.
    ///
    /// # Errors
    ///
    /// [`ProfileError`] if the system call may not read memory, no signal is free, or the layout of
    /// frames is invalid.
    pub fn new(layout: FrameLayout) -> Result<Self, ProfileError> {
        if !capture::fits(&layout) {
            return Err(ProfileError::Layout);
        }
        memory::check()?;
        capture::install()?;
        Ok(Self {
            layout,
            modules: Modules::default(),
        })
    }

    /// Samples threads, one after the other.
    ///
    /// # Returns
    ///
    /// The position of each thread; `None` for one that has ended or has not answered in time.
    pub fn look(&mut self, threads: &[Thread]) -> Vec<Option<Look>> {
        threads.iter().map(|thread| self.look_at(*thread)).collect()
    }

    fn look_at(&mut self, thread: Thread) -> Option<Look> {
        // Before the signal, which would wake a waiting thread.
        let is_running = is_running(thread.id)?;
        let captured = capture::capture(thread, &self.layout)?;
        let (native, is_complete) = stack::unwind(&captured, &mut self.modules);
        Some(Look {
            is_running,
            is_complete,
            native,
            frames: captured.frames,
        })
    }

    /// The names of a function and of its library, by an address within the function.
    ///
    /// The first one is empty if the library does not name the function.
    pub fn name(&mut self, address: u64) -> (String, String) {
        self.modules.name(address)
    }
}

/// Returns whether a thread of this process runs or waits for a processor; `None` if it has ended.
fn is_running(thread_id: i32) -> Option<bool> {
    let text = fs::read(format!("/proc/self/task/{thread_id}/stat")).ok()?;
    // The name before the state is in brackets, and may contain brackets itself.
    let end = text.iter().rposition(|byte| *byte == b')')?;
    Some(text.get(end + 2) == Some(&b'R'))
}
