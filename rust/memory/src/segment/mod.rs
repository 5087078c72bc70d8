//! A region of memory of fixed size with checked random access.
//!
//! Every access checks, in this order: the caller's own array range (bulk access only), whether the
//! segment was freed, and the range inside of the segment.  The order matters to callers that
//! distinguish "freed meanwhile" from "wrong index".

mod access;
mod bulk;

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;

use crate::error::SegmentError;

/// Callback that runs once when a segment of foreign memory is freed.
pub type Cleaner = Box<dyn FnOnce() + Send>;

const THIS: &str = "this segment";
const OTHER: &str = "the other segment";

/// Owner of a segment's bytes.
enum Backing {
    /// On the heap: an array that callers may request.
    Heap(Vec<u8>),
    /// Off the heap, with the cleaner that runs when it is freed.
    OffHeap {
        bytes: Box<[u8]>,
        cleaner: Option<Cleaner>,
        may_wrap: bool,
    },
    /// Memory of another owner.
    Foreign(Foreign),
}

/// Shared bytes: each access goes through a pointer, because a reference kept between two accesses
/// would forbid the changes that others make meanwhile.
struct Foreign {
    first: NonNull<u8>,
    size: usize,
    kind: ForeignKind,
    /// Keeps the bytes in place.
    _keeper: Box<dyn Any + Send>,
}

// SAFETY: the keeper may move to another thread, and so may an address; that nobody else touches
// the bytes during an access is promised to `MemorySegment::wrap_foreign`, whatever the thread.
unsafe impl Send for Foreign {}

impl Foreign {
    fn bytes(&self) -> &[u8] {
        // SAFETY: `wrap_foreign` was promised initialised bytes that stay while the keeper does,
        // and that nobody writes to them while this borrow of the segment lasts.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.size) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; that nobody reads them either was promised as well.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.size) }
    }
}

/// Kind of the memory in [`MemorySegment::wrap_foreign`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignKind {
    /// On the heap.
    Heap,
    /// Off the heap.
    OffHeap,
    /// Off the heap, and not to be viewed.
    Unsafe,
}

/// A memory segment, on the heap or off it.
///
/// `size` stays readable after [`free`](Self::free); everything else raises
/// [`SegmentError::Freed`].
pub struct MemorySegment {
    backing: Option<Backing>,
    size: usize,
    owner: Option<u64>,
    /// True if a second `free` is an error, for tests of ownership.
    strict_free: bool,
}

impl MemorySegment {
    /// Creates a segment over an array, without copying it.
    #[must_use]
    pub fn wrap_array(array: Vec<u8>) -> Self {
        let size = array.len();
        Self::with_backing(Backing::Heap(array), size)
    }

    /// Creates a segment over a copy of `array[start..end]`.
    ///
    /// # Errors
    ///
    /// [`SegmentError::OutOfBounds`] unless `start <= end <= array.len()`.
    pub fn wrap_copy(array: &[u8], start: usize, end: usize) -> Result<Self, SegmentError> {
        match array.get(start..end) {
            Some(part) => Ok(Self::wrap_array(part.to_vec())),
            None => Err(out_of_bounds(start, end.saturating_sub(start), array.len())),
        }
    }

    /// Creates a segment of the four bytes of `value`, big endian.
    #[must_use]
    pub fn wrap_int(value: i32) -> Self {
        Self::wrap_array(value.to_be_bytes().to_vec())
    }

    /// Creates a new zeroed segment on the heap.
    #[must_use]
    pub fn allocate_heap(size: usize) -> Self {
        Self::wrap_array(vec![0; size])
    }

    /// Creates a new zeroed segment off the heap.
    #[must_use]
    pub fn allocate_off_heap(size: usize) -> Self {
        let bytes = vec![0; size].into_boxed_slice();
        Self::with_backing(
            Backing::OffHeap {
                bytes,
                cleaner: None,
                may_wrap: true,
            },
            size,
        )
    }

