//! Mutual proof of the token, before anything else on a data connection is parsed.
//!
//! ```text
//! server -> client   nonce_s, 32 random bytes
//! client -> server   nonce_c, 32 random bytes
//!                    HMAC-SHA256(token, nonce_s | "client"), 32 bytes
//! server -> client   HMAC-SHA256(token, nonce_c | "server"), 32 bytes
//! ```
//!
//! The token never travels, a recorded exchange cannot be replayed because each side chooses the
//! nonce that the other must answer, and the two roles keep a peer from answering a challenge
//! with the challenger's own proof.  Proofs are compared in constant time.

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::error::{Error, Result};

/// Bytes of a nonce.
pub(crate) const NONCE_BYTES: usize = 32;
/// Bytes of a proof.
pub(crate) const PROOF_BYTES: usize = 32;
/// Bytes of the client's answer: nonce and proof.
pub(crate) const ANSWER_BYTES: usize = PROOF_BYTES + NONCE_BYTES;

/// The side that makes a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The side that connected.
    Client,
    /// The side that accepted.
    Server,
}

impl Role {
    fn label(self) -> &'static [u8] {
        match self {
            Self::Client => b"client",
            Self::Server => b"server",
        }
    }
}

fn mac(token: &[u8], nonce: &[u8; NONCE_BYTES], role: Role) -> Result<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(token)
        .map_err(|_| Error::Authentication("the token cannot be used as a key".into()))?;
    mac.update(nonce);
    mac.update(role.label());
    Ok(mac)
}

/// Computes the proof for the chooser of `nonce` that `role` holds the token.
pub(crate) fn prove(
    token: &[u8],
    nonce: &[u8; NONCE_BYTES],
    role: Role,
) -> Result<[u8; PROOF_BYTES]> {
    Ok(mac(token, nonce, role)?.finalize().into_bytes().into())
}

/// Checks in constant time that `proof` answers `nonce` as `role` must.
///
/// # Errors
/// `Authentication` if it does not.
pub(crate) fn verify(
    token: &[u8],
    nonce: &[u8; NONCE_BYTES],
    role: Role,
    proof: &[u8],
) -> Result<()> {
    mac(token, nonce, role)?
        .verify_slice(proof)
        .map_err(|_| Error::Authentication("wrong token".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_the_right_token_nonce_and_role() {
        let nonce = [7; NONCE_BYTES];
        let proof = prove(b"token", &nonce, Role::Client).unwrap();
        assert!(verify(b"token", &nonce, Role::Client, &proof).is_ok());
        assert!(verify(b"other", &nonce, Role::Client, &proof).is_err());
        assert!(verify(b"token", &[8; NONCE_BYTES], Role::Client, &proof).is_err());
        assert!(verify(b"token", &nonce, Role::Server, &proof).is_err());
        assert!(verify(b"token", &nonce, Role::Client, &proof[..31]).is_err());
    }
}
