//! HTML files that redirect a browser to the page, with a ticket.
//!
//! The browser is started with the path of such a file, because other users can read its arguments but not the file.
//! The daemon removes the file when the ticket is used or expires.

use std::io;
use std::path::{Path, PathBuf};

use super::{SecretHash, random_secret};
use crate::private_file;

/// Prefix of the file names.
const PREFIX: &str = "open-";

/// Suffix of the file names. Desktops choose the browser by this suffix.
const SUFFIX: &str = ".html";

/// Failure to write a redirect file.
#[derive(Debug, thiserror::Error)]
pub(super) enum RedirectError {
    /// The address is not an address of the page.
    #[error("the page address is not of the form http://localhost:PORT/")]
    Address,
    /// Writing the file failed.
    #[error("failed to write the redirect file: {0}")]
    File(#[from] io::Error),
}

/// Redirect files of unused tickets.
#[derive(Debug)]
pub(super) struct RedirectFiles {
    directory: PathBuf,
    files: Vec<RedirectFile>,
}

/// A redirect file. Dropping this value removes the file.
#[derive(Debug)]
struct RedirectFile {
    ticket: SecretHash,
    file: PathBuf,
}

impl Drop for RedirectFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.file)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(file = %self.file.display(), %error, "failed to remove a redirect file");
        }
    }
}

impl RedirectFiles {
    /// Manages the redirect files in a private directory. Removes files left by an earlier daemon.
    pub(super) fn new(directory: &Path) -> Self {
        let entries = std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
        for entry in entries {
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX)) {
                // Tickets do not outlive their daemon.
                let _ = std::fs::remove_file(entry.path());
            }
        }
        Self { directory: directory.to_owned(), files: Vec::new() }
    }

    /// Writes a file that redirects to `address` with `ticket`. Returns its path.
    ///
    /// # Errors
    /// If the address is not one of the page, or writing the file fails.
    pub(super) fn write(&mut self, address: &str, ticket: &str) -> Result<PathBuf, RedirectError> {
        let text = redirect_html(address, ticket).ok_or(RedirectError::Address)?;
        let file = self.directory.join(format!("{PREFIX}{}{SUFFIX}", random_secret()?.0));
        private_file::write_text(&file, &text)?;
        self.files.push(RedirectFile { ticket: SecretHash::from_secret(ticket), file: file.clone() });
        Ok(file)
    }

    /// Removes the file of a ticket, if there is one.
    pub(super) fn remove(&mut self, ticket: &SecretHash) {
        self.files.retain(|file| !file.ticket.equals(ticket));
    }

    /// Removes all files.
    pub(super) fn clear(&mut self) {
        self.files.clear();
    }
}

/// Returns HTML that redirects to `address` with `ticket`. `None` if the address is not an address of the page.
fn redirect_html(address: &str, ticket: &str) -> Option<String> {
    let (port, fragment) = address.strip_prefix("http://localhost:")?.split_once('/')?;
    port.parse::<u16>().ok()?;
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_=&".contains(&byte));
    let fragment = match fragment.strip_prefix('#') {
        Some(fragment) if is_plain(fragment) => format!("&{fragment}"),
        None if fragment.is_empty() => String::new(),
        _ => return None,
    };
    let url = format!("http://localhost:{port}/#ticket={ticket}{fragment}").replace('&', "&amp;");
    Some(format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" content=\"no-referrer\">\n<title>Steplatch</title>\n\
         <meta http-equiv=\"refresh\" content=\"0; url={url}\">\n<p><a href=\"{url}\">Open the page</a></p>\n"
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn file_redirects_only_to_the_page() {
        let html = redirect_html("http://localhost:7878/#passkey=a-B_1", "t-1").unwrap();
        assert!(html.contains("url=http://localhost:7878/#ticket=t-1&amp;passkey=a-B_1\""), "{html}");
        assert!(
            redirect_html("http://localhost:7878/", "t").unwrap().contains("url=http://localhost:7878/#ticket=t\"")
        );
        for foreign in [
            "http://evil.example:80/",
            "http://localhost:7878.evil.example/",
            "http://localhost:7878",
            "http://localhost:x/",
            "http://localhost:7878/elsewhere",
            "http://localhost:7878/#\"><script>",
            "javascript:alert(1)",
            "",
        ] {
            assert!(redirect_html(foreign, "t").is_none(), "{foreign}");
        }
    }

    #[test]
    fn file_is_private_until_its_ticket_is_used() {
        let directory = tempfile::tempdir().unwrap();
        let leftover = directory.path().join("open-left.html");
        std::fs::write(&leftover, "").unwrap();
        let mut files = RedirectFiles::new(directory.path());
        assert!(!leftover.exists(), "a file from an earlier daemon is removed");
        let first = files.write("http://localhost:1/", "a").unwrap();
        let second = files.write("http://localhost:1/", "b").unwrap();
        assert_eq!(std::fs::metadata(&first).unwrap().permissions().mode() & 0o777, 0o600);
        files.remove(&SecretHash::from_secret("a"));
        assert!(!first.exists() && second.exists());
        files.clear();
        assert!(!second.exists());
        assert!(matches!(files.write("http://localhost/", "c"), Err(RedirectError::Address)));
    }
}
