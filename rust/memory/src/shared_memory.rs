//! Memory that other processes of this host can map.
//!
//! It is a file without a name, sealed against changes of its size and against writers other than
//! its owner: a process that has mapped it can read all of it indefinitely, even after the owner
//! has exited.  The owner passes the descriptor to other processes; this crate does not say how.

use std::fmt;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
// Not the types of `sync`: the other side of the flag is not a thread of a model.
use std::sync::atomic::{AtomicU32, Ordering, fence};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

/// File sizes are multiples of this.
const PAGE_BYTES: usize = 4 << 10;
/// Type of the file system of sealed files in `statfs`; that of huge pages differs, and may lack
/// pages where they are read.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// A mapped file.
struct Mapping {
    data: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to no thread.
unsafe impl Send for Mapping {}
// SAFETY: as above; who may access which bytes is decided by those who have it.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: BorrowedFd<'_>, bytes: usize, protection: ProtFlags) -> Result<Self> {
        // SAFETY: the kernel chooses an address at which nothing lies.
        let data = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                MapFlags::SHARED,
                file,
                0,
            )
        }?;
        let data = NonNull::new(data.cast()).ok_or(ErrorKind::OutOfMemory)?;
        Ok(Self { data, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size, and whoever has a pointer into it has the mapping.
        let unmapped = unsafe { rustix::mm::munmap(self.data.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Zeroed memory of this process that others may map; pages become resident when touched.
pub struct SharedMemory {
    file: OwnedFd,
    mapping: Mapping,
}

impl SharedMemory {
    /// Creates at least `bytes` bytes of shared memory.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn create(bytes: usize) -> Result<Self> {
        let bytes = bytes.max(1).next_multiple_of(PAGE_BYTES);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("penstock", flags)?;
        rustix::fs::ftruncate(&file, bytes as u64)?;
        let mapping = Mapping::new(file.as_fd(), bytes, ProtFlags::READ | ProtFlags::WRITE)?;
        // After the mapping: from here on nobody can create another writable one.
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals)?;
        Ok(Self { file, mapping })
    }

    /// Returns the descriptor for [`ForeignMemory::map`].
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns the first byte, at the start of a page.
    pub(crate) fn data(&self) -> NonNull<u8> {
        self.mapping.data
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.mapping.bytes
    }

    /// Returns the offset of the bytes in this memory; `None` if they lie elsewhere.
    #[must_use]
    pub fn offset_of(&self, bytes: &[u8]) -> Option<usize> {
        let offset = bytes
            .as_ptr()
            .addr()
            .checked_sub(self.data().addr().get())?;
        let end = offset.checked_add(bytes.len())?;
        (end <= self.bytes()).then_some(offset)
    }
}

impl fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedMemory")
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

/// The [`SharedMemory`] of another process, for reading.
pub struct ForeignMemory(Mapping);

impl ForeignMemory {
    /// Maps the memory of a descriptor, if its size can never shrink.
    ///
    /// # Errors
    /// `InvalidData` if the file is not such memory; else the error of the operating system.
    pub fn map(file: BorrowedFd<'_>) -> Result<Self> {
        let refused = |why: &str| Error::new(ErrorKind::InvalidData, why.to_owned());
        let seals = rustix::fs::fcntl_get_seals(file)
            .map_err(|error| refused(&format!("memory without seals: {error}")))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(refused("memory that may shrink"));
        }
        if rustix::fs::fstatfs(file)?.f_type as u64 != TMPFS_MAGIC {
            return Err(refused("memory of another kind than pages"));
        }
        let bytes = usize::try_from(rustix::fs::fstat(file)?.st_size)
            .ok()
            .filter(|&bytes| bytes >= PAGE_BYTES)
            .ok_or_else(|| refused("memory smaller than a page"))?;
        Ok(Self(Mapping::new(file, bytes, ProtFlags::READ)?))
    }

    /// Fills `into` with the bytes from `offset` on; false if there are fewer bytes.
    ///
    /// Bytes that the owner changes meanwhile may be old or new.
    #[must_use]
    pub fn copy_to(&self, offset: u64, into: &mut [u8]) -> bool {
        let Ok(offset) = usize::try_from(offset) else {
            return false;
        };
        match offset.checked_add(into.len()) {
            Some(end) if end <= self.0.bytes => {}
            _ => return false,
        }
        // SAFETY: the offset lies in the mapping.
        let from = unsafe { self.0.data.add(offset) };
        // SAFETY: the range lies in the mapping, whose size is sealed; `into` is memory of this
        // process alone.
        unsafe { copy_foreign(from.as_ptr(), into) };
        true
    }
}

/// Fills `into` with bytes that another process may change meanwhile.
///
/// Any bytes are valid, so the other process can only spoil what it sends.  A single instruction
/// leaves the cache lines to their owner, which can then write them again faster.
///
/// # Safety
/// As many bytes as `into` has can be read at `from`.
#[cfg(target_arch = "x86_64")]
unsafe fn copy_foreign(from: *const u8, into: &mut [u8]) {
    // SAFETY: so many bytes can be read and written; the direction is forward, as always.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") into.len() => _,
            inout("rsi") from => _,
            inout("rdi") into.as_mut_ptr() => _,
            options(nostack, preserves_flags)
        );
    }
}

