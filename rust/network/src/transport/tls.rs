//! TLS between hosts: TLS 1.3, where both ends show the one certificate of their job.
//!
//! The certificate is made by the driver for one job and vouches for itself: it is the identity
//! of every executor and the only thing that any of them trusts.  Whoever shows it has its key,
//! and so belongs to the job.  The proof of the token follows inside.

use std::fmt;
use std::io::{self, BufReader, ErrorKind, IoSlice, IoSliceMut, Read, Write};

use mio::net::TcpStream;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
    StreamOwned,
};

use crate::error::{Error, Result};
use crate::sync::Arc;

/// The name in every job's certificate; the pure runtime and the driver use the same.
const SERVER_NAME: &str = "executor.penstock.internal";
/// Bytes of ciphertext taken from the socket at once.
const READ_BYTES: usize = 64 << 10;
/// Bytes that are encrypted before the socket must take some.
const WRITE_BYTES: usize = 256 << 10;

/// Identity that an executor shows to others, and expects of them.
#[derive(Clone)]
pub struct TlsIdentity {
    /// The job's certificate: X.509, DER.
    pub certificate: Vec<u8>,
    /// Its key: PKCS #8, DER.
    pub private_key: Vec<u8>,
}

impl fmt::Debug for TlsIdentity {
    /// Without the key: settings are printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsIdentity").finish_non_exhaustive()
    }
}

/// Opens both ends of TLS connections.
pub(super) struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl Tls {
    /// Checks the identity.
    ///
    /// # Errors
    /// `Authentication` when certificate or key are not what they should be.
    pub(super) fn new(identity: &TlsIdentity) -> Result<Self> {
        Self::try_new(identity).map_err(|error| {
            Error::Authentication(format!("the job's certificate cannot be used: {error}"))
        })
    }

    fn try_new(identity: &TlsIdentity) -> std::result::Result<Self, Box<dyn std::error::Error>> {
        let certificate = CertificateDer::from(identity.certificate.clone());
        let key = || -> PrivateKeyDer<'static> {
            PrivatePkcs8KeyDer::from(identity.private_key.clone()).into()
        };
        let mut trusted = RootCertStore::empty();
        trusted.add(certificate.clone())?;
        let trusted = Arc::new(trusted);
        let provider = Arc::new(provider());
        let versions = &[&rustls::version::TLS13];
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)?
            .with_root_certificates(Arc::clone(&trusted))
            .with_client_auth_cert(vec![certificate.clone()], key())?;
        // Executors connect once: nothing is gained by resuming.
        client.resumption = rustls::client::Resumption::disabled();
        let verifier =
            WebPkiClientVerifier::builder_with_provider(trusted, Arc::clone(&provider)).build()?;
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate], key())?;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        Ok(Self {
            client: Arc::new(client),
            server: Arc::new(server),
        })
    }

    /// Returns the connecting end.
    pub(super) fn connect(&self, stream: TcpStream) -> io::Result<TlsStream> {
        Ok(TlsStream::new(stream, self.client_session()?.into()))
    }

    fn client_session(&self) -> io::Result<ClientConnection> {
        let name = ServerName::try_from(SERVER_NAME).map_err(io::Error::other)?;
        ClientConnection::new(Arc::clone(&self.client), name).map_err(invalid)
    }

    /// Returns the accepting end.
    pub(super) fn accept(&self, stream: TcpStream) -> io::Result<TlsStream> {
        let session = ServerConnection::new(Arc::clone(&self.server)).map_err(invalid)?;
        Ok(TlsStream::new(stream, session.into()))
    }
}

/// Returns the connecting end over a socket that blocks; its first read or write shakes hands.
///
/// # Errors
/// `Authentication` when the identity is not what it should be, `Io` when no session can begin.
pub(crate) fn connect_blocking(
    identity: &TlsIdentity,
    stream: std::net::TcpStream,
) -> Result<StreamOwned<ClientConnection, std::net::TcpStream>> {
    let session = Tls::new(identity)?
        .client_session()
        .map_err(|error| Error::io("beginning TLS", &error))?;
    Ok(StreamOwned::new(session, stream))
}

