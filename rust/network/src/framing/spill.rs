//! Files for records that are too long to gather in memory.
//!
//! A file is unlinked as soon as it is open, so nothing stays on disk however the process ends; the
//! last handle frees the space.  A few files are kept for later records: the system spends more on
//! finding and clearing pages for a fresh file than on writing the bytes.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use memmap2::{Mmap, MmapOptions};

use super::gathered::Gathered;
use crate::error::{Error, Result};
use crate::sync::{Arc, Mutex};

/// Attempts to find a free file name in one directory.
const NAME_ATTEMPTS: usize = 10;
/// Bytes of one write to a temporary file: each makes the system allocate pages of about this size.
pub(crate) const WRITE_BYTES: usize = 256 << 10;
/// Maximum number of files kept for later records.
const SPARE_FILES: usize = 4;
/// Remedy for a file that cannot be written.
pub(crate) const REMEDY: &str = "make room there or name other folders in io.tmp.dirs";
/// Length above which files are not kept, in bytes.
const SPARE_FILE_BYTES: u64 = 32 << 20;

/// The directories of spill files; clones share one list, and the kept files.
#[derive(Debug, Clone)]
pub struct SpillDirectories {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    directories: Mutex<Vec<PathBuf>>,
    /// Unlinked, unused files, with any content.
    spare: Mutex<Vec<Arc<File>>>,
}

impl Default for SpillDirectories {
    fn default() -> Self {
        Self::new(vec![std::env::temp_dir()])
    }
}

impl SpillDirectories {
    /// Uses `directories` in random rotation; if empty, the system's own.
    #[must_use]
    pub fn new(directories: Vec<PathBuf>) -> Self {
        if directories.is_empty() {
            Self::default()
        } else {
            Self {
                shared: Arc::new(Shared {
                    directories: Mutex::new(directories),
                    spare: Mutex::default(),
                }),
            }
        }
    }

    /// Returns a file for one record: a kept one, or a new one.
    pub(super) fn create(&self) -> Result<SpillFile> {
        let spare = self.shared.spare.lock().pop();
        let file = match spare {
            Some(file) => file,
            None => Arc::new(self.create_file("a long record", "inputchannel")?.0),
        };
        Ok(SpillFile {
            file: Lent {
                file,
                home: self.clone(),
            },
            staged: Gathered::default(),
            written: 0,
        })
    }

    /// Opens an unlinked file for `content` in the first directory that allows it, starting at a
    /// random one, and returns it with the directory; a directory that fails is dropped from this
    /// list unless it is the last.  `suffix` tells the purpose of the file, should its name ever be
    /// seen.
    pub(crate) fn create_file(&self, content: &str, suffix: &str) -> Result<(File, PathBuf)> {
        let mut directories = self.shared.directories.lock();
        let mut at = random_bytes::<1>()?[0] as usize % directories.len();
        loop {
            match create_in(&directories[at], suffix) {
                Ok(file) => return Ok((file, directories[at].clone())),
                Err(error) if directories.len() > 1 => {
                    let dropped = directories.remove(at);
                    log::warn!("spilling no longer uses {}: {error}", dropped.display());
                    at %= directories.len();
                }
                Err(error) => {
                    let doing = format!(
                        "{content} needs a temporary file in {} ({REMEDY})",
                        directories[at].display()
                    );
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

/// Returns bytes from the system's random source.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::Io(format!("reading the system's random source: {error}")))?;
    Ok(bytes)
}

/// A file that returns to its directories' spare files.
#[derive(Debug)]
struct Lent {
    file: Arc<File>,
    home: SpillDirectories,
}

impl Drop for Lent {
    fn drop(&mut self) {
        let length = self.file.metadata().map(|metadata| metadata.len());
        let mut spare = self.home.shared.spare.lock();
        if length.is_ok_and(|length| length <= SPARE_FILE_BYTES) && spare.len() < SPARE_FILES {
            spare.push(Arc::clone(&self.file));
        }
    }
}

/// A record being written to a file.
#[derive(Debug)]
pub(super) struct SpillFile {
    file: Lent,
    /// Bytes not yet written, fewer than [`WRITE_BYTES`].
    staged: Gathered,
    written: usize,
}

impl SpillFile {
    pub(super) fn len(&self) -> usize {
        self.written + self.staged.len()
    }

    pub(super) fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            if self.staged.len() == 0 {
                self.staged.begin(WRITE_BYTES, bytes);
            }
            let room = WRITE_BYTES - self.staged.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.staged.extend(now);
            if now.len() == room {
                self.write_staged()?;
            }
            bytes = later;
        }
        Ok(())
    }

    fn write_staged(&mut self) -> Result<()> {
        self.file
            .file
            .write_all_at(self.staged.payload(), self.written as u64)
            .map_err(|error| {
                let doing = format!(
                    "a long record cannot be written to a temporary file, {} bytes until now \
                     ({REMEDY})",
                    self.written
                );
                Error::io(&doing, &error)
            })?;
        self.written += self.staged.len();
        self.staged.clear();
        Ok(())
    }

    /// Appends the content to `out`, at most `chunk_bytes` at a time.
    pub(super) fn read_back(&self, chunk_bytes: usize, out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        out.resize(start + self.written, 0);
        for (index, chunk) in out[start..].chunks_mut(chunk_bytes).enumerate() {
            self.file
                .file
                .read_exact_at(chunk, (index * chunk_bytes) as u64)
                .map_err(|error| Error::io("reading a spilled record", &error))?;
        }
        out.extend_from_slice(self.staged.payload());
        Ok(())
    }

    pub(super) fn into_record(mut self) -> Result<SpilledRecord> {
        self.write_staged()?;
        // SAFETY: the file has no name, this process alone holds it, and nothing writes to it or
        // truncates it before it is spare again, which is after the map is gone.
        let map = unsafe { MmapOptions::new().len(self.written).map(&*self.file.file) }
            .map_err(|error| Error::io("mapping a spilled record", &error))?;
        Ok(SpilledRecord {
            map,
            _file: self.file,
        })
    }
}

/// A whole record in a file, readable as memory.
#[derive(Debug)]
pub(super) struct SpilledRecord {
    /// Dropped before the file is.
    map: Mmap,
    _file: Lent,
}

impl SpilledRecord {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.map
    }
}
