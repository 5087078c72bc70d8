//! Notifications that are put off while many subpartitions change at once.

use crate::sync::Arc;

/// Somebody who has been left news and looks at all of them when rung.
pub(crate) trait Doorbell: Send + Sync {
    /// Makes the news known.
    fn ring(&self);
}

/// The doorbells that wait for the end of a batch.
///
/// A thousand subpartitions read over one connection then cost one wake-up of the thread that
/// serves it.
#[derive(Default)]
pub(crate) struct Wakeups {
    /// Each once, with whether it is owed a ring.
    bells: Vec<(Arc<dyn Doorbell>, bool)>,
}

impl Wakeups {
    /// Notes that `bell` is owed a ring; the first one in a batch that is `urgent` is rung at
    /// once, so that the first priority event is on its way while the others are made.
    pub(crate) fn owe(&mut self, bell: Arc<dyn Doorbell>, urgent: bool) {
        let known = self.bells.iter_mut();
        if let Some((_, owed)) = known
            .into_iter()
            .find(|(known, _)| Arc::ptr_eq(known, &bell))
        {
            *owed = true;
            return;
        }
        if urgent {
            bell.ring();
        }
        self.bells.push((bell, !urgent));
    }

    /// The batch is complete: rings whoever is owed it.
    pub(crate) fn ring(self) {
        for (bell, owed) in self.bells {
            if owed {
                bell.ring();
            }
        }
    }
}
