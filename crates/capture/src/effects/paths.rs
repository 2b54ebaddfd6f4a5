//! Paths of written files, and the possible working directories of the line that writes them.

use std::collections::BTreeSet;

use super::table::list_contains;

/// System directories, with files that programs run or trust.
const SYSTEM_DIRECTORIES: &str =
    "/etc /usr /bin /sbin /lib /lib32 /lib64 /boot /dev /sys /proc /var /opt /root /run /srv /Library /System";

/// Files in the home directory that shells and programs read at startup.
const HOME_STARTUP_FILES: &str =
    ".bashrc .bash_profile .bash_login .profile .zshrc .zshenv .zprofile .zlogin .gitconfig .netrc";

/// Names of files and directories that programs read or run automatically in any directory.
const AUTOMATIC_FILES: &str = ".envrc .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .pypirc .vimrc .exrc .nvimrc .nvim.lua .gdbinit .lldbinit .tmux.conf .inputrc \
    .irbrc .pryrc .bash_aliases .bash_logout .zlogout .xinitrc .xprofile .xsession .pam_environment .curlrc .wgetrc .psqlrc .my.cnf .hgrc .screenrc \
    .mailcap .gitmodules .gitattributes .cargo .husky .bin";

/// Directories with programs below the home directory; shells find these programs by name.
const PROGRAM_DIRECTORIES: &str = "~/bin ~/go/bin";

/// File extensions of scripts.
const SCRIPT_EXTENSIONS: &str =
    "sh bash zsh fish ksh csh py pl rb js mjs cjs ts php lua ps1 bat cmd command desktop service";

/// Files that contain the commands of build programs.
const BUILD_FILES: &str = "Makefile makefile GNUmakefile package.json justfile Justfile Rakefile CMakeLists.txt build.gradle build.gradle.kts pom.xml \
    build.rs Cargo.toml Taskfile.yml tox.ini noxfile.py setup.py setup.cfg pyproject.toml conftest.py manage.py Dockerfile compose.yml compose.yaml \
    docker-compose.yml docker-compose.yaml";

/// Maximum number of possible directories. Above it, any directory is possible.
const MAX_DIRECTORIES: usize = 16;

/// Possible working directories of a line. A `cd` may fail, so earlier directories stay possible.
#[derive(Debug, Clone)]
pub(super) struct Directories {
    /// Known directories: absolute, below `~`, or relative to the initial directory. The initial directory itself is
    /// the empty path.
    possible: BTreeSet<String>,
    /// True if any directory is possible.
    is_unknown: bool,
    /// Known directories before each `pushd`.
    pushed: Vec<BTreeSet<String>>,
}

impl Default for Directories {
    fn default() -> Self {
        Self { possible: BTreeSet::from([String::new()]), is_unknown: false, pushed: Vec::new() }
    }
}

impl Directories {
    /// Adds the target of `cd`. `None` is an unknown target.
    pub(super) fn enter(&mut self, target: Option<&str>) {
        let Some(target) = target.filter(|target| *target != "-") else { return self.forget() };
        let entered: Vec<String> = self.possible.iter().map(|directory| resolve_directory(directory, target)).collect();
        self.possible.extend(entered);
        self.is_unknown |= self.possible.len() > MAX_DIRECTORIES;
    }

    /// Adds the target of `pushd`.
    pub(super) fn push(&mut self, target: Option<&str>) {
        self.pushed.push(self.possible.clone());
        self.enter(target.filter(|target| !target.starts_with('+')));
    }

    /// Adds the directories before the last `pushd`.
    pub(super) fn pop(&mut self) {
        match self.pushed.pop() {
            Some(directories) => self.possible.extend(directories),
            None => self.forget(),
        }
    }

    /// Makes any directory possible.
    pub(super) fn forget(&mut self) {
        self.is_unknown = true;
    }

    /// Returns the known places that a path may name, and true if it may also name other places.
    pub(super) fn locate(&self, path: &str) -> (BTreeSet<String>, bool) {
        let path = normalized(path);
        if path.starts_with(['/', '~']) {
            return (BTreeSet::from([path]), false);
        }
        (self.possible.iter().map(|directory| resolve_file(directory, &path)).collect(), self.is_unknown)
    }

    /// Returns whether a path may name a protected place, as far as the directories are known.
    pub(super) fn may_be_protected(&self, path: &str) -> bool {
        self.locate(path).0.iter().any(|place| is_protected_path(place))
    }

