//! Writing and reading one temporary file of buffers.
//!
//! Each buffer is stored as `u32` big-endian length, `u8` data type, bytes.  The next call returns
//! the error of a failed request; closing waits for pending requests.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};

use crate::buffer::Buffer;
use crate::data_type::DataType;
use crate::file_requests::{FileAccess, Requests, ends_inside};
use crate::io_manager::{ChannelId, IoManager};
use crate::sync::{Arc, Mutex, lock};
use crate::unique_buffer::UniqueBuffer;

/// Bytes in front of every stored buffer.
const HEADER_BYTES: usize = 5;

/// Appends buffers to a file.
pub struct BufferFileWriter {
    channel: ChannelId,
    file: Arc<Mutex<File>>,
    requests: Requests,
}

impl BufferFileWriter {
    /// Creates the file, which must not exist.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn create(manager: &IoManager, channel: ChannelId, access: FileAccess) -> io::Result<Self> {
        let file = File::create_new(channel.path())?;
        let requests = Requests::new(access, manager.writer(&channel));
        Ok(Self {
            channel,
            file: Arc::new(Mutex::new(file)),
            requests,
        })
    }

    /// Writes a buffer and recycles it afterwards.
    ///
    /// # Errors
    ///
    /// The error of an earlier request; of this one as well if it is synchronous.
    pub fn write(&self, buffer: Buffer) -> io::Result<()> {
        let file = Arc::clone(&self.file);
        self.requests
            .run(move || write_buffer(&mut lock(&file), &buffer))
    }

    /// Waits until all queued buffers are written.
    ///
    /// # Errors
    ///
    /// The first error of a request.
    pub fn close(self) -> io::Result<ChannelId> {
        self.requests.wait()?;
        Ok(self.channel)
    }

    /// Waits until no request is queued and removes the file.
    ///
    /// # Errors
    ///
    /// The first error of a request, or of the removal.
    pub fn close_and_delete(self) -> io::Result<()> {
        let written = self.requests.wait();
        let removed = fs::remove_file(self.channel.path());
        written.and(removed)
    }
}

impl fmt::Debug for BufferFileWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferFileWriter")
            .field("channel", &self.channel)
            .finish_non_exhaustive()
    }
}

/// Reads the buffers of a file in order.
pub struct BufferFileReader {
    channel: ChannelId,
    file: Arc<Mutex<File>>,
    requests: Requests,
}

/// Receives the result of a read request: a buffer, or `None` at the end of the file.
pub type ReadCallback = Box<dyn FnOnce(Option<Buffer>) + Send>;

impl BufferFileReader {
    /// Opens a written file.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn open(manager: &IoManager, channel: ChannelId, access: FileAccess) -> io::Result<Self> {
        let file = File::open(channel.path())?;
        let requests = Requests::new(access, manager.reader(&channel));
        Ok(Self {
            channel,
            file: Arc::new(Mutex::new(file)),
            requests,
        })
    }

    /// Reads the next buffer into `target`; the reading thread passes it to `callback`, unless
    /// reading fails.
    ///
    /// # Errors
    ///
    /// The error of an earlier request; of this one as well if it is synchronous.
    pub fn read_into(&self, target: UniqueBuffer, callback: ReadCallback) -> io::Result<()> {
        let file = Arc::clone(&self.file);
        self.requests.run(move || {
            let buffer = read_buffer(&mut lock(&file), target)?;
            callback(buffer);
            Ok(())
        })
    }

    /// Waits until every requested buffer is read.
    ///
    /// # Errors
    ///
    /// The first error of a request.
    pub fn wait(&self) -> io::Result<()> {
        self.requests.wait()
    }

    /// Waits until no request is queued.
    ///
    /// # Errors
    ///
    /// The first error of a request.
    pub fn close(self) -> io::Result<()> {
        self.requests.wait()
    }

    /// Waits until no request is queued and removes the file.
    ///
    /// # Errors
    ///
    /// The first error of a request, or of the removal.
    pub fn close_and_delete(self) -> io::Result<()> {
        let read = self.requests.wait();
        let removed = fs::remove_file(self.channel.path());
        read.and(removed)
    }
}

impl fmt::Debug for BufferFileReader {
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
    file.read_exact(&mut header[1..])
        .map_err(|error| ends_inside("header", error))?;
    let [a, b, c, d, ordinal] = header;
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    let data_type =
        DataType::from_ordinal(ordinal).ok_or_else(|| corrupt("unknown buffer data type"))?;
    target
        .set_size(length)
        .map_err(|_| corrupt("the stored buffer is larger than its target"))?;
    file.read_exact(&mut target.as_mut_slice()[..length])
        .map_err(|error| ends_inside("buffer", error))?;
    Ok(Some(target.into_buffer(data_type)))
}
