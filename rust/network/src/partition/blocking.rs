//! One consumer's part of a blocking partition: written to a file, read any number of times.
//!
//! The writer's buffers are pages of managed memory.  When no page is free, the finished ones are
//! written to the partition's file as one region, sorted by consumer: each consumer's data lies in
//! one piece of it.  So the writer never waits for a reader.  Nothing can be read before the whole
//! partition is in the file: the index of a subpartition is published when every subpartition has
//! its end, and a failed write (a full disk) fails the partition instead.  Each reader has its own
//! position.
//!
//! The file is unlinked, so nothing stays on disk however the process ends.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use penstock_memory::{Buffer, BufferConsumer, DataType, NetworkBufferPool};

use super::subpartition::{AvailabilityListener, BufferAndBacklog, Released};
use crate::error::{Error, Result};
use crate::event::END_OF_PARTITION_BYTES;
use crate::framing::{REMEDY, WRITE_BYTES};
use crate::sync::{Arc, Mutex};

/// Bytes of the smallest page.
const LEAST_PAGE_BYTES: usize = 1 << 10;
/// Number of pages for each open one, if their size allows it: the other ones make up a region.
const PAGES_PER_OPEN_ONE: usize = 4;

/// Creates the pages of a partition: of the size of network buffers if there are enough of them.
///
/// # Errors
/// `InsufficientBuffers` if every subpartition and the broadcast buffer cannot have a page.
pub(crate) fn allocate_pages(
    num_subpartitions: usize,
    managed_bytes: usize,
    segment_bytes: usize,
) -> Result<Arc<NetworkBufferPool>> {
    let open = num_subpartitions + 1;
    let least = LEAST_PAGE_BYTES.min(segment_bytes);
    let fitting = managed_bytes / (open * PAGES_PER_OPEN_ONE) / LEAST_PAGE_BYTES * LEAST_PAGE_BYTES;
    let page_bytes = fitting.clamp(least, segment_bytes);
    let pages = managed_bytes / page_bytes;
    if pages < open {
        return Err(Error::InsufficientBuffers(format!(
            "a blocking partition of {num_subpartitions} subpartitions needs at least {} bytes of \
             managed memory and has {managed_bytes}",
            open * page_bytes
        )));
    }
    // Nobody waits for a page.
    Ok(NetworkBufferPool::new(
        pages,
        page_bytes,
        Duration::from_millis(1),
    )?)
}

/// The file of one partition, region by region.
#[derive(Debug)]
pub(crate) struct PartitionFile {
    /// The file's directory, for errors: the file has no name.
    directory: PathBuf,
    state: Mutex<FileState>,
}

#[derive(Debug)]
struct FileState {
    /// `None` once released or failed; its position is its end.
    file: Option<Arc<File>>,
    /// Bytes in the file.
    written: u64,
    /// Pages and events of the next region, in order.
    region: Vec<Buffer>,
    /// Bytes in the file after the next region.
    end: u64,
    /// Offsets of the pages in the next region, by address: those of broadcast data belong to
    /// every subpartition and are written once.
    placed: HashMap<usize, u64>,
    /// Number of regions in the file.
    regions: u64,
    error: Option<Error>,
}

impl PartitionFile {
    pub(crate) fn new(file: File, directory: PathBuf) -> Self {
        Self {
            directory,
            state: Mutex::new(FileState {
                file: Some(Arc::new(file)),
                written: 0,
                region: Vec::new(),
                end: 0,
                placed: HashMap::new(),
                regions: 0,
                error: None,
            }),
        }
    }

    /// Adds a page to the next region unless the region has it, and returns its offset.
    fn place(&self, page: &Buffer) -> u64 {
        let mut state = self.state.lock();
        let address = page.as_slice().as_ptr() as usize;
        if let Some(offset) = state.placed.get(&address) {
            return *offset;
        }
        let offset = state.end;
        state.end += page.size() as u64;
        state.placed.insert(address, offset);
        state.region.push(page.clone());
        offset
    }

    /// Writes the next region, so that its pages are free; does nothing if it is empty, or once
    /// failed or released.
    pub(crate) fn write_region(&self) {
        let (file, pages) = {
            let mut state = self.state.lock();
            state.placed.clear();
            (state.file.clone(), std::mem::take(&mut state.region))
        };
        let (Some(file), false) = (file, pages.is_empty()) else {
            return;
        };
        let result = write_pages(&file, &pages);
        let mut state = self.state.lock();
        match result {
            Ok(()) => {
                state.written = state.end;
                state.regions += 1;
            }
            Err(error) => {
                let doing = format!(
                    "writing a blocking partition into {}, after {} bytes ({REMEDY})",
                    self.directory.display(),
                    state.written
                );
                state.error = Some(Error::io(&doing, &error));
                // The written bytes are useless.
                state.file = None;
            }
        }
    }

