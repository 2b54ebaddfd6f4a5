//! Addresses of hyperlinks (OSC 8), within bounds.
//!
//! The cells of a link have its number, and the addresses are here: the newest ones, each once. A link whose address is
//! dropped is plain text again. There are only addresses that a viewer can show, and understands; see
//! <https://gist.github.com/egmontkob/eb114294efbcd5adb1944c9f3cb5feda> for the sequence.

use std::collections::{BTreeMap, HashMap};

use alacritty_terminal::term::cell::Hyperlink;

/// Maximum length of an address, in bytes.
const MAX_ADDRESS_BYTES: usize = 2048;

/// Maximum bytes of all addresses.
const MAX_TOTAL_BYTES: usize = 256 * 1024;

/// Maximum number of addresses.
const MAX_LINKS: usize = 1000;

/// Schemes with which an address may begin.
const SCHEMES: [&str; 4] = ["http:", "https:", "mailto:", "file:"];

/// The addresses of a screen.
#[derive(Debug, Default)]
pub(in crate::screen) struct Links {
    by_number: BTreeMap<u64, String>,
    by_address: HashMap<String, (u64, Hyperlink)>,
    /// The number of the last one.
    last: u64,
    bytes: usize,
}

impl Links {
    /// Returns the link to an address, for cells; none if the address is not a known one.
    pub(super) fn to(&mut self, address: &str) -> Option<Hyperlink> {
        if !is_link_address(address) {
            return None;
        }
        if let Some((_, link)) = self.by_address.get(address) {
            return Some(link.clone());
        }
        while self.by_number.len() >= MAX_LINKS || self.bytes + address.len() > MAX_TOTAL_BYTES {
            let (_, oldest) = self.by_number.pop_first()?;
            self.bytes -= oldest.len();
            self.by_address.remove(&oldest);
        }
        self.last += 1;
        let number = self.last.to_string();
        let link = Hyperlink::new(Some(&number), number.clone());
        self.bytes += address.len();
        self.by_number.insert(self.last, address.to_owned());
        self.by_address.insert(address.to_owned(), (self.last, link.clone()));
        Some(link)
    }

    /// Returns the address of a link, unless it was dropped.
    pub(in crate::screen) fn address(&self, link: &Hyperlink) -> Option<&str> {
        self.by_number.get(&link.uri().parse().ok()?).map(String::as_str)
    }
}

/// Returns whether an address is short, has a known scheme, and only the characters that one may have: none that is
/// invisible or changes the direction of text.
#[must_use]
pub fn is_link_address(address: &str) -> bool {
    let begins = |scheme: &&str| address.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme));
    address.len() <= MAX_ADDRESS_BYTES
        && address.bytes().all(|byte| byte.is_ascii_graphic())
        && SCHEMES.iter().any(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_known_if_a_viewer_can_show_it() {
        for (address, is) in [
            ("https://example.org/a?b=c#d", true),
            ("HTTP://example.org", true),
            ("mailto:a@example.org", true),
            ("file:///home/ann/a%20b", true),
            ("javascript:alert(1)", false),
            ("data:text/html,x", false),
            ("example.org", false),
            ("https://example.org/\u{202e}gro", false),
            ("https://example.org/\u{7}", false),
            ("https://example.org/a b", false),
            ("https://ex\u{e4}mple.org", false),
            ("", false),
        ] {
            assert_eq!(Links::default().to(address).is_some(), is, "{address}");
        }
        assert!(is_link_address(&format!("https:{}", "x".repeat(MAX_ADDRESS_BYTES - 6))));
        assert!(!is_link_address(&format!("https:{}", "x".repeat(MAX_ADDRESS_BYTES - 5))));
    }

    #[test]
    fn the_newest_addresses_are_known_within_bounds() {
        let mut links = Links::default();
        let first = links.to("https://example.org/0").unwrap();
        assert_eq!(links.to("https://example.org/0").unwrap(), first);
        for number in 0..5000 {
            let link = links.to(&format!("https://example.org/{number}/{}", "x".repeat(number % 1500))).unwrap();
            assert!(links.address(&link).unwrap().starts_with(&format!("https://example.org/{number}/")));
            assert!(links.bytes <= MAX_TOTAL_BYTES && links.by_number.len() <= MAX_LINKS);
            assert_eq!(links.by_number.len(), links.by_address.len());
        }
        assert_eq!(links.bytes, links.by_number.values().map(String::len).sum::<usize>());
        assert_eq!(links.address(&first), None);
    }
}
