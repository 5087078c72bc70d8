//! The consuming side: channels, the gate that polls them in turn, the union of several gates and
//! the reader that cuts buffers into records.

mod credits;
mod debloating;
mod input_channel;
mod input_gate;
mod local_channel;
mod persister;
mod reader;
mod received;
mod remote_channel;
mod single;
mod union;

pub(crate) use credits::Due;
pub(crate) use input_channel::InputChannel;
pub use input_gate::{BufferOrEvent, InputGate, Next};
pub(crate) use local_channel::LocalInputChannel;
pub use reader::{Batch, FirstBarrier, Gathered, RecordReader};
pub use received::Received;
pub(crate) use remote_channel::{RemoteChannelConfig, RemoteInputChannel};
pub use single::SingleInputGate;
pub use union::UnionInputGate;

#[cfg(all(test, feature = "loom"))]
pub(crate) use input_gate::Wait;
