//! Temporary files in temporary directories: who names them, writes them and cleans up.
//!
//! An [`IoManager`] makes one directory of its own below each temporary directory, hands out paths
//! in turn over them, and removes them with everything in them when it is closed or dropped.  Each
//! directory has one writer thread and one reader thread, so requests of many channels on one disk
//! queue up instead of competing; the queues are bounded.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::io_thread::IoThread;
use crate::sync::Arc;

/// Number of directory names that may be taken before giving up.
const NAMING_ATTEMPTS: u32 = 10;

/// The path of one temporary file, and which directory, so which pair of threads, it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChannelId {
    path: PathBuf,
    directory: usize,
}

impl ChannelId {
    /// The path; the file exists once something was written.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The index of the temporary directory.
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
    /// Makes a directory of its own below each of `temporary_directories` and starts the threads.
    ///
    /// # Errors
    ///
    /// What the operating system says; none is left behind then.  `InvalidInput` without any
    /// directory.
    pub fn new(temporary_directories: &[PathBuf]) -> io::Result<Self> {
        if temporary_directories.is_empty() {
            let text = "at least one temporary directory is needed";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        // Directories made so far are removed by `Drop` when a later one fails.
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

    /// The directories that hold the files.
    #[must_use]
    pub fn directories(&self) -> Vec<&Path> {
        self.directories
            .iter()
            .map(|directory| directory.path.as_path())
            .collect()
    }

    /// The path of one file, in the next directory in turn, under a name of its own.
    #[must_use]
    pub fn create_channel(&self) -> ChannelId {
        let directory =
            self.next_directory.fetch_add(1, Ordering::Relaxed) % self.directories.len();
        let number = self.next_file.fetch_add(1, Ordering::Relaxed);
        self.channel(directory, &format!("{number:016x}.channel"))
    }

    /// Paths that belong together: a counter in their names, in turn over the directories.
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

    /// The thread that writes the files of a channel's directory.
    pub(crate) fn writer(&self, channel: &ChannelId) -> &Arc<IoThread> {
        &self.directories[channel.directory].writer
    }

    /// The thread that reads the files of a channel's directory.
    pub(crate) fn reader(&self, channel: &ChannelId) -> &Arc<IoThread> {
        &self.directories[channel.directory].reader
    }

    /// Ends the threads after what is queued and removes the directories with all files.
    ///
    /// # Errors
    ///
    /// The first error of removing; the others are removed all the same.
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
        // There is nobody left to tell; `close` is for those who want to know.
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

/// Hands out paths that differ in a counter, in turn over the directories.
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

/// Makes a directory that nobody else uses.
fn make_directory(parent: &Path) -> io::Result<PathBuf> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    fs::create_dir_all(parent)?;
    let mut attempt = 0;
    loop {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("penstock-io-{}-{number}", std::process::id()));
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            // Left behind by an earlier process that had the same id.
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists && attempt < NAMING_ATTEMPTS =>
            {
                attempt += 1;
            }
            Err(error) => return Err(error),
        }
    }
}
