//! The network environment: everything that an executor needs to exchange data.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use penstock_memory::debloat::DebloatOptions;
use penstock_memory::{LocalPoolOptions, NetworkBufferPool, PoolError};

use crate::error::{Error, Result};
use crate::framing::{FramingLimits, SpillDirectories, random_bytes};
use crate::gate::{
    InputChannel, InputGate, LocalInputChannel, RemoteChannelConfig, RemoteInputChannel,
    SingleInputGate, UnionInputGate,
};
use crate::partition::{
    Listener, MAX_BUFFERS_PER_CHANNEL, OutputFlusher, PartitionFile, PartitionManager,
    PartitionShared, PartitionType, Released, ResultPartition, StoredOutput, allocate_pages,
};
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, Weak};
use crate::transport::{Command, TlsIdentity, Transport, Waiting};
use crate::wire::{Compression, PartitionId, ReceiverId};

/// Buffers that a partition may take beyond its pool's size to finish a record.
const MAX_OVERDRAFT_BUFFERS: usize = 20;

/// Settings of a network environment.
#[derive(Debug, Clone)]
pub struct EnvironmentConfig {
    /// The name of the executor in log lines and errors.
    pub executor_id: String,
    /// The job's secret.
    pub token: Vec<u8>,
    /// Host to which the data port is bound.
    pub bind_host: String,
    /// Number of segments of the network buffer pool.
    pub num_segments: usize,
    /// Bytes of a segment.
    pub segment_bytes: usize,
    /// Number of buffers that every remote channel owns.
    pub exclusive_buffers_per_channel: usize,
    /// Number of buffers that the channels of a gate share.
    pub floating_buffers_per_gate: usize,
    /// Timeout of a request for exclusive buffers.
    pub request_timeout: Duration,
    /// Timeout of a partition request.
    pub partition_request_timeout: Duration,
    /// Timeout of connecting.
    pub connect_timeout: Duration,
    /// Time that a connected peer has to authenticate, TLS included.
    pub handshake_timeout: Duration,
    /// Executors of the same host are reached by Unix sockets and shared memory instead of TCP.
    pub same_host_path: bool,
    /// Identity presented on connections to other hosts, which are then encrypted.
    pub tls: Option<TlsIdentity>,
    /// Settings by which gates request smaller buffers of their producers, if they do.
    pub debloat: Option<DebloatOptions>,
    /// Compression of buffers for other executors.
    pub compression: Compression,
    /// Directories of blocking partitions and of records too long for memory; if empty, the
    /// system's own.
    pub spill_directories: Vec<PathBuf>,
    /// Length in bytes above which records that span buffers are gathered in a file; at least 100
    /// KiB.
    pub spill_threshold_bytes: usize,
}

impl EnvironmentConfig {
    /// Returns the defaults, for an executor and its token.
    #[must_use]
    pub fn new(executor_id: &str, token: &[u8]) -> Self {
        Self {
            executor_id: executor_id.to_owned(),
            token: token.to_vec(),
            bind_host: "127.0.0.1".to_owned(),
            num_segments: 2048,
            segment_bytes: 32 << 10,
            exclusive_buffers_per_channel: 2,
            floating_buffers_per_gate: 8,
            request_timeout: Duration::from_secs(30),
            partition_request_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(120),
            handshake_timeout: Duration::from_secs(10),
            same_host_path: true,
            tls: None,
            debloat: None,
            compression: Compression::None,
            spill_directories: Vec::new(),
            spill_threshold_bytes: FramingLimits::default().spill_threshold_bytes,
        }
    }
}

/// Location of a channel's partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelLocation {
    /// In this executor.
    Local,
    /// In the executor with this data port.
    Remote(SocketAddr),
}

/// Description of a gate's channel.
#[derive(Debug, Clone)]
pub struct ChannelDescriptor {
    /// The partition.
    pub partition_id: PartitionId,
    /// The subpartition.
    pub subpartition: usize,
    /// Location of the partition.
    pub location: ChannelLocation,
}

