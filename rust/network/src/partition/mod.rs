//! The producing side: subpartitions, the partition that a task writes, the registry that readers
//! look partitions up in, and the flushing thread.

mod blocking;
mod flusher;
#[cfg(all(test, feature = "loom"))]
mod loom_models;
mod manager;
mod open_builders;
mod reader_pace;
mod result_partition;
mod shared;
mod subpartition;
mod task_events;
mod view;
mod wait_clock;
mod wakeups;

pub(crate) use blocking::{PartitionFile, allocate_pages};
pub(crate) use flusher::OutputFlusher;
pub(crate) use manager::{Listener, PartitionManager};
pub use open_builders::Cursor;
pub(crate) use reader_pace::MAX_BUFFERS_PER_CHANNEL;
pub use result_partition::{PartitionType, ResultPartition};
pub(crate) use shared::{PartitionShared, StoredOutput};
pub(crate) use subpartition::{AvailabilityListener, Released};
pub(crate) use task_events::check_task_event;
pub(crate) use view::SubpartitionView;
pub(crate) use wakeups::{Doorbell, Wakeups};

#[cfg(all(test, feature = "loom"))]
pub(crate) use self::{
    shared::Subpartition,
    subpartition::{BufferAndBacklog, PipelinedSubpartition},
};
