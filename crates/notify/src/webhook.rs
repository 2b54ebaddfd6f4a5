//! Signatures of webhooks, as in Standard Webhooks
//! (<https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>).
//!
//! The headers `webhook-id`, `webhook-timestamp` and `webhook-signature` let a receiver with an existing library detect
//! changed, old and repeated requests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

/// Prefix of a secret in base64.
const ENCODED_PREFIX: &str = "whsec_";

/// Returns the value of `webhook-signature` for a body. A secret `whsec_…` is the key in base64. Any other secret is
/// the key itself.
pub(crate) fn sign(secret: &str, id: &str, seconds: i64, body: &str) -> String {
    let decoded = secret.strip_prefix(ENCODED_PREFIX).and_then(|encoded| STANDARD.decode(encoded).ok());
    let key = hmac::Key::new(hmac::HMAC_SHA256, decoded.as_deref().unwrap_or(secret.as_bytes()));
    let tag = hmac::sign(&key, format!("{id}.{seconds}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The example of the specification's reference implementations.
    #[test]
    fn signature_is_that_of_the_specification() {
        let signature = sign(
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_ne!(
            sign("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "a", 1, "b"),
            sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "a", 1, "b")
        );
    }
}