/// State that partitions, gates and the environment share.
#[derive(Debug)]
pub(crate) struct EnvironmentCore {
    config: Arc<EnvironmentConfig>,
    manager: Arc<PartitionManager>,
    transport: Arc<Transport>,
    flusher: OutputFlusher,
}

impl EnvironmentCore {
    /// Creates an environment without threads: models do their work.
    #[cfg(feature = "loom")]
    pub(crate) fn detached() -> Self {
        Self {
            config: Arc::new(EnvironmentConfig::new("model", b"")),
            manager: Arc::default(),
            transport: Transport::detached(),
            flusher: OutputFlusher::detached(),
        }
    }

    pub(crate) fn config(&self) -> &EnvironmentConfig {
        &self.config
    }

    pub(crate) fn manager(&self) -> &PartitionManager {
        &self.manager
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Returns the transport, to be shared with a channel.
    #[cfg(all(test, feature = "loom"))]
    pub(crate) fn transport_handle(&self) -> &Arc<Transport> {
        &self.transport
    }

    pub(crate) fn forget_partition(&self, partition: &Arc<PartitionShared>) {
        self.manager.unregister(partition);
        self.flusher.remove(partition);
    }
}

/// The data plane of one executor.
#[derive(Debug)]
pub struct NetworkEnvironment {
    core: Arc<EnvironmentCore>,
    pool: Arc<NetworkBufferPool>,
    limits: FramingLimits,
    gates: Mutex<Vec<Weak<SingleInputGate>>>,
    /// First half of the ids of this environment's channels.
    receiver_prefix: [u8; 8],
    next_receiver: AtomicU64,
    closed: AtomicBool,
}

impl NetworkEnvironment {
    /// Allocates the buffers, opens the data port and starts the I/O and flusher threads.
    ///
    /// # Errors
    /// `InsufficientBuffers` if the memory cannot be allocated, `Io` if the port cannot be opened or
    /// a thread cannot start, `Authentication` if the TLS identity cannot be used.
    pub fn new(config: EnvironmentConfig) -> Result<Self> {
        let config = Arc::new(config);
        let pool = make_pool(&config)?;
        let manager = Arc::new(PartitionManager::default());
        let receiver_prefix = random_bytes()?;
        let transport = Transport::start(&config, &manager, pool.shared_memory())?;
        let flusher = match OutputFlusher::start() {
            Ok(flusher) => flusher,
            Err(error) => {
                transport.close();
                return Err(error);
            }
        };
        let limits = FramingLimits {
            spill_threshold_bytes: config.spill_threshold_bytes,
            spill_directories: SpillDirectories::new(config.spill_directories.clone()),
            ..FramingLimits::default()
        };
        Ok(Self {
            core: Arc::new(EnvironmentCore {
                config,
                manager,
                transport,
                flusher,
            }),
            pool,
            limits,
            gates: Mutex::new(Vec::new()),
            receiver_prefix,
            next_receiver: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        })
    }

    /// Returns the data port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.core.transport.address()
    }

    /// Returns the network buffer pool.
    #[must_use]
    pub fn pool(&self) -> &Arc<NetworkBufferPool> {
        &self.pool
    }

    /// Limits for readers of this environment's gates.
    #[must_use]
    pub fn framing_limits(&self) -> &FramingLimits {
        &self.limits
    }

