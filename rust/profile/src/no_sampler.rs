use crate::{FrameLayout, Look, ProfileError, Thread};

/// Sampler of platforms on which threads cannot be inspected.
#[derive(Debug)]
pub enum Sampler {}

impl Sampler {
    /// # Errors
    ///
    /// [`ProfileError::Platform`].
    pub fn new(_layout: FrameLayout) -> Result<Self, ProfileError> {
        Err(ProfileError::Platform)
    }

    /// Cannot be called, as there is none.
    pub fn look(&mut self, _threads: &[Thread]) -> Vec<Option<Look>> {
        match *self {}
    }

    /// Cannot be called, as there is none.
    pub fn name(&mut self, _address: u64) -> (String, String) {
        match *self {}
    }
}
