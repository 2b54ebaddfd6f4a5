//! Directories of saved workflows that a caller refers to, by the caller's working directory.
//!
//! The workflows of a project are in the project, so that every directory in it finds them and a commit includes them.
//! The user's own are in their data directory (<https://specifications.freedesktop.org/basedir-spec/latest/>). The
//! rules are a function of the contents of the file system, which the tests simulate.

use std::path::{Path, PathBuf};

use rustix::fs::Access;
use steplatch_access::Caller;

/// The directory of a project that contains its workflows.
const NAME: &str = ".terminal_control_workflows";

/// The environment variable that names a directory.
const VARIABLE: &str = "STEPLATCH_LIBRARY";

/// A caller's working directory and the environment variables that choose a library.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LibrarySearch {
    folder: PathBuf,
    /// Their home directory, as given by the environment.
    home: Option<PathBuf>,
    data: Option<PathBuf>,
    named: Option<PathBuf>,
}

/// The directories of a caller. The first receives new workflows; a lookup of a name begins there and continues in the
/// other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LibraryPaths {
    pub(super) first: PathBuf,
    pub(super) other: Option<PathBuf>,
}

/// The contents of the file system.
trait FileSystem {
    fn is_folder(&self, path: &Path) -> bool;
    fn exists(&self, path: &Path) -> bool;
    fn may_write(&self, folder: &Path) -> bool;
    /// Returns whether a caller who works in `folder` may trust the file at `path`.
    fn is_trusted(&self, path: &Path, folder: &Path) -> bool;
    /// The path without symbolic links.
    fn real(&self, path: &Path) -> PathBuf;
}

/// The file system.
struct RealFileSystem;

impl FileSystem for RealFileSystem {
    fn is_folder(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn may_write(&self, folder: &Path) -> bool {
        rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok()
    }

    /// Returns whether the file belongs to the daemon's user, to root, or to the owner of the directory.
    fn is_trusted(&self, path: &Path, folder: &Path) -> bool {
        let owner = |path: &Path| rustix::fs::stat(path).ok().map(|stat| stat.st_uid);
        let us = rustix::process::geteuid().as_raw();
        owner(path).is_some_and(|uid| uid == us || uid == 0 || owner(folder) == Some(uid))
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
            folder: caller.folder.clone(),
            home: variable("HOME").filter(|home| home.is_absolute()),
            // The specification requires ignoring relative paths.
            data: variable("XDG_DATA_HOME").filter(|data| data.is_absolute()),
            named: variable(VARIABLE),
        }
    }

    /// Returns the caller's directories. Blocks for a few file system calls.
    pub(super) fn folders(&self) -> LibraryPaths {
        self.folders_on(&RealFileSystem)
    }

    /// Returns the directories of the caller's libraries, in the order of name lookups. Blocks like [`Self::folders`].
    pub(crate) fn libraries(&self) -> Vec<PathBuf> {
        self.folders().iter().map(Path::to_owned).collect()
    }

    /// Returns the nearest directory of the caller's project that contains one of these files, by the rules for the
    /// library. Blocks for a few file system calls.
    pub(crate) fn with_file(&self, names: &[&str]) -> Option<PathBuf> {
        self.with_file_on(names, &RealFileSystem)
    }

    fn with_file_on(&self, names: &[&str], ground: &dyn FileSystem) -> Option<PathBuf> {
        let real_home = self.home.as_deref().map(|home| ground.real(home));
        let is_home = |folder: &Path| Some(folder) == self.home.as_deref() || Some(folder) == real_home.as_deref();
        for folder in self.folder.ancestors() {
            let counts = |file: &Path| folder == self.folder || ground.is_trusted(file, &self.folder);
            if names.iter().map(|name| folder.join(name)).any(|file| ground.exists(&file) && counts(&file)) {
                return Some(folder.to_owned());
            }
            if is_home(folder) || ground.exists(&folder.join(".git")) {
                break;
            }
        }
        None
    }

    fn folders_on(&self, ground: &dyn FileSystem) -> LibraryPaths {
        let own = self.own();
        let named = self.named.as_ref().map(|named| self.folder.join(named));
        let first = named.unwrap_or_else(|| self.of_project(own.as_deref(), ground));
        let other = own.filter(|own| *own != first);
        LibraryPaths { first, other }
    }

    /// Returns the directory of the user's own workflows.
    fn own(&self) -> Option<PathBuf> {
        let data = self.data.clone().or_else(|| Some(self.home.as_ref()?.join(".local/share")))?;
        Some(data.join("steplatch/workflows"))
    }

