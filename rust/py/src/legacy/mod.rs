//! The older interface: memory, pools, buffers, temporary files and records as separate classes.
//! Tasks and their operators use the environment and the C functions instead.

pub(crate) mod buffers;
pub(crate) mod io_manager;
pub(crate) mod memory_segment;
pub(crate) mod pools;
pub(crate) mod records;
