//! Stacks of this process's threads, native code included, without a debugger's rights.
//!
//! A sampled thread receives a signal, whatever it is doing.  The handler copies the registers, the
//! stack and the interpreter's chain of frames into an area that was allocated before, by system
//! calls that fail if memory cannot be read.  It allocates nothing, takes no lock and follows no
//! pointer, so it can neither crash nor block the process.  The asking thread unwinds the stack
//! from the copy, with the tables that libraries contain for exceptions.
//!
//! This crate knows no interpreter: a [`FrameLayout`] says where the frames are.

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
    /// In a thread's state: a pointer to the innermost frame, or to a structure with that pointer.
    pub thread_frame: usize,
    /// In that structure: the pointer to the innermost frame; `None` if the state has it itself.
    pub holder_frame: Option<usize>,
    /// In a frame: the pointer to its caller's.
    pub previous: usize,
    /// In a frame: the pointer to its code.
    pub code: usize,
    /// In a frame: the pointer to its instruction.
    pub instruction: usize,
    /// In a frame: a byte that is not 0 where native code called the interpreter with this frame.
    pub entry: Option<usize>,
    /// In a frame: a byte, and its value in the frames without a function that native code puts
    /// before those that it calls.
    pub shim: Option<(usize, u8)>,
}

impl FrameLayout {
    /// The layout for threads without an interpreter.
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

/// A thread to sample.
#[derive(Clone, Copy, Debug)]
pub struct Thread {
    /// Its id in the kernel.
    pub id: i32,
    /// The address of its state in the interpreter, or 0.
    pub state: u64,
}

/// Position of a thread.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// True if it was runnable: it ran, or waited only for a processor.
    pub is_running: bool,
    /// True if the native stack was followed to its end.
    pub is_complete: bool,
    /// Addresses within the functions of its native stack, innermost first.
    pub native: Vec<u64>,
    /// Frames of the interpreter, innermost first; at most 256, without the outermost ones.
    pub frames: Vec<InterpreterFrame>,
}
