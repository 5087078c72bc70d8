//! The extension module `penstock._core`.
