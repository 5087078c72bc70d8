//! TLS between hosts: TLS 1.3, where both ends present the one certificate of their job.
//!
//! The driver creates a self-signed certificate for each job: it is the identity of every executor
//! and the only one that they trust.  A peer that presents it has its key, and so belongs to the
//! job.  The proof of the token follows inside.

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
/// Bytes of ciphertext read from the socket at once.
const READ_BYTES: usize = 64 << 10;
/// Bytes that are encrypted before the socket must accept some.
const WRITE_BYTES: usize = 256 << 10;

/// Identity that an executor presents to others, and expects of them.
#[derive(Clone)]
pub struct TlsIdentity {
    /// The job's certificate: X.509, DER.
    pub certificate: Vec<u8>,
    /// Its key: PKCS #8, DER.
    pub private_key: Vec<u8>,
}

impl fmt::Debug for TlsIdentity {
    /// Omits the key: settings are printed.
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
    /// `Authentication` if certificate or key are invalid.
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
        // Executors connect once: resumption gains nothing.
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

    /// Creates the connecting end.
    pub(super) fn connect(&self, stream: TcpStream) -> io::Result<TlsStream> {
        Ok(TlsStream::new(stream, self.client_session()?.into()))
    }

    fn client_session(&self) -> io::Result<ClientConnection> {
        let name = ServerName::try_from(SERVER_NAME).map_err(io::Error::other)?;
        ClientConnection::new(Arc::clone(&self.client), name).map_err(invalid)
    }

    /// Creates the accepting end.
    pub(super) fn accept(&self, stream: TcpStream) -> io::Result<TlsStream> {
        let session = ServerConnection::new(Arc::clone(&self.server)).map_err(invalid)?;
        Ok(TlsStream::new(stream, session.into()))
    }
}

/// Creates the connecting end over a blocking socket; its first read or write shakes hands.
///
/// # Errors
/// `Authentication` if the identity is invalid, `Io` if no session can begin.
pub(crate) fn connect_blocking(
    identity: &TlsIdentity,
    stream: std::net::TcpStream,
) -> Result<StreamOwned<ClientConnection, std::net::TcpStream>> {
    let session = Tls::new(identity)?
        .client_session()
        .map_err(|error| Error::io("beginning TLS", &error))?;
    Ok(StreamOwned::new(session, stream))
}

/// AES with 128 bits first: as secure in practice as 256, and faster.
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
/// Like the underlying sockets it does not block.  As there, a read or a write of fewer bytes than
/// requested means that the socket would block now.
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

    /// Returns the underlying socket.
    pub(super) fn socket(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    /// Returns the underlying socket, for registration.
    pub(super) fn socket_mut(&mut self) -> &mut TcpStream {
        self.stream.get_mut()
    }

    /// Returns whether encrypted or handshake bytes wait for the socket.
    pub(super) fn wants_write(&self) -> bool {
        self.session.wants_write()
    }

    /// Reads ciphertext from the socket and decrypts it; false at its end.
    fn pull(&mut self) -> io::Result<bool> {
        if self.session.read_tls(&mut self.stream)? == 0 {
            return Ok(false);
        }
        match self.session.process_new_packets() {
            Ok(_) => Ok(true),
            Err(error) => {
                // The peer receives the reason, if the socket accepts it at once; otherwise only
                // this end has it.
                let _ = self.push();
                Err(invalid(error))
            }
        }
    }

    /// Writes ciphertext to the socket until none is left.
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
                    // The peer has ended the stream properly.
                    Ok(0) => return Ok(count),
                    // The stream has ended abruptly; the frames themselves show the loss.
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
                    // Return decrypted bytes first; the socket will report the error again.
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
            // The rest of a slice is written alone, all others together.
            let mut taken = if offset > 0 {
                self.session.writer().write(&first[offset..])?
            } else {
                self.session.writer().write_vectored(from)?
            };
            if taken == 0 {
                // Nothing is left to push and yet there is no room: more than a proof of the token
                // was written before the handshake was over.
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
