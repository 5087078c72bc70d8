//! Messages of a gate to the producers of its channels.

use super::super::input_channel::InputChannel;
use super::{SingleInputGate, closed};
use crate::error::{Error, Result};
use crate::partition::check_task_event;
use crate::sync::Arc;
use crate::transport::Command;

impl SingleInputGate {
    pub(crate) fn resume_consumption(&self, channel: usize) -> Result<()> {
        self.resume_all(&[channel])
    }

    pub(crate) fn resume_all(&self, channels: &[usize]) -> Result<()> {
        let state = self.state.lock();
        if state.closed {
            return Err(closed());
        }
        if let Some(channel) = channels
            .iter()
            .find(|&&channel| state.ended.get(channel) == Some(&true))
        {
            let message = format!("channel {channel} has ended");
            return Err(Error::IllegalState(message));
        }
        drop(state);
        let mut remotes = Vec::new();
        let resumed = channels
            .iter()
            .try_for_each(|&channel| match self.channels.get(channel) {
                Some(InputChannel::Local(local)) => local.resume_consumption(),
                Some(InputChannel::Remote(remote)) => {
                    remotes.push(Arc::clone(remote));
                    Ok(())
                }
                None => Err(self.no_such(channel)),
            });
        // A single message to the I/O thread, which wakes once.
        if let (Some(transport), false) = (self.transport(), remotes.is_empty()) {
            transport.post(Command::Resume(remotes));
        }
        resumed
    }

    /// Sends a task event to the producer of every channel that has not ended.
    pub(crate) fn send_task_event(&self, event: &[u8]) -> Result<()> {
        check_task_event(event)?;
        let state = self.state.lock();
        if state.closed {
            return Err(closed());
        }
        if !state.requested {
            return Err(Error::IllegalState(
                "a task event before the partitions were requested".into(),
            ));
        }
        let ended = state.ended.clone();
        drop(state);
        for (channel, ended) in self.channels.iter().zip(ended) {
            match channel {
                _ if ended => {}
                InputChannel::Local(channel) => {
                    channel.send_task_event(event.to_vec(), &self.environment);
                }
                InputChannel::Remote(channel) => channel.send_task_event(event.to_vec()),
            }
        }
        Ok(())
    }
}
