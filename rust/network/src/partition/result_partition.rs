//! The partition that a task writes.
//!
//! The task's thread is the only writer.  It fills the open buffer of a subpartition through a
//! [`Cursor`], in place and without calls, and calls the partition only when the buffer is full,
//! when a record does not fit, for events and to flush.

use std::thread::ThreadId;
use std::time::Duration;

use penstock_memory::{Buffer, BufferBuilder, BufferConsumer, DataType};

use super::open_builders::{Cursor, OpenBuilders};
use super::shared::{PartitionShared, Subpartition};
use super::subpartition::{PipelinedSubpartition, Released};
use super::wait_clock::WaitClock;
use super::wakeups::Wakeups;
use crate::environment::EnvironmentCore;
use crate::error::{Error, Result};
use crate::event::MAX_EVENT_BYTES;
use crate::sync::{Arc, Mutex, MutexGuard, Ordering};

/// Length of an append that by itself takes over a segment that another process has read.
const LONG_APPEND_BYTES: usize = 16 << 10;

/// Type of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionType {
    /// Consumed while it is produced, unbounded pool.
    Pipelined,
    /// Consumed while it is produced, bounded pool.
    PipelinedBounded,
    /// Sorted in memory and written to a file, consumed when finished, by any number of readers.
    Blocking {
        /// Bytes of managed memory that one region of the file fills; the caller reserves them.
        managed_bytes: usize,
    },
}

impl PartitionType {
    /// Parses Flink's name of the type; `managed_bytes` are those of a blocking one.
    ///
    /// # Errors
    /// `IllegalState` for an unsupported name.
    pub fn from_name(name: &str, managed_bytes: usize) -> Result<Self> {
        match name {
            "PIPELINED" => Ok(Self::Pipelined),
            "PIPELINED_BOUNDED" => Ok(Self::PipelinedBounded),
            "BLOCKING" => Ok(Self::Blocking { managed_bytes }),
            other => Err(Error::IllegalState(format!(
                "result partition type '{other}'; known are PIPELINED, PIPELINED_BOUNDED, BLOCKING"
            ))),
        }
    }
}

#[derive(Debug)]
struct Writer {
    builders: OpenBuilders,
    finished: bool,
    /// Thread that holds cursors, whose buffers must not be recycled meanwhile.
    thread: Option<ThreadId>,
    /// True if a long append was made since the last buffer was opened: the next one is probably
    /// long as well.
    appends_long: bool,
}

/// A partition of a task's output.
#[derive(Debug)]
pub struct ResultPartition {
    shared: Arc<PartitionShared>,
    writer: Mutex<Writer>,
    environment: Arc<EnvironmentCore>,
    flush_timeout_ms: i64,
    waits: WaitClock,
}

impl ResultPartition {
    pub(crate) fn new(
        shared: Arc<PartitionShared>,
        environment: Arc<EnvironmentCore>,
        flush_timeout_ms: i64,
    ) -> Self {
        let writer = Writer {
            builders: OpenBuilders::new(shared.subpartitions.len()),
            finished: false,
            thread: None,
            appends_long: false,
        };
        Self {
            shared,
            writer: Mutex::new(writer),
            environment,
            flush_timeout_ms,
            waits: WaitClock::default(),
        }
    }

    /// Returns the number of subpartitions.
    #[must_use]
    pub fn num_subpartitions(&self) -> usize {
        self.shared.subpartitions.len()
    }

    /// Returns the flush timeout in milliseconds: −1 never by time, 0 after every record.
    #[must_use]
    pub fn flush_timeout_ms(&self) -> i64 {
        self.flush_timeout_ms
    }

    /// Finishes the open buffer of `cursor` and opens the next one, waiting if necessary; `None` is
    /// the broadcast buffer.
    ///
    /// `CancelTask` if the partition failed or was released, also while waiting (every cursor is
    /// void then); `IllegalState` after `finish` or for a subpartition that does not exist.
    pub fn next_buffer(&self, subpartition: Option<usize>, cursor: &mut Cursor) -> Result<()> {
        let mut writer = self.enter(subpartition)?;
        writer.builders.finish_for(subpartition, cursor);
        let builder = match self.try_builder(subpartition) {
            Ok(None) => self.wait_for_builder(subpartition),
            Ok(Some(builder)) => Ok(builder),
            Err(error) => Err(error),
        };
        let builder = builder.inspect_err(|_| writer.builders.clear())?;
        self.open(&mut writer, subpartition, builder, cursor)
    }