    /// Creates a partition and registers it for readers.
    ///
    /// `flush_timeout_ms`: −1 never by time, 0 after every record (by the writer), else the
    /// flusher's interval in milliseconds.
    ///
    /// # Errors
    /// `InsufficientBuffers` if the pool cannot promise the minimum or a blocking one has too little
    /// managed memory, `IllegalState` if the id is taken or the environment is closed, `Io` if the
    /// file of a blocking one cannot be created.
    pub fn create_result_partition(
        &self,
        partition_id: PartitionId,
        num_subpartitions: usize,
        partition_type: PartitionType,
        flush_timeout_ms: i64,
    ) -> Result<Arc<ResultPartition>> {
        self.check_open()?;
        if num_subpartitions == 0 {
            return Err(Error::IllegalState(
                "a partition without subpartitions".into(),
            ));
        }
        let (pool, stored) = match partition_type {
            PartitionType::Blocking { managed_bytes } => {
                let segment_bytes = self.pool.segment_size();
                let pages = allocate_pages(num_subpartitions, managed_bytes, segment_bytes)?;
                let directories = &self.limits.spill_directories;
                let (file, directory) =
                    directories.create_file("a blocking partition", "partition")?;
                let all = pages.total_segments();
                let options =
                    LocalPoolOptions::new(all, all).with_quota(num_subpartitions, usize::MAX);
                let pool = pages.create_buffer_pool(options)?;
                let file = Arc::new(PartitionFile::new(file, directory));
                (pool, Some(StoredOutput { file, pages }))
            }
            PartitionType::Pipelined | PartitionType::PipelinedBounded => {
                let min = num_subpartitions + 1;
                let config = &self.core.config;
                let max = match partition_type {
                    PartitionType::Pipelined => usize::MAX,
                    _ => (num_subpartitions * config.exclusive_buffers_per_channel
                        + config.floating_buffers_per_gate)
                        .max(min),
                };
                let options = LocalPoolOptions::new(min, max)
                    .with_quota(num_subpartitions, MAX_BUFFERS_PER_CHANNEL)
                    .with_overdraft(MAX_OVERDRAFT_BUFFERS);
                (self.pool.create_buffer_pool(options)?, None)
            }
        };
        self.warn_of_usage();
        let shared = Arc::new(PartitionShared::new(
            partition_id,
            num_subpartitions,
            self.pool.segment_size(),
            pool,
            stored,
        ));
        let waiting = self.core.manager.register(Arc::clone(&shared))?;
        for listener in waiting {
            let partition = Arc::clone(&shared);
            match listener {
                Listener::Local(channel) => channel.attach(partition),
                Listener::Remote {
                    connection,
                    request,
                } => {
                    self.core.transport.post(Command::Attach {
                        connection,
                        request,
                        partition,
                    });
                }
            }
        }
        if !shared.is_blocking()
            && let Ok(interval @ 1..) = u64::try_from(flush_timeout_ms)
        {
            self.core
                .flusher
                .add(&shared, Duration::from_millis(interval));
        }
        Ok(Arc::new(ResultPartition::new(
            shared,
            Arc::clone(&self.core),
            flush_timeout_ms,
        )))
    }

    /// Creates a gate and reserves its buffers; `InputGate::request_partitions` starts it.
    ///
    /// # Errors
    /// `InsufficientBuffers` if there are too few buffers, `IllegalState` for a gate without
    /// channels or if the environment is closed.
    pub fn create_input_gate(&self, channels: &[ChannelDescriptor]) -> Result<InputGate> {
        self.check_open()?;
        if channels.is_empty() {
            return Err(Error::IllegalState("a gate without channels".into()));
        }
        // At least one exclusive buffer per channel, or it could never receive data.
        let exclusive = self.core.config.exclusive_buffers_per_channel;
        let max_floating = self.core.config.floating_buffers_per_gate.max(1);
        let floating = self
            .pool
            .create_buffer_pool(LocalPoolOptions::new(1, max_floating))?;
        self.warn_of_usage();
        floating.reserve_segments(1)?;
        let remote = channels
            .iter()
            .filter(|channel| channel.location != ChannelLocation::Local)
            .count();
        let waiting = if remote > 0 {
            Waiting::remote(&self.core.transport)?
        } else {
            Waiting::local()
        };
        let mut segments = self
            .pool
            .request_unpooled_memory_segments(remote * exclusive)?;
        let gate = Arc::new_cyclic(|gate: &Weak<SingleInputGate>| {
            let channels = channels.iter().enumerate().map(|(index, channel)| {
                let gate = Weak::clone(gate);
                match channel.location {
                    ChannelLocation::Local => InputChannel::Local(LocalInputChannel::new(
                        gate,
                        index,
                        channel.partition_id,
                        channel.subpartition,
                    )),
                    ChannelLocation::Remote(address) => {
                        let config = RemoteChannelConfig {
                            index,
                            id: self.new_receiver_id(),
                            address,
                            partition_id: channel.partition_id,
                            subpartition: channel.subpartition,
                            exclusive: segments.split_off(segments.len() - exclusive),
                            floating_pool: Arc::clone(&floating),
                            transport: Arc::clone(&self.core.transport),
                        };
                        InputChannel::Remote(RemoteInputChannel::new(gate, config))
                    }
                }
            });
            SingleInputGate::new(
                channels.collect(),
                Arc::clone(&floating),
                Arc::clone(&self.core),
                waiting,
            )
        });
        let mut gates = self.gates.lock();
        gates.retain(|gate| gate.strong_count() > 0);
        gates.push(Arc::downgrade(&gate));
        drop(gates);
        Ok(InputGate::Single(gate))
    }

