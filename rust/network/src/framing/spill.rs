//! Files for records too long to gather in memory.
//!
//! A file loses its name as soon as it is open, so nothing stays on disk however the process
//! ends; the space goes with the last handle.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use memmap2::Mmap;

use crate::error::{Error, Result};
use crate::sync::{Arc, Mutex};

/// Attempts at a fresh file name in one directory.
const NAME_ATTEMPTS: usize = 10;

/// The directories that spill files may use; clones share one list.
#[derive(Debug, Clone)]
pub struct SpillDirectories {
    directories: Arc<Mutex<Vec<PathBuf>>>,
}

impl Default for SpillDirectories {
    fn default() -> Self {
        Self::new(vec![std::env::temp_dir()])
    }
}

impl SpillDirectories {
    /// Uses `directories` in random rotation; an empty list means the system's own.
    #[must_use]
    pub fn new(directories: Vec<PathBuf>) -> Self {
        if directories.is_empty() {
            Self::default()
        } else {
            Self {
                directories: Arc::new(Mutex::new(directories)),
            }
        }
    }

    /// Opens a nameless file in the first directory that allows it, beginning at a random one; a
    /// directory that fails is dropped from this list unless it is the last.
    pub(super) fn create(&self) -> Result<SpillFile> {
        let file = self.create_file("inputchannel")?;
        Ok(SpillFile { file, length: 0 })
    }

    /// As `create`; `suffix` tells what the file was for, should its name ever be seen.
    pub(crate) fn create_file(&self, suffix: &str) -> Result<File> {
        let mut directories = self.directories.lock();
        let mut at = random_bytes::<1>()?[0] as usize % directories.len();
        loop {
            match create_in(&directories[at], suffix) {
                Ok(file) => return Ok(file),
                Err(error) if directories.len() > 1 => {
                    let dropped = directories.remove(at);
                    log::warn!("spilling no longer uses {}: {error}", dropped.display());
                    at %= directories.len();
                }
                Err(error) => {
                    let doing = format!("creating a spill file in {}", directories[at].display());
                    return Err(Error::io(&doing, &error));
                }
            }
        }
    }
}

fn create_in(directory: &std::path::Path, suffix: &str) -> std::io::Result<File> {
    let mut last = None;
    for _ in 0..NAME_ATTEMPTS {
        let name: [u8; 20] =
            random_bytes().map_err(|error| std::io::Error::other(error.to_string()))?;
        let name: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = directory.join(format!("{name}.{suffix}"));
        match OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
        {
            Ok(file) => {
                fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last.unwrap_or_else(|| std::io::Error::other("no fresh file name")))
}

/// Bytes from the system's random source.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::Io(format!("reading the system's random source: {error}")))?;
    Ok(bytes)
}

/// A record on its way into a file.
#[derive(Debug)]
pub(super) struct SpillFile {
    file: File,
    length: usize,
}

impl SpillFile {
    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all(bytes)
            .map_err(|error| Error::io("spilling a record", &error))?;
        self.length += bytes.len();
        Ok(())
    }

    /// Appends the content to `out`, at most `chunk_bytes` a time.
    pub(super) fn read_back(&mut self, chunk_bytes: usize, out: &mut Vec<u8>) -> Result<()> {
        let doing = "reading a spilled record";
        let start = out.len();
        out.resize(start + self.length, 0);
        for (index, chunk) in out[start..].chunks_mut(chunk_bytes).enumerate() {
            self.file
                .read_exact_at(chunk, (index * chunk_bytes) as u64)
                .map_err(|error| Error::io(doing, &error))?;
        }
        self.file
            .seek(SeekFrom::End(0))
            .map_err(|error| Error::io(doing, &error))?;
        Ok(())
    }

    pub(super) fn into_record(self) -> Result<SpilledRecord> {
        // SAFETY: the file has no name, this process alone holds it and nothing writes to it or
        // truncates it after this point, so the mapped bytes do not change.
        let map = unsafe { Mmap::map(&self.file) }
            .map_err(|error| Error::io("mapping a spilled record", &error))?;
        Ok(SpilledRecord { map })
    }
}

/// A whole record in a file, readable as memory.
#[derive(Debug)]
pub(super) struct SpilledRecord {
    map: Mmap,
}

impl SpilledRecord {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.map
    }
}
