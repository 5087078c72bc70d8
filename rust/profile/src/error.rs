use std::io;

/// Why threads cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The system call that reads memory without faults is refused.
    #[error(
        "this process may not read its own memory by process_vm_readv ({0}): \
         allow the call in the container's seccomp profile"
    )]
    Memory(io::Error),
    /// All signals have handlers.
    #[error("no real-time signal is free: all of them have handlers")]
    Signal,
    /// Nobody knows how to look at threads here.
    #[error("native stacks are read on Linux with x86-64 alone")]
    Platform,
    /// A field of a frame lies behind what is read of it.
    #[error("frames of this interpreter are longer than any that is known")]
    Layout,
}