    /// Like `next_buffer`, but returns false instead of waiting; the buffer of `cursor` is finished
    /// either way.
    ///
    /// # Errors
    /// See `next_buffer`.
    pub fn try_next_buffer(
        &self,
        subpartition: Option<usize>,
        cursor: &mut Cursor,
    ) -> Result<bool> {
        let mut writer = self.enter(subpartition)?;
        writer.builders.finish_for(subpartition, cursor);
        let builder = self
            .try_builder(subpartition)
            .inspect_err(|_| writer.builders.clear())?;
        match builder {
            Some(builder) => self
                .open(&mut writer, subpartition, builder, cursor)
                .map(|()| true),
            None => {
                self.flush_finished(subpartition);
                Ok(false)
            }
        }
    }

    /// Appends `data`, a framed record or a part of one, over as many buffers as necessary.
    ///
    /// # Errors
    /// See `next_buffer`.
    pub fn append(
        &self,
        subpartition: Option<usize>,
        cursor: &mut Cursor,
        data: &[u8],
    ) -> Result<()> {
        let mut rest = data;
        while !rest.is_empty() {
            if cursor.position == cursor.capacity {
                self.next_buffer(subpartition, cursor)?;
            }
            let mut writer = self.enter(subpartition)?;
            let Some(builder) = writer.builders.get_mut(subpartition) else {
                return Err(Error::IllegalState("append through a void cursor".into()));
            };
            // The cursor may be ahead of the builder by bytes that its owner wrote in place.
            cursor.tell(builder);
            // A debloated buffer holds its first record up to the segment's capacity, and later
            // ones as well while no other buffer is available.
            let needed = cursor.position as usize + rest.len();
            if needed > builder.max_capacity()
                && (cursor.position == 0 || !self.shared.pool.is_available())
            {
                builder.trim(needed);
                cursor.capacity = builder.max_capacity() as u32;
            }
            let count = builder.append_and_commit(rest)?;
            writer.appends_long |= count >= LONG_APPEND_BYTES;
            cursor.position += count as u32;
            rest = &rest[count..];
            self.shared.dirty(subpartition).store(1, Ordering::Release);
        }
        Ok(())
    }

    /// Makes written bytes visible to the reader of one subpartition, or to all readers.
    ///
    /// # Errors
    /// `IllegalState` for a subpartition that does not exist.
    pub fn flush(&self, subpartition: Option<usize>) -> Result<()> {
        match subpartition {
            None => self.shared.flush_all(),
            Some(index) if index < self.num_subpartitions() => self.shared.flush(index),
            Some(index) => return Err(self.no_such(index)),
        }
        Ok(())
    }

    /// Makes all written bytes visible to all readers.
    pub fn flush_all(&self) {
        self.shared.flush_all();
    }

    /// Sends an event to every subpartition, behind all written data unless its type has priority;
    /// all cursors are void afterwards.
    ///
    /// # Errors
    /// `IllegalState` after `finish` or if `data_type` is not an event type or is that of
    /// `EndOfPartition`, which `finish` sends; `CancelTask` once failed or released.
    pub fn broadcast_event(&self, event: &[u8], data_type: DataType) -> Result<()> {
        if !data_type.is_event() || data_type == DataType::EndOfPartition {
            return Err(Error::IllegalState(format!(
                "{} is not for broadcast_event",
                data_type.name()
            )));
        }
        check_event_size(event)?;
        let mut writer = self.enter(None)?;
        writer.builders.finish_all();
        let consumer = BufferConsumer::finished(Buffer::from_bytes(event, data_type));
        let mut wakeups = Wakeups::default();
        for subpartition in &self.shared.subpartitions {
            subpartition.add_later(consumer.copy(), &mut wakeups);
        }
        wakeups.ring();
        // Events are outside of the pages, so nothing else would limit their number.
        self.shared.write_region();
        self.check_written(&mut writer)
    }

