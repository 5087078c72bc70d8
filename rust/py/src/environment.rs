//! `penstock._core.NetworkEnvironment`.

use std::io::Write;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::sync::Once;
use std::time::Duration;

use penstock_memory::debloat::DebloatOptions;
use penstock_network::{
    ChannelDescriptor, ChannelLocation, EnvironmentConfig, Error, PartitionType, TlsIdentity,
    wire::Compression,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{exception, network_error};
use crate::home::Home;
use crate::input_gate::InputGate;
use crate::result_partition::ResultPartition;

/// Bytes of a partition id: data set 16, partition number 4, producer attempt 40.
const PARTITION_ID_BYTES: usize = 60;

/// A channel as Python describes it: partition id, subpartition, and the producer's host and port,
/// or None if the producer is local.
type ChannelSpec<'py> = (Bound<'py, PyBytes>, i64, Option<(String, u16)>);

/// The network side of one TaskExecutor: its buffer pool, port, partitions and gates.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct NetworkEnvironment {
    environment: Home<penstock_network::NetworkEnvironment>,
    executor_id: String,
}

#[pymethods]
impl NetworkEnvironment {
    #[new]
    #[pyo3(signature = (
        *,
        executor_id,
        token,
        bind_host = "127.0.0.1",
        num_segments = 2048,
        segment_size = 32768,
        exclusive_buffers_per_channel = 2,
        floating_buffers_per_gate = 8,
        request_timeout_ms = 30_000,
        partition_request_timeout_ms = 10_000,
        connect_timeout_ms = 120_000,
        handshake_timeout_ms = 10_000,
        same_host_path = true,
        tls_identity = None,
        debloat_target_ms = None,
        debloat_threshold_percent = 25,
        debloat_samples = 20,
        min_segment_size = 256,
        starting_segment_size = 1024,
        compression_codec = "none",
        temp_directories = Vec::new(),
        spill_threshold_bytes = 5 << 20,
    ), text_signature = "(*, executor_id, token, bind_host='127.0.0.1', num_segments=2048, \
        segment_size=32768, exclusive_buffers_per_channel=2, floating_buffers_per_gate=8, \
        request_timeout_ms=30000, partition_request_timeout_ms=10000, connect_timeout_ms=120000, \
        handshake_timeout_ms=10000, same_host_path=True, tls_identity=None, \
        debloat_target_ms=None, debloat_threshold_percent=25, debloat_samples=20, \
        min_segment_size=256, starting_segment_size=1024, compression_codec='none', \
        temp_directories=(), spill_threshold_bytes=5242880)")]
    #[allow(
        clippy::too_many_arguments,
        reason = "they are Python keyword arguments"
    )]
    fn new(
        py: Python<'_>,
        executor_id: &str,
        token: &[u8],
        bind_host: &str,
        num_segments: i64,
        segment_size: i64,
        exclusive_buffers_per_channel: i64,
        floating_buffers_per_gate: i64,
        request_timeout_ms: i64,
        partition_request_timeout_ms: i64,
        connect_timeout_ms: i64,
        handshake_timeout_ms: i64,
        same_host_path: bool,
        tls_identity: Option<(Vec<u8>, Vec<u8>)>,
        debloat_target_ms: Option<i64>,
        debloat_threshold_percent: i64,
        debloat_samples: i64,
        min_segment_size: i64,
        starting_segment_size: i64,
        compression_codec: &str,
        temp_directories: Vec<PathBuf>,
        spill_threshold_bytes: i64,
    ) -> PyResult<Self> {
        if token.is_empty() {
            let message = "token is empty; executors of a job prove by it that they belong to it";
            return Err(exception(py, "ConfigurationError", message));
        }
        let size = |name, value, least| Ok::<_, PyErr>(checked(py, name, value, least)? as usize);
        let duration = |name, value, least| {
            Ok::<_, PyErr>(Duration::from_millis(
                checked(py, name, value, least)?.into(),
            ))
        };
        let max_bytes = checked(py, "segment_size", segment_size, 1)?;
        let min_bytes = checked(py, "min_segment_size", min_segment_size, 1)?;
        let compression = Compression::from_name(compression_codec)
            .map_err(|error| exception(py, "ConfigurationError", &error.to_string()))?;
        if debloat_target_ms.is_some() && min_bytes > max_bytes {
            let message = format!(
                "debloated buffers of at least {min_segment_size} bytes in segments of \
                 {segment_size}"
            );
            return Err(exception(py, "ConfigurationError", &message));
        }
        let start_bytes = checked(py, "starting_segment_size", starting_segment_size, 0)?;
        let threshold_percent = checked(
            py,
            "debloat_threshold_percent",
            debloat_threshold_percent,
            0,
        )?;
        let samples = checked(py, "debloat_samples", debloat_samples, 1)?;
        let debloat = debloat_target_ms
            .map(|target_ms| {
                Ok::<_, PyErr>(DebloatOptions {
                    target_ms: checked(py, "debloat_target_ms", target_ms, 0)?.into(),
                    min_bytes,
                    max_bytes,
                    start_bytes,
                    threshold_percent,
                    samples,
                })
            })
            .transpose()?;
        let config = EnvironmentConfig {
            bind_host: bind_host.to_owned(),
            num_segments: size("num_segments", num_segments, 1)?,
            segment_bytes: max_bytes as usize,
            exclusive_buffers_per_channel: size(
                "exclusive_buffers_per_channel",
                exclusive_buffers_per_channel,
                0,
            )?,
            floating_buffers_per_gate: size(
                "floating_buffers_per_gate",
                floating_buffers_per_gate,
                1,
            )?,
            request_timeout: duration("request_timeout_ms", request_timeout_ms, 1)?,
            partition_request_timeout: duration(
                "partition_request_timeout_ms",
                partition_request_timeout_ms,
                0,
            )?,
            connect_timeout: duration("connect_timeout_ms", connect_timeout_ms, 0)?,
            handshake_timeout: duration("handshake_timeout_ms", handshake_timeout_ms, 0)?,
            same_host_path,
            tls: tls_identity.map(|(certificate, private_key)| TlsIdentity {
                certificate,
                private_key,
            }),
            debloat,
            compression,
            spill_directories: temp_directories,
            spill_threshold_bytes: size("spill_threshold_bytes", spill_threshold_bytes, 0)?,
            ..EnvironmentConfig::new(executor_id, token)
        };
        log_to_stderr();
        let environment = py
            .detach(|| penstock_network::NetworkEnvironment::new(config))
            .map_err(|error| network_error(py, &error))?;
        Ok(Self {
            environment: Home::new(environment),
            executor_id: executor_id.to_owned(),
        })
    }

    /// Name of the executor, as passed to the constructor.
    #[getter]
    fn executor_id(&self) -> &str {
        &self.executor_id
    }

    /// Returns the address at which other executors reach this one.
    #[getter]
    fn address(&self) -> (String, u16) {
        let address = self.environment.address();
        (address.ip().to_string(), address.port())
    }

    /// Size of the network buffer pool.
    #[getter]
    fn total_segments(&self) -> usize {
        self.environment.total_segments()
    }

    /// Segments that no pool and no channel holds.
    #[getter]
    fn available_segments(&self) -> usize {
        self.environment.available_segments()
    }

    /// Creates and registers a partition; its id has 60 bytes.  A blocking partition sorts its
    /// output in `managed_bytes` of managed memory, which the caller has reserved.
    #[pyo3(signature = (
        partition_id,
        num_subpartitions,
        partition_type = "PIPELINED_BOUNDED",
        flush_timeout_ms = 100,
        managed_bytes = 1048576,
    ))]
    fn create_result_partition(
        &self,
        py: Python<'_>,
        partition_id: &[u8],
        num_subpartitions: i64,
        partition_type: &str,
        flush_timeout_ms: i64,
        managed_bytes: i64,
    ) -> PyResult<ResultPartition> {
        if flush_timeout_ms < -1 {
            let message = format!("flush timeout of {flush_timeout_ms} ms; -1 means never");
            return Err(exception(py, "ConfigurationError", &message));
        }
        // The environment refuses 0 subpartitions, and here every invalid number becomes 0.
        let num_subpartitions = usize::try_from(num_subpartitions).unwrap_or(0);
        let partition_id = checked_id(py, partition_id)?;
        let managed_bytes = checked(py, "managed_bytes", managed_bytes, 0)? as usize;
        let partition_type = PartitionType::from_name(partition_type, managed_bytes)
            .map_err(|error| exception(py, "ConfigurationError", &error.to_string()))?;
        let partition = py
            .detach(|| {
                self.environment.create_result_partition(
                    partition_id,
                    num_subpartitions,
                    partition_type,
                    flush_timeout_ms,
                )
            })
            .map_err(|error| network_error(py, &error))?;
        ResultPartition::new(py, partition)
    }

    /// Creates a gate and takes its buffers; `request_partitions` requests its partitions.
    fn create_input_gate(
        &self,
        py: Python<'_>,
        channels: Vec<ChannelSpec<'_>>,
    ) -> PyResult<InputGate> {
        let mut descriptors = Vec::with_capacity(channels.len());
        for (partition_id, subpartition, address) in channels {
            let partition_id = checked_id(py, partition_id.as_bytes())?;
            let subpartition = checked(py, "subpartition", subpartition, 0)? as usize;
            let location = match address {
                None => ChannelLocation::Local,
                Some((host, port)) => py
                    .detach(|| resolve(&host, port))
                    .map_err(|error| network_error(py, &error))?,
            };
            descriptors.push(ChannelDescriptor {
                partition_id,
                subpartition,
                location,
            });
        }
        let gate = py
            .detach(|| self.environment.create_input_gate(&descriptors))
            .map_err(|error| network_error(py, &error))?;
        InputGate::new(py, gate, self.environment.framing_limits().clone())
    }

    /// Reads several gates as one; a channel's index is its own plus its gate's offset.
    fn create_union_gate(&self, py: Python<'_>, gates: Vec<Py<InputGate>>) -> PyResult<InputGate> {
        let members: Vec<_> = gates.iter().map(|gate| gate.get().gate.clone()).collect();
        let gate = py
            .detach(|| self.environment.create_union_gate(&members))
            .map_err(|error| network_error(py, &error))?;
        InputGate::new(py, gate, self.environment.framing_limits().clone())
    }

    /// Closes gates, partitions, connections and threads; a second call does nothing, and so does a
    /// call in a forked child.
    fn close(&self, py: Python<'_>) {
        if !self.environment.is_left() {
            py.detach(|| self.environment.close());
        }
    }
}

