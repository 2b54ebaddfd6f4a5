//! Directories of saved workflows, found from a caller's working directory.
//!
//! A project contains its workflows, so that all its directories share them and a commit includes them. The user's own
//! workflows are in the user's data directory (<https://specifications.freedesktop.org/basedir-spec/latest/>). The
//! rules access the file system through a trait, so that tests can simulate it.

use std::path::{Path, PathBuf};

use rustix::fs::Access;
use steplatch_access::Caller;

/// Name of the directory with a project's workflows.
const LIBRARY_DIRECTORY: &str = ".terminal_control_workflows";

/// Environment variable that chooses a library.
const LIBRARY_VARIABLE: &str = "STEPLATCH_LIBRARY";

/// A caller's working directory, and the environment variables that choose a library.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LibrarySearch {
    directory: PathBuf,
    /// The caller's home directory, from the environment.
    home: Option<PathBuf>,
    data_home: Option<PathBuf>,
    chosen_library: Option<PathBuf>,
}

/// The directories of a caller. The first receives new workflows; a name is looked up there first, then in the
/// second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LibraryPaths {
    pub(super) first: PathBuf,
    pub(super) second: Option<PathBuf>,
}

/// Access to a file system.
trait FileSystem {
    fn is_directory(&self, path: &Path) -> bool;
    fn exists(&self, path: &Path) -> bool;
    fn may_write(&self, directory: &Path) -> bool;
    /// Returns whether a caller who works in `directory` may trust the file at `path`.
    fn is_trusted(&self, path: &Path, directory: &Path) -> bool;
    /// Returns the path without symbolic links.
    fn real(&self, path: &Path) -> PathBuf;
}

/// File system of this computer.
struct RealFileSystem;

impl FileSystem for RealFileSystem {
    fn is_directory(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn may_write(&self, directory: &Path) -> bool {
        rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK).is_ok()
    }

    /// Returns whether the file belongs to the daemon's user, to root, or to the owner of the directory.
    fn is_trusted(&self, path: &Path, directory: &Path) -> bool {
        let owner = |path: &Path| rustix::fs::stat(path).ok().map(|stat| stat.st_uid);
        let daemon_uid = rustix::process::geteuid().as_raw();
        owner(path).is_some_and(|uid| uid == daemon_uid || uid == 0 || owner(directory) == Some(uid))
    }

    fn real(&self, path: &Path) -> PathBuf {
        path.canonicalize().unwrap_or_else(|_| path.to_owned())
    }
}

impl LibrarySearch {
    /// Returns the search for `caller`.
    pub(crate) fn for_caller(caller: &Caller) -> Self {
        let variable = |name: &str| {
            let found = caller.environment.iter().find(|(key, value)| key == name && !value.is_empty());
            found.map(|(_, value)| PathBuf::from(value))
        };
        Self {
            directory: caller.directory.clone(),
            home: variable("HOME").filter(|home| home.is_absolute()),
            // The specification requires ignoring relative paths.
            data_home: variable("XDG_DATA_HOME").filter(|data| data.is_absolute()),
            chosen_library: variable(LIBRARY_VARIABLE),
        }
    }

    /// Returns the caller's directories. Blocks for a few file system calls.
    pub(super) fn directories(&self) -> LibraryPaths {
        self.find_directories(&RealFileSystem)
    }

    /// Returns the directories of the caller's libraries, in the order of name lookups. Blocks like [`Self::directories`].
    pub(crate) fn libraries(&self) -> Vec<PathBuf> {
        self.directories().iter().map(Path::to_owned).collect()
    }

    /// Returns the nearest directory of the caller's project that contains one of these files. Follows the rules for
    /// libraries. Blocks for a few file system calls.
    pub(crate) fn directory_with_file(&self, names: &[&str]) -> Option<PathBuf> {
        self.directory_with_file_on(names, &RealFileSystem)
    }