/// AES with 128 bits first: as far beyond reach as 256, and quicker.
fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![
            ring::cipher_suite::TLS13_AES_128_GCM_SHA256,
            ring::cipher_suite::TLS13_AES_256_GCM_SHA384,
            ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        ..ring::default_provider()
    }
}

/// A socket that speaks TLS; the handshake takes place within reads, writes and flushes.
///
/// Like the sockets below it does not block.  As there, a read or a write of fewer bytes than
/// asked for means that the socket would block now.
pub(super) struct TlsStream {
    stream: BufReader<TcpStream>,
    session: Connection,
}

impl TlsStream {
    fn new(stream: TcpStream, mut session: Connection) -> Self {
        session.set_buffer_limit(Some(WRITE_BYTES));
        Self {
            stream: BufReader::with_capacity(READ_BYTES, stream),
            session,
        }
    }

    /// Returns the socket below.
    pub(super) fn socket(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    /// Returns the socket below, to register it.
    pub(super) fn socket_mut(&mut self) -> &mut TcpStream {
        self.stream.get_mut()
    }

    /// Returns whether bytes wait for the socket that `write` has taken, or the handshake has made.
    pub(super) fn wants_write(&self) -> bool {
        self.session.wants_write()
    }

    /// Takes ciphertext from the socket and decrypts it; false at its end.
    fn pull(&mut self) -> io::Result<bool> {
        if self.session.read_tls(&mut self.stream)? == 0 {
            return Ok(false);
        }
        match self.session.process_new_packets() {
            Ok(_) => Ok(true),
            Err(error) => {
                // The peer learns why, if the socket takes it at once; the reason is ours to keep.
                let _ = self.push();
                Err(invalid(error))
            }
        }
    }

    /// Hands ciphertext to the socket until none is left.
    fn push(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(self.stream.get_mut()) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                written => drop(written?),
            }
        }
        Ok(())
    }
}

impl Read for TlsStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.read_vectored(&mut [IoSliceMut::new(into)])
    }

    fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut count = 0;
        for slice in into {
            let mut rest: &mut [u8] = slice;
            while !rest.is_empty() {
                match self.session.reader().read(rest) {
                    // The peer has said that this was all.
                    Ok(0) => return Ok(count),
                    // It has gone without a word; the frames themselves say what is missing.
                    Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(count),
                    Ok(read) => {
                        count += read;
                        rest = &mut rest[read..];
                        continue;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
                match self.pull() {
                    Ok(true) => {}
                    Ok(false) => return Ok(count),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    // What was decrypted counts first; the socket will say the same again.
                    Err(error) if count > 0 && error.kind() != ErrorKind::InvalidData => {
                        return Ok(count);
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(count)
    }
}

impl Write for TlsStream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(from)])
    }

    fn write_vectored(&mut self, mut from: &[IoSlice<'_>]) -> io::Result<usize> {
        let (mut count, mut offset) = (0, 0);
        loop {
            match self.push() {
                Err(error) if error.kind() == ErrorKind::WouldBlock && count > 0 => {
                    return Ok(count);
                }
                pushed => pushed?,
            }
            let Some(first) = from.first() else {
                return Ok(count);
            };
            // The rest of a slice goes alone, all others together.
            let mut taken = if offset > 0 {
                self.session.writer().write(&first[offset..])?
            } else {
                self.session.writer().write_vectored(from)?
            };
            if taken == 0 {
                // Nothing is left to push and yet there is no room: more than a proof of the
                // token was written before the handshake was over.
                return Err(ErrorKind::WriteZero.into());
            }
            count += taken;
            taken += offset;
            while let Some(first) = from.first()
                && first.len() <= taken
            {
                taken -= first.len();
                from = &from[1..];
            }
            offset = taken;
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.push()
    }
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}