    /// Unites gates; the channels of each gate keep their order and follow those of the gates
    /// before it.
    ///
    /// # Errors
    /// `IllegalState` without gates, for a union among them or for a gate that is in a union.
    pub fn create_union_gate(&self, gates: &[InputGate]) -> Result<InputGate> {
        self.check_open()?;
        let singles = gates.iter().map(|gate| match gate {
            InputGate::Single(gate) => Ok(Arc::clone(gate)),
            InputGate::Union(_) => Err(Error::IllegalState("a union of unions".into())),
        });
        Ok(InputGate::Union(UnionInputGate::new(
            singles.collect::<Result<_>>()?,
        )?))
    }

    /// Returns the number of free segments.
    #[must_use]
    pub fn available_segments(&self) -> usize {
        self.pool.available_segments()
    }

    /// Returns the total number of segments; 0 once closed.
    #[must_use]
    pub fn total_segments(&self) -> usize {
        self.pool.total_segments()
    }

    /// Closes gates, connections and partitions, in this order, and joins the threads; idempotent.
    pub fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let gates = std::mem::take(&mut *self.gates.lock());
        for gate in gates.iter().filter_map(Weak::upgrade) {
            gate.close();
        }
        self.core.transport.close();
        for partition in self.core.manager.drain() {
            partition.release(&Released::Released);
        }
        self.core.flusher.close();
        if let Err(error) = self.pool.destroy_all_buffer_pools() {
            // A reader in another thread may be about to return its buffers.
            log::warn!("closing the network environment: {error}");
        }
        self.pool.destroy();
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::IllegalState(
                "the network environment is closed".into(),
            ));
        }
        Ok(())
    }

    /// Logs a warning when the requested usage of the pool crosses its size, and when it no longer
    /// does.
    fn warn_of_usage(&self) {
        if let Some(text) = self.pool.usage_message() {
            log::warn!("{text}");
        }
    }

    fn new_receiver_id(&self) -> ReceiverId {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.receiver_prefix);
        let number = self.next_receiver.fetch_add(1, Ordering::Relaxed);
        id[8..].copy_from_slice(&number.to_be_bytes());
        id
    }
}

/// Creates the pool, in memory that consumers of this host can read, if any may connect.
fn make_pool(config: &EnvironmentConfig) -> Result<Arc<NetworkBufferPool>> {
    let EnvironmentConfig {
        num_segments,
        segment_bytes,
        request_timeout,
        ..
    } = *config;
    if config.same_host_path {
        match NetworkBufferPool::new_shared(num_segments, segment_bytes, request_timeout) {
            Err(error @ PoolError::NotShared(_)) => log::warn!(
                "buffers of {} go to executors of this host by sockets: {error}",
                config.executor_id
            ),
            made => return Ok(made?),
        }
    }
    let pool = NetworkBufferPool::new(num_segments, segment_bytes, request_timeout)?;
    Ok(pool)
}

impl Drop for NetworkEnvironment {
    fn drop(&mut self) {
        self.close();
    }
}
