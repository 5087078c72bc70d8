//! In-flight data of a gate: what a checkpoint stores of it, and what a restored task reads first.

use penstock_memory::{Buffer, DataType};

use super::{SingleInputGate, State, closed};
use crate::error::{Error, Result};
use crate::event::END_OF_CHANNEL_STATE_BYTES;

impl SingleInputGate {
    /// Queues recovered in-flight data of a channel before all data that it will receive, followed
    /// by its end.
    ///
    /// # Errors
    /// `IllegalState` without such a channel or after the partitions were requested, `CancelTask`
    /// if the gate is closed.
    pub(crate) fn recover(&self, channel: usize, buffers: &[Vec<u8>]) -> Result<()> {
        if channel >= self.channels.len() {
            return Err(self.no_such(channel));
        }
        let mut state = self.state.lock();
        if state.closed {
            return Err(closed());
        }
        if state.requested {
            return Err(Error::IllegalState(
                "in-flight data is recovered before the partitions are requested".into(),
            ));
        }
        for bytes in buffers {
            let buffer = Buffer::from_bytes(bytes.clone(), DataType::DataBuffer);
            state.recovered.push_back((channel, buffer));
        }
        let end = Buffer::from_bytes(END_OF_CHANNEL_STATE_BYTES, DataType::RecoveryCompletion);
        state.recovered.push_back((channel, end));
        drop(state);
        self.announce();
        Ok(())
    }

    pub(crate) fn start_persisting(&self, checkpoint: i64) -> Result<()> {
        // Every barrier follows the recovered data, in all channels.
        let mut state = self.state.lock();
        state.kept.iter_mut().for_each(Vec::clear);
        let State {
            recovered, kept, ..
        } = &mut *state;
        for (channel, buffer) in recovered {
            if buffer.data_type().is_buffer() {
                kept[*channel].push(buffer.clone());
            }
        }
        drop(state);
        self.channels
            .iter()
            .try_for_each(|channel| channel.start_persisting(checkpoint))
    }

    pub(crate) fn stop_persisting(&self, checkpoint: i64) {
        for channel in &self.channels {
            channel.stop_persisting(checkpoint);
        }
        self.state.lock().kept.iter_mut().for_each(Vec::clear);
    }

    pub(crate) fn take_persisted(&self, channel: usize) -> Result<(Vec<Vec<u8>>, bool)> {
        let Some(input) = self.channels.get(channel) else {
            return Err(self.no_such(channel));
        };
        let recovered = std::mem::take(&mut self.state.lock().kept[channel]);
        let (live, complete) = input.take_persisted();
        let mut kept: Vec<_> = recovered.iter().map(|buffer| buffer.to_vec()).collect();
        kept.extend(live);
        Ok((kept, complete))
    }
}
