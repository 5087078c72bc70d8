//! Record framing: `[i32 BE length][payload]`, packed back to back and free to cross buffer
//! borders anywhere, inside the four length bytes included.

mod deserializer;
mod gathered;
mod records;
mod serializer;
mod spill;

pub use deserializer::{FramingLimits, RecordDeserializer};
pub use records::Records;
pub use serializer::{RecordSerializer, SerializationResult};
pub use spill::SpillDirectories;
pub(crate) use spill::random_bytes;

/// Bytes of the length in front of every record.
pub const LENGTH_BYTES: usize = 4;
