//! Buffer sizes that allow processing all in-flight data in a target time.
//!
//! Pure arithmetic: the caller measures the throughput and applies the sizes.

/// The bounds and parameters of a [`BufferDebloater`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DebloatOptions {
    /// Time in which all in-flight data should be processed, in milliseconds.
    pub target_ms: u64,
    /// The smallest buffer size, in bytes.
    pub min_bytes: u32,
    /// The largest buffer size, in bytes: that of a segment.
    pub max_bytes: u32,
    /// The size before the first measurement, in bytes.
    pub start_bytes: u32,
    /// The change below which a new size is not announced, in percent of the announced one.
    pub threshold_percent: u32,
    /// Number of samples in the moving average.
    pub samples: u32,
}

impl DebloatOptions {
    /// Returns the defaults for segments of `max_bytes` bytes.
    #[must_use]
    pub const fn new(max_bytes: u32) -> Self {
        Self {
            target_ms: 1_000,
            min_bytes: 256,
            max_bytes,
            start_bytes: 1_024,
            threshold_percent: 25,
            samples: 20,
        }
    }
}

/// The exponential moving average of buffer sizes.
#[derive(Clone, Debug)]
pub struct BufferSizeEma {
    last: f64,
    alpha: f64,
    min: f64,
    max: f64,
}

impl BufferSizeEma {
    /// Creates an average that starts at `start` bytes, spans `samples` and stays in `min..=max`.
    #[must_use]
    pub fn new(start: u32, min: u32, max: u32, samples: u32) -> Self {
        Self {
            last: f64::from(start),
            alpha: 2.0 / (f64::from(samples) + 1.0),
            min: f64::from(min),
            max: f64::from(max),
        }
    }

    /// Returns the new size when `total_bytes` should be in flight in `buffers` buffers.
    pub fn calculate(&mut self, total_bytes: u64, buffers: u32) -> u32 {
        let wanted = total_bytes as f64 / f64::from(buffers.max(1));
        // Growth is limited to doubling, so that one fast moment does not bloat the buffers.
        let wanted = wanted.min(2.0 * self.last);
        self.last += self.alpha * (wanted - self.last);
        self.last = self.last.clamp(self.min, self.max);
        self.last.round() as u32
    }
}

/// Decides which buffer sizes a gate announces to its channels.
#[derive(Clone, Debug)]
pub struct BufferDebloater {
    options: DebloatOptions,
    average: BufferSizeEma,
    announced: u32,
    drain_ms: u64,
}

impl BufferDebloater {
    /// Creates a debloater that has announced the start size, kept within the bounds.
    #[must_use]
    pub fn new(options: DebloatOptions) -> Self {
        let DebloatOptions {
            min_bytes,
            max_bytes,
            start_bytes,
            samples,
            ..
        } = options;
        Self {
            options,
            average: BufferSizeEma::new(start_bytes, min_bytes, max_bytes, samples),
            announced: max_bytes,
            drain_ms: 0,
        }
    }

    /// Returns the size to announce, if it should change.
    ///
    /// `bytes_per_second` is the throughput while there was input, `buffers_in_use` the sum over
    /// the gate's channels, and `share` the part of the target time that it may take, up to 1.
    pub fn recalculate(
        &mut self,
        bytes_per_second: u64,
        buffers_in_use: u32,
        share: f64,
    ) -> Option<u32> {
        let buffers = buffers_in_use.max(1);
        let whole = bytes_per_second.saturating_mul(self.options.target_ms) / 1_000;
        let desired = (whole as f64 * share) as u64;
        let size = self.average.calculate(desired, buffers);
        let in_flight = u64::from(size) * u64::from(buffers);
        self.drain_ms = in_flight.saturating_mul(1_000) / bytes_per_second.max(1);
        if self.skips(size) {
            return None;
        }
        self.announced = size;
        Some(size)
    }

    /// Returns the size announced last, in bytes.
    #[must_use]
    pub fn announced_bytes(&self) -> u32 {
        self.announced
    }

    /// Returns the time to process all in-flight data at the measured pace, in milliseconds.
    #[must_use]
    pub fn estimated_drain_ms(&self) -> u64 {
        self.drain_ms
    }

    fn skips(&self, size: u32) -> bool {
        if size == self.announced {
            return true;
        }
        if size <= self.options.min_bytes || size >= self.options.max_bytes {
            return false;
        }
        let threshold = u64::from(self.announced) * u64::from(self.options.threshold_percent) / 100;
        u64::from(size.abs_diff(self.announced)) < threshold
    }
}

