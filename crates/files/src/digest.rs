//! SHA-256 digests of files.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The SHA-256 digest (FIPS 180-4) of the content of a file. As text it has 64 hexadecimal digits, as in sha256sum(1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct FileDigest([u8; 32]);

/// Error for a string that is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a SHA-256 digest must have 64 hexadecimal digits")]
pub struct InvalidDigest;

impl FileDigest {
    /// Returns the digest of `bytes`.
    #[must_use]
    pub fn from_content(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for FileDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl FromStr for FileDigest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let mut digest = [0; 32];
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(InvalidDigest);
        }
        for (index, byte) in digest.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[index * 2..index * 2 + 2], 16).map_err(|_| InvalidDigest)?;
        }
        Ok(Self(digest))
    }
}

impl From<FileDigest> for String {
    fn from(digest: FileDigest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for FileDigest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        text.parse()
    }
}

/// Computes the digest of pieces, in their order.
#[derive(Debug, Clone, Default)]
pub struct DigestBuilder(Sha256);

impl DigestBuilder {
    /// Appends a piece.
    pub fn add(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// Returns the digest of all pieces.
    #[must_use]
    pub fn finish(self) -> FileDigest {
        FileDigest(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_uses_the_text_format_of_sha256sum() {
        let digest = FileDigest::from_content(b"abc");
        // The first example of FIPS 180-4.
        assert_eq!(digest.to_string(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(digest.to_string().to_uppercase().parse(), Ok(digest));
        let mut pieces = DigestBuilder::default();
        pieces.add(b"a");
        pieces.add(b"bc");
        assert_eq!(pieces.finish(), digest);
        for text in ["", "ba78", &"g".repeat(64), &"ä".repeat(32)] {
            assert_eq!(text.parse::<FileDigest>(), Err(InvalidDigest));
        }
    }
}