    /// Creates a new zeroed segment off the heap whose memory must not be viewed, with a cleaner
    /// that runs once when it is freed.
    #[must_use]
    pub fn allocate_unsafe(size: usize, cleaner: Cleaner) -> Self {
        let bytes = vec![0; size].into_boxed_slice();
        let backing = Backing::OffHeap {
            bytes,
            cleaner: Some(cleaner),
            may_wrap: false,
        };
        Self::with_backing(backing, size)
    }

    /// Creates a segment over shared memory: `size` bytes from `first`, which `keeper` keeps in
    /// place until it is dropped, by [`free`](Self::free) or with the segment.
    ///
    /// # Safety
    ///
    /// Until `keeper` is dropped the bytes are initialised, readable and writable at that place.
    /// While a method of the segment runs, and while a slice that it returned is in use, nobody
    /// else writes to them; nor reads them, if the segment was borrowed mutably.  This holds for
    /// other segments over the same bytes as well: see [`overlaps`](Self::overlaps).
    #[must_use]
    pub unsafe fn wrap_foreign(
        first: NonNull<u8>,
        size: usize,
        kind: ForeignKind,
        keeper: Box<dyn Any + Send>,
    ) -> Self {
        let foreign = Foreign {
            first,
            size,
            kind,
            _keeper: keeper,
        };
        Self::with_backing(Backing::Foreign(foreign), size)
    }

