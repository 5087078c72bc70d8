use std::io;

/// Reasons why threads cannot be sampled.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The process may not make the system call that reads memory without faults.
    #[error(
        "this process may not read its own memory by process_vm_readv ({0}): \
         allow the call in the container's seccomp profile"
    )]
    Memory(io::Error),
    /// All signals have handlers.
    #[error("no real-time signal is free: all of them have handlers")]
    Signal,
    /// This platform is not supported.
    #[error("native stacks are read on Linux with x86-64 alone")]
    Platform,
    /// A field of a frame lies behind the bytes that are read of it.
    #[error("frames of this interpreter are longer than any that is known")]
    Layout,
}
