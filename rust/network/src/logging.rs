//! Output of the data plane's log lines.
//!
//! The crate logs through the `log` facade.  A host without its own Rust logger installs a sink: a
//! function called with level and text, on the logging thread, so it must not block.

use crate::error::{Error, Result};

/// Receives a level and a text.
pub type Sink = Box<dyn Fn(log::Level, &str) + Send + Sync>;

struct SinkLogger(Sink);

impl log::Log for SinkLogger {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target().starts_with("penstock")
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            (self.0)(record.level(), &record.args().to_string());
        }
    }

    fn flush(&self) {}
}

/// Sends log lines of at least `level` to `sink`, for the life of the process.
///
/// # Errors
/// `IllegalState` if the process already has a logger.
pub fn install(level: log::LevelFilter, sink: Sink) -> Result<()> {
    log::set_boxed_logger(Box::new(SinkLogger(sink)))
        .map_err(|_| Error::IllegalState("the process has a logger already".into()))?;
    log::set_max_level(level);
    Ok(())
}
