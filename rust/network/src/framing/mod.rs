//! Record framing: `[i32 BE length][payload]`, without gaps; records may cross buffer borders
//! anywhere, even inside of the four length bytes.

mod deserializer;
mod gathered;
mod records;
mod serializer;
mod spill;

pub use deserializer::{FramingLimits, RecordDeserializer};
pub use records::Records;
pub use serializer::{RecordSerializer, SerializationResult};
pub use spill::SpillDirectories;
pub(crate) use spill::{REMEDY, WRITE_BYTES, random_bytes};

/// Number of length bytes before every record.
pub const LENGTH_BYTES: usize = 4;