    /// Returns whether a byte belongs to both segments.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self.bytes(THIS), other.bytes(OTHER)) {
            (Ok(mine), Ok(theirs)) => {
                let (mine, theirs) = (mine.as_ptr_range(), theirs.as_ptr_range());
                mine.start < theirs.end && theirs.start < mine.end
            }
            _ => false,
        }
    }

    fn with_backing(backing: Backing, size: usize) -> Self {
        Self {
            backing: Some(backing),
            size,
            owner: None,
            strict_free: false,
        }
    }

    /// Attaches the number of an owner.
    #[must_use]
    pub fn with_owner(mut self, owner: u64) -> Self {
        self.owner = Some(owner);
        self
    }

    /// Makes a second [`free`](Self::free) an error instead of a no-op.
    #[must_use]
    pub fn with_strict_free(mut self) -> Self {
        self.strict_free = true;
        self
    }

    /// Returns the number of the owner, if one is attached.
    #[must_use]
    pub fn owner(&self) -> Option<u64> {
        self.owner
    }

    /// Returns the number of bytes of the segment, freed or not.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns whether [`free`](Self::free) was called.
    #[must_use]
    pub fn is_freed(&self) -> bool {
        self.backing.is_none()
    }

    /// Returns whether the memory is off the heap.
    ///
    /// # Errors
    ///
    /// [`SegmentError::Freed`].
    pub fn is_off_heap(&self) -> Result<bool, SegmentError> {
        match &self.backing {
            Some(Backing::Heap(_)) => Ok(false),
            Some(Backing::OffHeap { .. }) => Ok(true),
            Some(Backing::Foreign(foreign)) => Ok(foreign.kind != ForeignKind::Heap),
            None => Err(SegmentError::Freed { which: THIS }),
        }
    }

    /// Frees the memory and runs the cleaner; a second call does nothing.
    ///
    /// # Errors
    ///
    /// [`SegmentError::IllegalState`] at the second call, if strict.
    pub fn free(&mut self) -> Result<(), SegmentError> {
        match self.backing.take() {
            Some(Backing::OffHeap {
                cleaner: Some(cleaner),
                ..
            }) => cleaner(),
            None if self.strict_free => {
                return Err(SegmentError::IllegalState(
                    "a segment can be freed only once",
                ));
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the array of a segment on the heap.
    ///
    /// # Errors
    ///
    /// [`SegmentError::IllegalState`] off the heap; [`SegmentError::Freed`].
    pub fn array(&self) -> Result<&[u8], SegmentError> {
        if self.is_off_heap()? {
            return Err(SegmentError::IllegalState(
                "a segment off the heap has no array",
            ));
        }
        self.bytes(THIS)
    }

    /// Returns the memory of a segment off the heap.
    ///
    /// # Errors
    ///
    /// [`SegmentError::IllegalState`] on the heap; [`SegmentError::Freed`].
    pub fn off_heap_buffer(&self) -> Result<&[u8], SegmentError> {
        if !self.is_off_heap()? {
            return Err(SegmentError::IllegalState(
                "a segment on the heap has no off-heap buffer",
            ));
        }
        self.bytes(THIS)
    }

    /// Returns a view of part of the segment.
    ///
    /// # Errors
    ///
    /// [`SegmentError::Unsupported`] for memory that must not be viewed;
    /// [`SegmentError::Freed`]; [`SegmentError::OutOfBounds`].
    pub fn wrap(&mut self, offset: usize, length: usize) -> Result<&mut [u8], SegmentError> {
        let may_wrap = match &self.backing {
            Some(Backing::OffHeap { may_wrap, .. }) => *may_wrap,
            Some(Backing::Foreign(foreign)) => foreign.kind != ForeignKind::Unsafe,
            Some(Backing::Heap(_)) | None => true,
        };
        if !may_wrap {
            return Err(SegmentError::Unsupported("unsafe memory cannot be wrapped"));
        }
        self.range_mut(offset, length, THIS)
    }

    fn bytes(&self, which: &'static str) -> Result<&[u8], SegmentError> {
        match &self.backing {
            Some(Backing::Heap(array)) => Ok(array),
            Some(Backing::OffHeap { bytes, .. }) => Ok(bytes),
            Some(Backing::Foreign(foreign)) => Ok(foreign.bytes()),
            None => Err(SegmentError::Freed { which }),
        }
    }

    fn bytes_mut(&mut self, which: &'static str) -> Result<&mut [u8], SegmentError> {
        match &mut self.backing {
            Some(Backing::Heap(array)) => Ok(array),
            Some(Backing::OffHeap { bytes, .. }) => Ok(bytes),
            Some(Backing::Foreign(foreign)) => Ok(foreign.bytes_mut()),
            None => Err(SegmentError::Freed { which }),
        }
    }

    fn range(
        &self,
        index: usize,
        length: usize,
        which: &'static str,
    ) -> Result<&[u8], SegmentError> {
        let bytes = self.bytes(which)?;
        let end = end_of(index, length, bytes.len())?;
        Ok(&bytes[index..end])
    }

    fn range_mut(
        &mut self,
        index: usize,
        length: usize,
        which: &'static str,
    ) -> Result<&mut [u8], SegmentError> {
        let bytes = self.bytes_mut(which)?;
        let end = end_of(index, length, bytes.len())?;
        Ok(&mut bytes[index..end])
    }
}

impl Drop for MemorySegment {
    fn drop(&mut self) {
        if let Some(Backing::OffHeap {
            cleaner: Some(cleaner),
            ..
        }) = self.backing.take()
        {
            cleaner();
        }
    }
}

impl fmt::Debug for MemorySegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemorySegment")
            .field("size", &self.size)
            .field("freed", &self.is_freed())
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

/// Returns the end of `index..+length`, if it lies in `size` bytes; never wraps around.
fn end_of(index: usize, length: usize, size: usize) -> Result<usize, SegmentError> {
    match index.checked_add(length) {
        Some(end) if end <= size => Ok(end),
        _ => Err(out_of_bounds(index, length, size)),
    }
}

fn out_of_bounds(index: usize, length: usize, size: usize) -> SegmentError {
    // Callers count in signed numbers, so show their negative values as such.
    let show = |value: usize| (value as u64).cast_signed();
    SegmentError::OutOfBounds {
        index: show(index),
        length: show(length),
        size: show(size),
    }
}
