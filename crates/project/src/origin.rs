//! The original of a library file: the source file of its load.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use steplatch_library::{Origin, Signature, Stamp};

use crate::text_file::{self, FileReadError};

/// The result of reading an original.
#[derive(Debug)]
pub(super) struct Original {
    pub(super) path: PathBuf,
    pub(super) stamp: Option<Stamp>,
    /// The contents, or the error of reading them.
    pub(super) text: Result<String, FileReadError>,
}

/// Returns the path of the original of a file in the library at `directory`.
pub(super) fn path(directory: &Path, origin: &Origin) -> PathBuf {
    // A path in the project is relative, because the library moves together with the project.
    directory.parent().unwrap_or(directory).join(&origin.file)
}

/// Returns the origin to store for a file that is loaded into the library at `directory`.
pub(super) fn for_file(directory: &Path, file: &Path, text: &str) -> Origin {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let file = real(file);
    let relative_path = directory.parent().and_then(|parent| file.strip_prefix(real(parent)).ok().map(Path::to_owned));
    Origin { file: relative_path.unwrap_or(file), hash: Signature::of_text(text) }
}

impl Original {
    /// Reads the original of a file in the library at `directory`. Blocks.
    pub(super) fn read(directory: &Path, origin: &Origin) -> Self {
        let path = path(directory, origin);
        let stamp = Stamp::at(&path);
        let text = if path.extension().is_none_or(|ending| ending != "py") {
            Err(FileReadError::NotPython)
        } else if is_trusted(&path, directory) {
            text_file::read(&path)
        } else {
            Err(FileReadError::OtherUser)
        };
        Self { text, stamp, path }
    }
}

/// Returns whether the library may adopt the contents of `path`. A library that was copied from elsewhere may name
/// another user's file. Such a file must not run.
fn is_trusted(path: &Path, directory: &Path) -> bool {
    let owner = |path: &Path| fs::metadata(path).ok().map(|metadata| metadata.uid());
    let daemon_uid = rustix::process::geteuid().as_raw();
    owner(path).is_none_or(|uid| uid == daemon_uid || uid == 0 || owner(directory) == Some(uid))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in a test a panic is the message")]
mod tests {
    use super::*;

    #[test]
    fn only_originals_within_the_project_have_relative_paths() {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().canonicalize().unwrap();
        let library = directory.path().join("project/.terminal_control_workflows");
        fs::create_dir_all(&library).unwrap();
        fs::create_dir(directory.path().join("project/flows")).unwrap();
        for (file, expected_path) in [("project/flows/a.py", "flows/a.py".into()), ("b.py", real.join("b.py"))] {
            let file = directory.path().join(file);
            fs::write(&file, "x = 1\n").unwrap();
            let origin = for_file(&library, &file, "x = 1\n");
            assert_eq!(origin.file, expected_path);
            assert_eq!(Original::read(&library, &origin).text.unwrap(), "x = 1\n");
        }
    }

    #[test]
    fn originals_must_be_readable_python_files_of_trusted_users() {
        let directory = tempfile::tempdir().unwrap();
        let library = directory.path().join("library");
        fs::create_dir(&library).unwrap();
        let read_original = |file: &str| {
            let origin = Origin { file: directory.path().join(file), hash: Signature::default() };
            Original::read(&library, &origin).text
        };
        fs::write(directory.path().join("secret.txt"), "x").unwrap();
        assert_eq!(read_original("secret.txt").unwrap_err().to_string(), "its name does not end in .py");
        assert_eq!(read_original("gone.py").unwrap_err().to_string(), "it does not exist");
        fs::create_dir(directory.path().join("folder.py")).unwrap();
        assert_eq!(read_original("folder.py").unwrap_err().to_string(), "it is a directory");
        fs::write(directory.path().join("large.py"), "#".repeat((1 << 20) + 1)).unwrap();
        assert_eq!(read_original("large.py").unwrap_err().to_string(), "it has more than 1024 KB, the limit");
        let foreign_file = directory.path().join("strange.py");
        fs::write(&foreign_file, "x = 1\n").unwrap();
        assert!(read_original("strange.py").is_ok());
        // Only root can change the owner of a file.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&foreign_file, Some(65534), None).unwrap();
            assert_eq!(read_original("strange.py").unwrap_err().to_string(), "it belongs to another user");
            std::os::unix::fs::chown(&library, Some(65534), None).unwrap();
            assert!(read_original("strange.py").is_ok(), "a file of the library's owner is trusted");
        }
    }
}
