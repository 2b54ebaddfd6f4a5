//! The name of a skill, and of its directory.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// Maximum length of a name.
const MAX_NAME_CHARS: usize = 64;

/// Name of a skill: lower-case letters and digits, with single hyphens between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SkillName(String);

/// Error for a directory whose name is not a valid name of a skill.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidSkillName {
    /// The path does not end with a name.
    #[error("'{0}' does not name a directory: the directory of a skill has the skill's name")]
    NoName(String),
    /// The name contains characters that the format does not permit.
    #[error(
        "'{name}' is not a valid name of a skill, which is that of its directory: 1 to 64 lower-case letters (a to z), digits, and single \
         hyphens between them, such as '{proposal}'"
    )]
    Shape {
        /// The name.
        name: String,
        /// A similar valid name.
        proposal: String,
    },
}

impl SkillName {
    /// Returns the name of the skill in a directory.
    ///
    /// # Errors
    /// If the name of the directory is not a valid name of a skill.
    pub(crate) fn from_directory(directory: &Path) -> Result<Self, InvalidSkillName> {
        let name = directory.file_name().ok_or_else(|| InvalidSkillName::NoName(directory.display().to_string()))?;
        name.to_string_lossy().parse()
    }
}

impl FromStr for SkillName {
    type Err = InvalidSkillName;

    fn from_str(name: &str) -> Result<Self, InvalidSkillName> {
        let is_part = |part: &str| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        if name.len() <= MAX_NAME_CHARS && name.split('-').all(is_part) {
            return Ok(Self(name.to_owned()));
        }
        let lower_case = name.to_ascii_lowercase();
        let parts =
            lower_case.split(|character: char| !character.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
        let proposal: String = parts.collect::<Vec<_>>().join("-").chars().take(MAX_NAME_CHARS).collect();
        let proposal = proposal.trim_end_matches('-');
        let proposal = if proposal.is_empty() { "my-skill" } else { proposal };
        Err(InvalidSkillName::Shape { name: name.to_owned(), proposal: proposal.to_owned() })
    }
}

impl fmt::Display for SkillName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_has_the_permitted_format() {
        for good in ["a", "release-app", "0", &"x".repeat(64)] {
            assert!(good.parse::<SkillName>().is_ok(), "{good}");
        }
        for (bad, proposal) in [
            ("Release_App", "release-app"),
            ("-a", "a"),
            ("a--b", "a-b"),
            ("a-", "a"),
            ("", "my-skill"),
            ("..", "my-skill"),
            ("é x", "x"),
            (&"ab-".repeat(30), "ab-".repeat(22)[..63].trim_end_matches('-')),
        ] {
            let error = bad.parse::<SkillName>().unwrap_err();
            let InvalidSkillName::Shape { proposal: made, .. } = &error else { panic!("{error}") };
            assert!(made.parse::<SkillName>().is_ok(), "{bad}: {made}");
            assert!(made.starts_with(proposal), "{bad}: {made}");
        }
        assert_eq!(SkillName::from_directory(Path::new("x/release/")).unwrap().to_string(), "release");
        assert!(matches!(SkillName::from_directory(Path::new("/")), Err(InvalidSkillName::NoName(_))));
    }
}
