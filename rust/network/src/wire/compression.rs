//! Compression of buffers for other executors.
//!
//! The payload of a compressed buffer is one LZ4 block.  Its original size is not sent: it never
//! exceeds the segment for which the receiver has granted credit, which bounds the output.

use crate::error::{Error, Result};

/// Size below which buffers are not compressed, in bytes.
const MIN_BYTES: usize = 64;

/// Compression of data buffers' payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// LZ4 blocks.
    Lz4,
}

impl Compression {
    /// Parses a value of `taskmanager.network.compression.codec`.
    ///
    /// # Errors
    /// `IllegalState` for any but "none" and "lz4".
    pub fn from_name(name: &str) -> Result<Self> {
        match name.to_ascii_lowercase().as_str() {
            "none" => Ok(Self::None),
            "lz4" => Ok(Self::Lz4),
            _ => Err(Error::IllegalState(format!(
                "no compression codec '{name}'; known are none and lz4"
            ))),
        }
    }

    /// Returns the compressed bytes; `None` if sending the original is better.
    pub(crate) fn compress(self, bytes: &[u8]) -> Option<Vec<u8>> {
        if self == Self::None || bytes.len() < MIN_BYTES {
            return None;
        }
        let compressed = lz4_flex::block::compress(bytes);
        (compressed.len() < bytes.len()).then_some(compressed)
    }
}

/// Decompresses a block into `out` and returns the number of bytes.
///
/// # Errors
/// `CorruptStream` if it is not a block, is empty, or exceeds `out`.
pub fn decompress(block: &[u8], out: &mut [u8]) -> Result<usize> {
    match lz4_flex::block::decompress_into(block, out) {
        Ok(0) => Err(Error::CorruptStream("an empty compressed buffer".into())),
        Ok(count) => Ok(count),
        Err(error) => Err(Error::CorruptStream(format!(
            "a compressed buffer of {} bytes: {error}",
            block.len()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back_and_never_exceed_their_bound() {
        let bytes: Vec<u8> = (0..10_000_u32).map(|at| (at / 50) as u8).collect();
        let block = Compression::Lz4.compress(&bytes).expect("it is repetitive");
        let mut out = vec![0; bytes.len()];
        assert_eq!(decompress(&block, &mut out), Ok(bytes.len()));
        assert_eq!(out, bytes);
        assert!(decompress(&block, &mut out[1..]).is_err());
        assert!(decompress(&block[..block.len() / 2], &mut out).is_err());
        assert!(decompress(&[], &mut out).is_err());
    }

    #[test]
    fn what_does_not_shrink_is_left_alone() {
        let random: [u8; 4096] = crate::framing::random_bytes().expect("random bytes");
        assert_eq!(Compression::Lz4.compress(&random), None);
        assert_eq!(Compression::Lz4.compress(&[0; 10]), None);
        assert_eq!(Compression::None.compress(&[0; 1000]), None);
    }
}
