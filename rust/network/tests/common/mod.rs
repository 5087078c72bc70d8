//! Helpers of the tests of the public interface: environments, partitions and a writer that frames
//! records as the native RecordWriter does.

#![allow(dead_code, reason = "every test binary uses its own part")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use penstock_network::{
    Batch, ChannelDescriptor, ChannelLocation, Cursor, EnvironmentConfig, InputGate,
    NetworkEnvironment, PartitionType, RecordReader, Result, ResultPartition,
};

/// Long enough for a slow machine; a test that waits this long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn config(executor_id: &str) -> EnvironmentConfig {
    EnvironmentConfig {
        num_segments: 256,
        ..EnvironmentConfig::new(executor_id, b"a token of the tests")
    }
}

pub(crate) fn environment(executor_id: &str) -> NetworkEnvironment {
    NetworkEnvironment::new(config(executor_id)).expect("an environment")
}

pub(crate) fn id(number: u8) -> [u8; 60] {
    [number; 60]
}

pub(crate) fn partition(
    environment: &NetworkEnvironment,
    number: u8,
    subpartitions: usize,
    flush_timeout_ms: i64,
) -> Arc<ResultPartition> {
    environment
        .create_result_partition(
            id(number),
            subpartitions,
            PartitionType::PipelinedBounded,
            flush_timeout_ms,
        )
        .expect("a partition")
}

pub(crate) fn channel(
    number: u8,
    subpartition: usize,
    at: Option<SocketAddr>,
) -> ChannelDescriptor {
    ChannelDescriptor {
        partition_id: id(number),
        subpartition,
        location: at.map_or(ChannelLocation::Local, ChannelLocation::Remote),
    }
}

pub(crate) fn gate(environment: &NetworkEnvironment, channels: &[ChannelDescriptor]) -> InputGate {
    let gate = environment.create_input_gate(channels).expect("a gate");
    gate.request_partitions().expect("requested");
    gate
}

/// One channel between two executors, or within the consumer's own one.
pub(crate) struct OneChannel {
    pub(crate) producer: NetworkEnvironment,
    pub(crate) consumer: NetworkEnvironment,
    pub(crate) partition: Arc<ResultPartition>,
    pub(crate) gate: InputGate,
}

impl OneChannel {
    pub(crate) fn new(remote: bool) -> Self {
        let producer = environment("producer");
        let consumer = environment("consumer");
        let owner = if remote { &producer } else { &consumer };
        let partition = partition(owner, 1, 1, -1);
        let at = remote.then(|| producer.address());
        let gate = gate(&consumer, &[channel(1, 0, at)]);
        Self {
            producer,
            consumer,
            partition,
            gate,
        }
    }
}

pub(crate) fn assert_all_returned(environments: &[&NetworkEnvironment]) {
    for environment in environments {
        assert_eq!(
            environment.available_segments(),
            environment.total_segments()
        );
    }
}

pub(crate) fn reader(environment: &NetworkEnvironment, gate: &InputGate) -> RecordReader {
    RecordReader::new(gate.clone(), environment.framing_limits())
}

pub(crate) fn framed(payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

/// A writer with a cursor per subpartition and one for broadcasts.
pub(crate) struct Writer {
    pub(crate) partition: Arc<ResultPartition>,
    cursors: Vec<Cursor>,
    broadcast: Cursor,
}

impl Writer {
    pub(crate) fn new(partition: &Arc<ResultPartition>) -> Self {
        let cursors = (0..partition.num_subpartitions())
            .map(|_| Cursor::void())
            .collect();
        Self {
            partition: Arc::clone(partition),
            cursors,
            broadcast: Cursor::void(),
        }
    }

    pub(crate) fn emit(&mut self, subpartition: usize, payload: &[u8]) -> Result<()> {
        self.broadcast = Cursor::void();
        self.partition.append(
            Some(subpartition),
            &mut self.cursors[subpartition],
            &framed(payload),
        )
    }

    pub(crate) fn broadcast(&mut self, payload: &[u8]) -> Result<()> {
        self.cursors
            .iter_mut()
            .for_each(|cursor| *cursor = Cursor::void());
        self.partition
            .append(None, &mut self.broadcast, &framed(payload))
    }

    pub(crate) fn event(
        &mut self,
        bytes: &[u8],
        data_type: penstock_memory::DataType,
    ) -> Result<()> {
        self.void();
        self.partition.broadcast_event(bytes, data_type)
    }

    pub(crate) fn finish(&mut self) -> Result<()> {
        self.void();
        self.partition.finish()
    }

    fn void(&mut self) {
        self.cursors
            .iter_mut()
            .for_each(|cursor| *cursor = Cursor::void());
        self.broadcast = Cursor::void();
    }
}

/// One thing that came out of a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Item {
    Record(usize, Vec<u8>),
    Event(usize, u8, Vec<u8>),
    Nothing,
    End,
}

/// Takes one batch apart.
pub(crate) fn items(batch: &Batch<'_>) -> Vec<Item> {
    match batch {
        Batch::Nothing | Batch::Woken => vec![Item::Nothing],
        Batch::End => vec![Item::End],
        Batch::Event {
            channel,
            data_type,
            bytes,
        } => {
            vec![Item::Event(*channel, data_type.ordinal(), bytes.to_vec())]
        }
        Batch::Data {
            channel,
            spanning,
            records,
            ..
        } => {
            let mut items: Vec<Item> = spanning
                .iter()
                .map(|payload| Item::Record(*channel, payload.to_vec()))
                .collect();
            let mut rest = *records;
            while let Some((length, tail)) = rest.split_first_chunk::<4>() {
                let (payload, tail) = tail.split_at(u32::from_be_bytes(*length) as usize);
                items.push(Item::Record(*channel, payload.to_vec()));
                rest = tail;
            }
            items
        }
    }
}

/// The next batch, which must come.
pub(crate) fn next_items(reader: &mut RecordReader) -> Vec<Item> {
    let batch = items(&reader.next_batch(Some(PATIENCE)).expect("a batch"));
    assert_ne!(batch, [Item::Nothing], "nothing came");
    batch
}

/// Reads until the end of all channels; fails the test when nothing comes for too long.
pub(crate) fn drain(reader: &mut RecordReader) -> Vec<Item> {
    let mut all = Vec::new();
    loop {
        let batch = next_items(reader);
        if batch == [Item::End] {
            return all;
        }
        all.extend(batch);
    }
}

/// The payloads of one channel.
pub(crate) fn records_of(items: &[Item], channel: usize) -> Vec<Vec<u8>> {
    items
        .iter()
        .filter_map(|item| match item {
            Item::Record(from, payload) if *from == channel => Some(payload.clone()),
            _ => None,
        })
        .collect()
}