    fn read(&self, extent: &Extent) -> Result<Box<[u8]>> {
        let file = self.state.lock().file.clone();
        let file = file.ok_or_else(|| Error::CancelTask("the partition was released".into()))?;
        let mut bytes = vec![0; extent.size as usize].into_boxed_slice();
        file.read_exact_at(&mut bytes, extent.offset)
            .map_err(|error| Error::io("reading a blocking partition", &error))?;
        Ok(bytes)
    }

    /// Returns the number of regions in the file.
    pub(crate) fn regions(&self) -> u64 {
        self.state.lock().regions
    }

    /// Returns the first failed write.
    pub(crate) fn error(&self) -> Option<Error> {
        self.state.lock().error.clone()
    }

    /// Frees the space.
    pub(crate) fn release(&self) {
        self.state.lock().file = None;
    }
}

/// Appends pages to a file, many in one call: the system allocates its pages by the call.
fn write_pages(mut file: &File, pages: &[Buffer]) -> io::Result<()> {
    let mut slices: Vec<_> = pages
        .iter()
        .map(|page| IoSlice::new(page.as_slice()))
        .collect();
    let mut rest = &mut slices[..];
    while !rest.is_empty() {
        let mut size = 0;
        let fits = |slice: &&IoSlice<'_>| {
            size += slice.len();
            size <= WRITE_BYTES
        };
        let count = rest.iter().take_while(fits).count().max(1);
        match file.write_vectored(&rest[..count]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut rest, written),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Position of a buffer in the file: neighbouring pages, or an event.
#[derive(Debug, Clone, Copy)]
struct Extent {
    offset: u64,
    size: u32,
    data_type: DataType,
}

struct State {
    /// Pages and events that are not yet in the file; only the last page may be unfinished.
    pending: VecDeque<BufferConsumer>,
    extents: Vec<Extent>,
    /// The index, once the whole partition is in the file.
    published: Option<Arc<[Extent]>>,
    ended: bool,
    released: Option<Released>,
    listeners: Vec<Arc<dyn AvailabilityListener>>,
    total_bytes: u64,
    /// Buffers that were in the index when it was dropped.
    dropped_buffers: u64,
}

impl State {
    /// Returns the buffers in the file.
    fn indexed(&self) -> &[Extent] {
        self.published.as_deref().unwrap_or(&self.extents)
    }
}

/// A blocking subpartition.
pub(crate) struct BlockingSubpartition {
    file: Arc<PartitionFile>,
    buffer_size: usize,
    state: Mutex<State>,
}

impl std::fmt::Debug for BlockingSubpartition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state.lock();
        f.debug_struct("BlockingSubpartition")
            .field("pending", &state.pending.len())
            .field("extents", &state.extents.len())
            .field("published", &state.published.is_some())
            .field("released", &state.released)
            .finish_non_exhaustive()
    }
}

impl BlockingSubpartition {
    pub(crate) fn new(file: Arc<PartitionFile>, buffer_size: usize) -> Self {
        Self {
            file,
            buffer_size,
            state: Mutex::new(State {
                pending: VecDeque::new(),
                extents: Vec::new(),
                published: None,
                ended: false,
                released: None,
                listeners: Vec::new(),
                total_bytes: 0,
                dropped_buffers: 0,
            }),
        }
    }

    /// Appends a buffer and returns the wanted size of the next one, or `None` if the subpartition
    /// has ended and the buffer was dropped.
    pub(crate) fn add(&self, consumer: BufferConsumer) -> Option<usize> {
        let mut state = self.state.lock();
        if state.ended || state.released.is_some() {
            return None;
        }
        state.pending.push_back(consumer);
        Some(self.buffer_size)
    }

    /// Moves finished buffers to the next region of the file.
    pub(crate) fn place_finished(&self) {
        let mut state = self.state.lock();
        while let Some(head) = state.pending.front_mut() {
            // Reads the writer's marker; `is_finished` alone may be stale.
            head.skip(0);
            if !head.is_finished() {
                return;
            }
            let buffer = head.build();
            if buffer.size() > 0 {
                let offset = self.file.place(&buffer);
                self.index(&mut state.extents, offset, &buffer);
            }
            state.pending.pop_front();
        }
    }

    /// Adds a page to the index: to the buffer that it continues, if that has room.
    fn index(&self, extents: &mut Vec<Extent>, offset: u64, page: &Buffer) {
        if let Some(last) = extents.last_mut()
            && last.data_type == page.data_type()
            && last.data_type.is_buffer()
            && last.offset + u64::from(last.size) == offset
            && last.size as usize + page.size() <= self.buffer_size
        {
            last.size += page.size() as u32;
            return;
        }
        extents.push(Extent {
            offset,
            size: page.size() as u32,
            data_type: page.data_type(),
        });
    }

    /// Writes the end; nothing is visible before `publish`.
    pub(crate) fn finish(&self) {
        let event = Buffer::from_bytes(END_OF_PARTITION_BYTES, DataType::EndOfPartition);
        self.add(BufferConsumer::finished(event));
        self.state.lock().ended = true;
    }

