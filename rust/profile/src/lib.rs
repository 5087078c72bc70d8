//! Stacks of this process's threads, native code included, without a debugger's rights.
//!
//! A thread that is asked gets a signal, wherever it is.  The handler copies the registers, the
//! stack and the interpreter's chain of frames into an area made before, by system calls that
//! fail where memory cannot be read: it allocates nothing, takes no lock and follows no pointer,
//! so that it can neither end nor hold up the process.  The stack is unwound from the copy, by the
//! thread that asks, with the tables that libraries carry for exceptions.
//!
//! This crate knows no interpreter: where one keeps its frames is told by a [`FrameLayout`].

mod error;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod capture;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod memory;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod modules;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod sampler;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod stack;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
#[path = "no_sampler.rs"]
mod sampler;

pub use error::ProfileError;
pub use sampler::Sampler;

/// Layout of an interpreter's frames: offsets in bytes.
#[derive(Clone, Copy, Debug)]
pub struct FrameLayout {
    /// In the state of a thread: a pointer to the innermost frame, or to what holds that pointer.
    pub thread_frame: usize,
    /// In what the state points to, the pointer to the innermost frame; `None` if it points to it.
    pub holder_frame: Option<usize>,
    /// In a frame: the pointer to its caller's.
    pub previous: usize,
    /// In a frame: the pointer to its code.
    pub code: usize,
    /// In a frame: the pointer to its instruction.
    pub instruction: usize,
    /// In a frame: a byte that is not 0 where native code called the interpreter with this frame.
    pub entry: Option<usize>,
    /// In a frame: a byte, and its value in a frame that native code puts before those which it
    /// calls, and that stands for no function.
    pub shim: Option<(usize, u8)>,
}

impl FrameLayout {
    /// Of no interpreter.
    pub const NONE: Self = Self {
        thread_frame: 0,
        holder_frame: None,
        previous: 0,
        code: 0,
        instruction: 0,
        entry: None,
        shim: None,
    };
}

/// A frame of the interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterpreterFrame {
    /// The address of its code.
    pub code: u64,
    /// The address of its instruction.
    pub instruction: u64,
    /// True if native code called the interpreter with it, rather than another frame.
    pub is_entry: bool,
}

/// A thread to look at.
#[derive(Clone, Copy, Debug)]
pub struct Thread {
    /// The kernel's number of it.
    pub id: i32,
    /// The address of the interpreter's state of it, or 0.
    pub state: u64,
}

/// Position of a thread.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// True if it ran or could have: it waited for nothing but a processor.
    pub is_running: bool,
    /// True if the native stack was followed to its end.
    pub is_complete: bool,
    /// Addresses within the functions of its native stack, innermost first.
    pub native: Vec<u64>,
    /// Frames of the interpreter, innermost first; the outermost are cut beyond 256.
    pub frames: Vec<InterpreterFrame>,
}
