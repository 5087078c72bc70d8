//! The free list of a network pool.

use crate::availability::{AvailabilityHelper, Signal};
use crate::region::SegmentRegion;
use crate::shared_memory::SharedMemory;
use crate::slot::SlotRef;
use crate::sync::Arc;

/// By which right somebody takes a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The segment was promised to the requester.
    Promised,
    /// The segment was probably promised to the requester; the network pool is told afterwards.
    Reserved,
    /// Nobody else was promised it.
    Surplus,
}

/// Whom a change of the free list wakes, once its lock is released.
pub(crate) type Signals = [Option<Arc<Signal>>; 2];

pub(crate) fn complete(signals: Signals) {
    for signal in signals.into_iter().flatten() {
        signal.complete();
    }
}

/// The segments that nobody has, and how many of them are owed.
pub(crate) struct FreeSegments {
    pub(crate) segments: Vec<SlotRef>,
    /// Promised segments that their owners have not taken yet.
    pub(crate) owed: usize,
    /// True if there is a segment.
    pub(crate) availability: AvailabilityHelper,
    /// True if there is a segment that is owed to nobody.
    pub(crate) surplus: AvailabilityHelper,
    pub(crate) destroyed: bool,
    /// The memory of all segments; `None` once the pool is destroyed and has the last one back.
    region: Option<SegmentRegion>,
    /// Segments that are back since the pool was destroyed.
    returned: usize,
}

impl FreeSegments {
    /// All segments of a pool, whose memory `region` is.
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

    /// Brings both availabilities in line with what is free and owed.
    #[must_use]
    pub(crate) fn refresh(&mut self) -> Signals {
        if self.destroyed {
            // Whoever waits shall look again and see the end.
            return [self.availability.set(true), self.surplus.set(true)];
        }
        let (available, surplus) = (!self.segments.is_empty(), self.segments.len() > self.owed);
        [self.availability.set(available), self.surplus.set(surplus)]
    }

    /// The memory of the segments, if other processes can read it.
    pub(crate) fn shared_memory(&self) -> Option<Arc<SharedMemory>> {
        self.region.as_ref()?.shared().map(Arc::clone)
    }

    /// Counts segments that come back to a destroyed pool; gives out the region with the last.
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