/// Bytes per second while there is input.
#[derive(Clone, Debug, Default)]
pub struct ThroughputCalculator {
    bytes: u64,
    measured_ms: u64,
    /// When the current measurement began; `None` while idle.
    since_ms: Option<u64>,
    last_bytes_per_second: u64,
}

impl ThroughputCalculator {
    /// Counts bytes that were processed.
    pub fn count(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Pauses the measurement at `now_ms`, as the input is empty.
    pub fn pause(&mut self, now_ms: u64) {
        if let Some(since) = self.since_ms.take() {
            self.measured_ms += now_ms.saturating_sub(since);
        }
    }

    /// Resumes the measurement at `now_ms`, as there is input again.
    pub fn resume(&mut self, now_ms: u64) {
        self.since_ms.get_or_insert(now_ms);
    }

    /// Returns the throughput since the last call, or the previous one if no time has passed.
    pub fn calculate(&mut self, now_ms: u64) -> u64 {
        if let Some(since) = self.since_ms {
            self.measured_ms += now_ms.saturating_sub(since);
            self.since_ms = Some(now_ms);
        }
        if let Some(pace) = self
            .bytes
            .saturating_mul(1_000)
            .checked_div(self.measured_ms)
        {
            self.last_bytes_per_second = pace;
        }
        self.bytes = 0;
        self.measured_ms = 0;
        self.last_bytes_per_second
    }
}

#[cfg(test)]
mod tests {
    use super::{BufferDebloater, BufferSizeEma, DebloatOptions, ThroughputCalculator};

    fn debloater(target_ms: u64, min_bytes: u32, max_bytes: u32) -> BufferDebloater {
        BufferDebloater::new(DebloatOptions {
            target_ms,
            min_bytes,
            max_bytes,
            start_bytes: max_bytes,
            samples: 1,
            ..DebloatOptions::new(max_bytes)
        })
    }

    /// Target time, bounds, buffers in use and bytes per second → announced size.
    #[test]
    fn worked_examples() {
        let cases = [
            (1000, 50, 2400, 0, 1200, Some(1200)),
            (1200, 50, 1100, 16, 3333, Some(250)),
            (1200, 250, 1100, 16, 3333, Some(250)),
            (1200, 50, 1100, 16, 0, Some(50)),
            (7, 50, 1100, 16, 3333, Some(50)),
            (1200, 50, 248, 16, 3333, None),
            (1200, 50, 250, 16, 3333, None),
        ];
        for (target, min, max, buffers, pace, expected) in cases {
            let mut debloater = debloater(target, min, max);
            assert_eq!(
                debloater.recalculate(pace, buffers, 1.0),
                expected,
                "{target} {min} {max}"
            );
        }
    }

    /// A change below the threshold is not announced, unless it reaches a bound.
    #[test]
    fn small_changes_are_not_announced() {
        let mut debloater = debloater(1000, 50, 2400);
        assert_eq!(debloater.recalculate(1000, 1, 1.0), Some(1000));
        assert_eq!(debloater.recalculate(1249, 1, 1.0), None);
        assert_eq!(debloater.recalculate(751, 1, 1.0), None);
        assert_eq!(debloater.recalculate(1250, 1, 1.0), Some(1250));
        assert_eq!(debloater.recalculate(50, 1, 1.0), Some(50));
        assert_eq!(debloater.estimated_drain_ms(), 1000);
    }

    /// A gate that has a part of the target time only announces less.
    #[test]
    fn share_of_the_target() {
        let mut debloater = debloater(1000, 50, 2400);
        assert_eq!(debloater.recalculate(8000, 4, 0.25), Some(500));
        assert_eq!(debloater.estimated_drain_ms(), 250);
    }

    /// The average moves by its weight and grows by at most a factor of two.
    #[test]
    fn average_is_damped() {
        let mut average = BufferSizeEma::new(200, 10, 1000, 3);
        assert_eq!(average.calculate(111, 1), 156);
        assert_eq!(average.calculate(107, 1), 131);
        assert_eq!(average.calculate(10_000, 1), 197);
        assert_eq!(average.calculate(0, 1), 98);
    }

    /// Idle time does not count, and no time at all repeats the previous value.
    #[test]
    fn throughput_counts_busy_time() {
        let mut throughput = ThroughputCalculator::default();
        throughput.resume(0);
        throughput.count(6666);
        throughput.pause(1);
        throughput.resume(101);
        assert_eq!(throughput.calculate(102), 3_333_000);
        throughput.count(5);
        assert_eq!(throughput.calculate(102), 3_333_000);
        throughput.count(10);
        assert_eq!(throughput.calculate(112), 1_000);
    }
}
