//! Objects with threads, sockets or files, which belong to the process that made them.
//!
//! A forked child has a copy of such an object, without its threads.  If the child closed or dropped
//! the copy, it would wait for threads that it does not have, or for locks that they held, write to
//! sockets of its parent, and remove its parent's files.

use std::mem::ManuallyDrop;
use std::ops::Deref;

/// A value that a forked child leaves alone.
#[derive(Debug)]
pub(crate) struct Home<T> {
    value: ManuallyDrop<T>,
    process: u32,
}

impl<T> Home<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: ManuallyDrop::new(value),
            process: std::process::id(),
        }
    }

    /// Returns whether this process is not the one that made the value.
    pub(crate) fn is_left(&self) -> bool {
        std::process::id() != self.process
    }
}

impl<T> Deref for Home<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for Home<T> {
    fn drop(&mut self) {
        if !self.is_left() {
            // SAFETY: the value is dropped here alone, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}
