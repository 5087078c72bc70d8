//! The extension module `penstock._core`: the data plane as Python and Cython see it.
//!
//! The classes are thin.  Each wraps one object of `penstock-network` or `penstock-memory`, turns
//! its errors into the exceptions of `penstock.errors`, and releases the GIL around calls that may
//! wait.  Records do not pass through these classes but through the C function table in [`capi`], which
//! the Cython extensions call without the GIL.

mod capi;
mod environment;
mod errors;
mod handles;
mod heartbeat;
mod home;
mod input_gate;
mod legacy;
mod result_partition;
mod stack_sampler;
mod waiting;

use legacy::{buffers, io_manager, memory_segment, pools, records};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// The data plane of penstock in Rust.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    let table = PyCapsule::new_with_value(py, capi::TABLE, c"penstock._core._C_API")?;
    module.add("_C_API", table)?;
    module.add_class::<environment::NetworkEnvironment>()?;
    module.add_class::<result_partition::ResultPartition>()?;
    module.add_class::<input_gate::InputGate>()?;
    module.add_class::<heartbeat::Heartbeat>()?;
    module.add_class::<stack_sampler::StackSampler>()?;
    module.add_class::<memory_segment::MemorySegment>()?;
    module.add_class::<pools::NetworkBufferPool>()?;
    module.add_class::<pools::LocalBufferPool>()?;
    module.add_class::<pools::AvailabilityFuture>()?;
    module.add_class::<pools::PooledSegment>()?;
    module.add_class::<buffers::Buffer>()?;
    module.add_class::<buffers::BufferBuilder>()?;
    module.add_class::<buffers::BufferConsumer>()?;
    module.add_class::<io_manager::IOManager>()?;
    module.add_class::<io_manager::FileChannelId>()?;
    module.add_class::<io_manager::FileChannelEnumerator>()?;
    module.add_class::<io_manager::BufferFileWriter>()?;
    module.add_class::<io_manager::BufferFileReader>()?;
    module.add_class::<io_manager::BlockChannelWriter>()?;
    module.add_class::<io_manager::BlockChannelReader>()?;
    module.add_class::<records::RecordSerializer>()?;
    module.add_class::<records::RecordDeserializer>()?;
    Ok(())
}
