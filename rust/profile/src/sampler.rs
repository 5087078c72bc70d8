use std::fs;

use crate::modules::Modules;
use crate::{FrameLayout, Look, ProfileError, Thread, capture, memory, stack};

/// Looks at threads of this process.
///
/// One at a time looks; others wait for their turn.
#[derive(Debug)]
pub struct Sampler {
    layout: FrameLayout,
    modules: Modules,
}

impl Sampler {
    /// Prepares: the handler of a signal that nobody uses is installed, and stays.
    ///
    /// # Errors
    ///
    /// [`ProfileError`] when memory cannot be read by the system call, no signal is free, or frames
    /// are laid out as none are.
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

    /// Looks at threads, one after the other.
    ///
    /// # Returns
    ///
    /// One for each of them; `None` for a thread that has ended or has not answered in time.
    pub fn look(&mut self, threads: &[Thread]) -> Vec<Option<Look>> {
        threads.iter().map(|thread| self.look_at(*thread)).collect()
    }

    fn look_at(&mut self, thread: Thread) -> Option<Look> {
        // Before the signal: that wakes a thread that waits.
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
    /// The first is empty where the library does not tell.
    pub fn name(&mut self, address: u64) -> (String, String) {
        self.modules.name(address)
    }
}

/// Returns whether a thread of this process runs or waits for a processor; `None` when it has
/// ended.
fn is_running(thread_id: i32) -> Option<bool> {
    let text = fs::read(format!("/proc/self/task/{thread_id}/stat")).ok()?;
    // The name before the state is in brackets, and may have brackets itself.
    let end = text.iter().rposition(|byte| *byte == b')')?;
    Some(text.get(end + 2) == Some(&b'R'))
}
