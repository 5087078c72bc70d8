//! `penstock._core.IOManager`: temporary files of bytes, for Python.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use penstock_memory::{self as memory, Buffer, DataType, FileAccess, UniqueBuffer};
use pyo3::exceptions::{PyBrokenPipeError, PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::records::contents;
use crate::errors::{exception, os_error};
use crate::home::Home;

fn locked<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that `close` closes.
#[derive(Debug)]
struct Open<T> {
    file: Mutex<Option<T>>,
    path: PathBuf,
}

impl<T> Open<T> {
    fn new(file: T, path: &Path) -> Self {
        Self {
            file: Mutex::new(Some(file)),
            path: path.to_owned(),
        }
    }

    fn with<R>(&self, act: impl FnOnce(&T) -> std::io::Result<R>) -> PyResult<R> {
        match locked(&self.file).as_ref() {
            Some(file) => act(file).map_err(|error| os_error(error, &self.path)),
            None => Err(PyBrokenPipeError::new_err("the file is closed")),
        }
    }

    fn take(&self, act: impl FnOnce(T) -> std::io::Result<()>) -> PyResult<()> {
        let taken = locked(&self.file).take();
        taken
            .map_or(Ok(()), act)
            .map_err(|error| os_error(error, &self.path))
    }
}

/// Checks a number of bytes or of blocks, which fits a signed integer of 32 bits as in Flink: a
/// failed allocation of more would end the process.
fn amount(value: i64) -> PyResult<usize> {
    match i32::try_from(value)
        .ok()
        .and_then(|n| usize::try_from(n).ok())
    {
        Some(number) => Ok(number),
        None => Err(PyOverflowError::new_err(format!(
            "{value} is negative or has more than 31 bits"
        ))),
    }
}

fn access(synchronous: bool) -> FileAccess {
    if synchronous {
        FileAccess::Synchronous
    } else {
        FileAccess::Asynchronous
    }
}

/// The path of one temporary file.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct FileChannelId {
    id: memory::ChannelId,
}

#[pymethods]
impl FileChannelId {
    /// The path; the file exists once a writer is created.
    #[getter]
    fn path(&self) -> PyResult<String> {
        let path = self.id.path().to_str().map(str::to_owned);
        path.ok_or_else(|| PyValueError::new_err("the path is not UTF-8"))
    }

    /// The index of the temporary directory.
    #[getter]
    fn directory(&self) -> usize {
        self.id.directory()
    }
}

/// An iterator over paths that differ in a counter, in each directory in turn.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct FileChannelEnumerator {
    ids: Mutex<memory::ChannelEnumerator>,
}

#[pymethods]
impl FileChannelEnumerator {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self) -> Option<FileChannelId> {
        let id = locked(&self.ids).next()?;
        Some(FileChannelId { id })
    }
}

/// Owns temporary directories, and names, reads and writes the files in them.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct IOManager {
    /// None once it is closed.
    manager: Home<Mutex<Option<memory::IoManager>>>,
}

impl IOManager {
    fn with<R>(&self, act: impl FnOnce(&memory::IoManager) -> PyResult<R>) -> PyResult<R> {
        match locked(&self.manager).as_ref() {
            Some(manager) => act(manager),
            None => Err(PyBrokenPipeError::new_err("the I/O manager is closed")),
        }
    }

    /// Checks that a channel's directory is one of the manager's.
    fn check_channel(manager: &memory::IoManager, channel: &FileChannelId) -> PyResult<()> {
        if channel.id.directory() < manager.directories().len() {
            return Ok(());
        }
        let path = channel.id.path().display();
        Err(PyValueError::new_err(format!(
            "{path} belongs to another I/O manager"
        )))
    }

    /// Opens a file of the manager.
    fn open<T>(
        &self,
        channel: &FileChannelId,
        synchronous: bool,
        open: impl FnOnce(&memory::IoManager, memory::ChannelId, FileAccess) -> std::io::Result<T>,
    ) -> PyResult<Open<T>> {
        let (id, path) = (channel.id.clone(), channel.id.path());
        self.with(|manager| {
            Self::check_channel(manager, channel)?;
            open(manager, id, access(synchronous))
                .map(|file| Open::new(file, path))
                .map_err(|error| os_error(error, path))
        })
    }
}

#[pymethods]
impl IOManager {
    /// Creates a directory below each of the given ones and starts a thread for each.
    #[new]
    fn new(py: Python<'_>, temp_directories: Vec<PathBuf>) -> PyResult<Self> {
        if temp_directories.is_empty() {
            let message = "at least one temporary directory is needed";
            return Err(exception(py, "ConfigurationError", message));
        }
        for parent in &temp_directories {
            py.detach(|| std::fs::create_dir_all(parent))
                .map_err(|error| os_error(error, parent))?;
        }
        let manager = py.detach(|| memory::IoManager::new(&temp_directories))?;
        Ok(Self {
            manager: Home::new(Mutex::new(Some(manager))),
        })
    }

