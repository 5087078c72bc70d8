//! The memory of a network pool: one region, cut into segments.
//!
//! It is zeroed by the system, page by page as pages are first touched, so a pool costs neither
//! time nor resident memory before its segments are used.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::ptr::NonNull;

/// Alignment of segments: one cache line, so that neighbours do not share one.
const SEGMENT_ALIGNMENT: usize = 64;
/// Alignment of the first segment, and of all whose size is a multiple of it: copies between
/// addresses that differ by a few bytes modulo a page are many times slower.
const PAGE_BYTES: usize = 4 << 10;
/// Alignment asked of the allocator.  More than this makes it write the zeros itself.
const ALLOCATOR_ALIGNMENT: usize = 16;

/// Zeroed memory for a number of segments of one size.
pub(crate) struct SegmentRegion {
    allocation: NonNull<u8>,
    layout: Layout,
    /// Bytes from the start of one segment to that of the next.
    stride: usize,
}

// SAFETY: the region is plain memory that belongs to no thread.
unsafe impl Send for SegmentRegion {}
// SAFETY: as above; who may access which bytes is decided by the slots.
unsafe impl Sync for SegmentRegion {}

impl SegmentRegion {
    /// Allocates `count` segments of `size` bytes; `None` if there is no such memory.
    pub(crate) fn allocate(count: usize, size: u32) -> Option<Self> {
        let stride = (size as usize).next_multiple_of(SEGMENT_ALIGNMENT);
        let bytes = stride.checked_mul(count)?.checked_add(PAGE_BYTES)?;
        let layout = Layout::from_size_align(bytes, ALLOCATOR_ALIGNMENT).ok()?;
        // SAFETY: the layout is at least one page large.
        let allocation = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self {
            allocation,
            layout,
            stride,
        })
    }

    /// First byte of segment `index`.
    pub(crate) fn segment(&self, index: usize) -> NonNull<u8> {
        let start = self.allocation.align_offset(PAGE_BYTES) + index * self.stride;
        debug_assert!(start + self.stride <= self.layout.size());
        // SAFETY: the allocation is one page larger than its segments.
        unsafe { self.allocation.add(start) }
    }
}

impl Drop for SegmentRegion {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated with this layout and is freed once.
        unsafe { dealloc(self.allocation.as_ptr(), self.layout) };
    }
}

impl fmt::Debug for SegmentRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SegmentRegion")
            .field("bytes", &self.layout.size())
            .finish_non_exhaustive()
    }
}