    /// Sends an event with priority to every subpartition, ahead of all waiting data; returns the
    /// contents of the data buffers that it overtakes, by subpartition and in order.
    ///
    /// # Errors
    /// `IllegalState` for a blocking partition, after `finish`, or if the event has no priority or
    /// an invalid size; `CancelTask` once failed or released.
    pub fn overtake(&self, event: &[u8], data_type: DataType) -> Result<Vec<Vec<Vec<u8>>>> {
        check_priority_event(event, data_type)?;
        let mut writer = self.enter(None)?;
        writer.builders.finish_all();
        let consumer = BufferConsumer::finished(Buffer::from_bytes(event, data_type));
        self.overtake_each(|subpartition, wakeups| subpartition.overtake(consumer.copy(), wakeups))
    }

    /// Replaces the timeoutable barrier of a checkpoint by an event with priority wherever it still
    /// waits; returns the contents of the data buffers overtaken by this, by subpartition and in
    /// order.
    ///
    /// # Errors
    /// `IllegalState` for a blocking partition, or if the event has no priority or an invalid size.
    pub fn time_out_barrier(
        &self,
        checkpoint: i64,
        event: &[u8],
        data_type: DataType,
    ) -> Result<Vec<Vec<Vec<u8>>>> {
        check_priority_event(event, data_type)?;
        let consumer = BufferConsumer::finished(Buffer::from_bytes(event, data_type));
        self.overtake_each(|subpartition, wakeups| {
            subpartition.time_out_barrier(checkpoint, consumer.copy(), wakeups)
        })
        .inspect(|_| self.shared.on_barrier_taken())
    }

    /// Waits until the timeoutable barrier of a checkpoint no longer waits for any reader; false if
    /// the timeout passes first.
    #[must_use]
    pub fn wait_barrier_taken(&self, checkpoint: i64, timeout: Duration) -> bool {
        self.shared.wait_barrier_taken(checkpoint, timeout)
    }

    /// Queues recovered in-flight data for a reader before all data that will be written to it.
    ///
    /// The bytes are outside of the pool's segments until they are read: a partition that waited
    /// for its reader here could wait for one that waits for it.
    ///
    /// # Errors
    /// `IllegalState` for a blocking partition, one that was written to, or a subpartition that
    /// does not exist; `CancelTask` once failed or released.
    pub fn recover(&self, subpartition: usize, buffers: &[Vec<u8>]) -> Result<()> {
        let _writer = self.enter(Some(subpartition))?;
        let Subpartition::Pipelined(pipelined) = &self.shared.subpartitions[subpartition] else {
            return Err(Error::IllegalState(
                "a blocking partition has nothing in flight".into(),
            ));
        };
        if pipelined.totals().0 > 0 {
            return Err(Error::IllegalState(format!(
                "in-flight data is recovered before subpartition {subpartition} is written to"
            )));
        }
        let segment_bytes = self.environment.config().segment_bytes;
        for piece in buffers.iter().flat_map(|bytes| bytes.chunks(segment_bytes)) {
            let buffer = Buffer::from_bytes(piece, DataType::DataBuffer);
            pipelined.add(BufferConsumer::finished(buffer));
        }
        pipelined.flush();
        Ok(())
    }

    /// Overtakes in every subpartition; returns the contents of the overtaken buffers.
    fn overtake_each(
        &self,
        overtake: impl Fn(&PipelinedSubpartition, &mut Wakeups) -> Vec<Buffer>,
    ) -> Result<Vec<Vec<Vec<u8>>>> {
        let mut wakeups = Wakeups::default();
        let mut overtaken = Vec::with_capacity(self.num_subpartitions());
        for subpartition in &self.shared.subpartitions {
            let Subpartition::Pipelined(pipelined) = subpartition else {
                return Err(Error::IllegalState(
                    "nothing is overtaken in a blocking partition".into(),
                ));
            };
            overtaken.push(overtake(pipelined, &mut wakeups));
        }
        wakeups.ring();
        let contents =
            |buffers: Vec<Buffer>| buffers.iter().map(|buffer| buffer.to_vec()).collect();
        Ok(overtaken.into_iter().map(contents).collect())
    }