    fn of_project(&self, own: Option<&Path>, ground: &dyn FileSystem) -> PathBuf {
        let real_home = self.home.as_deref().map(|home| ground.real(home));
        let is_home = |folder: &Path| Some(folder) == self.home.as_deref() || Some(folder) == real_home.as_deref();
        let mut root = None;
        for folder in self.folder.ancestors() {
            let library = folder.join(NAME);
            // What runs by name must not come from a stranger, who may write into a directory such as /tmp.
            let is_here = folder == self.folder || ground.is_trusted(&library, &self.folder);
            if ground.is_folder(&library) && is_here {
                return library;
            }
            if is_home(folder) {
                break;
            }
            if ground.exists(&folder.join(".git")) {
                root = Some(folder);
                break;
            }
        }
        let place = root.unwrap_or(&self.folder);
        match own {
            // These directories are not meant as projects.
            Some(own) if place.parent().is_none() || is_home(place) || !ground.may_write(place) => own.to_owned(),
            _ => place.join(NAME),
        }
    }
}

/// Returns whether a library is in a project, which is the directory above it.
pub(crate) fn is_in_project(library: &Path) -> bool {
    library.file_name().is_some_and(|name| name == NAME)
}

impl LibraryPaths {
    /// Returns whether a file is in the user's own library, while the project's library comes first.
    pub(super) fn is_of_other(&self, file: Option<&Path>) -> bool {
        self.other.as_deref().is_some_and(|other| file.is_some_and(|file| file.parent() == Some(other)))
    }