    /// The directories that hold the files.
    #[getter]
    fn directories(&self) -> PyResult<Vec<String>> {
        self.with(|manager| {
            let directories = manager.directories().into_iter();
            Ok(directories
                .map(|path| path.to_string_lossy().into_owned())
                .collect())
        })
    }

    /// Returns the path of one file, in the next directory in turn.
    fn create_channel(&self) -> PyResult<FileChannelId> {
        self.with(|manager| {
            Ok(FileChannelId {
                id: manager.create_channel(),
            })
        })
    }

    /// Returns an iterator over paths that differ in a counter, in each directory in turn.
    fn create_channel_enumerator(&self) -> PyResult<FileChannelEnumerator> {
        self.with(|manager| {
            Ok(FileChannelEnumerator {
                ids: Mutex::new(manager.create_channel_enumerator()),
            })
        })
    }

    /// Creates a file of buffers.
    #[pyo3(signature = (channel, *, synchronous = false))]
    fn create_buffer_writer(
        &self,
        channel: &FileChannelId,
        synchronous: bool,
    ) -> PyResult<BufferFileWriter> {
        let writer = self.open(channel, synchronous, memory::BufferFileWriter::create)?;
        Ok(BufferFileWriter { writer })
    }

    /// Opens a file of buffers.
    #[pyo3(signature = (channel, *, synchronous = false))]
    fn create_buffer_reader(
        &self,
        channel: &FileChannelId,
        synchronous: bool,
    ) -> PyResult<BufferFileReader> {
        let reader = self.open(channel, synchronous, memory::BufferFileReader::open)?;
        Ok(BufferFileReader {
            reader,
            requested: Mutex::default(),
        })
    }

    /// Creates a file of blocks.
    #[pyo3(signature = (channel, *, synchronous = false))]
    fn create_block_writer(
        &self,
        channel: &FileChannelId,
        synchronous: bool,
    ) -> PyResult<BlockChannelWriter> {
        let writer = self.open(channel, synchronous, memory::BlockChannelWriter::create)?;
        Ok(BlockChannelWriter { writer })
    }

    /// Opens a file of blocks.
    #[pyo3(signature = (channel, *, synchronous = false))]
    fn create_block_reader(
        &self,
        channel: &FileChannelId,
        synchronous: bool,
    ) -> PyResult<BlockChannelReader> {
        let reader = self.open(channel, synchronous, memory::BlockChannelReader::open)?;
        Ok(BlockChannelReader { reader })
    }

    /// Reads and removes a file of `num_blocks` blocks of `block_size` bytes; returns the blocks.
    #[pyo3(signature = (channel, num_blocks, block_size, *, synchronous = false))]
    fn read_bulk(
        &self,
        py: Python<'_>,
        channel: &FileChannelId,
        num_blocks: i64,
        block_size: i64,
        synchronous: bool,
    ) -> PyResult<Vec<Py<PyBytes>>> {
        let (num_blocks, block_size) = (amount(num_blocks)?, amount(block_size)?);
        let (id, access) = (channel.id.clone(), access(synchronous));
        let read = py.detach(|| {
            self.with(|manager| {
                Self::check_channel(manager, channel)?;
                let blocks = (0..num_blocks).map(|_| UniqueBuffer::unpooled(block_size));
                memory::BulkBlockChannelReader::open(manager, id, access, blocks)
                    .and_then(memory::BulkBlockChannelReader::close_and_delete)
                    .map_err(|error| os_error(error, channel.id.path()))
            })
        })?;
        let bytes = |mut block: UniqueBuffer| PyBytes::new(py, block.as_mut_slice()).unbind();
        Ok(read.into_iter().map(bytes).collect())
    }

    /// Ends the threads after the queued requests, and removes the directories and their files; does
    /// nothing in a forked child.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.manager.is_left() {
            return Ok(());
        }
        let taken = locked(&self.manager).take();
        Ok(py.detach(|| taken.map_or(Ok(()), memory::IoManager::close))?)
    }
}

/// Appends buffers to a file.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct BufferFileWriter {
    writer: Open<memory::BufferFileWriter>,
}

