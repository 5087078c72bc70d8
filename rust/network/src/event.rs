//! Serialized events of internals M12, as far as the data plane itself writes or reads them.
//!
//! Every event is `i32 BE type id` followed by its fields; the data plane forwards events as bytes
//! and itself writes only the ends of partitions and of recovered data.

use crate::error::{Error, Result};

/// Type id of `EndOfPartition`.
pub const END_OF_PARTITION: i32 = 0;
/// Type id of `CheckpointBarrier`.
pub const CHECKPOINT_BARRIER: i32 = 1;
/// Type id of `EndOfSuperstep`.
pub const END_OF_SUPERSTEP: i32 = 2;
/// Type id of an event outside the fixed table.
pub const OTHER_EVENT: i32 = 3;
/// Type id of `CancelCheckpointMarker`.
pub const CANCEL_CHECKPOINT_MARKER: i32 = 4;
/// Type id of `EndOfChannelState`.
pub const END_OF_CHANNEL_STATE: i32 = 5;
/// Type id of `EventAnnouncement`.
pub const EVENT_ANNOUNCEMENT: i32 = 6;
/// Type id of `SubtaskConnectionDescriptor`.
pub const SUBTASK_CONNECTION_DESCRIPTOR: i32 = 7;
/// Type id of `EndOfData`.
pub const END_OF_DATA: i32 = 8;
/// Type id of `EndOfSegment`.
pub const END_OF_SEGMENT: i32 = 9;
/// Type id of `RecoveryMetadata`.
pub const RECOVERY_METADATA: i32 = 10;

/// The bytes of an `EndOfPartition` event.
pub const END_OF_PARTITION_BYTES: [u8; 4] = END_OF_PARTITION.to_be_bytes();
/// The bytes of an `EndOfChannelState` event.
pub const END_OF_CHANNEL_STATE_BYTES: [u8; 4] = END_OF_CHANNEL_STATE.to_be_bytes();

/// Largest event accepted, in bytes: barriers carry at most a savepoint path.
pub const MAX_EVENT_BYTES: usize = 10 << 20;

/// Returns the type id of a serialized event.
///
/// # Errors
/// `CorruptStream` if there are fewer than four bytes or the id is unknown.
pub fn event_type(event: &[u8]) -> Result<i32> {
    let Some((id, _)) = event.split_first_chunk::<4>() else {
        return Err(Error::CorruptStream(format!(
            "incomplete event: {} of 4 bytes",
            event.len()
        )));
    };
    let id = i32::from_be_bytes(*id);
    if !(END_OF_PARTITION..=RECOVERY_METADATA).contains(&id) {
        return Err(Error::CorruptStream(format!("unknown event type {id}")));
    }
    Ok(id)
}

/// Returns the checkpoint of a serialized `CheckpointBarrier`, or `None` for another event.
#[must_use]
pub fn barrier_id(event: &[u8]) -> Option<i64> {
    let (kind, rest) = event.split_first_chunk()?;
    let id = rest.first_chunk()?;
    (i32::from_be_bytes(*kind) == CHECKPOINT_BARRIER).then(|| i64::from_be_bytes(*id))
}

/// Serializes an `EventAnnouncement` of `event`, which travels with `sequence_number`.
#[must_use]
pub fn announcement(sequence_number: i32, event: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + event.len());
    bytes.extend_from_slice(&EVENT_ANNOUNCEMENT.to_be_bytes());
    bytes.extend_from_slice(&sequence_number.to_be_bytes());
    bytes.extend_from_slice(event);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_incomplete_and_unknown_events() {
        assert!(matches!(
            event_type(&[0, 0, 0]),
            Err(Error::CorruptStream(_))
        ));
        assert!(matches!(
            event_type(&11i32.to_be_bytes()),
            Err(Error::CorruptStream(_))
        ));
        assert_eq!(event_type(&END_OF_PARTITION_BYTES), Ok(END_OF_PARTITION));
    }

    #[test]
    fn knows_the_checkpoint_of_a_barrier() {
        let mut event = [0; 24];
        event[3] = 1;
        event[11] = 7;
        assert_eq!(barrier_id(&event), Some(7));
        event[3] = 4;
        assert_eq!(barrier_id(&event), None);
        assert_eq!(barrier_id(&END_OF_PARTITION_BYTES), None);
    }

    #[test]
    fn announces_with_the_sequence_number_in_front() {
        assert_eq!(announcement(7, &[1, 2]), [0, 0, 0, 6, 0, 0, 0, 7, 1, 2]);
    }
}
