//! The data plane of penstock: record framing, result partitions, input gates and the transport.
//!
//! ```text
//! writer ── Cursor ── ResultPartition ── PipelinedSubpartition ──┬── LocalInputChannel ── InputGate
//!                                                                └── server ═ TCP ═ client
//!                                                                        RemoteInputChannel ── InputGate
//! InputGate ── RecordReader (one RecordDeserializer per channel) ── Batch
//! ```
//!
//! [`NetworkEnvironment`] combines them, one per executor.  It has no notion of Python: the threads
//! it starts (one for I/O, one that flushes) make progress whatever the interpreter does.
//!
//! Threads and their work: the task's thread fills buffers and reads batches; the I/O thread owns
//! all sockets, polls subpartitions that remote readers consume and reads payload into the buffers
//! of channels; the flusher makes unfinished buffers visible on time.
//!
//! `unsafe` occurs in one place, mapping a spilled record into memory.

pub mod event;
pub mod framing;
pub mod heartbeat;
pub mod logging;
pub mod wire;

mod environment;
mod error;
mod gate;
#[cfg(all(test, feature = "loom"))]
mod loom_models;
mod partition;
mod sync;
mod transport;

pub use environment::{ChannelDescriptor, ChannelLocation, EnvironmentConfig, NetworkEnvironment};
pub use error::{Error, ErrorCode, Result};
pub use gate::{
    Batch, BufferOrEvent, FirstBarrier, Gathered, InputGate, Next, Received, RecordReader,
    SingleInputGate, UnionInputGate,
};
pub use partition::{Cursor, PartitionType, ResultPartition};
pub use transport::TlsIdentity;

/// Returns `bytes` in lower-case hexadecimal, for messages.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