    /// Returns the folders in the order of name lookups.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Path> {
        [Some(&self.first), self.other.as_ref()].into_iter().flatten().map(PathBuf::as_path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A simulated file system, in which everything is writable and trusted except for the listed paths.
    #[derive(Default)]
    struct Made {
        there: &'static [&'static str],
        read_only: &'static [&'static str],
        strange: &'static [&'static str],
    }

    impl FileSystem for Made {
        fn is_folder(&self, path: &Path) -> bool {
            self.exists(path)
        }

        fn exists(&self, path: &Path) -> bool {
            self.there.iter().any(|there| Path::new(there) == path)
        }

        fn may_write(&self, folder: &Path) -> bool {
            !self.read_only.iter().any(|read_only| Path::new(read_only) == folder)
        }

        fn is_trusted(&self, path: &Path, _: &Path) -> bool {
            !self.strange.iter().any(|strange| Path::new(strange) == path)
        }

        fn real(&self, path: &Path) -> PathBuf {
            if path == "/home/link" { "/home/me".into() } else { path.to_owned() }
        }
    }

    const OWN: &str = "/home/me/.local/share/steplatch/workflows";

    fn at(folder: &str) -> LibrarySearch {
        LibrarySearch { folder: folder.into(), home: Some("/home/me".into()), ..LibrarySearch::default() }
    }

    #[test]
    fn a_library_is_chosen_by_where_somebody_is() {
        let rows: &[(&str, &str, Made, &str)] = &[
            ("a plain folder has its own", "/home/me/p", Made::default(), "/home/me/p/.terminal_control_workflows"),
            ("the home itself is no project", "/home/me", Made::default(), OWN),
            ("nor is the root", "/", Made::default(), OWN),
            ("nor what cannot be written", "/usr/share", Made { read_only: &["/usr/share"], ..Made::default() }, OWN),
            (
                "a repository has one, at its root",
                "/home/me/p/src/deep",
                Made { there: &["/home/me/p/.git"], ..Made::default() },
                "/home/me/p/.terminal_control_workflows",
            ),
            (
                "also one that lies elsewhere",
                "/srv/p/src",
                Made { there: &["/srv/p/.git"], ..Made::default() },
                "/srv/p/.terminal_control_workflows",
            ),
            (
                "unless it cannot be written",
                "/home/me/p/src",
                Made { there: &["/home/me/p/.git"], read_only: &["/home/me/p"], ..Made::default() },
                OWN,
            ),
            (
                "one that is there is taken, the nearest first",
                "/home/me/p/a/b",
                Made {
                    there: &[
                        "/home/me/p/a/.terminal_control_workflows",
                        "/home/me/p/.terminal_control_workflows",
                        "/home/me/p/.git",
                    ],
                    ..Made::default()
                },
                "/home/me/p/a/.terminal_control_workflows",
            ),
            (
                "an existing directory is used even if it is read-only",
                "/home/me/p",
                Made {
                    there: &["/home/me/p/.terminal_control_workflows"],
                    read_only: &["/home/me/p"],
                    ..Made::default()
                },
                "/home/me/p/.terminal_control_workflows",
            ),
            (
                "what is above a repository does not count",
                "/home/me/all/p/src",
                Made { there: &["/home/me/all/.terminal_control_workflows", "/home/me/all/p/.git"], ..Made::default() },
                "/home/me/all/p/.terminal_control_workflows",
            ),
            (
                "nor what is above the home",
                "/home/me/p",
                Made { there: &["/home/.terminal_control_workflows", "/home/.git"], ..Made::default() },
                "/home/me/p/.terminal_control_workflows",
            ),
            (
                "a home that is a repository makes no project of what is in it",
                "/home/me/p",
                Made { there: &["/home/me/.git"], ..Made::default() },
                "/home/me/p/.terminal_control_workflows",
            ),
            (
                "what a stranger put above does not count",
                "/tmp/p",
                Made {
                    there: &["/tmp/.terminal_control_workflows"],
                    strange: &["/tmp/.terminal_control_workflows"],
                    ..Made::default()
                },
                "/tmp/p/.terminal_control_workflows",
            ),
        ];
        for (claim, folder, ground, expected) in rows {
            let folders = at(folder).folders_on(ground);
            assert_eq!(folders.first, Path::new(expected), "{claim}");
            let other = (*expected != OWN).then(|| PathBuf::from(OWN));
            assert_eq!(folders.other, other, "{claim}");
        }
    }

    #[test]
    fn a_file_of_the_project_is_the_nearest_one_below_its_root() {
        let found = |folder: &str, ground: Made| at(folder).with_file_on(&["a.toml", "a.json"], &ground);
        let both =
            || Made { there: &["/home/me/p/a.toml", "/home/me/p/src/a.json", "/home/me/p/.git"], ..Made::default() };
        assert_eq!(found("/home/me/p/src/deep", both()), Some("/home/me/p/src".into()));
        assert_eq!(found("/home/me/p/doc", both()), Some("/home/me/p".into()));
        let above = Made { there: &["/home/me/a.toml", "/home/me/p/.git"], ..Made::default() };
        assert_eq!(found("/home/me/p", above), None, "what is above a repository does not count");
        let strange = || Made { there: &["/tmp/a.toml"], strange: &["/tmp/a.toml"], ..Made::default() };
        assert_eq!(found("/tmp/p", strange()), None, "nor what a stranger put above");
        assert_eq!(found("/tmp", strange()), Some("/tmp".into()), "where somebody is they see what lies there");
    }

    #[test]
    fn what_somebody_names_comes_first() {
        let ground = Made { there: &["/home/me/p/.terminal_control_workflows"], ..Made::default() };
        for (named, expected) in [("/srv/shared", "/srv/shared"), ("flows", "/home/me/p/flows")] {
            let asker = LibrarySearch { named: Some(named.into()), ..at("/home/me/p") };
            let folders = asker.folders_on(&ground);
            assert_eq!(folders, LibraryPaths { first: expected.into(), other: Some(OWN.into()) });
        }
        let twice = LibrarySearch { named: Some(OWN.into()), ..at("/home/me/p") }.folders_on(&ground);
        assert_eq!(twice, LibraryPaths { first: OWN.into(), other: None });
    }

    #[test]
    fn the_users_own_lie_where_their_data_lie() {
        let data = LibrarySearch { data: Some("/data".into()), ..at("/home/me") };
        assert_eq!(data.folders_on(&Made::default()).first, Path::new("/data/steplatch/workflows"));
        let link = LibrarySearch { home: Some("/home/link".into()), ..at("/home/me") };
        assert_eq!(
            link.folders_on(&Made::default()).first,
            Path::new("/home/link/.local/share/steplatch/workflows"),
            "a home by another name is still the home"
        );
        let homeless = LibrarySearch { home: None, ..at("/") };
        let expected = LibraryPaths { first: "/.terminal_control_workflows".into(), other: None };
        assert_eq!(homeless.folders_on(&Made::default()), expected);
    }

    #[test]
    fn a_caller_says_it_with_their_environment() {
        let environment = [
            ("HOME", "/home/me"),
            ("XDG_DATA_HOME", "relative"),
            ("STEPLATCH_LIBRARY", ""),
            ("STEPLATCH_LIBRARY", "/l"),
        ];
        let environment = environment.map(|(key, value)| (key.into(), value.into()));
        let caller = Caller::unnamed("/p".into(), environment.into());
        assert_eq!(LibrarySearch::for_caller(&caller), LibrarySearch { named: Some("/l".into()), ..at("/p") });
    }
}
