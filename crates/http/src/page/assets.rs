//! The files of the page, embedded in the program.

use std::io::Write as _;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

use super::bundle::{Module, bundle};

/// A file of the page.
#[derive(Debug)]
pub(super) struct Asset {
    path: &'static str,
    pub(super) media_type: &'static str,
    pub(super) bytes: &'static [u8],
    /// The bytes, compressed by gzip.
    pub(super) gzip: Vec<u8>,
}

macro_rules! modules {
    ($($name:literal)+) => {
        /// The modules of the script.
        const MODULES: &[Module] = &[$(($name, include_str!(concat!("../../page/js/", $name))),)+];
    };
}

modules! {
    "api.js"
    "beside.js"
    "choices.js"
    "colours.js"
    "compare.js"
    "diagram.js"
    "diagram_view.js"
    "difference_lines.js"
    "differences.js"
    "dom.js"
    "edit.js"
    "find.js"
    "font.js"
    "form.js"
    "gates.js"
    "holding.js"
    "inbox.js"
    "json_lines.js"
    "keys.js"
    "links.js"
    "live.js"
    "login.js"
    "long_list.js"
    "main.js"
    "marks.js"
    "mouse.js"
    "notify.js"
    "open_terminal.js"
    "overview.js"
    "paint.js"
    "palette.js"
    "passkey.js"
    "playback.js"
    "pointer.js"
    "project.js"
    "recording.js"
    "recordings.js"
    "remembered.js"
    "run.js"
    "run_filter.js"
    "run_selection.js"
    "runs.js"
    "screen.js"
    "scrollback.js"
    "search.js"
    "settings.js"
    "store.js"
    "terminal.js"
    "terminals.js"
    "thumbnail.js"
    "timeline.js"
    "title.js"
    "transfers.js"
    "words.js"
    "workflows.js"
}

/// Returns every file except the document.
fn assets() -> &'static [Asset] {
    static ASSETS: LazyLock<[Asset; 3]> = LazyLock::new(|| {
        let script = bundle("main.js", MODULES).expect("a test bundles these modules");
        let text_asset = |path, media_type, text: &'static str| {
            let bytes = text.as_bytes();
            Asset { path, media_type, bytes, gzip: compress(bytes) }
        };
        [
            text_asset("style.css", "text/css; charset=utf-8", include_str!("../../page/style.css")),
            text_asset("icon.svg", "image/svg+xml", include_str!("../../page/icon.svg")),
            text_asset("page.js", "text/javascript; charset=utf-8", String::leak(script)),
        ]
    });
    &*ASSETS
}

fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let result = encoder.write_all(bytes).and_then(|()| encoder.finish());
    result.expect("a write into memory does not fail")
}

/// The document, with the placeholder `{{build}}`.
const INDEX: &str = include_str!("../../page/index.html");

/// Returns the document.
pub(super) fn index() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| INDEX.replace("{{build}}", build()));
    &TEXT
}

/// Returns the build id: a hash of all files, used in their addresses.
pub(crate) fn build() -> &'static str {
    static BUILD: LazyLock<String> = LazyLock::new(|| {
        let mut hash = Sha256::new();
        hash.update(INDEX);
        for asset in assets() {
            hash.update(asset.path);
            hash.update(asset.bytes);
        }
        URL_SAFE_NO_PAD.encode(&hash.finalize()[..9])
    });
    &BUILD
}

/// Finds a file by its path.
pub(super) fn find(path: &str) -> Option<&'static Asset> {
    assets().iter().find(|asset| asset.path == path)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::Read as _;
    use std::path::Path;

    use super::super::bundle::module_variable;
    use super::*;

    #[test]
    fn every_module_is_in_the_table_and_in_the_script() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("page/js");
        let files: BTreeSet<_> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(files, MODULES.iter().map(|(name, _)| (*name).to_owned()).collect());
        let script = find("page.js").unwrap().bytes;
        let script = std::str::from_utf8(script).unwrap();
        let bundled =
            MODULES.iter().filter(|(name, _)| script.contains(&format!("const {} = (", module_variable(name))));
        assert_eq!(bundled.count(), MODULES.len());
    }

    #[test]
    fn document_loads_only_files_of_this_build() {
        let index = index();
        assert!(!index.contains("{{") && index.contains(build()));
        for part in index.split(&format!("/a/{}/", build())).skip(1) {
            let path = part.split('"').next().unwrap();
            assert!(find(path).is_some(), "{path}");
        }
        assert!(!index.contains("http:") && !index.contains("https:") && !index.contains("style="), "{index}");
    }

    #[test]
    fn compressed_page_is_at_most_150_kilobytes() {
        let compressed: usize = assets().iter().map(|asset| asset.gzip.len()).sum();
        assert!(compressed + index().len() <= 150_000, "{compressed}");
        for asset in assets() {
            let mut text = Vec::new();
            flate2::read::GzDecoder::new(&asset.gzip[..]).read_to_end(&mut text).unwrap();
            assert_eq!(text, asset.bytes, "{}", asset.path);
        }
    }

    #[test]
    fn modules_never_evaluate_text_as_markup_or_code() {
        for (name, text) in MODULES {
            for forbidden in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "cssText"]
            {
                assert!(!text.contains(forbidden), "{name} has {forbidden}");
            }
        }
    }
}
