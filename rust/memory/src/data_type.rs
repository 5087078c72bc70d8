//! Kind of data in a buffer.

use std::fmt;

/// The kind of a buffer.  The ordinal travels on the wire: the order must never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DataType {
    /// No buffer.
    None = 0,
    /// Records, the last of which may continue in the next buffer.
    DataBuffer = 1,
    /// An event without special handling.
    EventBuffer = 2,
    /// An event that overtakes data.
    PrioritizedEventBuffer = 3,
    /// A checkpoint barrier that blocks its channel until it is aligned.
    AlignedCheckpointBarrier = 4,
    /// An aligned barrier that may become unaligned when alignment takes too long.
    TimeoutableAlignedCheckpointBarrier = 5,
    /// The end of recovered channel state.
    RecoveryCompletion = 6,
    /// The end of a segment of a tiered partition.
    EndOfSegment = 7,
    /// Records, the last of which ends with the buffer.
    DataBufferWithClearEnd = 8,
    /// The end of user records; the stream itself goes on.
    EndOfData = 9,
    /// The end of the subpartition.
    EndOfPartition = 10,
    /// Metadata for restoring a subpartition.
    RecoveryMetadata = 11,
}

impl DataType {
    /// All kinds, in the order of their ordinals.
    pub const ALL: [Self; 12] = [
        Self::None,
        Self::DataBuffer,
        Self::EventBuffer,
        Self::PrioritizedEventBuffer,
        Self::AlignedCheckpointBarrier,
        Self::TimeoutableAlignedCheckpointBarrier,
        Self::RecoveryCompletion,
        Self::EndOfSegment,
        Self::DataBufferWithClearEnd,
        Self::EndOfData,
        Self::EndOfPartition,
        Self::RecoveryMetadata,
    ];

    /// Returns the kind with this ordinal, if there is one.
    #[must_use]
    pub fn from_ordinal(ordinal: u8) -> Option<Self> {
        Self::ALL.get(usize::from(ordinal)).copied()
    }

    /// Returns the number of the kind on the wire.
    #[must_use]
    pub const fn ordinal(self) -> u8 {
        self as u8
    }

    /// Returns Flink's name of the kind, for messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::DataBuffer => "DATA_BUFFER",
            Self::EventBuffer => "EVENT_BUFFER",
            Self::PrioritizedEventBuffer => "PRIORITIZED_EVENT_BUFFER",
            Self::AlignedCheckpointBarrier => "ALIGNED_CHECKPOINT_BARRIER",
            Self::TimeoutableAlignedCheckpointBarrier => "TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER",
            Self::RecoveryCompletion => "RECOVERY_COMPLETION",
            Self::EndOfSegment => "END_OF_SEGMENT",
            Self::DataBufferWithClearEnd => "DATA_BUFFER_WITH_CLEAR_END",
            Self::EndOfData => "END_OF_DATA",
            Self::EndOfPartition => "END_OF_PARTITION",
            Self::RecoveryMetadata => "RECOVERY_METADATA",
        }
    }

    /// Returns whether it carries records.
    #[must_use]
    pub const fn is_buffer(self) -> bool {
        matches!(self, Self::DataBuffer | Self::DataBufferWithClearEnd)
    }

    /// Returns whether it carries an event.
    #[must_use]
    pub const fn is_event(self) -> bool {
        !self.is_buffer() && !matches!(self, Self::None)
    }

    /// Returns whether it blocks its channel until the consumer resumes the channel.
    #[must_use]
    pub const fn is_blocking_upstream(self) -> bool {
        matches!(
            self,
            Self::AlignedCheckpointBarrier
                | Self::TimeoutableAlignedCheckpointBarrier
                | Self::RecoveryCompletion
                | Self::EndOfSegment
        )
    }

    /// Returns whether it overtakes queued data.
    #[must_use]
    pub const fn has_priority(self) -> bool {
        matches!(self, Self::PrioritizedEventBuffer)
    }

    /// Returns whether its arrival is announced ahead of the data queued before it.
    #[must_use]
    pub const fn requires_announcement(self) -> bool {
        matches!(self, Self::TimeoutableAlignedCheckpointBarrier)
    }

    /// Returns whether its last record may continue in the next buffer.
    #[must_use]
    pub const fn is_partial_record_allowed(self) -> bool {
        matches!(self, Self::DataBuffer)
    }
}

impl TryFrom<u8> for DataType {
    type Error = UnknownDataType;

    fn try_from(ordinal: u8) -> Result<Self, UnknownDataType> {
        Self::from_ordinal(ordinal).ok_or(UnknownDataType(ordinal))
    }
}

/// An ordinal that no [`DataType`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownDataType(pub u8);

impl fmt::Display for UnknownDataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown buffer data type {}", self.0)
    }
}

impl std::error::Error for UnknownDataType {}

#[cfg(test)]
mod tests {
    use super::DataType;

    /// Ordinals round trip, and the table of kinds × properties is as documented.
    #[test]
    fn properties_follow_the_table() {
        for (ordinal, kind) in (0_u8..).zip(DataType::ALL) {
            assert_eq!(kind.ordinal(), ordinal);
            assert_eq!(DataType::try_from(ordinal), Ok(kind));
            assert!(!(kind.is_buffer() && kind.is_event()));
            assert!(!(kind.has_priority() && kind.requires_announcement()));
        }
        assert!(DataType::try_from(12).is_err());
        let blocking: Vec<u8> = DataType::ALL
            .iter()
            .filter(|kind| kind.is_blocking_upstream())
            .map(|kind| kind.ordinal())
            .collect();
        assert_eq!(blocking, [4, 5, 6, 7]);
        let data: Vec<u8> = DataType::ALL
            .iter()
            .filter(|kind| kind.is_buffer())
            .map(|kind| kind.ordinal())
            .collect();
        assert_eq!(data, [1, 8]);
        assert!(!DataType::None.is_event());
    }
}
