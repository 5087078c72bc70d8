//! Writing and reading one temporary file of buffers, asynchronously.
//!
//! Each buffer is stored as `u32` big-endian length, `u8` data type, bytes.  A failed request is
//! kept and raised by the next call; closing waits for what is queued.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};

use crate::buffer::Buffer;
use crate::data_type::DataType;
use crate::io_manager::{ChannelId, IoManager};
use crate::sync::{Arc, Condvar, Mutex, lock};
use crate::unique_buffer::UniqueBuffer;

/// Bytes in front of every stored buffer.
const HEADER_BYTES: usize = 5;

/// What a channel and its queued requests share.
struct Pending {
    state: Mutex<PendingState>,
    changed: Condvar,
}

#[derive(Default)]
struct PendingState {
    requests: usize,
    error: Option<io::Error>,
}

impl Pending {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(PendingState::default()),
            changed: Condvar::new(),
        })
    }

    /// Counts a request in, unless an earlier one failed.
    fn begin(&self) -> io::Result<()> {
        let mut state = lock(&self.state);
        if let Some(error) = &state.error {
            return Err(copy_of(error));
        }
        state.requests += 1;
        Ok(())
    }

    fn end(&self, result: io::Result<()>) {
        let mut state = lock(&self.state);
        state.requests -= 1;
        if let (Err(error), None) = (result, &state.error) {
            state.error = Some(error);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until no request is queued and raises what failed.
    fn wait(&self) -> io::Result<()> {
        let mut state = lock(&self.state);
        while state.requests > 0 {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        state
            .error
            .as_ref()
            .map_or(Ok(()), |error| Err(copy_of(error)))
    }
}

/// An I/O error again, for everyone who asks later.
fn copy_of(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}

/// Appends buffers to a file on the writer thread of its directory.
pub struct BufferFileWriter<'a> {
    manager: &'a IoManager,
    channel: ChannelId,
    file: Arc<Mutex<File>>,
    pending: Arc<Pending>,
}

impl<'a> BufferFileWriter<'a> {
    /// Creates the file, which must not exist.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub fn create(manager: &'a IoManager, channel: ChannelId) -> io::Result<Self> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(channel.path())?;
        Ok(Self {
            manager,
            channel,
            file: Arc::new(Mutex::new(file)),
            pending: Pending::new(),
        })
    }

    /// Queues a buffer, which is recycled once it is written.
    ///
    /// # Errors
    ///
    /// The error of an earlier request.
    pub fn write(&self, buffer: Buffer) -> io::Result<()> {
        self.pending.begin()?;
        let (file, pending) = (Arc::clone(&self.file), Arc::clone(&self.pending));
        let submitted = self.manager.writer(&self.channel).submit(Box::new(move || {
            let result = write_buffer(&mut lock(&file), &buffer);
            drop(buffer);
            pending.end(result);
        }));
        if submitted.is_err() {
            self.pending.end(Ok(()));
        }
        submitted
    }

    /// Waits until everything queued is written.
    ///
    /// # Errors
    ///
    /// The first error of a request.
    pub fn close(self) -> io::Result<ChannelId> {
        self.pending.wait()?;
        Ok(self.channel)
    }

    /// Waits until nothing is queued and removes the file.
    ///
    /// # Errors
    ///
    /// The first error of a request, or of removing.
    pub fn close_and_delete(self) -> io::Result<()> {
        let written = self.pending.wait();
        let removed = fs::remove_file(self.channel.path());
        written.and(removed)
    }
}

impl fmt::Debug for BufferFileWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferFileWriter")
            .field("channel", &self.channel)
            .finish_non_exhaustive()
    }
}

/// Reads the buffers of a file in order on the reader thread of its directory.
pub struct BufferFileReader<'a> {
    manager: &'a IoManager,
    channel: ChannelId,
    file: Arc<Mutex<File>>,
    pending: Arc<Pending>,
}

/// Gets what a read request found: a buffer, or `None` at the end of the file.
pub type ReadCallback = Box<dyn FnOnce(Option<Buffer>) + Send>;

impl<'a> BufferFileReader<'a> {
    /// Opens a written file.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub fn open(manager: &'a IoManager, channel: ChannelId) -> io::Result<Self> {
        let file = File::open(channel.path())?;
        Ok(Self {
            manager,
            channel,
            file: Arc::new(Mutex::new(file)),
            pending: Pending::new(),
        })
    }

    /// Queues the reading of the next buffer into `target`; `callback` gets it on the reader
    /// thread, unless reading fails, which the next call raises.
    ///
    /// # Errors
    ///
    /// The error of an earlier request.
    pub fn read_into(&self, target: UniqueBuffer, callback: ReadCallback) -> io::Result<()> {
        self.pending.begin()?;
        let (file, pending) = (Arc::clone(&self.file), Arc::clone(&self.pending));
        let submitted = self.manager.reader(&self.channel).submit(Box::new(move || {
            let read = read_buffer(&mut lock(&file), target);
            pending.end(read.map(callback));
        }));
        if submitted.is_err() {
            self.pending.end(Ok(()));
        }
        submitted
    }

    /// Waits until nothing is queued.
    ///
    /// # Errors
    ///
    /// The first error of a request.
    pub fn close(self) -> io::Result<()> {
        self.pending.wait()
    }

    /// Waits until nothing is queued and removes the file.
    ///
    /// # Errors
    ///
    /// The first error of a request, or of removing.
    pub fn close_and_delete(self) -> io::Result<()> {
        let read = self.pending.wait();
        let removed = fs::remove_file(self.channel.path());
        read.and(removed)
    }
}

impl fmt::Debug for BufferFileReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferFileReader")
            .field("channel", &self.channel)
            .finish_non_exhaustive()
    }
}

fn write_buffer(file: &mut File, buffer: &Buffer) -> io::Result<()> {
    let mut header = [0; HEADER_BYTES];
    let length = u32::try_from(buffer.size()).expect("a buffer is smaller than 4 GiB");
    header[..4].copy_from_slice(&length.to_be_bytes());
    header[4] = buffer.data_type().ordinal();
    file.write_all(&header)?;
    file.write_all(buffer)
}

fn read_buffer(file: &mut File, mut target: UniqueBuffer) -> io::Result<Option<Buffer>> {
    let corrupt = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text.to_owned());
    let mut header = [0; HEADER_BYTES];
    // One byte first: only at its start may a header be missing.
    if file.read(&mut header[..1])? == 0 {
        return Ok(None);
    }
    file.read_exact(&mut header[1..])?;
    let [a, b, c, d, ordinal] = header;
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    let data_type =
        DataType::from_ordinal(ordinal).ok_or_else(|| corrupt("unknown buffer data type"))?;
    target
        .set_size(length)
        .map_err(|_| corrupt("the stored buffer is larger than its target"))?;
    file.read_exact(&mut target.as_mut_slice()[..length])?;
    Ok(Some(target.into_buffer(data_type)))
}