    /// Returns whether no possible directory is unknown or protected.
    pub(super) fn are_harmless(&self) -> bool {
        !self.is_unknown && !self.possible.iter().any(|directory| is_protected_path(directory))
    }
}

/// Returns a path without empty parts and single dots. Keeps two dots: a symbolic link may precede them.
pub(super) fn normalized(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

/// Returns the directory that `cd` enters. Two dots remove the part before them.
fn resolve_directory(directory: &str, target: &str) -> String {
    let target = normalized(target);
    if target.starts_with('~') {
        return target;
    }
    let base = if target.starts_with('/') { "/" } else { directory };
    target.trim_start_matches('/').split('/').fold(base.to_owned(), |directory, part| match part {
        "" => directory,
        ".." => parent(&directory),
        part => join(&directory, part),
    })
}

/// Resolves a relative path of a file in a directory.
fn resolve_file(directory: &str, path: &str) -> String {
    let (mut directory, mut rest) = (directory.to_owned(), path);
    while !directory.is_empty()
        && let Some(after) = rest.strip_prefix("..").filter(|after| after.is_empty() || after.starts_with('/'))
    {
        directory = parent(&directory);
        rest = after.trim_start_matches('/');
    }
    if rest.is_empty() { directory } else { join(&directory, rest) }
}

fn join(directory: &str, path: &str) -> String {
    match directory {
        "" => path.to_owned(),
        directory if directory.ends_with('/') => format!("{directory}{path}"),
        directory => format!("{directory}/{path}"),
    }
}

fn parent(directory: &str) -> String {
    match directory.rsplit_once('/') {
        _ if directory == "/" => "/".to_owned(),
        _ if directory == "~" => "/home".to_owned(),
        Some((_, "..")) => format!("{directory}/.."),
        Some(("", _)) => "/".to_owned(),
        Some((parent, _)) => parent.to_owned(),
        None if directory.is_empty() || directory == ".." => join(directory, ".."),
        None => String::new(),
    }
}

/// Returns whether a path is in a system directory, is a home directory, or is a hidden file in one.
pub(super) fn is_protected_path(path: &str) -> bool {
    let path = &normalized(path);
    // Enough `../` lead to the root or the home directory.
    let path_rest = path.trim_start_matches("../");
    let leads_up = path.starts_with("../");
    let absolute = if leads_up { format!("/{path_rest}") } else { path.clone() };
    let is_within = |directory: &str| {
        absolute == directory || absolute.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
    };
    let in_home_directory = in_named_home(&absolute)
        .map(|rest| rest.split_once('/').map_or("", |(_, rest)| rest))
        .or(path.strip_prefix("~/"));
    let first_part = path_rest.split('/').next().unwrap_or_default();
    list_contains("/ ~ /home /Users", path)
        || in_home_directory.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        || path.contains("/../")
        || SYSTEM_DIRECTORIES.split_whitespace().any(is_within)
        || path.split('/').any(|part| list_contains(".ssh .git", part))
        || leads_up && first_part.starts_with('.')
        || list_contains(HOME_STARTUP_FILES, first_part)
}

/// Returns whether a file belongs to another user, or is read or run automatically.
pub(super) fn is_trusted_file(path: &str) -> bool {
    let is_found_by_name = PROGRAM_DIRECTORIES
        .split_whitespace()
        .any(|directory| path == directory || path.starts_with(&format!("{directory}/")));
    let is_in_other_home = path.starts_with('~') && path != "~" && !path.starts_with("~/");
    is_found_by_name || is_in_other_home || path.split('/').any(|part| list_contains(AUTOMATIC_FILES, part))
}

/// Returns the part of a path after `/home/` or `/Users/`.
pub(super) fn in_named_home(path: &str) -> Option<&str> {
    ["/home/", "/Users/"].iter().find_map(|homes| path.strip_prefix(homes))
}

/// Returns whether a path consists of `..` only.
pub(super) fn is_ancestor(path: &str) -> bool {
    let path = normalized(path);
    !path.is_empty() && path.split('/').all(|part| part == "..")
}

/// Returns whether a file is a script by its name.
pub(super) fn is_script(path: &str) -> bool {
    file_name(path).rsplit_once('.').is_some_and(|(_, extension)| list_contains(SCRIPT_EXTENSIONS, extension))
}

/// Returns whether a file contains the commands of build programs.
pub(super) fn is_build_file(name: &str) -> bool {
    list_contains(BUILD_FILES, name)
}

/// Returns the last part of a path.
pub(super) fn file_name(path: &str) -> &str {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default()
}