    /// Publishes the whole partition in the file, so that readers may begin.
    pub(crate) fn publish(&self) {
        let mut state = self.state.lock();
        if state.released.is_some() {
            return;
        }
        state.published = Some(std::mem::take(&mut state.extents).into());
        let listeners = state.listeners.clone();
        drop(state);
        for listener in listeners {
            listener.notify_data_available();
        }
    }

    /// Ends it early; readers receive the reason.
    pub(crate) fn release(&self, why: Released) {
        let mut state = self.state.lock();
        if state.released.is_some() {
            return;
        }
        state.released = Some(why);
        state.dropped_buffers = state.indexed().len() as u64;
        state.published = None;
        state.extents = Vec::new();
        let pending = std::mem::take(&mut state.pending);
        let listeners = std::mem::take(&mut state.listeners);
        drop(state);
        drop(pending);
        for listener in listeners {
            listener.notify_data_available();
        }
    }

    /// Returns the reason of an early end, if any.
    pub(crate) fn released(&self) -> Option<Released> {
        self.state.lock().released.clone()
    }

    /// Returns the number of buffers that are not yet in the file.
    pub(crate) fn queued(&self) -> usize {
        self.state.lock().pending.len()
    }

    /// Returns the number of buffers written and bytes read since the start.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let state = self.state.lock();
        let written = state.indexed().len() as u64 + state.dropped_buffers;
        (written, state.total_bytes)
    }
}

/// The position of one reader in a blocking subpartition.
#[derive(Debug, Default)]
pub(crate) struct BlockingPosition {
    next: usize,
    sequence_number: i32,
    blocked: bool,
}

impl BlockingSubpartition {
    /// Registers a listener for the end of writing, or for the early end.
    ///
    /// # Errors
    /// `ProducerFailed` or `PartitionNotFound` if there is nothing left to read.
    pub(crate) fn connect(&self, listener: Arc<dyn AvailabilityListener>) -> Result<()> {
        let mut state = self.state.lock();
        if let Some(released) = &state.released {
            return Err(released.to_late_reader());
        }
        state.listeners.push(Arc::clone(&listener));
        let readable = state.published.is_some();
        drop(state);
        if readable {
            listener.notify_data_available();
        }
        Ok(())
    }

    /// Removes a reader's listener.
    pub(crate) fn disconnect(&self, listener: &Arc<dyn AvailabilityListener>) {
        let mut state = self.state.lock();
        state
            .listeners
            .retain(|known| !Arc::ptr_eq(known, listener));
    }

    /// Reads the next buffer of a reader.
    ///
    /// # Errors
    /// `Io` if the file cannot be read.
    pub(crate) fn poll(&self, at: &mut BlockingPosition) -> Result<Option<BufferAndBacklog>> {
        let Some(extents) = self.readable() else {
            return Ok(None);
        };
        let (false, Some(extent)) = (at.blocked, extents.get(at.next)) else {
            return Ok(None);
        };
        let bytes = self.file.read(extent)?;
        at.next += 1;
        at.blocked = extent.data_type.is_blocking_upstream();
        let sequence_number = at.sequence_number;
        at.sequence_number = sequence_number.wrapping_add(1);
        self.state.lock().total_bytes += bytes.len() as u64;
        let next_type = match extents.get(at.next) {
            Some(next) if !at.blocked => next.data_type,
            _ => DataType::None,
        };
        Ok(Some(BufferAndBacklog {
            buffer: Buffer::from_bytes(bytes, extent.data_type),
            backlog: self.backlog(at),
            next_type,
            sequence_number,
            quota: None,
        }))
    }

    /// Resumes a reader after an event that blocked.
    ///
    /// # Errors
    /// `IllegalState` if nothing blocks.
    pub(crate) fn resume(at: &mut BlockingPosition) -> Result<()> {
        if !std::mem::take(&mut at.blocked) {
            return Err(Error::IllegalState(
                "the subpartition is not blocked".into(),
            ));
        }
        Ok(())
    }

    /// Returns whether a reader could poll something, given whether it has credit for data.
    pub(crate) fn is_available(&self, at: &BlockingPosition, has_credit: bool) -> bool {
        let next = self.readable().and_then(|all| all.get(at.next).copied());
        !at.blocked && next.is_some_and(|next| has_credit || next.data_type.is_event())
    }

    /// Returns the number of data buffers that a reader has not taken, up to the number that a
    /// receiver uses, so that a long partition is not counted for every buffer.
    pub(crate) fn backlog(&self, at: &BlockingPosition) -> i32 {
        const ENOUGH: usize = 1024;
        let Some(extents) = self.readable() else {
            return 0;
        };
        if at.blocked {
            return 0;
        }
        let rest = &extents[at.next.min(extents.len())..];
        let data = rest.iter().take(ENOUGH).filter(|e| e.data_type.is_buffer());
        data.count() as i32
    }

    fn readable(&self) -> Option<Arc<[Extent]>> {
        self.state.lock().published.clone()
    }
}
