//! `penstock._core.Heartbeat`.

use std::net::TcpStream;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

use penstock_network::TlsIdentity;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use crate::errors::network_error;

/// Exchanges heartbeats over a connected socket, in a thread that never needs the GIL.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct Heartbeat {
    heartbeat: penstock_network::heartbeat::Heartbeat,
}

#[pymethods]
impl Heartbeat {
    /// Starts the heartbeats over a duplicate of `fd`, so the caller may close its own.
    ///
    /// Sends `opening` first.  With `tls_identity`, a certificate and its key, the connection is
    /// encrypted.
    #[new]
    #[pyo3(signature = (fd, interval_ms, opening = Vec::new(), tls_identity = None))]
    fn new(
        py: Python<'_>,
        fd: RawFd,
        interval_ms: u64,
        opening: Vec<u8>,
        tls_identity: Option<(Vec<u8>, Vec<u8>)>,
    ) -> PyResult<Self> {
        if fd < 0 {
            return Err(PyValueError::new_err("the socket is closed"));
        }
        // SAFETY: the descriptor is borrowed only while it is duplicated, and the caller's socket
        // object keeps it open meanwhile; for a number that is no descriptor, dup fails.
        let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
        let owned = borrowed
            .try_clone_to_owned()
            .map_err(|error| PyOSError::new_err(error.to_string()))?;
        let stream = TcpStream::from(owned);
        let interval = Duration::from_millis(interval_ms);
        let identity = tls_identity.map(|(certificate, private_key)| TlsIdentity {
            certificate,
            private_key,
        });
        let heartbeat = penstock_network::heartbeat::Heartbeat::start(
            stream,
            interval,
            opening,
            identity.as_ref(),
        )
        .map_err(|error| network_error(py, &error))?;
        Ok(Self { heartbeat })
    }

    /// Milliseconds since the peer's last beat, or since the start if there was none.
    fn millis_since_last_beat(&self) -> u64 {
        self.heartbeat.millis_since_last_beat()
    }

    /// Beats that the peer has sent so far.
    fn beats_received(&self) -> u64 {
        self.heartbeat.beats_received()
    }

    /// Returns whether the connection has ended, by either side.
    fn is_closed(&self) -> bool {
        self.heartbeat.is_closed()
    }

    /// Stops the heartbeats and their thread; a second call does nothing.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.heartbeat.stop());
    }
}
