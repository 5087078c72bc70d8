//! Temporary files in temporary directories: their names, I/O threads and removal.
//!
//! An [`IoManager`] creates a directory below each temporary directory, assigns paths to them in
//! turn, and removes them with their content when it is closed or dropped.  Each directory has one
//! writer thread and one reader thread, so requests of many channels on one disk queue up instead
//! of competing; the queues are bounded.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::io_thread::IoThread;
use crate::sync::Arc;

/// Number of taken directory names after which creation fails.
const NAMING_ATTEMPTS: u32 = 10;

/// The path of a temporary file and the index of its directory, which has a pair of threads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChannelId {
    path: PathBuf,
    directory: usize,
}

impl ChannelId {
    /// Returns the path; the file exists after the first write.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the index of the temporary directory.
    #[must_use]
    pub fn directory(&self) -> usize {
        self.directory
    }
}

/// Owns the temporary directories of a worker and their I/O threads.
pub struct IoManager {
    directories: Vec<Directory>,
    next_directory: AtomicUsize,
    next_file: Arc<AtomicU64>,
}

struct Directory {
    path: PathBuf,
    writer: Arc<IoThread>,
    reader: Arc<IoThread>,
}

impl IoManager {
    /// Creates a directory below each of `temporary_directories` and starts the threads.
    ///
    /// # Errors
    ///
    /// The error of the operating system, after which no directory remains.  `InvalidInput` without
    /// any directory.
    pub fn new(temporary_directories: &[PathBuf]) -> io::Result<Self> {
        if temporary_directories.is_empty() {
            let text = "at least one temporary directory is needed";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        // If a later one fails, `Drop` removes the directories created so far.
        let mut manager = Self {
            directories: Vec::with_capacity(temporary_directories.len()),
            next_directory: AtomicUsize::new(0),
            next_file: Arc::new(AtomicU64::new(0)),
        };
        for parent in temporary_directories {
            let path = make_directory(parent)?;
            let threads = IoThread::start("penstock-io-writer")
                .and_then(|writer| Ok((writer, IoThread::start("penstock-io-reader")?)));
            match threads {
                Ok((writer, reader)) => {
                    manager.directories.push(Directory {
                        path,
                        writer: Arc::new(writer),
                        reader: Arc::new(reader),
                    });
                }
                Err(error) => {
                    fs::remove_dir(&path)?;
                    return Err(error);
                }
            }
        }
        Ok(manager)
    }

    /// Returns the directories of the files.
    #[must_use]
    pub fn directories(&self) -> Vec<&Path> {
        self.directories
            .iter()
            .map(|directory| directory.path.as_path())
            .collect()
    }

    /// Returns a unique path in the next directory in turn.
    #[must_use]
    pub fn create_channel(&self) -> ChannelId {
        let directory =
            self.next_directory.fetch_add(1, Ordering::Relaxed) % self.directories.len();
        let number = self.next_file.fetch_add(1, Ordering::Relaxed);
        self.channel(directory, &format!("{number:016x}.channel"))
    }

    /// Creates paths that differ in a counter, in turn over the directories.
    #[must_use]
    pub fn create_channel_enumerator(&self) -> ChannelEnumerator {
        let number = self.next_file.fetch_add(1, Ordering::Relaxed);
        let first = self.next_directory.fetch_add(1, Ordering::Relaxed);
        ChannelEnumerator {
            directories: self.directories().into_iter().map(Into::into).collect(),
            prefix: format!("{number:016x}"),
            first,
            counter: 0,
        }
    }

    fn channel(&self, directory: usize, name: &str) -> ChannelId {
        ChannelId {
            path: self.directories[directory].path.join(name),
            directory,
        }
    }

    /// Returns the thread that writes the files of a channel's directory.
    pub(crate) fn writer(&self, channel: &ChannelId) -> &Arc<IoThread> {
        &self.directories[channel.directory].writer
    }

    /// Returns the thread that reads the files of a channel's directory.
    pub(crate) fn reader(&self, channel: &ChannelId) -> &Arc<IoThread> {
        &self.directories[channel.directory].reader
    }

    /// Ends the threads after the queued requests and removes the directories with all files.
    ///
    /// # Errors
    ///
    /// The first error of a removal; the other directories are removed all the same.
    pub fn close(mut self) -> io::Result<()> {
        self.shut_down()
    }

    fn shut_down(&mut self) -> io::Result<()> {
        let mut result = Ok(());
        for directory in self.directories.drain(..) {
            directory.writer.stop();
            directory.reader.stop();
            let removed = match fs::remove_dir_all(&directory.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                other => other,
            };
            result = result.and(removed);
        }
        result
    }
}

impl Drop for IoManager {
    fn drop(&mut self) {
        // Nobody can receive the error; call `close` to get it.
        let _ = self.shut_down();
    }
}

impl fmt::Debug for IoManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoManager")
            .field("directories", &self.directories())
            .finish()
    }
}

/// Generates paths that differ in a counter, in turn over the directories.
#[derive(Debug)]
pub struct ChannelEnumerator {
    directories: Vec<PathBuf>,
    prefix: String,
    first: usize,
    counter: usize,
}

impl Iterator for ChannelEnumerator {
    type Item = ChannelId;

    fn next(&mut self) -> Option<ChannelId> {
        let directory = (self.first + self.counter) % self.directories.len();
        let name = format!("{}.{:06}.channel", self.prefix, self.counter);
        self.counter += 1;
        Some(ChannelId {
            path: self.directories[directory].join(name),
            directory,
        })
    }
}

/// Creates a directory with an unused name.
fn make_directory(parent: &Path) -> io::Result<PathBuf> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    fs::create_dir_all(parent)?;
    let mut attempt = 0;
    loop {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("penstock-io-{}-{number}", std::process::id()));
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            // A leftover of an earlier process with the same id.
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists && attempt < NAMING_ATTEMPTS =>
            {
                attempt += 1;
            }
            Err(error) => return Err(error),
        }
    }
}
