//! Memory segments, buffer pools and buffers: the bytes of penstock's data plane.
//!
//! ```text
//! NetworkBufferPool   all network memory of a worker
//!  ├─ LocalBufferPool     of one result partition or input gate
//!  │   └─ UniqueBuffer        a segment that one holder may write
//!  │       ├─ BufferBuilder ──── position marker ──── BufferConsumer
//!  │       └─ Buffer              counted, read-only; returns to its pool when the last one drops
//!  └─ PooledSegment       an exclusive segment of one input channel
//! ```
//!
//! The crate has no notion of records, partitions, sockets or Python.  Most of the workspace's
//! `unsafe` code is here, because one thread writes a buffer's memory while another reads the bytes
//! written before; `slot` states who owns a segment when.

pub mod availability;
pub mod debloat;
pub mod position_marker;
pub mod segment;

mod block_channel;
mod buffer;
mod buffer_builder;
mod buffer_consumer;
mod data_type;
mod error;
mod file_channel;
mod file_requests;
mod free_segments;
mod io_manager;
mod io_thread;
mod local_buffer_pool;
mod local_pool_inner;
mod local_pool_options;
mod network_buffer_pool;
mod pool_usage;
mod pooled_segment;
mod redistribution;
mod region;
mod shared_memory;
mod short_lock;
mod slot;
mod sync;
mod unique_buffer;

pub use availability::AvailabilityFuture;
pub use block_channel::{BlockChannelReader, BlockChannelWriter, BulkBlockChannelReader};
pub use buffer::Buffer;
pub use buffer_builder::BufferBuilder;
pub use buffer_consumer::{BufferConsumer, BufferConsumerWithPartialRecordLength};
pub use data_type::{DataType, UnknownDataType};
pub use error::{BufferError, PoolError, SegmentError};
pub use file_channel::{BufferFileReader, BufferFileWriter, ReadCallback};
pub use file_requests::FileAccess;
pub use io_manager::{ChannelEnumerator, ChannelId, IoManager};
pub use local_buffer_pool::{BufferListener, LocalBufferPool};
pub use local_pool_options::LocalPoolOptions;
pub use network_buffer_pool::{DEFAULT_REQUEST_TIMEOUT, NetworkBufferPool};
pub use pooled_segment::{BufferRecycler, PooledSegment};
pub use redistribution::{PoolBounds, redistribute};
pub use segment::{ForeignKind, MemorySegment};
pub use shared_memory::{ForeignFlag, ForeignMemory, SharedFlag, SharedMemory};
pub use unique_buffer::UniqueBuffer;
