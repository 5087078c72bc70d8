//! The memory of a network pool: one region, cut into segments.
//!
//! The system zeroes it page by page as pages are first touched, so a pool costs neither time nor
//! resident memory before its segments are used.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::ptr::NonNull;

use crate::shared_memory::SharedMemory;
use crate::sync::Arc;

/// Alignment of segments: one cache line, so that neighbours do not share one.
const SEGMENT_ALIGNMENT: usize = 64;
/// Alignment of the first segment, and of all whose size is a multiple of it: copies between
/// addresses that differ by a few bytes modulo a page are many times slower.
const PAGE_BYTES: usize = 4 << 10;
/// Alignment requested of the allocator.  With more, it would write the zeros itself.
const ALLOCATOR_ALIGNMENT: usize = 16;

/// Location of the bytes.
enum Memory {
    /// From the allocator.
    Private {
        allocation: NonNull<u8>,
        layout: Layout,
    },
    /// Memory that other processes can read.
    Shared(Arc<SharedMemory>),
}

/// Zeroed memory for a number of segments of one size.
pub(crate) struct SegmentRegion {
    memory: Memory,
    /// The first segment.
    first: NonNull<u8>,
    /// Bytes between the starts of neighbouring segments.
    stride: usize,
}

// SAFETY: the region is plain memory that belongs to no thread.
unsafe impl Send for SegmentRegion {}
// SAFETY: as above; who may access which bytes is decided by the slots.
unsafe impl Sync for SegmentRegion {}

/// Returns the bytes between the starts of neighbouring segments of `size` bytes.
fn stride(size: u32) -> usize {
    (size as usize).next_multiple_of(SEGMENT_ALIGNMENT)
}

impl SegmentRegion {
    /// Allocates `count` segments of `size` bytes; `None` if there is no such memory.
    pub(crate) fn allocate(count: usize, size: u32) -> Option<Self> {
        let stride = stride(size);
        let bytes = stride.checked_mul(count)?.checked_add(PAGE_BYTES)?;
        let layout = Layout::from_size_align(bytes, ALLOCATOR_ALIGNMENT).ok()?;
        // SAFETY: the layout is at least one page large.
        let allocation = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        // SAFETY: the allocation is one page larger than its segments.
        let first = unsafe { allocation.add(allocation.align_offset(PAGE_BYTES)) };
        Some(Self {
            memory: Memory::Private { allocation, layout },
            first,
            stride,
        })
    }

    /// Allocates `count` segments of `size` bytes that other processes can read.
    ///
    /// # Errors
    /// The error of the operating system.
    pub(crate) fn share(count: usize, size: u32) -> std::io::Result<Self> {
        let stride = stride(size);
        let bytes = stride
            .checked_mul(count)
            .ok_or(std::io::ErrorKind::OutOfMemory)?;
        let memory = SharedMemory::create(bytes)?;
        Ok(Self {
            first: memory.data(),
            memory: Memory::Shared(Arc::new(memory)),
            stride,
        })
    }

    /// Returns the first byte of segment `index`.
    pub(crate) fn segment(&self, index: usize) -> NonNull<u8> {
        // SAFETY: the memory was made for as many segments.
        unsafe { self.first.add(index * self.stride) }
    }

    /// Returns the memory, if other processes can read it.
    pub(crate) fn shared(&self) -> Option<&Arc<SharedMemory>> {
        match &self.memory {
            Memory::Private { .. } => None,
            Memory::Shared(memory) => Some(memory),
        }
    }
}

impl Drop for SegmentRegion {
    fn drop(&mut self) {
        if let Memory::Private { allocation, layout } = self.memory {
            // SAFETY: the memory was allocated with this layout and is freed once.
            unsafe { dealloc(allocation.as_ptr(), layout) };
        }
    }
}

impl fmt::Debug for SegmentRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = match &self.memory {
            Memory::Private { layout, .. } => layout.size(),
            Memory::Shared(memory) => memory.bytes(),
        };
        f.debug_struct("SegmentRegion")
            .field("bytes", &bytes)
            .finish_non_exhaustive()
    }
}