    fn directory_with_file_on(&self, names: &[&str], file_system: &dyn FileSystem) -> Option<PathBuf> {
        let real_home = self.home.as_deref().map(|home| file_system.real(home));
        let is_home =
            |directory: &Path| Some(directory) == self.home.as_deref() || Some(directory) == real_home.as_deref();
        for directory in self.directory.ancestors() {
            let is_accepted =
                |file: &Path| directory == self.directory || file_system.is_trusted(file, &self.directory);
            if names.iter().map(|name| directory.join(name)).any(|file| file_system.exists(&file) && is_accepted(&file))
            {
                return Some(directory.to_owned());
            }
            if is_home(directory) || file_system.exists(&directory.join(".git")) {
                break;
            }
        }
        None
    }

    fn find_directories(&self, file_system: &dyn FileSystem) -> LibraryPaths {
        let own_library = self.own_library();
        let chosen = self.chosen_library.as_ref().map(|library| self.directory.join(library));
        let first = chosen.unwrap_or_else(|| self.project_library(own_library.as_deref(), file_system));
        let second = own_library.filter(|own_library| *own_library != first);
        LibraryPaths { first, second }
    }

    /// Returns the directory of the user's own workflows.
    fn own_library(&self) -> Option<PathBuf> {
        let data = self.data_home.clone().or_else(|| Some(self.home.as_ref()?.join(".local/share")))?;
        Some(data.join("steplatch/workflows"))
    }

    fn project_library(&self, own_library: Option<&Path>, file_system: &dyn FileSystem) -> PathBuf {
        let real_home = self.home.as_deref().map(|home| file_system.real(home));
        let is_home =
            |directory: &Path| Some(directory) == self.home.as_deref() || Some(directory) == real_home.as_deref();
        let mut repository = None;
        for directory in self.directory.ancestors() {
            let library = directory.join(LIBRARY_DIRECTORY);
            // Another user may write into a directory such as /tmp. Their workflows must not run by name.
            let is_accepted = directory == self.directory || file_system.is_trusted(&library, &self.directory);
            if file_system.is_directory(&library) && is_accepted {
                return library;
            }
            if is_home(directory) {
                break;
            }
            if file_system.exists(&directory.join(".git")) {
                repository = Some(directory);
                break;
            }
        }
        let project = repository.unwrap_or(&self.directory);
        match own_library {
            // The root, the home and read-only directories are not projects.
            Some(own_library) if project.parent().is_none() || is_home(project) || !file_system.may_write(project) => {
                own_library.to_owned()
            }
            _ => project.join(LIBRARY_DIRECTORY),
        }
    }
}

/// Returns whether a library is in a project, the library's parent directory.
pub(crate) fn is_in_project(library: &Path) -> bool {
    library.file_name().is_some_and(|name| name == LIBRARY_DIRECTORY)
}

impl LibraryPaths {
    /// Returns whether a file is in the second library, the user's own.
    pub(super) fn is_in_other(&self, file: Option<&Path>) -> bool {
        self.second.as_deref().is_some_and(|second| file.is_some_and(|file| file.parent() == Some(second)))
    }