    /// Sends `EndOfPartition` to every subpartition and returns the free segments of the pool.
    ///
    /// # Errors
    /// `IllegalState` if repeated.
    pub fn finish(&self) -> Result<()> {
        let mut writer = self.enter(None)?;
        writer.builders.finish_all();
        writer.finished = true;
        let mut wakeups = Wakeups::default();
        for subpartition in &self.shared.subpartitions {
            subpartition.finish(&mut wakeups);
        }
        wakeups.ring();
        self.shared.write_region();
        self.check_written(&mut writer)?;
        if self.shared.is_blocking() {
            self.shared.publish();
        } else {
            self.shared.pool.lazy_destroy();
        }
        Ok(())
    }

    /// Fails the partition: readers get an error that names `cause`; a waiting writer wakes with
    /// `CancelTask`.
    pub fn fail(&self, cause: &str) {
        self.shared.release(&Released::Failed(cause.to_owned()));
        self.drop_builders();
    }

    /// Releases everything; idempotent.
    ///
    /// Buffers of cursors that the writing thread still holds are recycled when that thread calls
    /// again or the partition is dropped.
    pub fn release(&self) {
        self.environment.forget_partition(&self.shared);
        self.shared.release(&Released::Released);
        self.drop_builders();
    }

    /// Returns whether a buffer is ready and no subpartition is at its quota; a blocking partition
    /// is always available, as it writes a region for the next buffer.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.shared.is_blocking() || self.shared.pool.is_available()
    }

    /// Waits until `is_available`; false if the timeout passes first.
    #[must_use]
    pub fn wait_available(&self, timeout: Duration) -> bool {
        self.shared.is_blocking() || self.shared.wait_available(timeout)
    }

    /// Waits until every reader has taken everything or the partition was released; false if the
    /// timeout passes first.
    #[must_use]
    pub fn wait_consumed(&self, timeout: Duration) -> bool {
        self.shared.wait_consumed(timeout)
    }

    /// Takes the next event that a consumer sent to this task, waiting up to `timeout`.
    ///
    /// # Errors
    /// `CancelTask` if the partition was released.
    pub fn next_task_event(&self, timeout: Duration) -> Result<Option<Vec<u8>>> {
        self.shared.task_events.next(timeout)
    }

    /// Returns the time that the writer has waited for buffers in the middle of records: hard back
    /// pressure.
    #[must_use]
    pub fn hard_back_pressured(&self) -> Duration {
        self.waits.total()
    }

    /// Returns the longest of these waits since the last call.
    #[must_use]
    pub fn take_longest_wait(&self) -> Duration {
        self.waits.take_longest()
    }

    /// Returns the number of buffers and events that wait in the subpartitions.
    #[must_use]
    pub fn buffers_queued(&self) -> usize {
        let subpartitions = self.shared.subpartitions.iter();
        subpartitions
            .map(|subpartition| subpartition.queued())
            .sum()
    }

    /// Returns the number of buffers that the pool may have now.
    #[must_use]
    pub fn buffers_total(&self) -> usize {
        self.shared.pool.num_buffers()
    }

    /// Returns the number of the pool's buffers that are written, queued or in flight.
    #[must_use]
    pub fn buffers_in_use(&self) -> usize {
        self.shared.pool.used_segments()
    }

    /// Returns the number of buffers and events added, and bytes taken by readers, since the start.
    #[must_use]
    pub fn totals(&self) -> (u64, u64) {
        self.shared
            .subpartitions
            .iter()
            .fold((0, 0), |(buffers, bytes), subpartition| {
                let (more_buffers, more_bytes) = subpartition.totals();
                (buffers + more_buffers, bytes + more_bytes)
            })
    }

    /// Returns the number of regions that a blocking partition has written to its file.
    #[must_use]
    pub fn regions_written(&self) -> u64 {
        self.shared.regions_written()
    }

    fn no_such(&self, index: usize) -> Error {
        Error::IllegalState(format!(
            "subpartition {index} of a partition with {}",
            self.num_subpartitions()
        ))
    }

    fn enter(&self, subpartition: Option<usize>) -> Result<MutexGuard<'_, Writer>> {
        if let Some(index) = subpartition
            && index >= self.num_subpartitions()
        {
            return Err(self.no_such(index));
        }
        let mut writer = self.writer.lock();
        if writer.finished {
            return Err(Error::IllegalState(
                "the result partition is finished".into(),
            ));
        }
        if self.shared.pool.is_destroyed() {
            writer.builders.clear();
            return Err(Error::CancelTask(
                "the result partition was released".into(),
            ));
        }
        writer.thread = Some(std::thread::current().id());
        Ok(writer)
    }

    fn try_builder(&self, subpartition: Option<usize>) -> Result<Option<BufferBuilder>> {
        let request = || match subpartition {
            Some(index) => self.shared.pool.request_buffer_for(index),
            None => self.shared.pool.request_buffer(),
        };
        let mut buffer = request()?;
        if buffer.is_none() && self.shared.is_blocking() {
            // Fewer pages are open than there are: the finished ones are free afterwards.
            self.shared.write_region();
            buffer = request()?;
        }
        Ok(buffer.map(penstock_memory::UniqueBuffer::into_builder))
    }

    fn wait_for_builder(&self, subpartition: Option<usize>) -> Result<BufferBuilder> {
        self.flush_finished(subpartition);
        self.waits.during(|| {
            loop {
                if let Some(builder) = self.try_builder(subpartition)? {
                    return Ok(builder);
                }
                // The caller checks again after any event: the buffers sent can be taken beyond the
                // pool's size before the pool is available.
                let available = self.shared.pool.availability();
                self.shared.wait_for_buffers(&available, None);
            }
        })
    }

    /// Flushes before waiting: the reader does not know of a finished last buffer until another
    /// follows, and none will follow while the writer waits for that very buffer.
    fn flush_finished(&self, subpartition: Option<usize>) {
        match subpartition {
            Some(index) => self.shared.flush(index),
            None => self.shared.flush_all(),
        }
    }

    /// Opens `builder` for `subpartition`, visible to readers from its first byte on.
    fn open(
        &self,
        writer: &mut Writer,
        subpartition: Option<usize>,
        mut builder: BufferBuilder,
        cursor: &mut Cursor,
    ) -> Result<()> {
        if !std::mem::take(&mut writer.appends_long) {
            builder.fetch_back();
        }
        let consumer = builder.create_buffer_consumer_from_beginning()?;
        cursor.data = builder.base_ptr();
        cursor.position = 0;
        cursor.marker = builder.marker_ptr();
        cursor.dirty = self.shared.dirty_ptr(subpartition);
        match subpartition {
            Some(index) => {
                if let Some(size) = self.shared.subpartitions[index].add(consumer) {
                    builder.trim(size);
                }
                self.shared.look_for_credit(index);
            }
            None => {
                let mut wanted = usize::MAX;
                let mut wakeups = Wakeups::default();
                for subpartition in &self.shared.subpartitions {
                    let size = subpartition.add_later(consumer.copy(), &mut wakeups);
                    wanted = wanted.min(size.unwrap_or(usize::MAX));
                }
                wakeups.ring();
                builder.trim(wanted.min(builder.max_capacity()));
            }
        }
        cursor.capacity = builder.max_capacity() as u32;
        writer.builders.put(subpartition, builder);
        self.check_written(writer)
    }

    /// Fails a blocking partition with a write error: it must not be read in part.
    fn check_written(&self, writer: &mut Writer) -> Result<()> {
        if let Some(error) = self.shared.write_error() {
            self.shared.release(&Released::Failed(error.to_string()));
            writer.builders.clear();
            return Err(error);
        }
        Ok(())
    }

    /// Recycles the open buffers unless another thread may be writing into them.
    fn drop_builders(&self) {
        let Some(mut writer) = self.writer.try_lock() else {
            return;
        };
        let here = std::thread::current().id();
        if writer.thread.is_none_or(|thread| thread == here) {
            writer.builders.clear();
        }
    }
}

fn check_priority_event(event: &[u8], data_type: DataType) -> Result<()> {
    if !data_type.has_priority() {
        return Err(Error::IllegalState(format!(
            "{} overtakes nothing",
            data_type.name()
        )));
    }
    check_event_size(event)
}

fn check_event_size(event: &[u8]) -> Result<()> {
    if event.is_empty() || event.len() > MAX_EVENT_BYTES {
        return Err(Error::IllegalState(format!(
            "an event of {} bytes is outside 1..={MAX_EVENT_BYTES}",
            event.len()
        )));
    }
    Ok(())
}

impl Drop for ResultPartition {
    fn drop(&mut self) {
        self.release();
    }
}