/// As above, word by word: `memcpy` assumes that nobody changes its source.
///
/// # Safety
/// As above.
#[cfg(not(target_arch = "x86_64"))]
#[expect(
    clippy::cast_ptr_alignment,
    reason = "words begin where they are aligned"
)]
unsafe fn copy_foreign(from: *const u8, into: &mut [u8]) {
    type Word = u64;
    let unaligned = from.align_offset(align_of::<Word>()).min(into.len());
    let (first, rest) = into.split_at_mut(unaligned);
    let (words, last) = rest.as_chunks_mut::<{ size_of::<Word>() }>();
    for (index, byte) in first.iter_mut().enumerate() {
        // SAFETY: there is a byte for every one of `into`.
        *byte = unsafe { load(from, index) };
    }
    // SAFETY: as above.
    let aligned = unsafe { from.add(unaligned) }.cast::<Word>();
    for (index, word) in words.iter_mut().enumerate() {
        // SAFETY: as above, and the first word is aligned.
        let value = unsafe { load(aligned, index) };
        // SAFETY: an array of a word's size, at any address.
        unsafe { word.as_mut_ptr().cast::<Word>().write_unaligned(value) };
    }
    let copied = unaligned + size_of_val(words);
    for (index, byte) in last.iter_mut().enumerate() {
        // SAFETY: there is a byte for every one of `into`.
        *byte = unsafe { load(from, copied + index) };
    }
}

/// Loads the value `index` places behind `from`, as it is right now.
///
/// # Safety
/// It can be read there, and `from` is aligned.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
unsafe fn load<T>(from: *const T, index: usize) -> T {
    // SAFETY: the caller says so.
    let place = unsafe { from.add(index) };
    // SAFETY: as above.
    unsafe { place.read_volatile() }
}

impl fmt::Debug for ForeignMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignMemory")
            .field("bytes", &self.0.bytes)
            .finish_non_exhaustive()
    }
}

/// A flag that another process sees: once it is raised, lent bytes may have changed.
#[derive(Debug)]
pub struct SharedFlag(SharedMemory);

impl SharedFlag {
    /// Creates a lowered flag.
    ///
    /// # Errors
    /// See [`SharedMemory::create`].
    pub fn create() -> Result<Self> {
        SharedMemory::create(size_of::<AtomicU32>()).map(Self)
    }

    /// Returns the descriptor for [`ForeignFlag::map`].
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.descriptor()
    }

    /// Raises the flag before any later write of this thread.
    pub fn raise(&self) {
        // SAFETY: a page holds a word, aligned, which is accessed as an atomic only.
        let word = unsafe { self.0.data().cast::<AtomicU32>().as_ref() };
        word.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

/// The [`SharedFlag`] of another process.
#[derive(Debug)]
pub struct ForeignFlag(ForeignMemory);

impl ForeignFlag {
    /// Maps it.
    ///
    /// # Errors
    /// See [`ForeignMemory::map`].
    pub fn map(file: BorrowedFd<'_>) -> Result<Self> {
        ForeignMemory::map(file).map(Self)
    }

    /// Returns whether it was raised before something that this thread has read.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        fence(Ordering::SeqCst);
        // SAFETY: a page holds a word, aligned, which is accessed as an atomic only.
        let word = unsafe { self.0.0.data.cast::<AtomicU32>().as_ref() };
        // Relaxed: the only kind of load that read-only mappings allow.
        word.load(Ordering::Relaxed) != 0
    }
}
