//! The free list of a network pool.

use crate::availability::{AvailabilityHelper, Signal};
use crate::region::SegmentRegion;
use crate::shared_memory::SharedMemory;
use crate::slot::SlotRef;
use crate::sync::Arc;

/// The right by which a requester takes a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The segment was promised to the requester.
    Promised,
    /// The segment was probably promised to the requester; the network pool settles it afterwards.
    Reserved,
    /// The segment was promised to nobody else.
    Surplus,
}

/// The signals to complete after a change, once the list's lock is released.
pub(crate) type Signals = [Option<Arc<Signal>>; 2];

pub(crate) fn complete(signals: Signals) {
    for signal in signals.into_iter().flatten() {
        signal.complete();
    }
}

/// The free segments, and the number of them that are owed.
pub(crate) struct FreeSegments {
    pub(crate) segments: Vec<SlotRef>,
    /// Promised segments that their owners have not yet taken.
    pub(crate) owed: usize,
    /// True if a segment is free.
    pub(crate) availability: AvailabilityHelper,
    /// True if a free segment is owed to nobody.
    pub(crate) surplus: AvailabilityHelper,
    pub(crate) destroyed: bool,
    /// The memory of all segments; `None` once a destroyed pool has all of them back.
    region: Option<SegmentRegion>,
    /// Segments returned since the pool was destroyed.
    returned: usize,
}

impl FreeSegments {
    /// Creates the free list of all segments of a pool, with their memory `region`.
    pub(crate) fn new(segments: Vec<SlotRef>, region: SegmentRegion) -> Self {
        let available = !segments.is_empty();
        Self {
            segments,
            owed: 0,
            availability: AvailabilityHelper::new(available),
            surplus: AvailabilityHelper::new(available),
            destroyed: false,
            region: Some(region),
            returned: 0,
        }
    }

    pub(crate) fn take(&mut self, claim: Claim) -> Option<SlotRef> {
        if claim == Claim::Surplus && self.segments.len() <= self.owed {
            return None;
        }
        let slot = self.segments.pop()?;
        if claim == Claim::Promised {
            self.owed -= 1;
        }
        let nobody = self.refresh();
        debug_assert!(nobody.iter().all(Option::is_none));
        Some(slot)
    }

    /// Updates both availabilities from the free and owed segments.
    #[must_use]
    pub(crate) fn refresh(&mut self) -> Signals {
        if self.destroyed {
            // Waiting threads must look again and see the end.
            return [self.availability.set(true), self.surplus.set(true)];
        }
        let (available, surplus) = (!self.segments.is_empty(), self.segments.len() > self.owed);
        [self.availability.set(available), self.surplus.set(surplus)]
    }

    /// Returns the memory of the segments, if other processes can read it.
    pub(crate) fn shared_memory(&self) -> Option<Arc<SharedMemory>> {
        self.region.as_ref()?.shared().map(Arc::clone)
    }

    /// Counts segments returned to a destroyed pool; returns the region with the last one.
    pub(crate) fn count_returned(&mut self, count: usize, total: usize) -> Option<SegmentRegion> {
        self.returned += count;
        debug_assert!(self.returned <= total);
        if self.returned == total {
            self.region.take()
        } else {
            None
        }
    }
}