    /// Returns the directories in the order of name lookups.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Path> {
        [Some(&self.first), self.second.as_ref()].into_iter().flatten().map(PathBuf::as_path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A simulated file system. Everything except the listed paths is writable and trusted.
    #[derive(Default)]
    struct SimulatedFiles {
        existing: &'static [&'static str],
        read_only: &'static [&'static str],
        foreign: &'static [&'static str],
    }

    impl FileSystem for SimulatedFiles {
        fn is_directory(&self, path: &Path) -> bool {
            self.exists(path)
        }

        fn exists(&self, path: &Path) -> bool {
            self.existing.iter().any(|existing| Path::new(existing) == path)
        }

        fn may_write(&self, directory: &Path) -> bool {
            !self.read_only.iter().any(|read_only| Path::new(read_only) == directory)
        }

        fn is_trusted(&self, path: &Path, _: &Path) -> bool {
            !self.foreign.iter().any(|foreign| Path::new(foreign) == path)
        }

        fn real(&self, path: &Path) -> PathBuf {
            if path == "/home/link" { "/home/me".into() } else { path.to_owned() }
        }
    }

    const OWN: &str = "/home/me/.local/share/steplatch/workflows";

    fn at(directory: &str) -> LibrarySearch {
        LibrarySearch { directory: directory.into(), home: Some("/home/me".into()), ..LibrarySearch::default() }
    }

    #[test]
    fn library_depends_on_the_directory() {
        let rows: &[(&str, &str, SimulatedFiles, &str)] = &[
            (
                "a plain directory has its own library",
                "/home/me/p",
                SimulatedFiles::default(),
                "/home/me/p/.terminal_control_workflows",
            ),
            ("the home directory itself is not a project", "/home/me", SimulatedFiles::default(), OWN),
            ("the root directory is not a project", "/", SimulatedFiles::default(), OWN),
            (
                "a read-only directory is not a project",
                "/usr/share",
                SimulatedFiles { read_only: &["/usr/share"], ..SimulatedFiles::default() },
                OWN,
            ),
            (
                "a repository has its library at its root",
                "/home/me/p/src/deep",
                SimulatedFiles { existing: &["/home/me/p/.git"], ..SimulatedFiles::default() },
                "/home/me/p/.terminal_control_workflows",
            ),
            (
                "a repository outside the home directory has a library",
                "/srv/p/src",
                SimulatedFiles { existing: &["/srv/p/.git"], ..SimulatedFiles::default() },
                "/srv/p/.terminal_control_workflows",
            ),
            (
                "a read-only repository has no library",
                "/home/me/p/src",
                SimulatedFiles {
                    existing: &["/home/me/p/.git"],
                    read_only: &["/home/me/p"],
                    ..SimulatedFiles::default()
                },
                OWN,
            ),
            (
                "the nearest existing library is used",
                "/home/me/p/a/b",
                SimulatedFiles {
                    existing: &[
                        "/home/me/p/a/.terminal_control_workflows",
                        "/home/me/p/.terminal_control_workflows",
                        "/home/me/p/.git",
                    ],
                    ..SimulatedFiles::default()
                },
                "/home/me/p/a/.terminal_control_workflows",
            ),
            (
                "an existing directory is used even if it is read-only",
                "/home/me/p",
                SimulatedFiles {
                    existing: &["/home/me/p/.terminal_control_workflows"],
                    read_only: &["/home/me/p"],
                    ..SimulatedFiles::default()
                },
                "/home/me/p/.terminal_control_workflows",
            ),
            (
                "a library above the repository is ignored",
                "/home/me/all/p/src",
                SimulatedFiles {
                    existing: &["/home/me/all/.terminal_control_workflows", "/home/me/all/p/.git"],
                    ..SimulatedFiles::default()
                },
                "/home/me/all/p/.terminal_control_workflows",
            ),
            (
                "a library above the home directory is ignored",
                "/home/me/p",
                SimulatedFiles {
                    existing: &["/home/.terminal_control_workflows", "/home/.git"],
                    ..SimulatedFiles::default()
                },
                "/home/me/p/.terminal_control_workflows",
            ),
            (
                "a home directory that is a repository is not a project",
                "/home/me/p",
                SimulatedFiles { existing: &["/home/me/.git"], ..SimulatedFiles::default() },
                "/home/me/p/.terminal_control_workflows",
            ),
            (
                "a library of another user above the directory is ignored",
                "/tmp/p",
                SimulatedFiles {
                    existing: &["/tmp/.terminal_control_workflows"],
                    foreign: &["/tmp/.terminal_control_workflows"],
                    ..SimulatedFiles::default()
                },
                "/tmp/p/.terminal_control_workflows",
            ),
        ];
        for (claim, directory, file_system, expected) in rows {
            let directories = at(directory).find_directories(file_system);
            assert_eq!(directories.first, Path::new(expected), "{claim}");
            let second = (*expected != OWN).then(|| PathBuf::from(OWN));
            assert_eq!(directories.second, second, "{claim}");
        }
    }

    #[test]
    fn nearest_project_file_is_found() {
        let found = |directory: &str, file_system: SimulatedFiles| {
            at(directory).directory_with_file_on(&["a.toml", "a.json"], &file_system)
        };
        let both = || SimulatedFiles {
            existing: &["/home/me/p/a.toml", "/home/me/p/src/a.json", "/home/me/p/.git"],
            ..SimulatedFiles::default()
        };
        assert_eq!(found("/home/me/p/src/deep", both()), Some("/home/me/p/src".into()));
        assert_eq!(found("/home/me/p/doc", both()), Some("/home/me/p".into()));
        let above = SimulatedFiles { existing: &["/home/me/a.toml", "/home/me/p/.git"], ..SimulatedFiles::default() };
        assert_eq!(found("/home/me/p", above), None, "directories above a repository are ignored");
        let foreign =
            || SimulatedFiles { existing: &["/tmp/a.toml"], foreign: &["/tmp/a.toml"], ..SimulatedFiles::default() };
        assert_eq!(found("/tmp/p", foreign()), None, "a file of another user above the directory is ignored");
        assert_eq!(
            found("/tmp", foreign()),
            Some("/tmp".into()),
            "a file of another user in the caller's directory is found"
        );
    }

    #[test]
    fn chosen_library_comes_first() {
        let file_system =
            SimulatedFiles { existing: &["/home/me/p/.terminal_control_workflows"], ..SimulatedFiles::default() };
        for (named, expected) in [("/srv/shared", "/srv/shared"), ("flows", "/home/me/p/flows")] {
            let library_search = LibrarySearch { chosen_library: Some(named.into()), ..at("/home/me/p") };
            let directories = library_search.find_directories(&file_system);
            assert_eq!(directories, LibraryPaths { first: expected.into(), second: Some(OWN.into()) });
        }
        let twice =
            LibrarySearch { chosen_library: Some(OWN.into()), ..at("/home/me/p") }.find_directories(&file_system);
        assert_eq!(twice, LibraryPaths { first: OWN.into(), second: None });
    }

    #[test]
    fn user_library_is_in_the_data_directory() {
        let data = LibrarySearch { data_home: Some("/data".into()), ..at("/home/me") };
        assert_eq!(data.find_directories(&SimulatedFiles::default()).first, Path::new("/data/steplatch/workflows"));
        let link = LibrarySearch { home: Some("/home/link".into()), ..at("/home/me") };
        assert_eq!(
            link.find_directories(&SimulatedFiles::default()).first,
            Path::new("/home/link/.local/share/steplatch/workflows"),
            "a symbolic link to the home directory is the home directory"
        );
        let homeless = LibrarySearch { home: None, ..at("/") };
        let expected = LibraryPaths { first: "/.terminal_control_workflows".into(), second: None };
        assert_eq!(homeless.find_directories(&SimulatedFiles::default()), expected);
    }

    #[test]
    fn library_is_chosen_by_the_callers_environment() {
        let environment = [
            ("HOME", "/home/me"),
            ("XDG_DATA_HOME", "relative"),
            ("STEPLATCH_LIBRARY", ""),
            ("STEPLATCH_LIBRARY", "/l"),
        ];
        let environment = environment.map(|(key, value)| (key.into(), value.into()));
        let caller = Caller::unnamed("/p".into(), environment.into());
        assert_eq!(LibrarySearch::for_caller(&caller), LibrarySearch { chosen_library: Some("/l".into()), ..at("/p") });
    }
}
