//! Addresses of hyperlinks (OSC 8), bounded in number and size.
//!
//! The cells of a link contain its number. This module stores the newest addresses, each once. A link with a dropped
//! address becomes plain text. Only addresses that a viewer can show and open are stored; see
//! <https://gist.github.com/egmontkob/eb114294efbcd5adb1944c9f3cb5feda> for the sequence.

use std::collections::{BTreeMap, HashMap};

use alacritty_terminal::term::cell::Hyperlink;

/// Maximum length of an address, in bytes.
const MAX_ADDRESS_BYTES: usize = 2048;

/// Maximum total size of the addresses, in bytes.
const MAX_TOTAL_BYTES: usize = 256 * 1024;

/// Maximum number of addresses.
const MAX_LINKS: usize = 1000;

/// Accepted schemes of an address.
const SCHEMES: [&str; 4] = ["http:", "https:", "mailto:", "file:"];

/// The addresses of a screen.
#[derive(Debug, Default)]
pub(in crate::screen) struct Links {
    by_number: BTreeMap<u64, String>,
    by_address: HashMap<String, (u64, Hyperlink)>,
    /// The number of the newest link.
    last_number: u64,
    total_bytes: usize,
}

impl Links {
    /// Returns the link to an address, for cells. `None` if the address is not accepted.
    pub(super) fn get_or_insert(&mut self, address: &str) -> Option<Hyperlink> {
        if !is_link_address(address) {
            return None;
        }
        if let Some((_, link)) = self.by_address.get(address) {
            return Some(link.clone());
        }
        while self.by_number.len() >= MAX_LINKS || self.total_bytes + address.len() > MAX_TOTAL_BYTES {
            let (_, oldest) = self.by_number.pop_first()?;
            self.total_bytes -= oldest.len();
            self.by_address.remove(&oldest);
        }
        self.last_number += 1;
        let number = self.last_number.to_string();
        let link = Hyperlink::new(Some(&number), number.clone());
        self.total_bytes += address.len();
        self.by_number.insert(self.last_number, address.to_owned());
        self.by_address.insert(address.to_owned(), (self.last_number, link.clone()));
        Some(link)
    }

    /// Returns the address of a link, unless it was dropped.
    pub(in crate::screen) fn address(&self, link: &Hyperlink) -> Option<&str> {
        self.by_number.get(&link.uri().parse().ok()?).map(String::as_str)
    }
}

/// Returns whether an address is short, has an accepted scheme, and consists of printable ASCII. This excludes
/// characters that are invisible or change the direction of text.
#[must_use]
pub fn is_link_address(address: &str) -> bool {
    let has_scheme =
        |scheme: &&str| address.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme));
    address.len() <= MAX_ADDRESS_BYTES
        && address.bytes().all(|byte| byte.is_ascii_graphic())
        && SCHEMES.iter().any(has_scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_known_if_a_viewer_can_show_it() {
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
            assert_eq!(Links::default().get_or_insert(address).is_some(), is, "{address}");
        }
        assert!(is_link_address(&format!("https:{}", "x".repeat(MAX_ADDRESS_BYTES - 6))));
        assert!(!is_link_address(&format!("https:{}", "x".repeat(MAX_ADDRESS_BYTES - 5))));
    }

    #[test]
    fn newest_addresses_are_known_within_limits() {
        let mut links = Links::default();
        let first = links.get_or_insert("https://example.org/0").unwrap();
        assert_eq!(links.get_or_insert("https://example.org/0").unwrap(), first);
        for number in 0..5000 {
            let link =
                links.get_or_insert(&format!("https://example.org/{number}/{}", "x".repeat(number % 1500))).unwrap();
            assert!(links.address(&link).unwrap().starts_with(&format!("https://example.org/{number}/")));
            assert!(links.total_bytes <= MAX_TOTAL_BYTES && links.by_number.len() <= MAX_LINKS);
            assert_eq!(links.by_number.len(), links.by_address.len());
        }
        assert_eq!(links.total_bytes, links.by_number.values().map(String::len).sum::<usize>());
        assert_eq!(links.address(&first), None);
    }
}
