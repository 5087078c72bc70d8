//! Notifications that are deferred while many subpartitions change at once.

use crate::sync::Arc;

/// A receiver of news that processes all of them when rung.
pub(crate) trait Doorbell: Send + Sync {
    /// Leaves news of these readers, removing them from `readers`; returns whether a ring is owed.
    fn leave(&self, readers: &mut Vec<u32>) -> bool;
    /// Wakes the thread that handles the news.
    fn ring(&self);
}

/// The doorbells to ring at the end of a batch.
///
/// A thousand subpartitions read over one connection then cost one wake-up of its thread, and its
/// lock is taken once for successive ones.
#[derive(Default)]
pub(crate) struct Wakeups {
    /// Each once.
    bells: Vec<Owed>,
}

struct Owed {
    bell: Arc<dyn Doorbell>,
    /// True if it is owed a ring.
    ring: bool,
    /// Readers whose news are not yet left.
    readers: Vec<u32>,
}

impl Wakeups {
    /// Notes news of a reader for `bell`; the first `urgent` one in a batch rings at once, so that
    /// the first priority event travels while the others are created.
    pub(crate) fn owe<B: Doorbell + 'static>(&mut self, bell: &Arc<B>, reader: u32, urgent: bool) {
        let is_same = |owed: &Owed| std::ptr::addr_eq(Arc::as_ptr(&owed.bell), Arc::as_ptr(bell));
        if let Some(last) = self.bells.last_mut()
            && is_same(last)
        {
            last.readers.push(reader);
            return;
        }
        let mut readers = vec![reader];
        if !bell.leave(&mut readers) {
            return;
        }
        if let Some(known) = self.bells.iter_mut().find(|owed| is_same(owed)) {
            known.ring = true;
            return;
        }
        if urgent {
            bell.ring();
        }
        let bell: Arc<dyn Doorbell> = Arc::<B>::clone(bell);
        self.bells.push(Owed {
            bell,
            ring: !urgent,
            readers,
        });
    }

    /// Ends the batch: rings every bell that is owed a ring.
    pub(crate) fn ring(self) {
        for mut owed in self.bells {
            let left = !owed.readers.is_empty() && owed.bell.leave(&mut owed.readers);
            if owed.ring || left {
                owed.bell.ring();
            }
        }
    }
}