#[pymethods]
impl BufferFileWriter {
    /// Writes a buffer.
    #[pyo3(signature = (data, data_type = 1))]
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>, data_type: i64) -> PyResult<()> {
        let data = contents(data)?;
        let data_type = u8::try_from(data_type)
            .ok()
            .and_then(DataType::from_ordinal)
            .ok_or_else(|| PyValueError::new_err(format!("no buffer data type {data_type}")))?;
        py.detach(|| {
            self.writer
                .with(|writer| writer.write(Buffer::from_bytes(Cow::into_owned(data), data_type)))
        })
    }

    /// Waits until everything is written.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.writer.take(|writer| writer.close().map(drop)))
    }

    /// Waits for the requests under way and removes the file.
    fn close_and_delete(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.writer.take(memory::BufferFileWriter::close_and_delete))
    }
}

/// Reads the buffers of a file in order.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct BufferFileReader {
    reader: Open<memory::BufferFileReader>,
    /// The result of each request; a failed request closes its channel.
    requested: Mutex<VecDeque<Receiver<Option<Buffer>>>>,
}

#[pymethods]
impl BufferFileReader {
    /// Requests the next buffer, of at most `capacity` bytes.
    fn request(&self, py: Python<'_>, capacity: i64) -> PyResult<()> {
        let capacity = amount(capacity)?;
        let (sender, receiver) = sync_channel(1);
        let callback = Box::new(move |buffer| {
            // The send fails if the reader is gone, when nobody waits.
            let _ = sender.send(buffer);
        });
        py.detach(|| {
            self.reader
                .with(|reader| reader.read_into(UniqueBuffer::unpooled(capacity), callback))
        })?;
        locked(&self.requested).push_back(receiver);
        Ok(())
    }

    /// Waits for the oldest request; returns the buffer's data type and bytes, None at the end.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<(u8, Bound<'py, PyBytes>)>> {
        let Some(receiver) = locked(&self.requested).pop_front() else {
            return Err(exception(
                py,
                "IllegalStateError",
                "no buffer was asked for",
            ));
        };
        let found = py.detach(move || receiver.recv());
        match found {
            Ok(found) => Ok(found.map(|buffer| {
                let data_type = buffer.data_type().ordinal();
                (data_type, PyBytes::new(py, buffer.as_slice()))
            })),
            // The request failed: its error was kept.
            Err(_) => {
                py.detach(|| self.reader.with(memory::BufferFileReader::wait))?;
                Err(PyBrokenPipeError::new_err("the I/O manager is closed"))
            }
        }
    }

    /// Waits for the requests under way.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.reader.take(memory::BufferFileReader::close))
    }

    /// Waits for the requests under way and removes the file.
    fn close_and_delete(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.reader.take(memory::BufferFileReader::close_and_delete))
    }
}

/// Appends blocks to a file.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct BlockChannelWriter {
    writer: Open<memory::BlockChannelWriter>,
}

#[pymethods]
impl BlockChannelWriter {
    /// Writes a block.
    fn write_block(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let data: &[u8] = &contents(data)?;
        py.detach(|| {
            self.writer.with(|writer| {
                // Reuse the block of an earlier call if it is large enough.
                let mut block = writer
                    .returned_block()
                    .filter(|block| block.capacity() >= data.len())
                    .unwrap_or_else(|| UniqueBuffer::unpooled(data.len()));
                block.as_mut_slice()[..data.len()].copy_from_slice(data);
                block
                    .set_size(data.len())
                    .map_err(|error| std::io::Error::other(error.to_string()))?;
                writer.write_block(block)
            })
        })
    }

    /// Waits until everything is written.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.writer.take(|writer| writer.close().map(drop)))
    }

    /// Waits for the requests under way and removes the file.
    fn close_and_delete(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            self.writer
                .take(memory::BlockChannelWriter::close_and_delete)
        })
    }
}

/// Reads blocks of a file in order.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct BlockChannelReader {
    reader: Open<memory::BlockChannelReader>,
}

#[pymethods]
impl BlockChannelReader {
    /// Requests the next `size` bytes.
    fn request(&self, py: Python<'_>, size: i64) -> PyResult<()> {
        let size = amount(size)?;
        py.detach(|| {
            self.reader
                .with(|reader| reader.read_block(UniqueBuffer::unpooled(size)))
        })
    }

    /// Waits for all requests and returns the oldest block not returned yet.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let block = py.detach(|| {
            self.reader.with(|reader| {
                reader.wait()?;
                Ok(reader.returned_block())
            })
        })?;
        match block {
            Some(mut block) => Ok(PyBytes::new(py, block.as_mut_slice())),
            None => Err(exception(py, "IllegalStateError", "no block was asked for")),
        }
    }

    /// Waits for the requests under way.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.reader.take(memory::BlockChannelReader::close))
    }

    /// Waits for the requests under way and removes the file.
    fn close_and_delete(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            self.reader
                .take(memory::BlockChannelReader::close_and_delete)
        })
    }
}