/// Checks an argument: at least `least`, and at most the largest signed 32-bit integer.
fn checked(py: Python<'_>, name: &str, value: i64, least: u32) -> PyResult<u32> {
    const MOST: u32 = i32::MAX as u32;
    let number = u32::try_from(value).ok();
    number
        .filter(|number| (least..=MOST).contains(number))
        .ok_or_else(|| {
            let message = format!("{name} is {value}; it can be {least} to {MOST}");
            exception(py, "ConfigurationError", &message)
        })
}

fn checked_id(py: Python<'_>, bytes: &[u8]) -> PyResult<[u8; PARTITION_ID_BYTES]> {
    bytes.try_into().map_err(|_| {
        let message = format!(
            "a partition id has {PARTITION_ID_BYTES} bytes, not {}",
            bytes.len()
        );
        exception(py, "ConfigurationError", &message)
    })
}

fn resolve(host: &str, port: u16) -> Result<ChannelLocation, Error> {
    let failed = |reason: &str| {
        Error::PartitionConnection(format!("the address of {host}:{port} is unknown: {reason}"))
    };
    let mut addresses = (host, port)
        .to_socket_addrs()
        .map_err(|error| failed(&error.to_string()))?;
    addresses
        .next()
        .map(ChannelLocation::Remote)
        .ok_or_else(|| failed("no address"))
}

/// Sends the data plane's warnings to the standard error stream, once per process.
///
/// Python's logging needs the GIL, which a busy user function may hold for long, and the data
/// plane's threads must not wait for it.
fn log_to_stderr() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let sink = Box::new(|level: log::Level, text: &str| {
            let line = format!("{level} penstock.network: {text}\n");
            // A closed stream is no reason to fail, and there is nowhere left to say so.
            let _ = std::io::stderr().write_all(line.as_bytes());
        });
        // A process that has installed a logger keeps it, and the warnings go there.
        let _ = penstock_network::logging::install(log::LevelFilter::Warn, sink);
    });
}
