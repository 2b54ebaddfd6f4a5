//! The files of the page, which are part of the program.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

/// A file of the page.
#[derive(Debug)]
pub(super) struct Asset {
    path: &'static str,
    pub(super) media_type: &'static str,
    pub(super) bytes: &'static [u8],
}

macro_rules! assets {
    ($($kind:literal: $($path:literal)+;)+) => {
        /// Every file except the document.
        const ASSETS: &[Asset] = &[
            $($(Asset { path: $path, media_type: $kind, bytes: include_bytes!(concat!("../../page/", $path)) },)+)+
        ];
    };
}

assets! {
    "text/css; charset=utf-8": "style.css";
    "image/svg+xml": "icon.svg";
    "text/javascript; charset=utf-8":
        "js/api.js"
        "js/beside.js"
        "js/colours.js"
        "js/compare.js"
        "js/diagram.js"
        "js/difference_lines.js"
        "js/differences.js"
        "js/dom.js"
        "js/find.js"
        "js/font.js"
        "js/form.js"
        "js/gates.js"
        "js/holding.js"
        "js/inbox.js"
        "js/json_lines.js"
        "js/keys.js"
        "js/links.js"
        "js/live.js"
        "js/login.js"
        "js/long_list.js"
        "js/main.js"
        "js/marks.js"
        "js/mouse.js"
        "js/notify.js"
        "js/open_terminal.js"
        "js/overview.js"
        "js/paint.js"
        "js/palette.js"
        "js/passkey.js"
        "js/playback.js"
        "js/project.js"
        "js/pointer.js"
        "js/recording.js"
        "js/recordings.js"
        "js/remembered.js"
        "js/run.js"
        "js/run_filter.js"
        "js/runs.js"
        "js/screen.js"
        "js/scrollback.js"
        "js/search.js"
        "js/store.js"
        "js/terminal.js"
        "js/terminals.js"
        "js/thumbnail.js"
        "js/timeline.js"
        "js/title.js"
        "js/words.js"
        "js/workflows.js";
}

/// The document, with the placeholder `{{build}}`.
const INDEX: &str = include_str!("../../page/index.html");

/// Returns the document.
pub(super) fn index() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| INDEX.replace("{{build}}", build()));
    &TEXT
}

/// Returns the build: a hash of all files. It is part of their addresses.
pub(crate) fn build() -> &'static str {
    static BUILD: LazyLock<String> = LazyLock::new(|| {
        let mut hash = Sha256::new();
        hash.update(INDEX);
        for asset in ASSETS {
            hash.update(asset.path);
            hash.update(asset.bytes);
        }
        URL_SAFE_NO_PAD.encode(&hash.finalize()[..9])
    });
    &BUILD
}

/// Finds a file by its path.
pub(super) fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn files(folder: &Path, base: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files(&path, base, found);
            } else {
                found.insert(path.strip_prefix(base).unwrap().to_str().unwrap().to_owned());
            }
        }
    }

    #[test]
    fn every_file_of_the_page_is_in_the_table() {
        let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
        let mut found = BTreeSet::new();
        files(&base, &base, &mut found);
        let known: BTreeSet<_> =
            ASSETS.iter().map(|asset| asset.path.to_owned()).chain(["index.html".to_owned()]).collect();
        // `jsconfig.json` is for the type checker.
        found.remove("jsconfig.json");
        assert_eq!(found, known);
    }

    #[test]
    fn the_document_names_files_of_this_build_and_loads_nothing_from_elsewhere() {
        let index = index();
        assert!(!index.contains("{{") && index.contains(build()));
        for part in index.split(&format!("/a/{}/", build())).skip(1) {
            let path = part.split('"').next().unwrap();
            assert!(find(path).is_some(), "{path}");
        }
        assert!(!index.contains("http:") && !index.contains("https:") && !index.contains("style="), "{index}");
    }

    #[test]
    fn no_text_becomes_markup_or_code() {
        for asset in ASSETS.iter().filter(|asset| asset.path.ends_with(".js")) {
            let text = std::str::from_utf8(asset.bytes).unwrap();
            for forbidden in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "cssText"]
            {
                assert!(!text.contains(forbidden), "{} has {forbidden}", asset.path);
            }
        }
    }
}
